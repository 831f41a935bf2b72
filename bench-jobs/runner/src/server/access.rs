//! How to get into a target's servers: user, password, encryption. Reads the
//! mounted certificates and nothing else.

use crate::server::{
    encryption::{Encryption, EncryptionError},
    tls_files::TlsFiles,
};
use dragstrip_results::protocol::JobTarget;

#[derive(Clone, Default)]
pub struct Access {
    /// ACL user; the default user when absent.
    pub username: Option<String>,
    pub password: Option<String>,
    /// Encryption; plain connections when absent.
    pub encryption: Option<Encryption>,
}

impl Access {
    pub fn to(
        target: &JobTarget,
        password: Option<&str>,
        tls: Option<&TlsFiles>,
    ) -> Result<Self, EncryptionError> {
        Ok(Self {
            username: target.username.clone(),
            password: password.map(str::to_owned),
            encryption: tls.map(Encryption::load).transpose()?,
        })
    }
}
