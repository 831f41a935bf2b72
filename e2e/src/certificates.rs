//! Certificates for a test: an authority, a server's and a client's.

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair as RcgenKey};

/// A certificate and its key, in PEM.
pub struct KeyPair {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// What a server and its clients need.
pub struct Certificates {
    /// The authority's certificate, in PEM.
    pub authority: String,
    /// The server's.
    pub server: KeyPair,
    /// The clients'.
    pub client: KeyPair,
}

impl Certificates {
    /// Certificates of a server with these names, and of a client.
    pub fn of(names: &[&str]) -> Result<Self> {
        let key = RcgenKey::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let authority = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self { authority, server: signed(names, &issuer)?, client: signed(&["client"], &issuer)? })
    }
}

fn signed(names: &[&str], issuer: &Issuer<'_, RcgenKey>) -> Result<KeyPair> {
    let key = RcgenKey::generate()?;
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "test");
    Ok(KeyPair { certificate: params.signed_by(&key, issuer)?.pem(), key: key.serialize_pem() })
}
