//! Harness of the end-to-end tests: a namespace per test that is always
//! emptied, checked for leftovers and removed; manifests as users write them;
//! waiting with deadlines whose message says what was awaited and what was last
//! seen; faults that are always mended.
//!
//! The tests need a cluster with Dragstrip installed (`make install`), its
//! KUBECONFIG and kubectl (`eval "$(testbed/cluster env)"`), and a way to pod
//! addresses. They run side by side as far as they do not disturb one another,
//! however many are started at a time.

pub mod certificates;
mod cluster;
mod dump;
mod events;
pub mod faults;
pub mod helm;
pub mod kubectl;
pub mod manifests;
mod namespace;
pub mod nodes;
mod objects;
pub mod operator;
pub mod processes;
pub mod results;
pub mod server;
pub mod table;
mod teardown;
mod turns;
mod wait;

pub use cluster::connect;
pub use namespace::{Env, alone, message, phase, with_namespace};
pub use wait::{Look, until};

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

/// The checkout, above the package that Cargo tests, or where `make` starts a program. A path that is compiled in
/// would be that of another checkout where programs are cached.
pub fn checkout() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR");
    package.map_or_else(|| PathBuf::from("."), |package| Path::new(&package).join(".."))
}

/// How soon a condition and an event must say what is wrong.
pub const NOTICE: Duration = Duration::from_secs(5);
/// How soon a stopped or deleted run's load must be gone.
pub const LOAD_GONE: Duration = Duration::from_secs(10);
/// How long a run whose clients cannot start keeps its turn.
pub const TURN_KEPT: Duration = Duration::from_secs(60);
/// How long a server may take to become ready.
pub const SERVER_UP: Duration = Duration::from_secs(60);
/// How long a short run (three phases of two seconds) may take.
pub const SHORT_RUN: Duration = Duration::from_secs(90);

/// Says that part of a test was not run, past the capture of test output: what
/// is skipped must be seen even when all is green.
pub fn not_run(what: &str, why: &str) {
    use std::io::Write;
    // A closed terminal is not a reason to fail.
    let _ = writeln!(std::io::stderr(), "\nNOT RUN: {what}: {why}");
}
