//! The output of a tool, as the runner hands it over.

use std::{borrow::Cow, collections::BTreeMap};

/// The file name that means standard output.
pub const STANDARD_OUTPUT: &str = "-";

/// What one stream of the tool held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capture {
    /// The stored text: its beginning.
    pub text: String,
    /// Whether the tool wrote more than is stored.
    pub cut: bool,
}

impl Capture {
    /// A stream that is stored completely.
    pub fn complete(text: impl Into<String>) -> Self {
        Self { text: text.into(), cut: false }
    }
}

/// Everything that a tool wrote, and how many servers it loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outputs {
    pub stdout: Capture,
    pub stderr: Capture,
    /// Complete files by their path below the output directory, with `/` between its parts.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Servers of the target; 0 if they do not speak RESP.
    pub shards: u64,
}

/// The paths of these files below the output directory, without standard output.
pub(crate) fn paths<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>, OutputError> {
    let files = names.into_iter().filter(|name| *name != STANDARD_OUTPUT);
    files.map(|name| relative(name).map(str::to_owned)).collect()
}

#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum OutputError {
    #[error("the tool wrote no file {file:?} to its output directory ({found})")]
    Missing { file: String, found: String },
    #[error(
        "the tool wrote more to {0} than the runner stores, so its result may be incomplete: write the result to a file in ${{OUTPUT}}, or write less"
    )]
    Cut(&'static str),
    #[error("{0:?} is not a path below the output directory: remove the leading / and every ..")]
    Outside(String),
}

impl Outputs {
    pub fn has(&self, file: &str) -> bool {
        relative(file).is_ok_and(|name| self.files.contains_key(name))
    }

    /// Standard output, if it is complete.
    pub fn stdout(&self) -> Result<&str, OutputError> {
        complete(&self.stdout, "standard output")
    }

    /// The text of a file, or standard output for `-`. What is not UTF-8 in it
    /// becomes U+FFFD, which no number survives.
    pub fn text(&self, file: &str) -> Result<Cow<'_, str>, OutputError> {
        if file == STANDARD_OUTPUT {
            return self.stdout().map(Cow::Borrowed);
        }
        let name = relative(file)?;
        let bytes = self
            .files
            .get(name)
            .ok_or_else(|| OutputError::Missing { file: file.to_owned(), found: self.listing() })?;
        Ok(String::from_utf8_lossy(bytes))
    }

    /// The text of a file, or for `-` both streams, standard output first.
    pub fn streams(&self, file: &str) -> Result<Vec<Cow<'_, str>>, OutputError> {
        if file != STANDARD_OUTPUT {
            return Ok(vec![self.text(file)?]);
        }
        let stderr = complete(&self.stderr, "standard error")?;
        Ok(vec![Cow::Borrowed(self.stdout()?), Cow::Borrowed(stderr)])
    }

    /// A few of the files, for messages.
    pub(crate) fn listing(&self) -> String {
        let mut names: Vec<_> = self.files.keys().take(5).map(String::as_str).collect();
        if names.is_empty() {
            return "the directory is empty".to_owned();
        }
        if self.files.len() > names.len() {
            names.push("...");
        }
        format!("there are {}", names.join(", "))
    }
}

fn complete<'a>(capture: &'a Capture, stream: &'static str) -> Result<&'a str, OutputError> {
    if capture.cut { Err(OutputError::Cut(stream)) } else { Ok(&capture.text) }
}

/// The path without `./` in front and `/` behind it.
fn relative(path: &str) -> Result<&str, OutputError> {
    let name = path.strip_prefix("./").unwrap_or(path).trim_end_matches('/');
    if name.is_empty() || name.starts_with('/') || name.split('/').any(|part| part == "..") {
        return Err(OutputError::Outside(path.to_owned()));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs() -> Outputs {
        Outputs {
            stdout: Capture::complete("out"),
            stderr: Capture::complete("err"),
            files: BTreeMap::from([("result.json".to_owned(), b"{}".to_vec())]),
            shards: 1,
        }
    }

    #[test]
    fn a_dash_means_the_streams() {
        assert_eq!(outputs().text("-").unwrap(), "out");
        assert_eq!(outputs().streams("-").unwrap(), ["out", "err"]);
        assert_eq!(outputs().streams("./result.json").unwrap(), ["{}"]);
    }

    #[test]
    fn a_missing_file_is_reported_with_those_that_exist() {
        let message = outputs().text("out.json").unwrap_err().to_string();
        assert!(message.contains("out.json") && message.contains("result.json"), "{message}");
    }

    #[test]
    fn a_stream_that_was_cut_is_refused() {
        let cut = Outputs { stdout: Capture { text: "x".into(), cut: true }, ..Outputs::default() };
        assert_eq!(cut.text("-"), Err(OutputError::Cut("standard output")));
    }

    #[test]
    fn paths_out_of_the_output_directory_are_refused() {
        for path in ["/etc/passwd", "../x", "a/../../b", "", "./"] {
            assert_eq!(paths([path]), Err(OutputError::Outside(path.to_owned())), "{path}");
        }
    }
}
