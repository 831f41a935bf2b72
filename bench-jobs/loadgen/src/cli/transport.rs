//! Options that say how connections are made and secured.

use std::path::PathBuf;

use clap::Args;

use super::ArgumentError;
use crate::wire::tls::{TlsClient, TlsOptions};

/// How connections are made and secured.
#[derive(Debug, Args)]
pub struct TransportArguments {
    /// Unix socket of the server, instead of --host and --port.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port", "tls", "cluster"])]
    pub unix_socket: Option<PathBuf>,
    /// Secure connections with TLS.
    #[arg(long)]
    pub tls: bool,
    /// Certificates of the authorities to trust, in PEM form [default: the well-known ones].
    #[arg(long, value_name = "FILE", requires = "tls", conflicts_with = "tls_insecure")]
    pub tls_ca_file: Option<PathBuf>,
    /// The client's certificate chain, in PEM form.
    #[arg(long, value_name = "FILE", requires_all = ["tls", "tls_key_file"])]
    pub tls_cert_file: Option<PathBuf>,
    /// The client's private key, in PEM form.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_key_file: Option<PathBuf>,
    /// Name that the server's certificate must have [default: the host].
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub tls_server_name: Option<String>,
    /// Accept any certificate of the server.
    #[arg(long, requires = "tls")]
    pub tls_insecure: bool,
}

impl TransportArguments {
    pub(super) fn tls_options(&self) -> Result<Option<TlsOptions>, ArgumentError> {
        if !self.tls {
            return Ok(None);
        }
        let options = TlsOptions {
            ca_file: self.tls_ca_file.clone(),
            certificate_file: self.tls_cert_file.clone(),
            key_file: self.tls_key_file.clone(),
            server_name: self.tls_server_name.clone(),
            insecure: self.tls_insecure,
        };
        // Unusable files are found out before anything is connected.
        TlsClient::new(&options)?;
        Ok(Some(options))
    }
}
