//! Where a server is: a URL, parsed once, with everything that can be known to be wrong said at once.
//!
//! It must never print a password.

use std::{fmt, sync::Arc};

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};
use thiserror::Error;

/// Why a URL cannot be the address of a node. Nothing has been connected.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum AddressError {
    /// It is not a URL that names a server. Write `redis://[user:password@]host[:port][/database]`, with
    /// special characters of the password percent-encoded, or `unix:///path`.
    #[error(
        "write redis://[user:password@]host[:port][/database] or unix:///path, reason=`{reason}`"
    )]
    Invalid {
        /// What is wrong with it.
        reason: Arc<str>,
    },
    /// It asks for TLS and the crate was built without. Enable the feature `tls-rustls-ring`
    /// or `tls-rustls` of quorlock.
    #[error("TLS is not compiled in, enable the feature `tls-rustls-ring` or `tls-rustls`")]
    TlsFeatureMissing,
    /// It asks for TLS by rustls and the process has no crypto provider. Install one, for instance with
    /// `rustls::crypto::ring::default_provider().install_default()`, or enable the feature
    /// `tls-rustls-ring`, which does that.
    #[error(
        "rustls has no crypto provider, install one at start or enable the feature `tls-rustls-ring`"
    )]
    CryptoProviderMissing,
    /// The certificates or the key given for TLS cannot be used. Pass PEM.
    #[error("the TLS certificates cannot be used, pass PEM, reason=`{reason}`")]
    Certificates {
        /// What the TLS library said.
        reason: Arc<str>,
    },
}

impl AddressError {
    fn invalid(reason: impl fmt::Display) -> Self {
        Self::Invalid { reason: Arc::from(reason.to_string()) }
    }
}

/// Roots and a client identity other than the system's.
#[derive(Clone, Default)]
#[cfg_attr(not(feature = "tls-rustls"), allow(dead_code, reason = "nothing can set them"))]
pub(crate) struct TlsSettings {
    pub(crate) ca: Option<Vec<u8>>,
    /// The certificate and its key.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings").finish_non_exhaustive()
    }
}

/// The address of one server, ready to connect to.
pub(crate) struct Address {
    client: Client,
    display: Arc<str>,
}

impl Address {
    pub(crate) fn parse(url: &str, tls: &TlsSettings) -> Result<Self, AddressError> {
        // A parsed URL has its scheme in small letters and without the blanks around it.
        let parsed = redis::parse_redis_url(url).ok_or_else(|| {
            AddressError::invalid("it is no URL with one of these schemes")
                .or_if(!url.contains(':'), "the scheme is missing")
        })?;
        if matches!(parsed.scheme(), "rediss" | "valkeys") {
            require_tls()?;
        }
        let info = parsed.into_connection_info().map_err(|error| {
            AddressError::invalid(error.detail().unwrap_or_else(|| error.category()))
        })?;
        let encrypted = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        let display = Arc::from(display(info.addr()));
        let info = tuned(info);
        let client = if encrypted { build_tls(info, tls)? } else { open(info)? };
        Ok(Self { client, display })
    }

    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    /// Whether it is a unix socket, and so on this machine.
    pub(super) fn is_unix(&self) -> bool {
        matches!(self.client.get_connection_info().addr(), ConnectionAddr::Unix(_))
    }

    /// The number of the database.
    pub(super) fn database(&self) -> i64 {
        self.client.get_connection_info().redis_settings().db()
    }

    /// Host and port, or path: no credentials.
    pub(crate) const fn display(&self) -> &Arc<str> {
        &self.display
    }
}

impl AddressError {
    fn or_if(self, condition: bool, reason: &str) -> Self {
        if condition { Self::invalid(reason) } else { self }
    }
}

fn open(info: ConnectionInfo) -> Result<Client, AddressError> {
    Client::open(info).map_err(AddressError::invalid)
}

fn display(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
        }
        ConnectionAddr::Unix(path) => format!("unix:{}", path.display()),
        other => other.to_string(),
    }
}

/// RESP3 tells of a closed connection without being asked; nodelay, because the default of redis 1.x is
/// off and doubles the latency of small commands on a real network (redis-rs issue 2195).
fn tuned(info: ConnectionInfo) -> ConnectionInfo {
    use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
    use std::time::Duration;

    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(3));
    let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
    let tcp = tcp.set_user_timeout(Duration::from_secs(10));
    let settings = info
        .redis_settings()
        .clone()
        .set_protocol(ProtocolVersion::RESP3)
        .set_lib_name("quorlock", env!("CARGO_PKG_VERSION"));
    info.set_tcp_settings(tcp).set_redis_settings(settings)
}

#[cfg(not(feature = "tls-rustls"))]
const fn require_tls() -> Result<(), AddressError> {
    Err(AddressError::TlsFeatureMissing)
}

#[cfg(not(feature = "tls-rustls"))]
fn build_tls(_: ConnectionInfo, _: &TlsSettings) -> Result<Client, AddressError> {
    Err(AddressError::TlsFeatureMissing)
}

/// Without a provider the TLS library panics at the first connection (redis-rs issue 1812).
#[cfg(feature = "tls-rustls")]
fn require_tls() -> Result<(), AddressError> {
    #[cfg(feature = "tls-rustls-ring")]
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error says that somebody else has installed one in the meantime.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(AddressError::CryptoProviderMissing);
    }
    Ok(())
}

#[cfg(feature = "tls-rustls")]
fn build_tls(info: ConnectionInfo, tls: &TlsSettings) -> Result<Client, AddressError> {
    if tls.ca.is_none() && tls.identity.is_none() {
        return open(info);
    }
    let identity = tls.identity.as_ref().map(|(certificate, _)| certificate);
    for pem in tls.ca.iter().chain(identity) {
        require_certificate(pem)?;
    }
    let certificates = redis::TlsCertificates {
        client_tls: tls
            .identity
            .clone()
            .map(|(client_cert, client_key)| redis::ClientTlsConfig { client_cert, client_key }),
        root_cert: tls.ca.clone(),
    };
    Client::build_with_tls(info, certificates)
        .map_err(|error| AddressError::Certificates { reason: Arc::from(error.to_string()) })
}

/// The client library takes text without any certificate for an empty list, and fails at connect.
#[cfg(feature = "tls-rustls")]
fn require_certificate(pem: &[u8]) -> Result<(), AddressError> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};

    let reason = match CertificateDer::pem_slice_iter(pem).next() {
        Some(Ok(_)) => return Ok(()),
        Some(Err(error)) => error.to_string(),
        None => "there is no certificate in it".to_owned(),
    };
    Err(AddressError::Certificates { reason: Arc::from(reason) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way to write that the connection is to be encrypted.
    const ENCRYPTED: [&str; 7] = [
        "rediss://10.0.0.1",
        "valkeys://10.0.0.1",
        "REDISS://10.0.0.1",
        "Valkeys://10.0.0.1",
        " rediss://10.0.0.1",
        "\trediss://10.0.0.1\n",
        "re\ndiss://10.0.0.1",
    ];

    #[cfg(not(feature = "tls-rustls"))]
    #[test]
    fn a_url_that_asks_for_tls_is_told_that_it_is_not_compiled_in() {
        for url in ENCRYPTED {
            let error = Address::parse(url, &TlsSettings::default()).err();
            assert_eq!(error, Some(AddressError::TlsFeatureMissing), "{url:?}");
        }
    }

    /// An authority that is none is refused, which shows that it is not ignored.
    #[cfg(feature = "tls-rustls-ring")]
    #[test]
    fn a_url_that_asks_for_tls_is_given_the_authority_however_it_is_written() {
        let tls = TlsSettings { ca: Some(b"no PEM".to_vec()), identity: None };
        for url in ENCRYPTED {
            let error = Address::parse(url, &tls).err();
            assert!(matches!(error, Some(AddressError::Certificates { .. })), "{url:?}: {error:?}");
        }
        assert!(rustls::crypto::CryptoProvider::get_default().is_some());
        for url in ["redis://10.0.0.1", "VALKEY://10.0.0.1"] {
            assert!(Address::parse(url, &tls).is_ok(), "{url}: it is not encrypted");
        }
    }
}
