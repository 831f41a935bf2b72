//! How to get into a target's servers: user, password, encryption. Reads mounted certificates only.

use dragstrip_loadgen::wire::tls::{TlsClient, TlsError, TlsOptions};
use dragstrip_results::protocol::JobTarget;
use std::path::Path;

#[derive(Clone, Default)]
pub struct Access {
    pub username: Option<String>,
    pub password: Option<String>,
    /// Encryption; plain connections when absent.
    pub tls: Option<TlsClient>,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "cannot encrypt connections: {0}. Check the Secret that tls names: ca.crt, tls.crt and tls.key in PEM"
)]
pub struct CertificateError(#[from] TlsError);

impl Access {
    pub fn new(
        username: Option<String>,
        password: Option<String>,
        tls: Option<&TlsOptions>,
    ) -> Result<Self, CertificateError> {
        Ok(Self { username, password, tls: tls.map(TlsClient::new).transpose()? })
    }
}

/// What the job says of encryption, with the files in the `authority` and `client`
/// directories; `None` for plain connections. Pure.
pub fn tls_options(target: &JobTarget, authority: &Path, client: &Path) -> Option<TlsOptions> {
    let tls = target.tls.as_ref()?;
    Some(TlsOptions {
        ca_file: tls.authority.then(|| authority.join("ca.crt")),
        certificate_file: tls.client_certificate.then(|| client.join("tls.crt")),
        key_file: tls.client_certificate.then(|| client.join("tls.key")),
        server_name: Some(tls.server_name.clone().unwrap_or_else(|| target.host.clone())),
        insecure: tls.insecure_skip_verify,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::target;
    use dragstrip_results::protocol::{AUTHORITY_DIRECTORY, CLIENT_CERTIFICATE_DIRECTORY, JobTls};

    fn options(target: &JobTarget) -> Option<TlsOptions> {
        tls_options(target, AUTHORITY_DIRECTORY.as_ref(), CLIENT_CERTIFICATE_DIRECTORY.as_ref())
    }

    #[test]
    fn plain_targets_need_no_files() {
        assert_eq!(options(&target()), None);
    }

    #[test]
    fn files_are_named_only_where_they_are_mounted() {
        let mut target = target();
        target.tls = Some(JobTls { authority: true, client_certificate: true, ..JobTls::default() });
        let found = options(&target).unwrap();
        assert_eq!(found.server_name.as_deref(), Some("db"), "the host is the name unless another is given");
        assert_eq!(found.ca_file, Some("/dragstrip/tls-authority/ca.crt".into()));
        assert_eq!(found.key_file, Some("/dragstrip/tls-client/tls.key".into()));
        target.tls = Some(JobTls { server_name: Some("other".into()), ..JobTls::default() });
        let found = options(&target).unwrap();
        assert_eq!(
            (found.server_name.as_deref(), found.ca_file, found.key_file),
            (Some("other"), None, None)
        );
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.crt");
        let options = TlsOptions { ca_file: Some(path.clone()), ..TlsOptions::default() };
        let refused = || Access::new(None, None, Some(&options)).err().unwrap().to_string();
        assert!(refused().contains("ca.crt"), "{}", refused());
        std::fs::write(&path, "no certificate").unwrap();
        assert!(refused().contains("holds no certificate"), "{}", refused());
    }
}
