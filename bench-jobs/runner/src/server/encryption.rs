//! TLS for the runner's own connections, by rustls with the ring provider, so
//! that it links statically. Reads certificate files; what they hold is never
//! shown.

use crate::server::tls_files::{CertificateFiles, TlsFiles};
use dragstrip_loadgen::wire::tls::{AnyCertificate, well_known_authorities};
use std::{fmt, io, path::PathBuf, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        client::Resumption,
        crypto::ring,
        pki_types::{
            CertificateDer, PrivateKeyDer, ServerName,
            pem::{Error as PemError, PemObject as _},
        },
    },
};

#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    #[error("{path}: {source}. Check the Secret that tls names: ca.crt, tls.crt and tls.key in PEM")]
    File { path: PathBuf, source: PemError },
    #[error("{0}: it holds no certificate. Check the Secret that tls names")]
    Empty(PathBuf),
    #[error("cannot use the certificates: {0}")]
    Unusable(#[source] tokio_rustls::rustls::Error),
    #[error("tls.serverName {0:?} is neither a domain name nor an IP address")]
    Name(String),
}

#[derive(Clone)]
pub struct Encryption {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryption").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Encryption {
    pub fn load(files: &TlsFiles) -> Result<Self, EncryptionError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(EncryptionError::Unusable)?;
        let builder = if files.insecure_skip_verify {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate::new(provider)))
        } else {
            builder.with_root_certificates(roots(files.authority.as_ref())?)
        };
        let mut config = match &files.client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let (chain, key) = own(client)?;
                builder.with_client_auth_cert(chain, key).map_err(EncryptionError::Unusable)?
            }
        };
        // Some servers (Dragonfly, with client certificates) refuse a session that is resumed.
        config.resumption = Resumption::disabled();
        let name = ServerName::try_from(files.server_name.clone())
            .map_err(|_| EncryptionError::Name(files.server_name.clone()))?;
        Ok(Self { config: Arc::new(config), name })
    }

    pub async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsConnector::from(Arc::clone(&self.config)).connect(self.name.clone(), stream).await
    }
}

fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, EncryptionError> {
    let damaged = |source| EncryptionError::File { path: path.clone(), source };
    let found: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(damaged)?.collect::<Result<_, _>>().map_err(damaged)?;
    if found.is_empty() { Err(EncryptionError::Empty(path.clone())) } else { Ok(found) }
}

/// The authorities to trust: the declared one, or the well-known ones.
fn roots(authority: Option<&PathBuf>) -> Result<RootCertStore, EncryptionError> {
    let Some(path) = authority else { return Ok(well_known_authorities()) };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(EncryptionError::Unusable)?;
    }
    Ok(roots)
}

type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn own(files: &CertificateFiles) -> Result<Own, EncryptionError> {
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|source| EncryptionError::File { path: files.key.clone(), source })?;
    Ok((certificates(&files.certificate)?, key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::{
        TlsAcceptor,
        rustls::{HandshakeKind, ServerConfig},
    };

    fn files() -> TlsFiles {
        TlsFiles { server_name: "db".into(), authority: None, client: None, insecure_skip_verify: false }
    }

    #[test]
    fn nothing_need_be_declared() {
        assert!(Encryption::load(&files()).is_ok());
    }

    /// Takes connections and greets each with a byte, after which a client has what it
    /// needs to resume its session.
    async fn greeting_server() -> std::net::SocketAddr {
        let own = rcgen::generate_simple_self_signed(["db".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let mut stream = acceptor.accept(stream).await.unwrap();
                stream.write_all(b"!").await.unwrap();
                stream.flush().await.unwrap();
            }
        });
        address
    }

    #[tokio::test]
    async fn no_session_is_ever_resumed() {
        let address = greeting_server().await;
        let encryption = Encryption::load(&TlsFiles { insecure_skip_verify: true, ..files() }).unwrap();
        for connection in 1..=2 {
            let stream = TcpStream::connect(address).await.unwrap();
            let mut stream = encryption.connect(stream).await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), b'!');
            let kind = stream.get_ref().1.handshake_kind();
            assert_eq!(kind, Some(HandshakeKind::Full), "connection {connection}");
        }
    }

    #[test]
    fn what_is_no_certificate_is_refused_with_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.crt");
        let mut files = files();
        files.authority = Some(path.clone());
        assert!(Encryption::load(&files).unwrap_err().to_string().contains("ca.crt"));
        std::fs::write(&path, "no certificate").unwrap();
        let message = Encryption::load(&files).unwrap_err().to_string();
        assert!(message.contains("holds no certificate"), "{message}");
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        let files = TlsFiles { server_name: "not a name".into(), ..files() };
        let message = Encryption::load(&files).unwrap_err().to_string();
        assert!(message.contains("tls.serverName \"not a name\""), "{message}");
    }
}
