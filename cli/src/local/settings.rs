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
        "--server-binary {0}: use NAME=PATH with the name of a variant of a suite, or one of Dragonfly, Redis, Valkey, KeyDB and Garnet, such as Redis=/opt/redis/redis-server"
    )]
    Binary(String),
    #[error("failed to handle Ctrl-C")]
    Signals(#[source] io::Error),
}

#[derive(Clone)]
pub struct Settings {
    /// The server programs of the command line, by engine or variant.
    pub binaries: BTreeMap<String, PathBuf>,
    /// The variant of the suite's run.
    pub variant: Option<String>,
    pub password: Option<String>,
    /// By default each run has a directory in the user's cache.
    pub output_directory: Option<PathBuf>,
    pub stop: Stop,
}

impl Settings {
    pub fn of(options: &Options) -> Result<Self, Error> {
        let binaries = options.server_binary.iter().map(|text| binary(text)).collect::<Result<_, _>>()?;
        let stop = Stop::listen()
            .and_then(|stop| end_on_second_interrupt().map(|()| stop))
            .map_err(Error::Signals)?;
        let password = std::env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty());
        Ok(Self { binaries, variant: None, password, output_directory: None, stop })
    }

    pub fn of_variant(&self, variant: &str) -> Self {
        Self { variant: Some(variant.to_owned()), ..self.clone() }
    }

    /// The program that the command line names for the server.
    pub fn binary(&self, engine: Engine) -> Option<&Path> {
        let of = |name: &str| self.binaries.get(&name.to_lowercase()).map(PathBuf::as_path);
        self.variant.as_deref().and_then(of).or_else(|| of(&engine.to_string()))
    }

    /// Checks that each program is that of an engine or of one of these variants.
    pub fn check_names<'a>(&self, variants: impl Iterator<Item = &'a str>) -> Result<(), Error> {
        let variants: Vec<&str> = variants.collect();
        let known = |name: &str| {
            ENGINES.iter().any(|engine| engine.to_string().eq_ignore_ascii_case(name))
                || variants.iter().any(|variant| variant.eq_ignore_ascii_case(name))
        };
        let unknown = self.binaries.iter().find(|(name, _)| !known(name));
        unknown.map_or(Ok(()), |(name, path)| Err(Error::Binary(format!("{name}={}", path.display()))))
    }
}

const ENGINES: [Engine; 5] =
    [Engine::Dragonfly, Engine::Redis, Engine::Valkey, Engine::KeyDB, Engine::Garnet];

fn binary(text: &str) -> Result<(String, PathBuf), Error> {
    let parts = text.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty());
    let (name, path) = parts.ok_or_else(|| Error::Binary(text.to_owned()))?;
    Ok((name.to_lowercase(), path.into()))
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

    fn settings(binaries: &[&str]) -> Settings {
        let binaries = binaries.iter().map(|text| binary(text).unwrap()).collect();
        Settings {
            binaries,
            variant: None,
            password: None,
            output_directory: None,
            stop: Stop::listen().unwrap(),
        }
    }

    #[tokio::test]
    async fn a_servers_program_is_named_with_its_engine_or_variant() {
        let settings = settings(&["redis=/opt/redis-server", "Branch=./redis-server"]);
        let found = |settings: &Settings, engine| settings.binary(engine).map(Path::to_owned);
        assert_eq!(found(&settings, Engine::Redis), Some("/opt/redis-server".into()));
        assert_eq!(found(&settings, Engine::KeyDB), None);
        assert_eq!(found(&settings.of_variant("branch"), Engine::Redis), Some("./redis-server".into()));
        assert_eq!(found(&settings.of_variant("base"), Engine::Redis), Some("/opt/redis-server".into()));
        assert!(settings.check_names(["base", "branch"].into_iter()).is_ok());
        let unknown = settings.check_names(std::iter::empty()).unwrap_err().to_string();
        assert!(unknown.contains("branch=./redis-server"), "{unknown}");
        for wrong in ["/opt/redis-server", "Redis=", "=/x"] {
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
