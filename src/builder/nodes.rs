//! The list of nodes: what it may be made of, and the check that its nodes differ.
//!
//! It opens nothing that could fail later, and names every wrong URL, not only the first.

use std::{collections::HashMap, sync::Arc};

use super::Builder;
use crate::{
    config::{ConfigError, MAX_NODES},
    node::{Node, NodeSpec, Spec},
    protocol::{Members, NodeId, NodeSet, Quorum},
};

/// The most bytes of a node's name.
const MAX_NAME: usize = 255;

impl Builder {
    /// Adds a node: a URL, a [`MemoryNode`](crate::node::MemoryNode), or any other [`Node`], by value or in an `Arc`.
    /// Lists of several kinds are built by calling this for each; [`NodeSpec`] says what is accepted.
    ///
    /// A quorum is floor(N/2)+1 of the nodes configured here. One node works and tolerates no failure;
    /// three tolerate one, five two. An even count tolerates no more than the odd one below it. Two are
    /// refused, because both would be needed. Every process must configure the same nodes.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use quorlock::{Redlock, node::{MemoryNode, Node}};
    ///
    /// let shared: Arc<dyn Node> = Arc::new(MemoryNode::new());
    /// let builder = Redlock::builder().node(shared).node(MemoryNode::new()).node("redis://10.0.0.1");
    /// # drop(builder);
    /// ```
    pub fn node(mut self, node: impl Into<NodeSpec>) -> Self {
        self.nodes.push(node.into());
        self
    }

    /// Adds nodes: see [`node`](Builder::node). Any list or iterator of one kind of them: `["redis://…"]`, `&[&str]`,
    /// `Vec<String>`, `&[MemoryNode]`, a `map`.
    pub fn nodes<I>(mut self, nodes: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<NodeSpec>,
    {
        self.nodes.extend(nodes.into_iter().map(Into::into));
        self
    }

    /// The list of nodes before a change to [`nodes`](Builder::nodes), for the time in which processes with the one and with
    /// the other run at once. Until the change has ended, every acquire, extension and token needs a majority of both lists.
    ///
    /// It ends once a process with the new list alone asks for that, or [`Redlock::end_change`] does. Then nodes refuse
    /// processes with the old list alone ([`Refusal::MembersChanged`](crate::node::Refusal::MembersChanged)). The page
    /// `docs/deploying.md` says how processes are rolled out ("Change the list of nodes"). A node that is in both lists is
    /// given in both, under one name.
    ///
    /// ```
    /// use quorlock::Redlock;
    ///
    /// let builder = Redlock::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.4"])
    ///     .nodes_before(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]);
    /// # drop(builder);
    /// ```
    ///
    /// [`Redlock::end_change`]: crate::Redlock::end_change
    pub fn nodes_before<I>(mut self, nodes: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<NodeSpec>,
    {
        self.before.extend(nodes.into_iter().map(Into::into));
        self
    }

    /// Asks for user and password of each URL node at every connect, for credentials that change: from a secret store,
    /// or tokens that expire. `give` is called with the address of the node, as [`Redlock::nodes`] shows it. Its answer
    /// replaces what the URL says; by default the URL counts.
    ///
    /// It is called for each node separately, again for every attempt to connect, and has the connect timeout in all.
    /// If it fails, panics or hangs, that node fails, and the next attempt asks again. The credentials are shown
    /// nowhere. The text of its error or panic is shown, as the reason why the node is down: keep secrets out of it.
    ///
    /// It runs on the engine's thread and must not block it: leases could not be renewed meanwhile. Take a value that
    /// other code keeps up to date, or fetch it asynchronously. With the default runtime, tokio's sockets and timers
    /// work there.
    ///
    /// A connection stays authenticated when the password changes: servers keep it, and this crate does not
    /// authenticate it anew. Where a server ends it, because the user is gone or a token has expired, the next
    /// connection asks again at once (`docs/deploying.md`, "Passwords that change").
    ///
    /// ```
    /// use std::sync::{Arc, RwLock};
    /// use quorlock::{Credentials, Redlock};
    ///
    /// // Written by whatever follows the secret store.
    /// let current = Arc::new(RwLock::new("first".to_owned()));
    ///
    /// let seen = Arc::clone(&current);
    /// let builder = Redlock::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .credentials(move |_address| {
    ///         let password = seen.read().map(|password| password.clone());
    ///         let given = password.map(|password| Credentials::new("app", password));
    ///         std::future::ready(given.map_err(|_| "the secret is not there"))
    ///     });
    /// # drop(builder);
    /// ```
    ///
    /// [`Redlock::nodes`]: crate::Redlock::nodes
    #[cfg(feature = "redis")]
    pub fn credentials<F, Fut, E>(mut self, give: F) -> Self
    where
        F: Fn(Arc<str>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<crate::Credentials, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.credentials = Some(crate::node::redis::CredentialSource::new(give));
        self
    }

    /// Nodes of both lists with one name are one node.
    pub(super) fn open_nodes(&self) -> Result<Opened, ConfigError> {
        self.config.check_node_count(self.nodes.len())?;
        let listed = self.open_each(&self.nodes, 0)?;
        check_addresses(&listed)?;
        let members = self.members(&listed)?;
        if self.before.is_empty() {
            let quorum = Quorum::of(listed.len());
            return Ok((listed.into_iter().map(|(node, _)| node).collect(), members, quorum));
        }
        self.config.check_node_count(self.before.len())?;
        let before = self.open_each(&self.before, self.nodes.len())?;
        let both = members.after(&self.members(&before)?);
        let (after, mut all, mut old) = (NodeSet::below(listed.len()), listed, NodeSet::NONE);
        for (node, name) in before {
            let is_it = |(_, other): &Named| Members::name(other) == Members::name(&name);
            let place = all.iter().position(is_it).unwrap_or_else(|| {
                all.push((node, name.clone()));
                all.len() - 1
            });
            old.insert(NodeId::new(place));
        }
        check_addresses(&all)?;
        if self.config.classic || all.iter().any(|(node, _)| !node.keeps_members()) {
            return Err(ConfigError::ChangeUnsupported);
        }
        if all.len() > MAX_NODES {
            return Err(ConfigError::TooManyNodes { nodes: all.len() });
        }
        let quorum = Quorum::of_both(old, after);
        Ok((all.into_iter().map(|(node, _)| node).collect(), both, quorum))
    }

    /// A list by the names of its nodes, which all differ.
    fn members(&self, nodes: &[Named]) -> Result<Members, ConfigError> {
        let names = || nodes.iter().map(|(_, name)| name);
        for (index, name) in names().enumerate() {
            if name.is_empty() || name.len() > MAX_NAME {
                return Err(ConfigError::NodeName { index });
            }
        }
        if let Some((first, second, name)) = twice(names().map(|name| Members::name(name))) {
            return Err(ConfigError::SameName { first, second, name });
        }
        Ok(Members::new(&self.config.fleet, names()))
    }

    #[cfg(feature = "redis")]
    fn open_each(&self, specs: &[NodeSpec], first: usize) -> Result<Vec<Named>, ConfigError> {
        use crate::node::redis::{Address, RedisNode, WrongAddress};

        let mut nodes = Vec::with_capacity(specs.len());
        let mut wrong = Vec::new();
        for (index, spec) in (first..).zip(specs) {
            match &spec.spec {
                Spec::Node(node) => nodes.push(named(spec, Arc::clone(node))),
                Spec::Url(url) => match Address::parse(url, &self.tls) {
                    Ok(address) => {
                        let address = address.with_credentials(self.credentials.clone());
                        let name = spec.name.clone().unwrap_or_else(|| address.name().to_owned());
                        nodes.push((Arc::new(RedisNode::new(address)), name));
                    }
                    Err(error) => wrong.push(WrongAddress { index, error }),
                },
            }
        }
        if wrong.is_empty() { Ok(nodes) } else { Err(ConfigError::Address { wrong: wrong.into() }) }
    }

    #[cfg(not(feature = "redis"))]
    fn open_each(&self, specs: &[NodeSpec], first: usize) -> Result<Vec<Named>, ConfigError> {
        let open = |(index, spec): (usize, &NodeSpec)| match &spec.spec {
            Spec::Node(node) => Ok(named(spec, Arc::clone(node))),
            Spec::Url(_) => Err(ConfigError::RedisFeatureMissing { index }),
        };
        (first..).zip(specs).map(open).collect()
    }
}

/// All nodes, the list or both lists by their names, and their quorum.
type Opened = (Vec<Arc<dyn Node>>, Members, Quorum);

/// A node, and its name in the list of its fleet.
type Named = (Arc<dyn Node>, String);

/// A node that is no URL is named by its address, unless it is given a name.
fn named(spec: &NodeSpec, node: Arc<dyn Node>) -> Named {
    let name = spec.name.clone().unwrap_or_else(|| node.status().address.to_string());
    (node, name)
}

fn check_addresses(nodes: &[Named]) -> Result<(), ConfigError> {
    let addresses = nodes.iter().map(|(node, _)| Members::name(&node.status().address));
    match twice(addresses) {
        Some((first, second, address)) => Err(ConfigError::SameAddress { first, second, address }),
        None => Ok(()),
    }
}

/// The places of the first two equal names, and that name. Two names of one server pass here; its `run_id` shows them
/// once both are connected.
fn twice(names: impl Iterator<Item = String>) -> Option<(usize, usize, Arc<str>)> {
    let mut seen = HashMap::new();
    names.enumerate().find_map(|(second, name)| {
        let name: Arc<str> = Arc::from(name);
        let first = seen.insert(Arc::clone(&name), second)?;
        Some((first, second, name))
    })
}
