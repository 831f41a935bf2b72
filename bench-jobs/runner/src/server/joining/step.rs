//! A command to one of the servers that are joined, and what follows from their states. Pure.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub server: usize,
    pub words: Vec<String>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Send these commands, in this sequence.
    Do(Vec<Step>),
    Wait(String),
    /// No command can repair this.
    Stuck(String),
    Complete,
}
