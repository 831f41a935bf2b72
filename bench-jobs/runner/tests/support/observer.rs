//! The real observer program beside a server.

use crate::signing::{operator, public_key, sign};
use dragstrip_results::signing::SigningKey;
use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
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
        Self::launch(port, password, &[])
    }

    /// The same beside a server that does not speak RESP.
    pub fn without_resp(port: u16) -> Self {
        Self::launch(port, "", &["--without-resp"])
    }

    fn launch(port: u16, password: &str, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dragstrip-runner"))
            .args(["observe", "--listen", "127.0.0.1:0", "--port", &port.to_string()])
            .args(more)
            .env("DRAGSTRIP_PASSWORD", password)
            .env("DRAGSTRIP_TOKEN", TOKEN)
            .env("DRAGSTRIP_VERIFYING_KEY", public_key())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next()).unwrap();
        Self { child, address: format!("http://{address}"), client: reqwest::Client::new() }
    }

    /// The status and text of an answer to the operator.
    pub async fn get(&self, path: &str, token: &str) -> (u16, String) {
        let signature = sign(operator(), "GET", path, token, &self.address, b"");
        self.send(self.client.get(format!("{}{path}", self.address)), token, Some(&signature)).await
    }

    /// The same for a command.
    pub async fn post(&self, path: &str, token: &str, command: &serde_json::Value) -> (u16, String) {
        self.post_signed(operator(), path, token, command).await
    }

    /// The same for one that was signed with `key`.
    pub async fn post_signed(
        &self,
        key: &SigningKey,
        path: &str,
        token: &str,
        command: &serde_json::Value,
    ) -> (u16, String) {
        let body = serde_json::to_vec(command).unwrap();
        let signature = sign(key, "POST", path, token, &self.address, &body);
        let request = self.client.post(format!("{}{path}", self.address)).json(command);
        self.send(request, token, Some(&signature)).await
    }

    /// The status and text of the answer to a request with the token alone.
    pub async fn unsigned(&self, path: &str, command: Option<&serde_json::Value>) -> (u16, String) {
        let place = format!("{}{path}", self.address);
        let request = match command {
            Some(command) => self.client.post(place).json(command),
            None => self.client.get(place),
        };
        self.send(request, TOKEN, None).await
    }

    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        token: &str,
        signature: Option<&str>,
    ) -> (u16, String) {
        let request = request.header("x-dragstrip-token", token);
        let request = match signature {
            Some(signature) => request.header("x-dragstrip-signature", signature),
            None => request,
        };
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// CPU time so far, in seconds. The program has one thread.
    pub fn cpu_seconds(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.child.id())).unwrap();
        text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
    }
}
