//! Gathers what a parser wants to read. Touches the output directory.

use crate::tools::adapter::{Ended, LaunchContext};
use dragstrip_crds::workload::ParserSpec;
use dragstrip_parsers::{Capture, Outputs};
use std::{collections::BTreeMap, fs, io, path::Path};

/// Most bytes of all files together: a result is read into memory.
const MOST_BYTES: u64 = 64 << 20;

/// What the parser wants, or why it cannot be had.
pub(super) fn read(parser: &ParserSpec, context: &LaunchContext, ended: &Ended) -> Result<Outputs, String> {
    let directory = context.output_directory.as_path();
    let mut files = Files { root: directory, found: BTreeMap::new(), bytes: 0 };
    let wanted = dragstrip_parsers::wanted(parser).map_err(|e| e.to_string())?;
    let paths = wanted.iter().map(|name| directory.join(name));
    let (there, missing): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_file());
    there.iter().try_for_each(|path| files.read(path))?;
    if !missing.is_empty() {
        // The parser's message lists what is there instead.
        files.list()?;
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
    fn read(&mut self, path: &Path) -> Result<(), String> {
        let failed = |e: io::Error| format!("the tool's file {} cannot be read: {e}", path.display());
        let size = fs::metadata(path).map_err(failed)?.len();
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > MOST_BYTES {
            return Err(format!("the tool left more than {} MiB to read", MOST_BYTES >> 20));
        }
        let bytes = fs::read(path).map_err(failed)?;
        self.found.insert(self.name(path), bytes);
        Ok(())
    }

    /// Adds the names of all files, without their contents.
    fn list(&mut self) -> Result<(), String> {
        let failed = |e: io::Error| format!("the directory {} cannot be read: {e}", self.root.display());
        for entry in fs::read_dir(self.root).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Links are not followed: they could lead anywhere.
            if entry.file_type().map_err(failed)?.is_file() {
                self.found.entry(self.name(&entry.path())).or_default();
            }
        }
        Ok(())
    }

    fn name(&self, path: &Path) -> String {
        let below = path.strip_prefix(self.root).unwrap_or(path);
        below.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
    }
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
        fs::write(root.path().join("result.json"), "r").unwrap();
        fs::create_dir(root.path().join("other")).unwrap();
        fs::write(root.path().join("other/unread.json"), "u").unwrap();
        let names = |json| {
            let outputs = read(&parser(json), &context(0, root.path()), &ended(Some(0), None)).unwrap();
            outputs.files.into_iter().collect::<Vec<_>>()
        };
        let one = [("result.json".to_owned(), b"r".to_vec())];
        assert_eq!(names(r#"{"memtierJson": {"file": "result.json"}}"#), one);
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
