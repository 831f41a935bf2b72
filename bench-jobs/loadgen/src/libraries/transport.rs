//! The way to the server, as far as a library can be told about it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;

use crate::configuration::Configuration;
use crate::libraries::error::LibraryError;

/// How the server is reached, besides its host, port and credentials.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Transport {
    /// Unix socket instead of host and port.
    pub unix_socket: Option<PathBuf>,
    /// Encryption.
    pub tls: Option<TlsOptions>,
    /// The server is a node of a Redis Cluster.
    pub cluster: bool,
    /// Read from replicas.
    pub replica_reads: bool,
}

impl Transport {
    /// The server in words, for messages.
    pub fn address(&self, configuration: &Configuration) -> String {
        self.unix_socket.as_ref().map_or_else(|| configuration.target(), |path| path.display().to_string())
    }
}

/// Encryption.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TlsOptions {
    /// Certificates of the authorities that are trusted, as PEM [default: those of the system].
    pub ca_file: Option<PathBuf>,
    /// Client certificate, as PEM.
    pub certificate_file: Option<PathBuf>,
    /// Key of the client certificate, as PEM.
    pub key_file: Option<PathBuf>,
    /// Name the server's certificate must have, when it is not the host's.
    pub server_name: Option<String>,
    /// Accept any certificate.
    pub insecure: bool,
}

/// Options of the way to the server that the raw client has not.
#[allow(clippy::struct_excessive_bools)] // switches of a command line
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Client libraries: way to the server")]
pub struct TransportArguments {
    /// Unix socket of the server, instead of --host and --port.
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,
    /// Encrypt the connections.
    #[arg(long)]
    tls: bool,
    /// Trusted authorities, PEM [default: those of the system].
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_ca_file: Option<PathBuf>,
    /// Client certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Key of the client certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,
    /// Name the server's certificate must have [default: --host].
    #[arg(long, value_name = "NAME", requires = "tls")]
    tls_server_name: Option<String>,
    /// Accept any certificate.
    #[arg(long, requires = "tls")]
    tls_insecure: bool,
    /// The server is a node of a Redis Cluster; the library finds the others.
    #[arg(long)]
    cluster: bool,
    /// Read from replicas; needs --cluster.
    #[arg(long, requires = "cluster")]
    replica_reads: bool,
    /// Load of the same kind before the measured part, such as 5s.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = any_duration)]
    warmup: Duration,
}

fn any_duration(text: &str) -> Result<Duration, String> {
    let parsed: SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    Duration::try_from(parsed).map_err(|_| "must not be negative".to_owned())
}

impl TransportArguments {
    /// Whether any of these options was given.
    pub fn is_given(&self) -> bool {
        self.transport() != Transport::default() || !self.warmup.is_zero()
    }

    /// Load before the measured part.
    pub fn warmup(&self) -> Duration {
        self.warmup
    }

    /// The way these options describe.
    pub fn transport(&self) -> Transport {
        let tls = TlsOptions {
            ca_file: self.tls_ca_file.clone(),
            certificate_file: self.tls_cert_file.clone(),
            key_file: self.tls_key_file.clone(),
            server_name: self.tls_server_name.clone(),
            insecure: self.tls_insecure,
        };
        Transport {
            unix_socket: self.unix_socket.clone(),
            tls: self.tls.then_some(tls),
            cluster: self.cluster,
            replica_reads: self.replica_reads,
        }
    }
}

impl TlsOptions {
    /// The bytes of one of its files.
    pub(crate) fn read(path: &Path) -> Result<Vec<u8>, LibraryError> {
        std::fs::read(path).map_err(|source| LibraryError::ReadTlsFile { path: path.to_path_buf(), source })
    }
}
