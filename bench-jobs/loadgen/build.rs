//! Takes BullMQ's script out of the npm package that the BullMQ job's lock file
//! pins, so that the tree holds none of it. Reads that package as `make
//! node-modules` installs it; writes into Cargo's output directory only.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// The installed package, seen from this crate.
const PACKAGE: &str = "../bullmq/node_modules/bullmq";
/// The script that `Queue.add` runs for a job without delay, priority or
/// parent, with its includes put in.
const SCRIPT_FILE: &str = "dist/cjs/scripts/addStandardJob-9.js";
const VERSION_FILE: &str = "dist/cjs/version.js";
/// The BullMQ that src/workload/replay/requests.rs was recorded from.
const VERSION: &str = "6.7.0";
/// SHA-256 of its script.
const SCRIPT_SHA256: &str = "2eee45c9ffc54d24681b737f926016a7f7464f0d32a5f87f623bffa2fc55413c";

/// The script cannot be taken. Each message is one line, as Cargo wants it.
#[derive(Debug, Error)]
enum TakeError {
    #[error("cannot read {path}: {source}; `make node-modules` installs it (needs Node.js 20 or newer)")]
    Read { path: PathBuf, source: io::Error },
    #[error("no text stands between {begin:?} and {end:?} in {path}: teach build.rs the file's new form")]
    Find { path: PathBuf, begin: &'static str, end: &'static str },
    #[error(
        "the BullMQ replay was recorded from bullmq {VERSION} with a script of SHA-256 {SCRIPT_SHA256}, but \
         bullmq {version} with a script of SHA-256 {sha256} is installed. Unless package-lock.json was \
         changed, run `make node-modules`. Otherwise record a Queue.add of the new version with MONITOR, \
         make src/workload/replay/requests.rs write the same, and put version and SHA-256 into \
         bench-jobs/loadgen/build.rs"
    )]
    Compare { version: String, sha256: String },
    #[error("Cargo gives no OUT_DIR: {0}")]
    FindOutput(#[from] env::VarError),
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
}

fn main() {
    for file in [SCRIPT_FILE, VERSION_FILE] {
        println!("cargo::rerun-if-changed={PACKAGE}/{file}");
    }
    println!("cargo::rustc-env=BULLMQ_VERSION={VERSION}");
    if let Err(error) = bring_script() {
        println!("cargo::error={error}");
    }
}

fn bring_script() -> Result<(), TakeError> {
    let script = script_of(Path::new(PACKAGE))?;
    let path = Path::new(&env::var("OUT_DIR")?).join("addStandardJob-9.lua");
    fs::write(&path, script).map_err(|source| TakeError::Write { path, source })
}

/// The script of the package in this directory, when it is the one recorded from.
fn script_of(package: &Path) -> Result<String, TakeError> {
    let script = text_in(package.join(SCRIPT_FILE), "const content = `", "`;\n")?;
    let version = text_in(package.join(VERSION_FILE), "exports.version = '", "';\n")?;
    let sha256 = sha256_of(&script);
    if (version.as_str(), sha256.as_str()) != (VERSION, SCRIPT_SHA256) {
        return Err(TakeError::Compare { version, sha256 });
    }
    Ok(script)
}

fn text_in(path: PathBuf, begin: &'static str, end: &'static str) -> Result<String, TakeError> {
    let content = match fs::read_to_string(&path) {
        Ok(content) => content,
        Err(source) => return Err(TakeError::Read { path, source }),
    };
    let text = content.split_once(begin).and_then(|(_, after)| after.split_once(end));
    text.map(|(text, _)| text.to_owned()).ok_or(TakeError::Find { path, begin, end })
}

fn sha256_of(text: &str) -> String {
    let mut name = String::new();
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A package with this version and this script.
    fn package(version: &str, script: &str) -> tempfile::TempDir {
        let package = tempfile::tempdir().unwrap();
        let write = |file: &str, text: String| {
            let path = package.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(VERSION_FILE, format!("exports.version = '{version}';\n"));
        write(SCRIPT_FILE, format!("const content = `{script}`;\nexports.addStandardJob = {{}};\n"));
        package
    }

    fn refusal(package: &Path) -> String {
        script_of(package).expect_err("another BullMQ must not be built in").to_string()
    }

    #[test]
    fn a_changed_script_is_told_with_both_hashes_and_what_to_do() {
        let changed = package(VERSION, "return 1\n");
        let told = refusal(changed.path());
        let found = sha256_of("return 1\n");
        for wanted in [SCRIPT_SHA256, &found, "make node-modules", "Queue.add", "bench-jobs/loadgen/build.rs"]
        {
            assert!(told.contains(wanted), "{wanted} is missing: {told}");
        }
        assert_eq!(told.lines().count(), 1, "Cargo shows the first line only: {told}");
    }

    #[test]
    fn another_version_is_refused_even_with_the_same_script() {
        let installed = Path::new(PACKAGE);
        let script = script_of(installed).expect("make node-modules installs the pinned version");
        let told = refusal(package("6.8.0", &script).path());
        assert!(told.contains("recorded from bullmq 6.7.0") && told.contains("bullmq 6.8.0 with"), "{told}");
    }

    #[test]
    fn a_package_that_is_not_installed_names_the_command_that_installs_it() {
        let empty = tempfile::tempdir().unwrap();
        let told = refusal(empty.path());
        assert!(told.contains("addStandardJob-9.js") && told.contains("make node-modules"), "{told}");
    }

    #[test]
    fn a_package_of_another_form_is_told() {
        let package = package(VERSION, "");
        fs::write(package.path().join(SCRIPT_FILE), "export default 1;\n").unwrap();
        let told = refusal(package.path());
        assert!(told.contains("no text stands between"), "{told}");
    }
}
