//! The address of a server: a URL, parsed once, with everything that can be known to be wrong reported at once.
//!
//! It must never print a password.

mod error;
mod judge;
mod quote;
mod sentinels;
mod tls;

use std::{fmt, sync::Arc};

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

pub use self::error::{AddressError, UrlPart, WrongAddress};
use self::judge::Kind;
pub(crate) use self::tls::TlsSettings;
use super::credentials::CredentialSource;
use crate::{
    node::{NodeContext, NodeError},
    protocol::Timestamp,
};

/// The address of one server, ready to connect to, or of Sentinels that name it.
pub(crate) struct Address {
    /// Behind Sentinels all but the place.
    client: Client,
    group: Option<Group>,
    display: Arc<str>,
    name: Option<Arc<str>>,
    credentials: Option<CredentialSource>,
}

/// Where a master is, and since which failover it is one. A server may be promoted again that never was a replica: it did
/// not hear of the failover in between, and shows nothing of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) host: Arc<str>,
    pub(super) port: u16,
    /// Rises with each: `config-epoch`.
    pub(super) failover: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A master by its name, and the Sentinels to ask for it.
pub(super) struct Group {
    pub(super) master: Arc<str>,
    /// Each as errors show it.
    pub(super) sentinels: Box<[(Arc<str>, Client)]>,
}

impl Address {
    pub(crate) fn parse(url: &str, tls: &TlsSettings) -> Result<Self, AddressError> {
        let url = url.trim();
        match judged(url)? {
            Kind::Sentinels { tls: encrypted } => Self::of_group(url, encrypted, tls),
            kind => Self::of_server(url, kind == (Kind::Tcp { tls: true }), tls),
        }
    }

    fn of_group(url: &str, encrypted: bool, tls: &TlsSettings) -> Result<Self, AddressError> {
        let parts = sentinels::split(url, encrypted);
        let server = |url: &str| Self::of_server(url, encrypted, tls);
        let each = parts.sentinels().map(|url| Ok((server(&url)?.display, server(&url)?.client)));
        let sentinels = each.collect::<Result<Box<[_]>, AddressError>>()?;
        let mut places: Vec<&str> = sentinels.iter().map(|(place, _)| &**place).collect();
        places.sort_unstable();
        let display = format!("{}@{}", parts.master, places.join(","));
        let master = server(&parts.master())?;
        let name = master.name.unwrap_or_else(|| Arc::from(parts.master));
        let group = Group { master: Arc::from(parts.master), sentinels };
        Ok(Self {
            display: Arc::from(display),
            name: Some(name),
            group: Some(group),
            ..server(&parts.master())?
        })
    }

    fn of_server(url: &str, requires: bool, tls: &TlsSettings) -> Result<Self, AddressError> {
        if requires {
            tls::require_tls(url)?;
        }
        // Not the library's message, which may quote the URL.
        let unusable = || {
            let reason =
                "it cannot be used; write `redis://[user:password@]host[:port][/database]`";
            AddressError::invalid(url, UrlPart::Whole, reason)
        };
        let (url, name) = judge::split_name(url);
        let parsed = redis::parse_redis_url(url).ok_or_else(unusable)?;
        let info = parsed.into_connection_info().map_err(|_| unusable())?;
        let encrypted = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        let display = Arc::from(display(info.addr()));
        let info = tuned(info);
        let client = if encrypted && tls.is_set() {
            tls::build_tls(url, info, tls)?
        } else {
            Client::open(info).map_err(|_| unusable())?
        };
        let name = name.map(Arc::from);
        Ok(Self { client, group: None, display, name, credentials: None })
    }

    /// What `parse` would say of the text alone.
    pub(crate) fn check(url: &str) -> Result<(), AddressError> {
        judged(url.trim()).map(drop)
    }

    /// The same, with credentials that are asked for at each connect.
    pub(crate) fn with_credentials(self, credentials: Option<CredentialSource>) -> Self {
        Self { credentials, ..self }
    }

    /// The client to connect with this time, at a place that Sentinels have named.
    pub(super) async fn client(
        &self,
        place: Option<&Place>,
        context: &NodeContext,
        deadline: Timestamp,
    ) -> Result<Client, NodeError> {
        let client = match place {
            Some(place) => {
                let info = self.client.get_connection_info().clone();
                let moved = moved(info.addr(), place);
                Client::open(info.set_addr(moved)).map_err(|_| {
                    let reason = format!("the Sentinels name `{place}`, which cannot be used");
                    NodeError::NotConnected { reason: Arc::from(reason) }
                })?
            }
            None => self.client.clone(),
        };
        match &self.credentials {
            Some(source) => source.apply(&client, &self.display, context, deadline).await,
            None => Ok(client),
        }
    }

    /// The Sentinels to ask for the master, if it is found by them.
    pub(super) const fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// Whether it is a unix socket, and so on this machine.
    pub(super) fn is_unix(&self) -> bool {
        matches!(self.client.get_connection_info().addr(), ConnectionAddr::Unix(_))
    }

    /// Whether the connection uses TLS.
    pub(in crate::node::redis) fn is_encrypted(&self) -> bool {
        matches!(self.client.get_connection_info().addr(), ConnectionAddr::TcpTls { .. })
    }

    /// The number of the database.
    pub(super) fn database(&self) -> i64 {
        self.client.get_connection_info().redis_settings().db()
    }

    /// The name of the node in the list of its fleet.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.display)
    }

    /// Host and port, path, or master and Sentinels: no credentials.
    pub(crate) const fn display(&self) -> &Arc<str> {
        &self.display
    }
}

/// The same address at another place.
fn moved(address: &ConnectionAddr, to: &Place) -> ConnectionAddr {
    let (host, port) = (to.host.to_string(), to.port);
    match address.clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    }
}

fn judged(url: &str) -> Result<Kind, AddressError> {
    let kind = judge::judge(url).and_then(|kind| match kind {
        Kind::Sentinels { tls } => sentinels::judge(url, tls).map(|()| kind),
        kind => Ok(kind),
    });
    kind.map_err(|(part, reason)| AddressError::invalid(url, part, reason))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way to write that the connection is to be encrypted.
    const ENCRYPTED: [&str; 6] = [
        "rediss://10.0.0.1",
        "valkeys://10.0.0.1",
        "REDISS://10.0.0.1",
        "Valkeys://10.0.0.1",
        " rediss://10.0.0.1",
        "\trediss://10.0.0.1\n",
    ];

    /// The library would take out the line break and encrypt.
    #[test]
    fn a_url_with_a_line_break_inside_is_refused_and_not_mended() {
        let error = Address::parse("re\ndiss://10.0.0.1", &TlsSettings::default()).err();
        assert!(matches!(error, Some(AddressError::Invalid { part: UrlPart::Whole, .. })));
    }

    #[cfg(not(feature = "tls-rustls"))]
    #[test]
    fn a_url_that_asks_for_tls_is_told_that_it_is_not_compiled_in() {
        for url in ENCRYPTED {
            let error = Address::parse(url, &TlsSettings::default()).err();
            let missing = matches!(error, Some(AddressError::TlsFeatureMissing { .. }));
            assert!(missing, "{url:?}: {error:?}");
        }
    }

    /// A broken authority is refused, which shows that it is not ignored.
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
