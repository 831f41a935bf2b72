//! The real observer program beside a server.

use dragstrip_results::signing::{AgentRequest, SigningKey};
use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::SystemTime,
};

/// The token of every observer here.
pub const TOKEN: &str = "token-of-this-datastore";

/// A running observer; ends with the value.
pub struct Observer {
    child: Child,
    address: String,
    client: reqwest::Client,
}

impl Drop for Observer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Observer {
    /// Starts one beside the server on this port, and waits until it listens.
    pub fn start(port: u16, password: &str) -> Self {
        Self::with_key(port, password, "")
    }

    /// The same beside a server that speaks no RESP.
    pub fn of_no_resp(port: u16) -> Self {
        Self::launch(port, "", "", &["--without-resp"])
    }

    /// The same of one that takes commands that were signed with this key.
    pub fn with_key(port: u16, password: &str, key: &str) -> Self {
        Self::launch(port, password, key, &[])
    }

    fn launch(port: u16, password: &str, key: &str, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dragstrip-runner"))
            .args(["observe", "--listen", "127.0.0.1:0", "--port", &port.to_string()])
            .args(more)
            .env("DRAGSTRIP_PASSWORD", password)
            .env("DRAGSTRIP_TOKEN", TOKEN)
            .env("DRAGSTRIP_ORDER_KEY", key)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next()).unwrap();
        Self { child, address: format!("http://{address}"), client: reqwest::Client::new() }
    }

    /// The status and text of an answer.
    pub async fn get(&self, path: &str, token: &str) -> (u16, String) {
        self.asked(self.client.get(format!("{}{path}", self.address)), token).await
    }

    /// The same of a command.
    pub async fn post(&self, path: &str, token: &str, command: &serde_json::Value) -> (u16, String) {
        self.asked(self.client.post(format!("{}{path}", self.address)).json(command), token).await
    }

    /// The same of one that was signed with `key`.
    pub async fn signed(&self, key: &SigningKey, path: &str, command: &serde_json::Value) -> (u16, String) {
        let body = serde_json::to_vec(command).unwrap();
        let agent = self.address.strip_prefix("http://").unwrap().parse().unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let command = AgentRequest { method: "POST", path, token: TOKEN, agent, body: &body };
        let signature = key.sign(&command, i64::try_from(now).unwrap());
        let request = self.client.post(format!("{}{path}", self.address)).body(body);
        let request = request.header("content-type", "application/json");
        self.asked(request.header("x-dragstrip-signature", signature), TOKEN).await
    }

    async fn asked(&self, request: reqwest::RequestBuilder, token: &str) -> (u16, String) {
        let request = request.header("x-dragstrip-token", token);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// CPU time so far, in seconds. The program has one thread.
    pub fn cpu_seconds(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.child.id())).unwrap();
        text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
    }
}
