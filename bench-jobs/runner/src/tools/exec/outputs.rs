//! Gathers what a parser needs to read. Touches the output directory.

use crate::tools::adapter::{Ended, LaunchContext};
use dragstrip_crds::workload::ParserSpec;
use dragstrip_parsers::Outputs;
use std::{collections::BTreeMap, fs, io, path::Path};

/// Most bytes of all files together: a result is read into memory.
const MOST_BYTES: u64 = 64 << 20;

/// What the parser needs, or why it cannot be read.
pub(super) fn read(parser: &ParserSpec, context: &LaunchContext, ended: &Ended) -> Result<Outputs, String> {
    let directory = context.output_directory.as_path();
    let wanted = dragstrip_parsers::wanted(parser).map_err(|e| e.to_string())?;
    let (mut files, mut total) = (BTreeMap::new(), 0);
    for name in &wanted {
        let path = directory.join(name);
        if path.is_file() {
            let failed = |e: io::Error| format!("the tool's file {} cannot be read: {e}", path.display());
            total += fs::metadata(&path).map_err(failed)?.len();
            if total > MOST_BYTES {
                return Err(format!("the tool left more than {} MiB to read", MOST_BYTES >> 20));
            }
            files.insert(name.clone(), fs::read(&path).map_err(failed)?);
        }
    }
    if files.len() < wanted.len() {
        // The parser's message lists what is there instead.
        let failed = |e: io::Error| format!("the directory {} cannot be read: {e}", directory.display());
        for name in names(directory).map_err(failed)? {
            files.entry(name).or_default();
        }
    }
    let (stdout, stderr) = (ended.stdout.clone(), ended.stderr.clone());
    Ok(Outputs { stdout, stderr, files, shards: context.members.len() as u64 })
}

/// The names of the files in a directory. Links are not followed: they could lead anywhere.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::{context, ended};

    fn parser(json: &str) -> ParserSpec {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn only_the_parsers_files_are_read() {
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
    fn a_missing_file_is_reported_with_the_files_that_are_there() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("other.json"), "{}").unwrap();
        let parser = parser(r#"{"memtierJson": {"file": "result.json"}}"#);
        let outputs = read(&parser, &context(0, root.path()), &ended(Some(0), None)).unwrap();
        let message = dragstrip_parsers::parse(&parser, &outputs).unwrap_err().to_string();
        assert!(message.contains("result.json") && message.contains("other.json"), "{message}");
    }
}
