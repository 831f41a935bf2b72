//! The settings that all local runs of one command share. Touches the environment and signals.

use super::options::Options;
use crate::output::print;
use dragstrip_crds::Engine;
use dragstrip_results::protocol::PASSWORD_VARIABLE;
use dragstrip_runner::Stop;
use std::{
    collections::{BTreeMap, BTreeSet},
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
    #[error(
        "--server-binary names two programs of {0}: {first} and {second}: leave one out",
        first = .1.display(),
        second = .2.display()
    )]
    Twice(Engine, PathBuf, PathBuf),
    #[error("--server-binary {0}=…: no run of the manifests starts a server of {0}: {1}")]
    Unused(Engine, String),
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
        let binaries = binaries(&options.server_binary)?;
        let stop = Stop::listen()
            .and_then(|stop| end_on_second_interrupt().map(|()| stop))
            .map_err(Error::Signals)?;
        let password = std::env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty());
        Ok(Self { binaries, password, output_directory: None, stop })
    }

    /// The same for the run or suite called `name`, whose results go into `all`, alone or among `several`.
    pub fn called(&self, name: &str, all: Option<&Path>, several: bool) -> Self {
        Self { output_directory: directory_of(all, name, several), ..self.clone() }
    }

    /// Refuses server programs of engines that are not in `used`.
    pub fn check(&self, used: &BTreeSet<Engine>) -> Result<(), Error> {
        let Some(engine) = self.binaries.keys().find(|engine| !used.contains(engine)) else { return Ok(()) };
        let names: Vec<String> = used.iter().map(ToString::to_string).collect();
        let remedy = if names.is_empty() {
            "leave it out".to_owned()
        } else {
            format!("they start {}: use one of those, or leave it out", names.join(", "))
        };
        Err(Error::Unused(*engine, remedy))
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

fn binaries(texts: &[String]) -> Result<BTreeMap<Engine, PathBuf>, Error> {
    let mut binaries = BTreeMap::new();
    for text in texts {
        let (engine, path) = binary(text)?;
        if let Some(first) = binaries.insert(engine, path.clone()) {
            return Err(Error::Twice(engine, first, path));
        }
    }
    Ok(binaries)
}

/// The directory for the results of `name` in `all`, alone or among `several`.
fn directory_of(all: Option<&Path>, name: &str, several: bool) -> Option<PathBuf> {
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

    #[tokio::test]
    async fn an_unused_server_program_is_refused() {
        let message = binaries(&["Redis=/old".into(), "redis=/new".into()]).unwrap_err().to_string();
        assert_eq!(message, "--server-binary names two programs of Redis: /old and /new: leave one out");
        let settings = Settings {
            binaries: binaries(&["Valkey=/x".into()]).unwrap(),
            password: None,
            output_directory: None,
            stop: Stop::listen().unwrap(),
        };
        assert!(settings.check(&BTreeSet::from([Engine::Valkey])).is_ok());
        let message =
            settings.check(&BTreeSet::from([Engine::KeyDB, Engine::Redis])).unwrap_err().to_string();
        assert!(message.contains("no run of the manifests starts a server of Valkey"), "{message}");
        assert!(
            message.contains("Redis") && message.contains("KeyDB") && message.contains("leave it out"),
            "{message}"
        );
    }

    #[test]
    fn several_runs_have_separate_directories() {
        let of = |all, several| directory_of(all, "sprint", several);
        assert_eq!(of(Some(Path::new("out")), false), Some("out".into()));
        assert_eq!(of(Some(Path::new("out")), true), Some("out/sprint".into()));
        assert_eq!(of(None, true), None);
    }
}
