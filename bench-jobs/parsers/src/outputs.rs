//! What a tool left behind, as the runner hands it over.

use std::{borrow::Cow, collections::BTreeMap};

/// The name that means standard output where a file is asked for.
pub const STANDARD_OUTPUT: &str = "-";

/// What one stream of the tool held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capture {
    /// The text that was kept: its beginning.
    pub text: String,
    /// Whether more was written than was kept.
    pub cut: bool,
}

impl Capture {
    /// A stream that was kept whole.
    pub fn whole(text: impl Into<String>) -> Self {
        Self { text: text.into(), cut: false }
    }
}

/// Everything a tool left behind, and what it was told of its target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Standard output.
    pub stdout: Capture,
    /// Standard error.
    pub stderr: Capture,
    /// Whole files by their path below the output directory, with `/` between its parts.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Servers of the target; 0 where they cannot be asked.
    pub shards: u64,
}

/// What a parser needs from the output directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing: it reads the tool's streams.
    Nothing,
    /// Files that are there or not, by their paths below the output directory.
    Files(Vec<String>),
    /// All files below a directory, by its path below the output directory.
    Directory(String),
}

impl Wanted {
    pub(crate) fn file(name: &str) -> Result<Self, OutputError> {
        if name == STANDARD_OUTPUT { Ok(Self::Nothing) } else { Self::files([name]) }
    }

    pub(crate) fn files<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, OutputError> {
        let paths = names.into_iter().map(|name| relative(name).map(str::to_owned));
        Ok(Self::Files(paths.collect::<Result<_, _>>()?))
    }

    pub(crate) fn directory(name: &str) -> Result<Self, OutputError> {
        Ok(if name == STANDARD_OUTPUT { Self::Nothing } else { Self::Directory(relative(name)?.to_owned()) })
    }
}

/// Why an output cannot be read.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum OutputError {
    /// The tool did not write the file.
    #[error("the tool left no file {file:?} in its output directory ({found})")]
    Missing {
        /// The file that was asked for.
        file: String,
        /// What is there instead.
        found: String,
    },
    /// More was written than is kept.
    #[error(
        "the tool wrote more to {0} than is kept, so that its result may be incomplete: have it write to a file in ${{OUTPUT}}, or less"
    )]
    Cut(&'static str),
    /// The path leads out of the output directory.
    #[error("{0:?} is no path below the output directory: leave out the leading / and every ..")]
    Outside(String),
}

impl Outputs {
    /// Whether the tool left this file.
    pub fn has(&self, file: &str) -> bool {
        relative(file).is_ok_and(|name| self.files.contains_key(name))
    }

    /// Standard output, if it is whole.
    pub fn stdout(&self) -> Result<&str, OutputError> {
        whole(&self.stdout, "standard output")
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
        let stderr = whole(&self.stderr, "standard error")?;
        Ok(vec![Cow::Borrowed(self.stdout()?), Cow::Borrowed(stderr)])
    }

    /// The files below a directory, by their path below it.
    pub fn below<'a>(
        &'a self,
        directory: &'a str,
    ) -> Result<impl Iterator<Item = (&'a str, &'a [u8])>, OutputError> {
        let directory = relative(directory)?;
        Ok(self.files.iter().filter_map(move |(path, bytes)| {
            let below = path.strip_prefix(directory)?.strip_prefix('/')?;
            Some((below, bytes.as_slice()))
        }))
    }

    /// A few of the files that are there, for messages.
    pub(crate) fn listing(&self) -> String {
        let mut names: Vec<_> = self.files.keys().take(5).map(String::as_str).collect();
        if names.is_empty() {
            return "it is empty".to_owned();
        }
        if self.files.len() > names.len() {
            names.push("...");
        }
        format!("there are {}", names.join(", "))
    }
}

fn whole<'a>(capture: &'a Capture, stream: &'static str) -> Result<&'a str, OutputError> {
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
            stdout: Capture::whole("out"),
            stderr: Capture::whole("err"),
            files: BTreeMap::from([
                ("result.json".to_owned(), b"{}".to_vec()),
                ("criterion/a/new/sample.json".to_owned(), b"s".to_vec()),
                ("criterion-old/b".to_owned(), b"o".to_vec()),
            ]),
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
    fn a_missing_file_is_told_with_those_that_are_there() {
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
            assert_eq!(Wanted::file(path), Err(OutputError::Outside(path.to_owned())), "{path}");
        }
    }

    #[test]
    fn files_below_a_directory_are_those_and_no_others() {
        let outputs = outputs();
        let below: Vec<_> = outputs.below("criterion/").unwrap().collect();
        assert_eq!(below, [("a/new/sample.json", &b"s"[..])]);
    }
}
