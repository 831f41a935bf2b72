//! Servers beside the cluster that are told of results, where the operator was started
//! so: [remote write](remote_write) of each repetition's timeline, and
//! [annotations] in Grafana. What is still to be told stands on the objects themselves,
//! so that a restarted operator goes on with it; a run never waits for a sink.

pub mod annotations;
mod endpoint;
#[cfg(test)]
mod fixtures;
mod grafana;
pub mod remote_write;
mod timeline;
mod write_request;

pub use endpoint::Header;

use endpoint::Endpoint;
use grafana::Grafana;
use remote_write::RemoteWrite;
use std::path::PathBuf;

/// A sink that cannot be used as it was declared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Remote write.
    #[error("remote write cannot be used as it was set up")]
    RemoteWrite(#[source] endpoint::Error),
    /// Grafana.
    #[error("Grafana cannot be used as it was set up")]
    Grafana(#[source] endpoint::Error),
}

/// Which sinks there are. Credentials are directories, such as mounts of Secrets, with
/// `token`, or `username` and `password`, and where a private authority signed the
/// server's certificate `ca.crt`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Settings {
    /// URL that takes Prometheus remote write 1.0, such as http://prometheus:9090/api/v1/write.
    #[arg(long, env = "DRAGSTRIP_REMOTE_WRITE_URL", value_name = "URL")]
    pub remote_write_url: Option<String>,
    /// Directory with token, or username and password, and maybe ca.crt, for it.
    #[arg(long, env = "DRAGSTRIP_REMOTE_WRITE_CREDENTIALS", value_name = "DIRECTORY")]
    pub remote_write_credentials: Option<PathBuf>,
    /// Header of each request to it, such as X-Scope-OrgID=races. May be repeated.
    #[arg(long = "remote-write-header", value_name = "NAME=VALUE")]
    pub remote_write_headers: Vec<Header>,
    /// URL of the Grafana in which runs are annotated, such as http://grafana:3000.
    #[arg(long, env = "DRAGSTRIP_GRAFANA_URL", value_name = "URL")]
    pub grafana_url: Option<String>,
    /// Directory with token, or username and password, and maybe ca.crt, for it.
    #[arg(long, env = "DRAGSTRIP_GRAFANA_CREDENTIALS", value_name = "DIRECTORY")]
    pub grafana_credentials: Option<PathBuf>,
}

/// The sinks there are: none by default.
#[derive(Default)]
pub struct Sinks {
    /// Takes timelines.
    pub remote_write: Option<RemoteWrite>,
    /// Takes annotations.
    pub grafana: Option<Grafana>,
}

impl Sinks {
    /// The sinks of `settings`, with their credentials looked at.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let Settings {
            remote_write_url,
            remote_write_credentials,
            remote_write_headers,
            grafana_url,
            grafana_credentials,
        } = settings;
        let remote_write = remote_write_url
            .map(|url| Endpoint::new(&url, remote_write_credentials, remote_write_headers))
            .transpose()
            .map_err(Error::RemoteWrite)?;
        let grafana = grafana_url
            .map(|url| Endpoint::new(&url, grafana_credentials, Vec::new()))
            .transpose()
            .map_err(Error::Grafana)?;
        Ok(Self { remote_write: remote_write.map(RemoteWrite::new), grafana: grafana.map(Grafana::new) })
    }
}
