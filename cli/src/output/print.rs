//! Standard output and standard error.

use clap::{Args, ValueEnum};
use serde::Serialize;
use std::io::{self, Write};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The reader has gone away.
    #[error("standard output is closed")]
    Closed,
    #[error("cannot write to standard output")]
    Write(#[source] io::Error),
    #[error("cannot write this as JSON")]
    Json(#[source] serde_json::Error),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

#[derive(Debug, Clone, Default, Args)]
#[group(id = "output")]
pub struct Options {
    /// Print the result in this format.
    #[arg(short = 'o', long = "output", value_name = "OUTPUT", value_enum, default_value_t)]
    pub form: Form,
}

/// What a command did with an object.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Its kind and name.
    pub name: String,
    /// Its namespace, unless the command works in that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub state: String,
}

impl Done {
    fn line(&self) -> String {
        let Self { name, namespace, state } = self;
        let place = namespace.as_ref().map(|namespace| format!(" in namespace {namespace}"));
        format!("{name} {state}{}", place.unwrap_or_default())
    }
}

pub fn print(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Error::Closed,
        _ => Error::Write(error),
    })
}

pub fn line(text: &str) -> Result<(), Error> {
    print(&format!("{text}\n"))
}

/// Writes a line to standard error.
pub fn warn(text: &str) {
    // A closed standard error must not make the command fail.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub fn json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(Error::Json)
}

pub fn print_done(done: &[Done], form: Form) -> Result<(), Error> {
    match form {
        Form::Table => print(&lines(done.iter().map(Done::line))),
        Form::Json => print(&json(&done)?),
    }
}

pub fn lines(all: impl IntoIterator<Item = String>) -> String {
    all.into_iter().fold(String::new(), |text, line| text + &line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_in_another_namespace_is_printed_with_it() {
        let done = |namespace: Option<&str>| Done {
            name: "run/sprint".into(),
            namespace: namespace.map(str::to_owned),
            state: "applied".into(),
        };
        assert_eq!(done(None).line(), "run/sprint applied");
        assert_eq!(done(Some("lab")).line(), "run/sprint applied in namespace lab");
    }
}
