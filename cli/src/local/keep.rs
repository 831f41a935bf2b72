//! Where a local run keeps what it measured: its directory and the files in it. Touches files.

pub use super::RUN;
use super::{origin::Origin, programs};
use dragstrip_crds::BenchmarkRun;
use dragstrip_results::result::RepetitionResult;
use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    env,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// File with what the run was measured with.
const ORIGIN: &str = "origin.json";
/// Directory of the stored results.
const RESULTS: &str = "results";
/// Directory of the logs.
const LOGS: &str = "logs";
/// Directory that is there while the run is under way.
const WORK: &str = "work";

/// Something could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no place for it.
    #[error(
        "no directory for results is known: neither XDG_CACHE_HOME nor HOME is set: name one with --output-directory"
    )]
    NoPlace,
    /// The directory holds a run already, or something of another's.
    #[error("{0} holds {1} already: name another directory, or remove that")]
    Taken(PathBuf, &'static str),
    /// Another process keeps its results there.
    #[error(
        "{0}: another dragstrip run --local is under way there: wait for its end, or name another directory with --output-directory"
    )]
    Busy(PathBuf),
    /// A file or directory could not be written.
    #[error("failed to write {1}")]
    Write(#[source] io::Error, PathBuf),
    /// A file could not be read.
    #[error("failed to read {1}")]
    Read(#[source] io::Error, PathBuf),
    /// A file is not what was kept.
    #[error("{1} is not what an earlier run kept: remove it, or name another directory")]
    Decode(#[source] serde_json::Error, PathBuf),
    /// Something has no JSON form.
    #[error("failed to write {1} as JSON")]
    Encode(#[source] serde_json::Error, PathBuf),
}

/// A run that was kept.
pub struct Kept {
    /// The run with its status.
    pub run: BenchmarkRun,
    /// Its results by name.
    pub results: BTreeMap<String, RepetitionResult>,
    /// What it was measured with, where that was kept.
    pub origin: Option<Origin>,
}

fn decoded<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = fs::read(path).map_err(|error| Error::Read(error, path.to_owned()))?;
    serde_json::from_slice(&text).map_err(|error| Error::Decode(error, path.to_owned()))
}

/// What an earlier run kept in `directory`; none where none came to its end.
pub fn read(directory: &Path) -> Result<Option<Kept>, Error> {
    if !directory.join(RUN).exists() {
        return Ok(None);
    }
    let results = directory.join(RESULTS);
    let files = fs::read_dir(&results).map_err(|error| Error::Read(error, results.clone()))?;
    let origin = directory.join(ORIGIN);
    let origin = origin.exists().then(|| decoded(&origin)).transpose()?;
    let mut kept = Kept { run: decoded(&directory.join(RUN))?, results: BTreeMap::new(), origin };
    for file in files {
        let path = file.map_err(|error| Error::Read(error, results.clone()))?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        kept.results.insert(name, decoded(&path)?);
    }
    Ok(Some(kept))
}

/// Makes `directory` this process's alone until what is returned is dropped.
pub fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join(".lock");
    let failed = |error| Error::Write(error, path.clone());
    fs::create_dir_all(directory).map_err(failed)?;
    let file = File::create(&path).map_err(failed)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::Busy(directory.to_owned())),
        // A file system that knows no locks is no reason to measure nothing.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Removes the directory of a run that is to be measured again.
pub fn forget(directory: &Path) -> Result<(), Error> {
    fs::remove_dir_all(directory).map_err(|error| Error::Write(error, directory.to_owned()))
}

/// Writes `text` as the file at `path`.
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |error| Error::Write(error, path.to_owned());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}

/// The directory of a run, which no other process writes to.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    _lock: File,
}

/// The directory of the run called `name` that began at `now`, where none is named.
pub fn usual(name: &str, now: Timestamp) -> Result<PathBuf, Error> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.or_else(home).ok_or(Error::NoPlace)?;
    Ok(cache.join("dragstrip/runs").join(format!("{name}-{}", now.strftime("%Y%m%dT%H%M%S%3fZ"))))
}

impl Directory {
    /// Makes the directory at `path`, which must hold no run. What a run left that did not
    /// come to its end is removed.
    pub fn make(path: &Path) -> Result<Self, Error> {
        let failed = |error, path: &Path| Error::Write(error, path.to_owned());
        let lock = lock(path)?;
        // Children have other working directories.
        let path = fs::canonicalize(path).map_err(|error| failed(error, path))?;
        let directory = Self { path, _lock: lock };
        // Without this link the directories of these names are not Dragstrip's.
        if directory.runner().is_symlink() && !directory.path.join(RUN).exists() {
            for left in [RESULTS, LOGS, WORK].map(|name| directory.path.join(name)) {
                if left.exists() {
                    forget(&left)?;
                }
            }
        }
        let mut names = [RUN, RESULTS, LOGS, WORK].into_iter();
        if let Some(taken) = names.find(|name| directory.path.join(name).exists()) {
            return Err(Error::Taken(directory.path, taken));
        }
        programs::link(&directory.bin()).map_err(|error| failed(error, &directory.bin()))?;
        for inner in [directory.server(), directory.path.join(LOGS), directory.path.join(RESULTS)] {
            fs::create_dir_all(&inner).map_err(|error| failed(error, &inner))?;
        }
        Ok(directory)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn work(&self) -> PathBuf {
        self.path.join(WORK)
    }

    /// Where this program has its other names.
    pub fn bin(&self) -> PathBuf {
        self.work().join("bin")
    }

    /// This program as the runner.
    pub fn runner(&self) -> PathBuf {
        self.bin().join(dragstrip_runner::RUNNER_NAME)
    }

    /// The server's working directory.
    pub fn server(&self) -> PathBuf {
        self.work().join("server")
    }

    /// The directory of a client, which its tool may write to.
    pub fn client(&self, name: &str) -> PathBuf {
        self.work().join("clients").join(name)
    }

    /// The log called `name`.
    pub fn log(&self, name: &str) -> PathBuf {
        self.path.join(LOGS).join(format!("{name}.log"))
    }

    /// Writes `text` as the file called `name`.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        write(&self.path.join(name), text)
    }

    fn json(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Error::Encode(error, self.path.join(name)))?;
        self.write(name, &text)
    }

    /// Keeps a stored result.
    pub fn result(&self, name: &str, result: &RepetitionResult) -> Result<(), Error> {
        self.json(&format!("{RESULTS}/{name}.json"), result)
    }

    /// Keeps what the run is measured with.
    pub fn origin(&self, origin: &Origin) -> Result<(), Error> {
        self.json(ORIGIN, origin)
    }

    /// Keeps the run with its status, its results and its table, and removes what only its processes needed.
    pub fn finish(
        &self,
        run: &BenchmarkRun,
        results: &BTreeMap<String, RepetitionResult>,
        table: &str,
    ) -> Result<(), Error> {
        for (name, result) in results {
            self.result(name, result)?;
        }
        self.write("table.txt", table)?;
        self.json(RUN, run)?;
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
    fn what_was_kept_is_read_back_and_what_did_not_end_is_begun_anew() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("sprint");
        assert!(read(&path).unwrap().is_none(), "nothing was kept");
        Directory::make(&path).unwrap().write("results/early.json", "{").unwrap();
        assert!(read(&path).unwrap().is_none(), "a run without an end was kept");
        let directory = Directory::make(&path).unwrap();
        directory.origin(&Origin::default()).unwrap();
        directory.finish(&run(), &BTreeMap::new(), "table").unwrap();
        let kept = read(&path).unwrap().unwrap();
        assert_eq!((kept.run.spec, kept.results.len()), (run().spec, 0), "something was left");
        assert!(!directory.bin().exists(), "what only processes needed is still there");
    }

    #[test]
    fn a_directory_that_holds_a_run_or_anothers_files_is_not_written_to() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("sprint");
        Directory::make(&path).unwrap().write(RUN, "{}").unwrap();
        let told = Directory::make(&path).unwrap_err().to_string();
        assert!(told.ends_with("holds run.json already: name another directory, or remove that"), "{told}");
        let others = place.path().join("work/thesis.txt");
        write(&others, "years").unwrap();
        assert!(Directory::make(place.path()).is_err(), "another's directory was taken");
        assert!(others.exists(), "another's file was removed");
    }

    #[test]
    fn a_directory_has_one_writer_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let first = Directory::make(place.path()).unwrap();
        let told = Directory::make(place.path()).unwrap_err().to_string();
        assert!(told.contains("another dragstrip run --local is under way there"), "{told}");
        assert!(first.runner().exists(), "the first one's files were removed");
        drop(first);
        assert!(Directory::make(place.path()).is_ok(), "its end is not noticed");
    }
}
