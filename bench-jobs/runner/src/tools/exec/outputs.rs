//! Gathers what a parser wants to read. Touches the output directory.

use crate::tools::adapter::{Ended, LaunchContext};
use dragstrip_crds::workload::ParserSpec;
use dragstrip_parsers::{Capture, Outputs, Wanted};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// Most bytes of all files together: a result is read into memory.
const MOST_BYTES: u64 = 64 << 20;
const MOST_FILES: usize = 10_000;
const DEEPEST: usize = 8;

/// What the parser wants, or why it cannot be had.
pub(super) fn read(parser: &ParserSpec, context: &LaunchContext, ended: &Ended) -> Result<Outputs, String> {
    let directory = context.output_directory.as_path();
    let mut files = Files { root: directory, found: BTreeMap::new(), bytes: 0 };
    match dragstrip_parsers::wanted(parser).map_err(|e| e.to_string())? {
        Wanted::Nothing => {}
        Wanted::Files(names) => {
            let paths = names.iter().map(|name| directory.join(name));
            let (there, missing): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_file());
            there.iter().try_for_each(|path| files.take(path))?;
            if !missing.is_empty() {
                // The parser tells what is there instead.
                files.names(directory, 1)?;
            }
        }
        Wanted::Directory(name) => files.below(&directory.join(name), DEEPEST)?,
    }
    Ok(Outputs {
        stdout: Capture { text: ended.stdout.clone(), cut: ended.stdout_cut },
        stderr: Capture { text: ended.stderr.clone(), cut: ended.stderr_cut },
        files: files.found,
        shards: context.members.len() as u64,
    })
}

struct Files<'a> {
    root: &'a Path,
    found: BTreeMap<String, Vec<u8>>,
    bytes: u64,
}

impl Files<'_> {
    fn take(&mut self, path: &Path) -> Result<(), String> {
        let failed = |e: io::Error| format!("the tool's file {} cannot be read: {e}", path.display());
        let size = fs::metadata(path).map_err(failed)?.len();
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > MOST_BYTES || self.found.len() >= MOST_FILES {
            return Err(format!(
                "the tool left more than {} MiB or {MOST_FILES} files to read: name the one file that holds its result",
                MOST_BYTES >> 20
            ));
        }
        let bytes = fs::read(path).map_err(failed)?;
        self.found.insert(self.name(path), bytes);
        Ok(())
    }

    /// The names alone, for a message.
    fn names(&mut self, directory: &Path, depth: usize) -> Result<(), String> {
        for path in entries(directory, depth)? {
            self.found.entry(self.name(&path)).or_default();
        }
        Ok(())
    }

    fn below(&mut self, directory: &Path, depth: usize) -> Result<(), String> {
        if !directory.is_dir() {
            return self.names(self.root, 1);
        }
        entries(directory, depth)?.iter().try_for_each(|path| self.take(path))
    }

    fn name(&self, path: &Path) -> String {
        let below = path.strip_prefix(self.root).unwrap_or(path);
        below.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
    }
}

/// The files below a directory, links not followed: they could lead anywhere.
fn entries(directory: &Path, depth: usize) -> Result<Vec<PathBuf>, String> {
    let failed = |e: io::Error| format!("the directory {} cannot be read: {e}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_file() {
            files.push(entry.path());
        } else if kind.is_dir() && depth > 1 {
            files.extend(entries(&entry.path(), depth - 1)?);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::{context, ended};

    fn parser(json: &str) -> ParserSpec {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn only_what_is_wanted_is_read() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("criterion/a/new")).unwrap();
        fs::write(root.path().join("criterion/a/new/sample.json"), "s").unwrap();
        fs::write(root.path().join("result.json"), "r").unwrap();
        let names = |json| {
            let outputs = read(&parser(json), &context(0, root.path()), &ended(Some(0), None)).unwrap();
            outputs.files.into_iter().collect::<Vec<_>>()
        };
        let one = [("result.json".to_owned(), b"r".to_vec())];
        assert_eq!(names(r#"{"memtierJson": {"file": "result.json"}}"#), one);
        let all = [("criterion/a/new/sample.json".to_owned(), b"s".to_vec())];
        assert_eq!(names(r#"{"criterionJson": {"directory": "criterion"}}"#), all);
        assert!(names(r#"{"redisBenchmarkCsv": {}}"#).is_empty());
        let logs = r#"{"hdrHistogramLog": {"files": [{"file": "result.json", "operation": "GET"},
            {"file": "failed.hdr", "operation": "GET", "required": false}]}}"#;
        assert_eq!(names(logs), one, "a file that need not be there made another one empty");
    }

    #[test]
    fn a_missing_file_is_told_with_what_is_there() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("other.json"), "{}").unwrap();
        let parser = parser(r#"{"memtierJson": {"file": "result.json"}}"#);
        let outputs = read(&parser, &context(0, root.path()), &ended(Some(0), None)).unwrap();
        let message = dragstrip_parsers::parse(&parser, &outputs).unwrap_err().to_string();
        assert!(message.contains("result.json") && message.contains("other.json"), "{message}");
    }
}
