//! What workers reach: nodes, behind proxies.
//!
//! Nodes are servers of its own, which may be killed, or the user's, which are cut off, or harmed by the user's
//! commands.

use quorlock::node::NodeSpec;
use quorlock_harness::{Cluster, Proxy, Server};

use super::handles::{Handles, Harm};
use crate::{exit::Failure, place::Place};

/// Which nodes are harmed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Which {
    /// So many of its own.
    Own(usize),
    /// These, which it harms by the user's commands alone.
    Given(Vec<String>),
}

impl Which {
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Own(count) => *count,
            Self::Given(urls) => urls.len(),
        }
    }
}

/// As on the command line.
pub(crate) fn which(text: &str) -> Result<Which, String> {
    let which = match text.parse() {
        Ok(count) => Which::Own(count),
        Err(_) => Which::Given(NodeSpec::urls(text).map(str::to_owned).collect()),
    };
    match which.len() {
        3..=15 => Ok(which),
        other => Err(format!("{other} is no number of nodes for this: take 3 to 15")),
    }
}

/// The servers.
pub(crate) struct Scene {
    /// `None` where the nodes are the user's.
    own: Option<Cluster>,
    /// Where they can be cut off.
    proxies: Option<Vec<Proxy>>,
    urls: Vec<String>,
    handles: Handles,
    /// The directory of the servers above; it is dropped last.
    _place: Place,
}

impl Scene {
    pub(crate) fn start(which: &Which, handles: &Handles) -> Result<Self, Failure> {
        let dir = Place::make()?;
        let (own, proxies) = match which {
            Which::Own(count) => {
                // A node that is killed comes back with what it had written down.
                let own = Cluster::start_with(*count, |_, server| {
                    server.parent(dir.path()).append_only(true)
                });
                let proxies = own.iter().map(|server| Proxy::start(server.port())).collect();
                (Some(own), Some(proxies))
            }
            Which::Given(urls) => {
                let places: Option<Vec<_>> = urls.iter().map(|url| place(url)).collect();
                let proxy = |(host, port, _): &(String, u16, String)| Proxy::to(host, *port);
                let proxies = places.as_ref().map(|places| places.iter().map(proxy).collect());
                (None, proxies)
            }
        };
        let urls = match (which, &proxies) {
            (Which::Given(urls), Some(proxies)) => {
                let behind = |(url, proxy): (&String, &Proxy)| {
                    let rest = place(url).map_or_else(String::new, |(_, _, rest)| rest);
                    format!("{}{rest}", proxy.url())
                };
                urls.iter().zip(proxies).map(behind).collect()
            }
            (Which::Given(urls), None) => urls.clone(),
            (Which::Own(_), proxies) => proxies.iter().flatten().map(Proxy::url).collect(),
        };
        Ok(Self { own, proxies, urls, handles: handles.clone(), _place: dir })
    }

    /// By which workers reach the nodes.
    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Whether these servers may be killed.
    pub(crate) const fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Whether nodes can be cut off.
    pub(crate) const fn can_cut(&self) -> bool {
        self.proxies.is_some()
    }

    /// Whether this can be done to nodes.
    pub(crate) const fn can(&self, harm: Harm) -> bool {
        self.is_own() || self.handles.can(harm)
    }

    pub(crate) fn harm(&self, node: usize, harm: Harm) -> Result<(), Failure> {
        match (self.server(node), harm) {
            (Some(server), Harm::Stop) => server.pause(),
            (Some(server), Harm::Kill) => server.kill(),
            (None, _) => self.handles.harm(node, harm)?,
        }
        Ok(())
    }

    pub(crate) fn mend(&self, node: usize, harm: Harm) -> Result<(), Failure> {
        match (self.server(node), harm) {
            (Some(server), Harm::Stop) => server.resume(),
            (Some(server), Harm::Kill) => server.restart(),
            (None, _) => self.handles.mend(node, harm)?,
        }
        Ok(())
    }

    /// A server of its own.
    pub(crate) fn server(&self, node: usize) -> Option<&Server> {
        self.own.as_ref()?.servers.get(node)
    }

    pub(crate) fn proxy(&self, node: usize) -> Option<&Proxy> {
        self.proxies.as_ref()?.get(node)
    }
}

/// The host, the port and the rest of an address that needs nothing but a connection: no TLS, whose certificate is for the
/// host, no user and no socket.
fn place(url: &str) -> Option<(String, u16, String)> {
    let rest = url.strip_prefix("redis://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (place, rest) = rest.split_at(end);
    let (host, port) = place.rsplit_once(':').unwrap_or((place, "6379"));
    let plain = !host.is_empty() && !host.contains(['@', ':']);
    plain.then(|| Some((host.to_owned(), port.parse().ok()?, rest.to_owned())))?
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    #[test]
    fn a_number_or_addresses() {
        assert_eq!(which("5"), Ok(Which::Own(5)));
        let urls = ["redis://a", "redis://b:7", "redis://c"].map(str::to_owned).to_vec();
        assert_eq!(which("redis://a, redis://b:7,redis://c"), Ok(Which::Given(urls)));
        assert!(which("2").is_err() && which("redis://a").is_err());
    }

    #[test]
    fn what_can_be_cut_off() {
        let at = |host: &str, port, rest: &str| Some((host.to_owned(), port, rest.to_owned()));
        assert_eq!(place("redis://h"), at("h", 6379, ""));
        assert_eq!(place("redis://h:7/2?a=b"), at("h", 7, "/2?a=b"));
        for other in
            ["rediss://h:7", "redis://u:p@h:7", "redis+unix:///s", "redis://[::1]:7", "h:7"]
        {
            assert_eq!(place(other), None, "{other}");
        }
    }

    fn part() -> impl Strategy<Value = String> {
        let known =
            select(vec!["redis://a", "rediss://u:p@h:7/2", "3", "15", "+", "[::1]", ":", " ", ""]);
        prop_oneof![4 => known.prop_map(str::to_owned), 1 => any::<String>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_a_number_or_as_many_addresses_or_refused(parts in vec(part(), 0..20)) {
            let text = parts.join(",");
            match which(&text) {
                Ok(Which::Own(count)) => prop_assert!((3..=15).contains(&count)),
                Ok(Which::Given(urls)) => {
                    prop_assert!((3..=15).contains(&urls.len()));
                    prop_assert!(urls.iter().all(|url| !url.is_empty() && text.contains(url)), "{urls:?}");
                }
                Err(said) => prop_assert!(said.contains("take 3 to 15")),
            }
        }

        #[test]
        fn any_address_is_cut_off_where_it_says_or_not_at_all(parts in vec(part(), 0..4)) {
            let url = parts.concat();
            if let Some((host, port, rest)) = place(&url) {
                prop_assert!(!host.is_empty());
                let short = format!("redis://{host}{rest}");
                let whole = url.ends_with(&rest) && url.contains(&format!(":{}", port));
                prop_assert!(url == short && port == 6379 || whole, "{url}: {host}, {port}, {rest}");
            }
        }
    }
}
