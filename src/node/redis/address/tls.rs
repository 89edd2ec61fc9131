//! TLS of a connection: that it is compiled in, has a provider, and certificates that can be used.

use std::fmt;

use redis::{Client, ConnectionInfo};

use super::error::AddressError;

/// Roots and a client identity other than the system's.
#[derive(Clone, Default)]
#[cfg_attr(not(feature = "tls-rustls"), allow(dead_code, reason = "nothing can set them"))]
pub(crate) struct TlsSettings {
    pub(crate) ca: Option<Vec<u8>>,
    /// The certificate and its key.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl TlsSettings {
    pub(super) const fn is_set(&self) -> bool {
        self.ca.is_some() || self.identity.is_some()
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings").finish_non_exhaustive()
    }
}

#[cfg(not(feature = "tls-rustls"))]
pub(super) fn require_tls(url: &str) -> Result<(), AddressError> {
    Err(AddressError::tls_feature_missing(url))
}

#[cfg(not(feature = "tls-rustls"))]
pub(super) fn build_tls(
    url: &str,
    _: ConnectionInfo,
    _: &TlsSettings,
) -> Result<Client, AddressError> {
    Err(AddressError::tls_feature_missing(url))
}

/// Without a provider the TLS library panics at the first connection (redis-rs issue 1812).
#[cfg(feature = "tls-rustls")]
pub(super) fn require_tls(url: &str) -> Result<(), AddressError> {
    #[cfg(feature = "tls-rustls-ring")]
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread has installed one meanwhile.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(AddressError::crypto_provider_missing(url));
    }
    Ok(())
}

#[cfg(feature = "tls-rustls")]
pub(super) fn build_tls(
    url: &str,
    info: ConnectionInfo,
    tls: &TlsSettings,
) -> Result<Client, AddressError> {
    let identity = tls.identity.as_ref().map(|(certificate, _)| certificate);
    for pem in tls.ca.iter().chain(identity) {
        require_certificate(url, pem)?;
    }
    let certificates = redis::TlsCertificates {
        client_tls: tls
            .identity
            .clone()
            .map(|(client_cert, client_key)| redis::ClientTlsConfig { client_cert, client_key }),
        root_cert: tls.ca.clone(),
    };
    Client::build_with_tls(info, certificates)
        .map_err(|error| AddressError::certificates(url, error))
}

/// The client library takes text without any certificate for an empty list, and fails at connect.
#[cfg(feature = "tls-rustls")]
fn require_certificate(url: &str, pem: &[u8]) -> Result<(), AddressError> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};

    let reason = match CertificateDer::pem_slice_iter(pem).next() {
        Some(Ok(_)) => return Ok(()),
        Some(Err(error)) => error.to_string(),
        None => "it contains no certificate".to_owned(),
    };
    Err(AddressError::certificates(url, reason))
}
