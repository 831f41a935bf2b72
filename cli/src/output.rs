//! What is written to the terminal, or to whoever reads instead of one. Touches standard
//! output and standard error.

use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// Something could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody reads any more.
    #[error("standard output is closed")]
    Closed,
    /// It is not open.
    #[error("cannot write to standard output")]
    Write(#[source] io::Error),
    /// It has no form as JSON.
    #[error("cannot write this as JSON")]
    Json(#[source] serde_json::Error),
    /// It has no form as YAML.
    #[error("cannot write this as YAML")]
    Yaml(#[source] serde_yaml::Error),
}

impl Error {
    fn of(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Closed } else { Self::Write(error) }
    }
}

/// The form of what is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
    /// The same in YAML.
    Yaml,
    /// Kinds and names alone, one a line.
    Name,
}

/// For the commands that have several forms.
#[derive(Debug, Clone, Default, Args)]
#[group(id = "output")]
pub struct Options {
    /// The form of what is told: table for people, the others for programs.
    #[arg(short = 'o', long = "output", value_name = "OUTPUT", value_enum, default_value_t)]
    pub form: Form,
}

/// What was done with an object.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Its kind and name.
    pub name: String,
    /// Its namespace, where that is not the one that the command works in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What became of it.
    pub state: String,
}

impl Done {
    fn line(&self) -> String {
        let Self { name, namespace, state } = self;
        let place = namespace.as_ref().map(|namespace| format!(" in namespace {namespace}"));
        format!("{name} {state}{}", place.unwrap_or_default())
    }
}

/// Whether somebody sits before standard output.
pub fn terminal() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether words have colours: on a terminal, unless NO_COLOR is set.
pub fn coloured() -> bool {
    terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes `text` as it is.
pub fn print(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Error::of)
}

/// Writes `text` and ends the line.
pub fn line(text: &str) -> Result<(), Error> {
    print(&format!("{text}\n"))
}

/// Tells people something that is no part of what was asked for.
pub fn warn(text: &str) {
    // Who has closed standard error does not want to be told.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// `value` as JSON, or as YAML.
pub fn of_value(value: &impl Serialize, form: Form) -> Result<String, Error> {
    match form {
        Form::Yaml => serde_yaml::to_string(value).map_err(Error::Yaml),
        _ => serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(Error::Json),
    }
}

/// Writes `value` as JSON, or as YAML.
pub fn print_value(value: &impl Serialize, form: Form) -> Result<(), Error> {
    print(&of_value(value, form)?)
}

/// Writes what was done.
pub fn print_done(done: &[Done], form: Form) -> Result<(), Error> {
    match form {
        Form::Table => print(&lines(done.iter().map(Done::line))),
        Form::Name => print(&lines(done.iter().map(|one| one.name.clone()))),
        Form::Json | Form::Yaml => print_value(&done, form),
    }
}

/// `all`, each ended as a line.
pub fn lines(all: impl IntoIterator<Item = String>) -> String {
    all.into_iter().fold(String::new(), |text, line| text + &line + "\n")
}

/// Rows under their heads, as kubectl writes them; `numbers` are the columns to the right.
pub fn table(head: &[&str], rows: Vec<Vec<String>>, numbers: &[usize]) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(head);
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 3));
        if numbers.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    lines(table.lines().map(|line| line.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_its_numbers_to_the_right_and_no_blanks_at_the_end() {
        let rows = vec![vec!["a".to_owned(), "1,000".to_owned()], vec!["long".to_owned(), "7".to_owned()]];
        assert_eq!(table(&["NAME", "OPS/S"], rows, &[1]), "NAME   OPS/S\na      1,000\nlong       7\n");
    }

    #[test]
    fn a_form_is_taken_by_the_commands_that_have_it_and_by_no_other() {
        use clap::CommandFactory;
        for (line, taken) in [
            ("get -o name", true),
            ("cancel a -o json", true),
            ("validate -f a.yaml -o yaml", true),
            ("run -f a.yaml -o name", true),
            ("run -f a.yaml -o name --watch", false),
            ("run -f a.yaml -o json --local", false),
            ("doctor -o json", true),
            ("doctor -o name", false),
            ("follow a -o json", false),
            ("report a -o json", false),
            ("compare a b -o json", false),
            ("logs a -o json", false),
            ("calibrate --datastore a -o json", false),
        ] {
            let words = ["dragstrip"].into_iter().chain(line.split(' '));
            let parsed = crate::Arguments::command().try_get_matches_from(words);
            assert_eq!(parsed.is_ok(), taken, "{line}: {:?}", parsed.err());
        }
    }

    #[test]
    fn what_was_done_elsewhere_names_the_namespace() {
        let done = |namespace: Option<&str>| Done {
            name: "run/sprint".into(),
            namespace: namespace.map(str::to_owned),
            state: "applied".into(),
        };
        assert_eq!(done(None).line(), "run/sprint applied");
        assert_eq!(done(Some("lab")).line(), "run/sprint applied in namespace lab");
    }
}
