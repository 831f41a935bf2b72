//! An authority and certificates signed by it, as the Secrets of a test would hold them.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use std::{fs, path::PathBuf};

/// OpenSSL takes a certificate with its issuer's name for a self-signed one.
fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// Directories with the files of a server's and a client's Secret.
pub struct Certificates {
    directory: tempfile::TempDir,
}

impl Certificates {
    /// Makes an authority, a server's certificate for `name` and a client's.
    pub fn new(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name = named("authority");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = parameters.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(parameters, key);
        for (role, usages) in [
            // A server connects to others too, in a cluster or as a replica.
            ("server", vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]),
            ("client", vec![ExtendedKeyUsagePurpose::ClientAuth]),
        ] {
            let place = directory.path().join(role);
            fs::create_dir(&place).unwrap();
            let key = KeyPair::generate().unwrap();
            let mut parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
            parameters.distinguished_name = named(role);
            parameters.extended_key_usages = usages;
            let certificate = parameters.signed_by(&key, &issuer).unwrap();
            fs::write(place.join("tls.crt"), certificate.pem()).unwrap();
            fs::write(place.join("tls.key"), key.serialize_pem()).unwrap();
            fs::write(place.join("ca.crt"), &authority).unwrap();
        }
        Self { directory }
    }

    /// The directory of the server's or the client's Secret.
    pub fn of(&self, role: &str) -> PathBuf {
        self.directory.path().join(role)
    }

    /// The flags the operator gives to a redis-server, with these files.
    pub fn flags(&self, port: u16, demanded: &str) -> Vec<String> {
        let file = |name: &str| self.of("server").join(name).display().to_string();
        let (certificate, key, authority) = (file("tls.crt"), file("tls.key"), file("ca.crt"));
        let port = port.to_string();
        [
            "--port",
            "0",
            "--tls-port",
            &port,
            "--tls-auth-clients",
            demanded,
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &authority,
        ]
        .map(str::to_owned)
        .to_vec()
    }
}
