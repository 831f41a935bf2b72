//! The options of local runs. Pure.

use clap::Args;
use std::path::PathBuf;

/// File in a local run's directory with the run and its status.
pub const RUN_FILE: &str = "run.json";
/// File in a local suite's directory with its report.
pub const REPORT_FILE: &str = "report.json";
/// The page in the directory of a local run or suite.
pub const PAGE_FILE: &str = "report.html";

#[derive(Debug, Clone, Args)]
#[group(id = "local_run")]
pub struct Options {
    /// Read Datastores, BenchmarkRuns and BenchmarkSuites from these files or directories, or from
    /// standard input (-).
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Start this server program for an engine, such as Redis=/opt/redis/redis-server, or for a
    /// variant of a suite, such as branch=./redis-server, instead of the usual one on PATH.
    #[arg(long, value_name = "NAME=PATH", requires = "local")]
    pub server_binary: Vec<String>,
    /// Store the results in this directory instead of a new one in the user's cache.
    #[arg(long, value_name = "DIRECTORY", requires = "local")]
    pub output_directory: Option<PathBuf>,
}
