//! What is wrong with a URL and how to fix it, without what may be secret.

use std::{fmt, sync::Arc};

use thiserror::Error;

use super::quote::quoted;

/// Why a URL cannot be the address of a node. Nothing has been connected.
///
/// The text alone says which part is wrong and what to write instead. It quotes the URL without what may be secret:
/// `***` stands for everything up to the last `@`, the user name included, for what follows `?` and `#`, and for a part
/// that is no host, port or path and so may belong to a password.
///
/// ```
/// # #[cfg(feature = "redis")] {
/// use quorlock::Redlock;
///
/// let error = Redlock::builder().node("127.0.0.1:7401").build().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the address of node 0 cannot be used: in `127.0.0.1:7401` the scheme is missing; write \
///      `redis://127.0.0.1:7401`"
/// );
/// # }
/// ```
#[derive(Clone, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum AddressError {
    /// A part of the URL is wrong. The form is `redis://[user:password@]host[:port][/database]`, with special
    /// characters of user name and password percent-encoded, `unix:///path`, or `redis+sentinel://host,host,host/master`.
    #[error("{}", placed(.url, .reason))]
    Invalid {
        /// Which part.
        part: UrlPart,
        /// What is wrong with it, and what to write.
        reason: Arc<str>,
        /// The URL, without what may be secret.
        url: Arc<str>,
    },
    /// The URL asks for TLS and the crate was built without. Enable the feature `tls-rustls-ring` or `tls-rustls` of
    /// quorlock.
    #[error(
        "`{url}` asks for TLS, which is not compiled in; enable the feature `tls-rustls-ring` of quorlock (or \
         `tls-rustls`, and install a crypto provider), or write `redis://`"
    )]
    TlsFeatureMissing {
        /// The URL, without what may be secret.
        url: Arc<str>,
    },
    /// The URL asks for TLS by rustls and the process has no crypto provider. Install one, for instance with
    /// `rustls::crypto::ring::default_provider().install_default()`, or enable the feature `tls-rustls-ring`, which
    /// does that.
    #[error(
        "`{url}` asks for TLS, and rustls has no crypto provider; install one at start, or enable the feature \
         `tls-rustls-ring` of quorlock"
    )]
    CryptoProviderMissing {
        /// The URL, without what may be secret.
        url: Arc<str>,
    },
    /// The certificates or the key given for TLS cannot be used. Pass PEM.
    #[error("the TLS certificates for `{url}` cannot be used; pass PEM: {reason}")]
    Certificates {
        /// What the TLS library said.
        reason: Arc<str>,
        /// The URL, without what may be secret.
        url: Arc<str>,
    },
}

debug_is_text! { enum AddressError {
    Invalid { part, reason, url },
    TlsFeatureMissing { url },
    CryptoProviderMissing { url },
    Certificates { reason, url },
} }

impl AddressError {
    pub(super) fn invalid(url: &str, part: UrlPart, reason: impl fmt::Display) -> Self {
        let (reason, url) = (Arc::from(reason.to_string()), shown(url));
        Self::Invalid { part, reason, url }
    }

    #[cfg(not(feature = "tls-rustls"))]
    pub(super) fn tls_feature_missing(url: &str) -> Self {
        Self::TlsFeatureMissing { url: shown(url) }
    }

    #[cfg(feature = "tls-rustls")]
    pub(super) fn crypto_provider_missing(url: &str) -> Self {
        Self::CryptoProviderMissing { url: shown(url) }
    }

    #[cfg(feature = "tls-rustls")]
    pub(super) fn certificates(url: &str, reason: impl fmt::Display) -> Self {
        Self::Certificates { reason: Arc::from(reason.to_string()), url: shown(url) }
    }
}

fn placed(url: &str, reason: &str) -> String {
    // An empty URL has nothing to quote.
    if url.is_empty() { reason.to_owned() } else { format!("in `{url}` {reason}") }
}

fn shown(url: &str) -> Arc<str> {
    Arc::from(quoted(url))
}

/// A part of a URL.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum UrlPart {
    /// All of it: it is empty, or has characters that no URL may have.
    Whole,
    /// The part before `://`.
    Scheme,
    /// User name and password.
    Credentials,
    /// The name or address of the server.
    Host,
    /// The port.
    Port,
    /// The number of the database.
    Database,
    /// The path of a Unix socket, or the name of a master behind Sentinels.
    Path,
    /// The part after `?`.
    Query,
    /// The part after `#`.
    Fragment,
}

/// An unusable URL of a list.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct WrongAddress {
    /// The place of the node in the list, counted from zero.
    pub index: usize,
    /// What is wrong with it.
    pub error: AddressError,
}

impl fmt::Display for WrongAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}: {}", self.index, self.error)
    }
}
