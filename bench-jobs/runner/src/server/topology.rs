//! What joining servers asks and orders over a connection.

use super::{Server, ServerError};
use redis::{Cmd, Value, cmd};

fn command(words: &[String]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(word);
    }
    command
}

impl Server {
    /// CLUSTER NODES, as it is written.
    pub async fn cluster_table(&mut self) -> Result<String, ServerError> {
        self.ask("CLUSTER NODES", cmd("CLUSTER").arg("NODES")).await
    }

    /// Sends a command that changes how servers are joined; `name` stands for it in an error.
    pub async fn order(&mut self, name: &'static str, words: &[String]) -> Result<(), ServerError> {
        self.ask::<Value>(name, &command(words)).await.map(drop)
    }

    /// Sets the password a replica gives to its primary.
    pub async fn set_primary_password(&mut self, password: &str) -> Result<(), ServerError> {
        let request = cmd("CONFIG").arg("SET").arg("masterauth").arg(password).to_owned();
        self.ask("CONFIG SET masterauth", &request).await
    }
}
