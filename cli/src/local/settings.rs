//! The settings that all local runs of one command share. Touches the environment and signals.

use super::options::Options;
use crate::output::print;
use dragstrip_crds::Engine;
use dragstrip_results::protocol::PASSWORD_VARIABLE;
use dragstrip_runner::Stop;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};
use tokio::signal::unix::{SignalKind, signal};

/// A shell's exit code for an interrupted program.
const INTERRUPTED: i32 = 130;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "--server-binary {0}: use ENGINE=PATH with one of Dragonfly, Redis, Valkey, KeyDB and Garnet, such as Redis=/opt/redis/redis-server"
    )]
    Binary(String),
    #[error("failed to handle Ctrl-C")]
    Signals(#[source] io::Error),
}

#[derive(Clone)]
pub struct Settings {
    /// The server programs of the command line, by engine.
    pub binaries: BTreeMap<Engine, PathBuf>,
    /// The password of servers that need one.
    pub password: Option<String>,
    /// By default each run has a directory in the user's cache.
    pub output_directory: Option<PathBuf>,
    pub stop: Stop,
}

impl Settings {
    /// The settings of `options` and the environment.
    pub fn of(options: &Options) -> Result<Self, Error> {
        let binaries = options.server_binary.iter().map(|text| binary(text)).collect::<Result<_, _>>()?;
        let stop = Stop::listen()
            .and_then(|stop| end_on_second_interrupt().map(|()| stop))
            .map_err(Error::Signals)?;
        let password = std::env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty());
        Ok(Self { binaries, password, output_directory: None, stop })
    }
}

fn binary(text: &str) -> Result<(Engine, PathBuf), Error> {
    let refused = || Error::Binary(text.to_owned());
    let (engine, path) = text.split_once('=').ok_or_else(refused)?;
    let engines = [Engine::Dragonfly, Engine::Redis, Engine::Valkey, Engine::KeyDB, Engine::Garnet];
    let matches = |one: &Engine| one.to_string().eq_ignore_ascii_case(engine);
    let engine = engines.into_iter().find(matches).filter(|_| !path.is_empty()).ok_or_else(refused)?;
    Ok((engine, path.into()))
}

/// The directory for the results of `name` in `all`, alone or among `several`.
pub fn directory_of(all: Option<&Path>, name: &str, several: bool) -> Option<PathBuf> {
    let all = all?;
    Some(if several { all.join(name) } else { all.to_owned() })
}

/// Ends this process at once on the second interrupt; its children end with it.
fn end_on_second_interrupt() -> io::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut requested = async move || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    tokio::spawn(async move {
        requested().await;
        print::warn(
            "\ninterrupted: finishing and storing the measurements; press Ctrl-C again to kill everything",
        );
        requested().await;
        std::process::exit(INTERRUPTED);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_program_is_named_with_its_engine() {
        assert_eq!(binary("redis=/opt/redis-server").unwrap(), (Engine::Redis, "/opt/redis-server".into()));
        assert_eq!(binary("KeyDB=keydb-server").unwrap(), (Engine::KeyDB, "keydb-server".into()));
        for wrong in ["/opt/redis-server", "Redis=", "Reddis=/x", "Custom=/x"] {
            assert!(binary(wrong).is_err(), "{wrong} was taken");
        }
    }

    #[test]
    fn several_runs_have_separate_directories() {
        let of = |all, several| directory_of(all, "sprint", several);
        assert_eq!(of(Some(Path::new("out")), false), Some("out".into()));
        assert_eq!(of(Some(Path::new("out")), true), Some("out/sprint".into()));
        assert_eq!(of(None, true), None);
    }
}
