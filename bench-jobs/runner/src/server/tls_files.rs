//! Where the certificates for a target lie, and what its certificate must say. Pure.

use dragstrip_results::protocol::{AUTHORITY_DIRECTORY, CLIENT_CERTIFICATE_DIRECTORY, JobTarget};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct CertificateDirectories {
    /// Holds ca.crt, where the target's authority is known.
    pub authority: PathBuf,
    /// Holds the client's tls.crt and tls.key, where it has any.
    pub client: PathBuf,
}

impl Default for CertificateDirectories {
    fn default() -> Self {
        Self { authority: AUTHORITY_DIRECTORY.into(), client: CLIENT_CERTIFICATE_DIRECTORY.into() }
    }
}

/// The client's certificate and its key, as files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What a tool needs to encrypt its connections, as files and names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Name the server's certificate must be valid for.
    pub server_name: String,
    /// Authority that must have signed it; the well-known ones when absent.
    pub authority: Option<PathBuf>,
    pub client: Option<CertificateFiles>,
    pub insecure_skip_verify: bool,
}

impl TlsFiles {
    /// What the job says of encryption; `None` for plain connections.
    pub fn of(target: &JobTarget, directories: &CertificateDirectories) -> Option<Self> {
        let tls = target.tls.as_ref()?;
        let in_directory = |directory: &Path, name: &str| directory.join(name);
        Some(Self {
            server_name: tls.server_name.clone().unwrap_or_else(|| target.host.clone()),
            authority: tls.authority.then(|| in_directory(&directories.authority, "ca.crt")),
            client: tls.client_certificate.then(|| CertificateFiles {
                certificate: in_directory(&directories.client, "tls.crt"),
                key: in_directory(&directories.client, "tls.key"),
            }),
            insecure_skip_verify: tls.insecure_skip_verify,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::target;
    use dragstrip_results::protocol::JobTls;

    #[test]
    fn plain_targets_need_no_files() {
        assert_eq!(TlsFiles::of(&target(), &CertificateDirectories::default()), None);
    }

    #[test]
    fn files_are_named_only_where_they_are_mounted() {
        let mut target = target();
        target.tls = Some(JobTls { authority: true, client_certificate: true, ..JobTls::default() });
        let files = TlsFiles::of(&target, &CertificateDirectories::default()).unwrap();
        assert_eq!(files.server_name, "db", "the host is the name unless another is given");
        assert_eq!(files.authority, Some("/dragstrip/tls-authority/ca.crt".into()));
        assert_eq!(files.client.unwrap().key, PathBuf::from("/dragstrip/tls-client/tls.key"));
        target.tls = Some(JobTls { server_name: Some("other".into()), ..JobTls::default() });
        let files = TlsFiles::of(&target, &CertificateDirectories::default()).unwrap();
        assert_eq!((files.server_name.as_str(), files.authority, files.client), ("other", None, None));
    }
}
