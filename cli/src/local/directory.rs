//! The directory of a local run and the files in it. Touches files.

use super::{
    options::{PAGE_FILE, RUN_FILE},
    programs,
};
use dragstrip_crds::BenchmarkRun;
use dragstrip_results::result::RepetitionResult;
use jiff::Timestamp;
use serde::Serialize;
use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

const RESULTS: &str = "results";
const LOGS: &str = "logs";
/// Exists only while the run is under way.
const WORK: &str = "work";
const RUNS: &str = "runs";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "there is no directory for the results, because neither XDG_CACHE_HOME nor HOME is set: use --output-directory"
    )]
    NoPlace,
    #[error("{0} already contains {1}: use another --output-directory, or remove it")]
    Taken(PathBuf, &'static str),
    #[error("failed to write {1}")]
    Write(#[source] io::Error, PathBuf),
    #[error("failed to write {1} as JSON")]
    Encode(#[source] serde_json::Error, PathBuf),
}

pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |error| Error::Write(error, path.to_owned());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}

fn refuse_taken(path: &Path) -> Result<(), Error> {
    let mut names = [RUN_FILE, RESULTS, LOGS, WORK, RUNS].into_iter();
    match names.find(|name| path.join(name).exists()) {
        Some(taken) => Err(Error::Taken(path.to_owned(), taken)),
        None => Ok(()),
    }
}

/// The default directory of the run called `name` that begins at `now`.
pub fn default_path(name: &str, now: Timestamp) -> Result<PathBuf, Error> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.or_else(home).ok_or(Error::NoPlace)?;
    Ok(cache.join("dragstrip/runs").join(format!("{name}-{}", now.strftime("%Y%m%dT%H%M%S%3fZ"))))
}

/// Creates the directory of a suite, which must not contain runs.
pub fn create_for_suite(path: &Path) -> Result<(), Error> {
    refuse_taken(path)?;
    let runs = path.join(RUNS);
    fs::create_dir_all(&runs).map_err(|error| Error::Write(error, runs))
}

pub fn of_run(suite: &Path, name: &str) -> PathBuf {
    suite.join(RUNS).join(name)
}

#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Creates the directory at `path`, which must not contain a run.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let failed = |error, path: &Path| Error::Write(error, path.to_owned());
        fs::create_dir_all(path).map_err(|error| failed(error, path))?;
        // Children have other working directories.
        let path = fs::canonicalize(path).map_err(|error| failed(error, path))?;
        refuse_taken(&path)?;
        let directory = Self { path };
        // If two processes begin here at once, one fails to create this.
        let work = directory.work();
        fs::create_dir(&work).map_err(|error| failed(error, &work))?;
        programs::link(&directory.bin()).map_err(|error| failed(error, &directory.bin()))?;
        for inner in [directory.server(), directory.path.join(LOGS), directory.path.join(RESULTS)] {
            fs::create_dir_all(&inner).map_err(|error| failed(error, &inner))?;
        }
        Ok(directory)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn work(&self) -> PathBuf {
        self.path.join(WORK)
    }

    /// The directory in which this program has its other names.
    pub fn bin(&self) -> PathBuf {
        self.work().join("bin")
    }

    /// This program under the runner's name.
    pub fn runner(&self) -> PathBuf {
        self.bin().join(dragstrip_runner::RUNNER_NAME)
    }

    /// The server's working directory.
    pub fn server(&self) -> PathBuf {
        self.work().join("server")
    }

    /// The working directory of a client, where its tool may write.
    pub fn client(&self, name: &str) -> PathBuf {
        self.work().join("clients").join(name)
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.path.join(LOGS).join(format!("{name}.log"))
    }

    fn json(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let path = self.path.join(name);
        let text = serde_json::to_string_pretty(value).map_err(|error| Error::Encode(error, path.clone()))?;
        write(&path, &text)
    }

    pub fn result(&self, name: &str, result: &RepetitionResult) -> Result<(), Error> {
        self.json(&format!("{RESULTS}/{name}.json"), result)
    }

    /// Stores the run with its status, its table and its page, and removes what only its processes needed.
    pub fn finish(&self, run: &BenchmarkRun, table: &str, page: &str) -> Result<(), Error> {
        write(&self.path.join("table.txt"), table)?;
        write(&self.path.join(PAGE_FILE), page)?;
        self.json(RUN_FILE, run)?;
        let work = self.work();
        fs::remove_dir_all(&work).map_err(|error| Error::Write(error, work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> BenchmarkRun {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "metadata": {"name": "sprint"},
            "spec": {"target": {"external": {"address": "h:1"}}, "phases": []}
        }))
        .unwrap()
    }

    #[test]
    fn a_finished_run_leaves_its_files_and_not_those_of_its_processes() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::create(place.path()).unwrap();
        assert!(directory.runner().exists(), "there is no runner");
        directory.finish(&run(), "table", "page").unwrap();
        let stored: BenchmarkRun =
            serde_json::from_str(&fs::read_to_string(place.path().join(RUN_FILE)).unwrap()).unwrap();
        assert_eq!(stored.spec, run().spec);
        assert!(!directory.bin().exists(), "the files of its processes are still there");
    }

    #[test]
    fn a_directory_that_contains_a_run_or_foreign_files_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("sprint");
        let running = Directory::create(&path).unwrap();
        let message = Directory::create(&path).unwrap_err().to_string();
        assert!(
            message.ends_with("already contains results: use another --output-directory, or remove it"),
            "{message}"
        );
        assert!(running.runner().exists(), "the first one's files were removed");
        running.finish(&run(), "", "").unwrap();
        assert!(
            matches!(Directory::create(&path), Err(Error::Taken(_, RUN_FILE))),
            "a finished run was overwritten"
        );
        let foreign = place.path().join("work/thesis.txt");
        write(&foreign, "years").unwrap();
        assert!(Directory::create(place.path()).is_err() && foreign.exists(), "a foreign directory was used");
    }
}
