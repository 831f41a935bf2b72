//! The formats of a report. [`write`] writes a file or standard output.

use super::print;
use clap::{Args, ValueEnum};
use dragstrip_report::{csv, document::Document, html, json, junit, markdown, text};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal.
    #[default]
    Text,
    /// For pull requests and wikis.
    Markdown,
    /// One line per figure.
    Csv,
    /// Everything, for programs and for later comparisons.
    Json,
    /// Verdicts and thresholds as test cases.
    Junit,
    /// One self-contained page with charts, for a browser.
    Html,
}

/// The destination and the format of a report.
#[derive(Debug, Clone, Default, Args)]
#[group(id = "report_output")]
pub struct Options {
    /// Print the report in this format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Write the report to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Print(#[from] print::Error),
    #[error("cannot write {1}")]
    Write(#[source] io::Error, String),
}

pub fn render(document: &Document, format: Format) -> String {
    match format {
        Format::Text => text::render(document),
        Format::Markdown => markdown::render(document),
        Format::Csv => csv::render(document),
        Format::Json => json::render(document) + "\n",
        Format::Junit => junit::render(document),
        Format::Html => html::render(document),
    }
}

/// Writes `text` to `file`, or to standard output.
pub fn write(text: &str, file: Option<&Path>) -> Result<(), Error> {
    match file.filter(|file| *file != Path::new("-")) {
        Some(file) => fs::write(file, text).map_err(|error| Error::Write(error, file.display().to_string())),
        None => Ok(print::print(text)?),
    }
}
