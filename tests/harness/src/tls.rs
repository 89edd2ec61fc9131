//! A certificate authority that lives as long as a test, for servers that speak TLS.
//!
//! It signs one certificate for a server on this machine and one for a client, for mutual TLS.
//! The keys are for tests only: they stand in a temporary directory and nothing must ever trust
//! this authority outside the test that made it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use tempfile::TempDir;

/// A certificate authority with a server certificate for localhost, 127.0.0.1 and ::1, and a client
/// certificate. Clones share the files, which are removed with the last of them.
#[derive(Clone, Debug)]
pub struct TestCa {
    inner: Arc<Files>,
}

#[derive(Debug)]
struct Files {
    dir: TempDir,
    ca: String,
    client_cert: String,
    client_key: String,
}

impl TestCa {
    /// Makes the keys and certificates.
    pub fn new() -> Self {
        Self::generate().unwrap_or_else(|error| panic!("test certificates: {error}"))
    }

    fn generate() -> Result<Self, Box<dyn std::error::Error>> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "quorlock test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let sign = |name: &str, names: Vec<String>, purpose: ExtendedKeyUsagePurpose| {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new(names)?;
            params.distinguished_name.push(DnType::CommonName, name);
            params.use_authority_key_identifier_extension = true;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![purpose];
            Ok::<_, rcgen::Error>((params.signed_by(&key, &ca)?.pem(), key.serialize_pem()))
        };
        let here = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        let server = sign("quorlock test server", here, ExtendedKeyUsagePurpose::ServerAuth)?;
        let client = sign("quorlock test client", Vec::new(), ExtendedKeyUsagePurpose::ClientAuth)?;

        let dir = tempfile::Builder::new().prefix("qlk-ca-").tempdir()?;
        let files = [
            ("ca.pem", &ca.pem()),
            ("server.pem", &server.0),
            ("server.key", &server.1),
            ("client.pem", &client.0),
            ("client.key", &client.1),
        ];
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text)?;
        }
        let inner = Files { dir, ca: ca.pem(), client_cert: client.0, client_key: client.1 };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The certificate of the authority, for the roots of a client.
    pub fn ca_pem(&self) -> &str {
        &self.inner.ca
    }

    /// The certificate of the client, for mutual TLS.
    pub fn client_cert_pem(&self) -> &str {
        &self.inner.client_cert
    }

    /// The key of the client, for mutual TLS.
    pub fn client_key_pem(&self) -> &str {
        &self.inner.client_key
    }

    /// The directory with all files.
    pub fn dir(&self) -> &Path {
        self.inner.dir.path()
    }

    /// The file with [`TestCa::ca_pem`].
    pub fn ca_path(&self) -> PathBuf {
        self.dir().join("ca.pem")
    }

    /// The certificate of the server.
    pub fn server_cert_path(&self) -> PathBuf {
        self.dir().join("server.pem")
    }

    /// The key of the server.
    pub fn server_key_path(&self) -> PathBuf {
        self.dir().join("server.key")
    }

    /// The file with [`TestCa::client_cert_pem`].
    pub fn client_cert_path(&self) -> PathBuf {
        self.dir().join("client.pem")
    }

    /// The file with [`TestCa::client_key_pem`].
    pub fn client_key_path(&self) -> PathBuf {
        self.dir().join("client.key")
    }
}

impl Default for TestCa {
    fn default() -> Self {
        Self::new()
    }
}
