//! What the command line and the environment say of all local runs of one command. Touches
//! the environment and signals.

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

/// Exit code of who was interrupted and kept nothing, as shells have it.
const INTERRUPTED: i32 = 130;

/// Something is said that nothing can be made of.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An engine's program is not named as it must be.
    #[error(
        "--server-binary {0}: write ENGINE=PATH with one of Dragonfly, Redis, Valkey, KeyDB and Garnet, such as Redis=/opt/redis/redis-server"
    )]
    Binary(String),
    /// An engine has two programs.
    #[error(
        "--server-binary names two programs of {0}: {first} and {second}: leave one out",
        first = .1.display(),
        second = .2.display()
    )]
    Twice(Engine, PathBuf, PathBuf),
    /// A program would be left aside.
    #[error("--server-binary {0}=…: no run of the manifests starts a server of {0}: {1}")]
    Unused(Engine, String),
    /// Signals cannot be listened for.
    #[error("failed to listen for Ctrl-C")]
    Signals(#[source] io::Error),
}

/// What all local runs of one command share.
#[derive(Clone)]
pub struct Settings {
    /// Programs of servers that were named, by engine.
    pub binaries: BTreeMap<Engine, PathBuf>,
    /// The password of servers that want one.
    pub password: Option<String>,
    /// Where results are kept; one directory per run in the user's cache when absent.
    pub output_directory: Option<PathBuf>,
    /// Whether somebody interrupts.
    pub stop: Stop,
}

impl Settings {
    /// What `options` and the environment say.
    pub fn of(options: &Options) -> Result<Self, Error> {
        let binaries = binaries(&options.server_binary)?;
        let stop = Stop::listen().and_then(|stop| insist().map(|()| stop)).map_err(Error::Signals)?;
        let password = std::env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty());
        Ok(Self { binaries, password, output_directory: None, stop })
    }

    /// The same for what is called `name`, whose results are in `all`, one directory of `several`.
    pub fn called(&self, name: &str, all: Option<&Path>, several: bool) -> Self {
        Self { output_directory: directory_of(all, name, several), ..self.clone() }
    }

    /// That every program that was named is one of the engines in `used`.
    pub fn check(&self, used: &BTreeSet<Engine>) -> Result<(), Error> {
        let Some(engine) = self.binaries.keys().find(|engine| !used.contains(engine)) else { return Ok(()) };
        let names: Vec<String> = used.iter().map(ToString::to_string).collect();
        let remedy = if names.is_empty() {
            "leave it out".to_owned()
        } else {
            format!("they start {}: name one of those, or leave it out", names.join(", "))
        };
        Err(Error::Unused(*engine, remedy))
    }
}

/// The engine and program in `text`, such as Redis=/opt/redis-server.
fn binary(text: &str) -> Result<(Engine, PathBuf), Error> {
    let refused = || Error::Binary(text.to_owned());
    let (engine, path) = text.split_once('=').ok_or_else(refused)?;
    let engines = [Engine::Dragonfly, Engine::Redis, Engine::Valkey, Engine::KeyDB, Engine::Garnet];
    let named = |known: &Engine| known.to_string().eq_ignore_ascii_case(engine);
    let engine = engines.into_iter().find(named).filter(|_| !path.is_empty()).ok_or_else(refused)?;
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

/// Where what is called `name` keeps its results, when one directory is named for `several`.
fn directory_of(all: Option<&Path>, name: &str, several: bool) -> Option<PathBuf> {
    let all = all?;
    Some(if several { all.join(name) } else { all.to_owned() })
}

/// Ends this process at once when somebody interrupts it twice: with it ends all that it started.
fn insist() -> io::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut asked = async move || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    tokio::spawn(async move {
        asked().await;
        print::warn("\ninterrupted: what was measured is kept; once more kills all at once");
        asked().await;
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
    async fn a_program_that_nothing_would_use_is_refused() {
        let told = binaries(&["Redis=/old".into(), "redis=/new".into()]).unwrap_err().to_string();
        assert_eq!(told, "--server-binary names two programs of Redis: /old and /new: leave one out");
        let settings = Settings {
            binaries: binaries(&["Valkey=/x".into()]).unwrap(),
            password: None,
            output_directory: None,
            stop: Stop::listen().unwrap(),
        };
        assert!(settings.check(&BTreeSet::from([Engine::Valkey])).is_ok());
        let told = settings.check(&BTreeSet::from([Engine::KeyDB, Engine::Redis])).unwrap_err().to_string();
        assert!(told.contains("no run of the manifests starts a server of Valkey"), "{told}");
        assert!(told.contains("Redis") && told.contains("KeyDB") && told.contains("leave it out"), "{told}");
    }

    #[test]
    fn several_runs_keep_their_results_apart() {
        let of = |all, several| directory_of(all, "sprint", several);
        assert_eq!(of(Some(Path::new("out")), false), Some("out".into()));
        assert_eq!(of(Some(Path::new("out")), true), Some("out/sprint".into()));
        assert_eq!(of(None, true), None);
    }
}
