//! Where a server's name leads: one look-up at a time, and one server.
//!
//! It decides that a name with several IPv4 addresses is refused, and whether the server is on this machine. It must
//! never begin a look-up while another one of the same node is under way: each takes a thread for as long as the
//! system's resolver hangs, and none can be ended.

use std::{
    io,
    net::{IpAddr, SocketAddr},
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

/// Host and port. Those of a node change where Sentinels name them.
type Name = (String, u16);

type Addresses<'a> = Box<dyn Iterator<Item = SocketAddr> + Send + 'a>;

/// Looks up one node's name, for one attempt to connect after another. A clone is the same one.
#[derive(Clone, Default)]
pub(super) struct Resolver {
    state: Arc<Lock<State>>,
}

#[derive(Default)]
struct State {
    /// The look-up under way, even if the attempt that began it has given up, and of what.
    lookup: Option<(Name, Lookup)>,
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

    fn lookup(&self, name: &Name) -> Lookup {
        let mut state = self.state();
        (state.refusal, state.local) = (None, false);
        let before = match &state.lookup {
            Some((of, lookup)) if of == name => return lookup.clone(),
            // An address in digits is not looked up, and takes no thread.
            _ if name.0.parse::<IpAddr>().is_ok() => return begin(name.clone(), None),
            before => before.as_ref().map(|(_, lookup)| lookup.clone()),
        };
        let lookup = begin(name.clone(), before);
        state.lookup = Some((name.clone(), lookup.clone()));
        lookup
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Looks a name up once another look-up is over.
fn begin(name: Name, before: Option<Lookup>) -> Lookup {
    let lookup = async move {
        if let Some(before) = before {
            let _ = before.await;
        }
        let found = tokio::net::lookup_host(name).await;
        found.map(Iterator::collect).map_err(Arc::new)
    };
    lookup.boxed().shared()
}

impl AsyncDNSResolver for Resolver {
    fn resolve<'a, 'b: 'a>(&'a self, host: &'b str, port: u16) -> RedisFuture<'a, Addresses<'a>> {
        let name = (host.to_owned(), port);
        let lookup = self.lookup(&name);
        Box::pin(async move {
            let found = lookup.await;
            let addresses = found.as_deref().map_or(0, ipv4);
            let local = found.as_deref().is_ok_and(are_local);
            let refusal = (addresses > 1).then_some(Refusal::SeveralAddresses { addresses });
            {
                let mut state = self.state();
                // The next attempt asks anew.
                state.lookup.take_if(|(of, _)| *of == name);
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

    /// A look-up of another name that hangs is awaited, and its answer is not taken for this one's.
    #[tokio::test]
    async fn each_name_has_its_own_answer_and_one_look_up_is_under_way() {
        let resolver = Resolver::default();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let hangs = async move {
            let _ = ended.await;
            Ok(vec!["10.0.0.1:1".parse().unwrap()])
        };
        let slow = ("slow.test".to_owned(), 1);
        resolver.state().lookup = Some((slow.clone(), hangs.boxed().shared()));
        let found = |host: &'static str, port| {
            let found = resolver.resolve(host, port);
            async move { found.await.map(Iterator::collect::<Vec<SocketAddr>>) }
        };
        let digits = found("127.0.0.2", 2).now_or_never().expect("nothing to look up").unwrap();
        assert_eq!(digits, ["127.0.0.2:2".parse().unwrap()]);
        assert_eq!(resolver.state().lookup.as_ref().map(|(of, _)| of), Some(&slow), "still there");
        let mut named = Box::pin(found("localhost", 3));
        assert!(futures::poll!(&mut named).is_pending());
        end.send(()).unwrap();
        let named = named.await.unwrap();
        assert!(
            named.iter().all(|found| found.port() == 3 && found.ip().is_loopback()),
            "{named:?}"
        );
        assert!(resolver.state().lookup.is_none());
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
