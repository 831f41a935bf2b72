//! A command to one of the servers that are joined, and what a look at all of them leads to. Pure.

use std::fmt;

/// A command to the server with the index `server`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub server: usize,
    pub name: &'static str,
    pub arguments: Vec<String>,
}

impl Step {
    pub fn new(server: usize, name: &'static str, arguments: &[&str]) -> Self {
        Self { server, name, arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect() }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.arguments.join(" "))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Send these commands, in this sequence.
    Do(Vec<Step>),
    /// Wait for this.
    Wait(String),
    /// No command can repair this.
    Stuck(String),
    /// Every server is joined.
    Complete,
}
