//! TLS: one cryptography provider for all libraries, and a ready rustls
//! configuration for those that take one.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::libraries::error::LibraryError;
use crate::libraries::transport::TlsOptions;

/// Makes *ring* the provider of this process, unless one is chosen already.
pub(crate) fn choose_provider() {
    // An error only says that there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// What the options say, as rustls takes it. Certificates are always verified.
pub(crate) fn client_config(options: &TlsOptions) -> Result<ClientConfig, LibraryError> {
    choose_provider();
    let builder = ClientConfig::builder().with_root_certificates(trusted(options)?);
    match (&options.certificate_file, &options.key_file) {
        (Some(certificate), Some(key)) => {
            let chain = certificates(&TlsOptions::read(certificate)?)?;
            let key = PrivateKeyDer::from_pem_slice(&TlsOptions::read(key)?).map_err(unusable)?;
            builder.with_client_auth_cert(chain, key).map_err(unusable)
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

fn trusted(options: &TlsOptions) -> Result<RootCertStore, LibraryError> {
    let found = match &options.ca_file {
        Some(path) => certificates(&TlsOptions::read(path)?)?,
        // Some of the system's certificates may be unreadable; none at all shows when connecting.
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found);
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, LibraryError> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(unusable)
}

fn unusable(problem: impl std::fmt::Display) -> LibraryError {
    LibraryError::SetUpTls(problem.to_string())
}
