//! The real memtier_benchmark. The program is the one that `DRAGSTRIP_TEST_MEMTIER`
//! names, else the one on PATH; without either a test says that it did not run.

use crate::runner::Pod;
use serde_json::Value;
use std::{
    env,
    io::Write as _,
    path::{Path, PathBuf},
};

const PROGRAM_VARIABLE: &str = "DRAGSTRIP_TEST_MEMTIER";
/// The real program; reports if there is none.
pub fn program(test: &str) -> Option<PathBuf> {
    let on_path = || {
        let path = env::var_os("PATH")?;
        env::split_paths(&path)
            .map(|directory| directory.join("memtier_benchmark"))
            .find(|file| file.is_file())
    };
    let program = env::var_os(PROGRAM_VARIABLE).map(PathBuf::from).or_else(on_path);
    if program.is_none() {
        // Past the capture of a test that passes, which eprintln! goes into.
        let notice = format!("\nNOT RUN: {test}: no memtier_benchmark on PATH, nor in {PROGRAM_VARIABLE}");
        #[allow(clippy::explicit_write)]
        writeln!(std::io::stderr(), "{notice}").unwrap();
    }
    program
}

/// A pod in which memtier is this program.
pub fn pod(program: &Path, job: &Value) -> Pod {
    let path = format!("{}:{}", program.parent().unwrap().display(), env::var("PATH").unwrap());
    Pod::new(job).variable("PATH", &path)
}
