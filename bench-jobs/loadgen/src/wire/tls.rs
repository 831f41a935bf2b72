//! The client side of TLS: trusted authorities and own certificate. Reads the declared files only.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TlsOptions {
    /// Certificates of the authorities to trust, PEM; the well-known ones when absent.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate chain, PEM.
    pub certificate_file: Option<PathBuf>,
    /// The client's private key, PEM.
    pub key_file: Option<PathBuf>,
    /// Name the server's certificate must have, instead of its host.
    pub server_name: Option<String>,
    /// Accept any certificate of the server.
    pub insecure: bool,
}

#[derive(Debug, Error)]
pub enum TlsError {
    #[error("cannot read {path} as PEM: {source}")]
    ReadPem { path: PathBuf, source: pem::Error },
    #[error("{0} holds no certificate in PEM form")]
    NoCertificate(PathBuf),
    #[error("cannot use the certificates: {0}")]
    UseCertificates(#[from] rustls::Error),
    #[error("{0:?} cannot be the name of a TLS server; set server.tls.serverName")]
    ServerName(String),
}

#[derive(Clone)]
pub struct TlsClient {
    pub connector: TlsConnector,
    server_name: Option<ServerName<'static>>,
}

impl TlsClient {
    /// With these options, whose files must be readable.
    pub fn new(options: &TlsOptions) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = if options.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        } else {
            builder.with_root_certificates(trusted(options.ca_file.as_deref())?)
        };
        let mut config = match (&options.certificate_file, &options.key_file) {
            (Some(certificate), Some(key)) => {
                let chain = certificates(certificate)?;
                let key = PrivateKeyDer::from_pem_file(key)
                    .map_err(|source| TlsError::ReadPem { path: key.clone(), source })?;
                builder.with_client_auth_cert(chain, key)?
            }
            _ => builder.with_no_client_auth(),
        };
        // Some servers, Dragonfly among them, offer sessions to come back to and then refuse them.
        config.resumption = Resumption::disabled();
        let server_name = options.server_name.as_deref().map(server_name).transpose()?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), server_name })
    }

    /// Encrypts a connection to `host`, whose certificate must bear its name or the declared one.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = self.server_name.clone().map_or_else(|| server_name(host), Ok);
        self.connector.connect(name.map_err(io::Error::other)?, stream).await
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| TlsError::ServerName(name.into()))
}

/// The authorities that Mozilla trusts, built in since a tool's image may have none.
fn well_known_authorities() -> RootCertStore {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    store
}

fn trusted(ca_file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let Some(path) = ca_file else { return Ok(well_known_authorities()) };
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate)?;
    }
    Ok(store)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Err(source) => Err(TlsError::ReadPem { path: path.to_owned(), source }),
        Ok(found) if found.is_empty() => Err(TlsError::NoCertificate(path.to_owned())),
        Ok(found) => Ok(found),
    }
}

/// Accepts every certificate, if the specification declares it. Signatures
/// are still checked, so that the peer at least owns the certificate it shows.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_well_known_authorities_are_built_in() {
        assert!(trusted(None).unwrap().len() > 50);
    }

    #[test]
    fn unusable_files_and_names_are_refused_by_name() {
        let empty = tempfile::NamedTempFile::new().unwrap();
        let path = Some(empty.path().to_path_buf());
        let name = empty.path().to_str().unwrap();
        for (options, reason) in [
            (TlsOptions { ca_file: path.clone(), ..TlsOptions::default() }, name),
            (
                TlsOptions { ca_file: Some("/nonexistent/ca.pem".into()), ..TlsOptions::default() },
                "cannot read /nonexistent/ca.pem",
            ),
            (
                TlsOptions {
                    certificate_file: path.clone(),
                    key_file: path,
                    insecure: true,
                    ..TlsOptions::default()
                },
                "no certificate in PEM form",
            ),
            (
                TlsOptions { server_name: Some("no name".into()), insecure: true, ..TlsOptions::default() },
                "cannot be the name of a TLS server",
            ),
        ] {
            let refusal = TlsClient::new(&options).err().unwrap().to_string();
            assert!(refusal.contains(reason), "{refusal}");
        }
    }
}
