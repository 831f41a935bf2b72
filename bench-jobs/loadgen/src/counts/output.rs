//! Writes the result as JSON to a file.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::counts::report::Report;

#[derive(Debug, Error)]
pub enum OutputError {
    #[error("cannot create {path} for the result: {source}")]
    Create { path: PathBuf, source: io::Error },
    #[error("cannot write the result as JSON: {source}")]
    Serialize { source: serde_json::Error },
    #[error("cannot write the result to {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot rename the result to {path}: {source}")]
    Rename { path: PathBuf, source: io::Error },
}

/// The file that the JSON goes to, which appears complete or not at all. Opened before the load
/// starts, so an unusable place is found at once.
#[derive(Debug)]
pub struct JsonOutput {
    path: PathBuf,
    /// Its path until it is complete.
    partial: PathBuf,
    file: File,
}

impl JsonOutput {
    /// Opens the place that `reportFile` names.
    pub fn open(path: &Path) -> Result<Self, OutputError> {
        let path = path.to_path_buf();
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        match File::create(&partial) {
            Ok(file) => Ok(Self { path, partial, file }),
            Err(source) => Err(OutputError::Create { path, source }),
        }
    }

    /// Writes the report and makes it durable under its name.
    pub fn write(self, report: &Report) -> Result<(), OutputError> {
        let mut text = report.to_json().map_err(|source| OutputError::Serialize { source })?;
        text.push('\n');
        let Self { path, partial, mut file } = self;
        match file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
            Ok(()) => std::fs::rename(&partial, &path).map_err(|source| OutputError::Rename { path, source }),
            Err(source) => Err(OutputError::Write { path: partial, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_file_appears_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("result.json");
        let output = JsonOutput::open(&path).unwrap();
        assert!(!path.exists());
        output.write(&Report::default()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(Report::from_json(&text).unwrap(), Report::default());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_unusable_place_is_found_out_before_the_run() {
        let refused = JsonOutput::open(Path::new("/nonexistent/directory/result.json"));
        assert!(matches!(refused, Err(OutputError::Create { .. })));
    }
}
