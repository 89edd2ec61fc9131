//! Where a server's name leads: one look-up at a time, and one server.
//!
//! It decides that a name with several IPv4 addresses is refused, and whether the server is on this machine. It must
//! never begin a look-up while another one of the same node is under way: each takes a thread for as long as the
//! system's resolver hangs, and none can be ended.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, MutexGuard},
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use redis::{ErrorKind, RedisError, RedisFuture, io::AsyncDNSResolver};

use crate::{lock::Lock, node::Refusal};

/// A look-up that one attempt may leave and the next take up again.
type Lookup = Shared<BoxFuture<'static, Result<Vec<SocketAddr>, Arc<io::Error>>>>;

type Addresses<'a> = Box<dyn Iterator<Item = SocketAddr> + Send + 'a>;

/// Looks up one node's name, for one attempt to connect after another. A clone is the same one.
#[derive(Clone, Default)]
pub(super) struct Resolver {
    state: Arc<Lock<State>>,
}

#[derive(Default)]
struct State {
    /// The look-up under way, even if the attempt that began it has given up.
    lookup: Option<Lookup>,
    refusal: Option<Refusal>,
    /// Whether all addresses are of this machine.
    local: bool,
}

impl Resolver {
    /// Why the name cannot be used, as of the last look-up.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.state().refusal.clone()
    }

    /// Whether the server is certainly on this machine, as of the last look-up. All addresses must be local: which one
    /// answered is not known.
    pub(super) fn is_local(&self) -> bool {
        self.state().local
    }

    fn lookup(&self, host: &str, port: u16) -> Lookup {
        let begin = || {
            let name = (host.to_owned(), port);
            // An address in digits is not looked up, and takes no thread.
            let lookup = async move {
                let found = tokio::net::lookup_host(name).await;
                found.map(Iterator::collect).map_err(Arc::new)
            };
            lookup.boxed().shared()
        };
        let mut state = self.state();
        (state.refusal, state.local) = (None, false);
        state.lookup.get_or_insert_with(begin).clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl AsyncDNSResolver for Resolver {
    fn resolve<'a, 'b: 'a>(&'a self, host: &'b str, port: u16) -> RedisFuture<'a, Addresses<'a>> {
        let lookup = self.lookup(host, port);
        Box::pin(async move {
            let found = lookup.await;
            let addresses = found.as_deref().map_or(0, ipv4);
            let local = found.as_deref().is_ok_and(are_local);
            let refusal = (addresses > 1).then_some(Refusal::SeveralAddresses { addresses });
            {
                let mut state = self.state();
                // The next attempt asks anew.
                state.lookup = None;
                state.refusal.clone_from(&refusal);
                state.local = local;
            }
            if let Some(refusal) = refusal {
                let kind = ErrorKind::InvalidClientConfig;
                return Err(RedisError::from((kind, "refused", refusal.to_string())));
            }
            let found = found.map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
            Ok(Box::new(found.into_iter()) as Addresses<'a>)
        })
    }
}

/// Whether a connection to any of them stays on this machine. An address of one of its own network cards does not
/// count: it may be another machine's tomorrow.
fn are_local(addresses: &[SocketAddr]) -> bool {
    let loopback = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
    !addresses.is_empty() && addresses.iter().all(loopback)
}

/// How many IPv4 addresses a name has. One server often has several IPv6 addresses, and one of each kind is usual.
fn ipv4(addresses: &[SocketAddr]) -> usize {
    let mut distinct: Vec<&SocketAddr> =
        addresses.iter().filter(|address| address.is_ipv4()).collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_certainly_stays_on_this_machine_is_local() {
        let local = |addresses: &[&str]| {
            let addresses: Vec<SocketAddr> =
                addresses.iter().map(|address| address.parse().unwrap()).collect();
            are_local(&addresses)
        };
        for addresses in
            [&["127.0.0.1:1"][..], &["[::1]:1", "127.3.2.1:1"], &["[::ffff:127.0.0.1]:1"]]
        {
            assert!(local(addresses), "{addresses:?}");
        }
        for addresses in [
            &[][..],
            &["10.0.0.1:1"],
            &["127.0.0.1:1", "10.0.0.1:1"],
            &["0.0.0.0:1"],
            &["[::ffff:10.0.0.1]:1"],
            &["[2001:db8::1]:1"],
        ] {
            assert!(!local(addresses), "{addresses:?}");
        }
    }

    #[test]
    fn several_addresses_are_several_ipv4_addresses() {
        let count = |addresses: &[&str]| {
            let addresses: Vec<SocketAddr> =
                addresses.iter().map(|address| address.parse().unwrap()).collect();
            ipv4(&addresses)
        };
        assert_eq!(count(&["[::1]:1", "127.0.0.1:1"]), 1);
        assert_eq!(count(&["127.0.0.1:1", "127.0.0.1:1"]), 1);
        assert_eq!(count(&["[2001:db8::1]:1", "[2001:db8::2]:1"]), 0);
        assert_eq!(count(&["10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:1"]), 2);
    }
}
