//! What is written to the terminal, or to whoever reads instead of one. Touches standard
//! output and standard error.

use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use std::{
    io::{self, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
};

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

/// Whether words have colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

static COLOURED: AtomicBool = AtomicBool::new(false);

/// Decides once whether words have colours.
pub fn choose(colour: Colour) {
    let coloured = match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };
    COLOURED.store(coloured, Ordering::Relaxed);
}

/// Whether somebody sits before standard output.
pub fn terminal() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// What a word says by its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// All is well.
    Good,
    /// Worth a look.
    Doubtful,
    /// It is not.
    Bad,
}

/// `text` in the colour of `mood`, where words have colours.
pub fn paint(text: &str, mood: Mood) -> String {
    if !COLOURED.load(Ordering::Relaxed) {
        return text.to_owned();
    }
    let colour = match mood {
        Mood::Good => 32,
        Mood::Doubtful => 33,
        Mood::Bad => 31,
    };
    format!("\u{1b}[{colour}m{text}\u{1b}[0m")
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
    fn words_have_no_colour_until_somebody_wants_it() {
        assert_eq!(paint("Valid", Mood::Good), "Valid");
    }
}
