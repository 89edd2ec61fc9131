//! A node in a configuration, and what it can be made from.
//!
//! It judges nothing: the build does that when everything is known. It must never show a URL, which may carry a
//! password.

use std::{borrow::Cow, fmt, sync::Arc};

use super::{MemoryNode, Node};

/// A node in a configuration: a URL, or a ready-made [`Node`].
///
/// URLs are `redis://[user:password@]host[:port][/database]`, `rediss://` for TLS (with a TLS feature),
/// and `unix:///path/to/socket`; `valkey://` and `valkeys://` mean the same.
/// `redis+sentinel://host[:port],host[:port],…/master[/database]` is the server that Sentinels name as the master
/// (`docs/deploying.md`, "Sentinel"). IPv6 addresses stand in
/// brackets. Special characters of a user name and a password are percent-encoded. A socket's database, user and
/// password stand in the query: `unix:///path/to/socket?db=3&user=app&pass=…`.
///
/// It can be made from
///
/// - text of any kind that is a URL: `&str`, `String`, `Cow<str>`, `Box<str>`, `Arc<str>`, and references to them;
/// - `url::Url`, with the feature `url`;
/// - any [`Node`] by value, `Arc<dyn Node>`, an `Arc` of any `Node`, and references to these;
/// - a [`MemoryNode`] by reference too, since a clone of it is the same node.
///
/// `#name` behind a URL names the node, for a client that reaches it by another address ([`named`](NodeSpec::named)).
///
/// A client of the `redis` crate is not accepted: its type would tie this crate's versions to that crate's, and it
/// cannot be written down as a URL. Pass the URL that it was made from.
///
/// ```
/// use std::sync::Arc;
/// use quorlock::{Redlock, node::{MemoryNode, Node}};
///
/// let urls: &[&str] = &["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let from_slice = Redlock::builder().nodes(urls);
/// let owned: Vec<String> = urls.iter().map(|url| url.to_string()).collect();
/// let from_strings = Redlock::builder().nodes(&owned);
/// let nodes: Vec<Arc<dyn Node>> = (0..3).map(|_| Arc::new(MemoryNode::new()) as _).collect();
/// let from_nodes = Redlock::builder().nodes(&nodes);
/// # drop((from_slice, from_strings, from_nodes));
/// ```
#[derive(Clone, Debug)]
pub struct NodeSpec {
    pub(crate) spec: Spec,
    pub(crate) name: Option<String>,
}

#[derive(Clone)]
pub(crate) enum Spec {
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "refused at build"))]
    Url(String),
    Node(Arc<dyn Node>),
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A URL may carry a password.
            Self::Url(_) => f.write_str("Url(..)"),
            Self::Node(node) => node.fmt(f),
        }
    }
}

fn is_between(c: char) -> bool {
    c == ',' || c.is_whitespace()
}

/// Where the first URL of a list ends. The hosts of Sentinels have commas between them.
fn end_of_url(list: &str) -> usize {
    let word = list.find(char::is_whitespace).unwrap_or(list.len());
    let word = list.get(..word).unwrap_or_default();
    let scheme = word.find("://").and_then(|end| word.get(..end));
    let is_list =
        |scheme: &str| !scheme.contains(',') && scheme.to_ascii_lowercase().ends_with("+sentinel");
    // Up to the name of the master.
    let from = scheme.filter(|scheme| is_list(scheme)).map_or(0, |scheme| {
        let hosts = scheme.len() + "://".len();
        let path = word.get(hosts..).and_then(|rest| rest.find('/'));
        path.map_or(word.len(), |path| hosts + path)
    });
    let comma = word.get(from..).and_then(|rest| rest.find(','));
    comma.map_or(word.len(), |comma| from + comma)
}

impl NodeSpec {
    /// A node of any kind, shared with other users of it.
    pub fn new(node: Arc<dyn Node>) -> Self {
        Self { spec: Spec::Node(node), name: None }
    }

    /// The URLs of a list that has commas or blanks between them, as `QUORLOCK_NODES` has. The commas between the Sentinels
    /// of one URL separate no nodes.
    ///
    /// ```
    /// use quorlock::node::NodeSpec;
    ///
    /// let list = "redis+sentinel://10.0.0.1,10.0.0.2,10.0.0.3/mymaster, redis://10.0.0.4";
    /// let urls: Vec<&str> = NodeSpec::urls(list).collect();
    /// assert_eq!(urls.len(), 2);
    /// ```
    pub fn urls(list: &str) -> impl Iterator<Item = &str> {
        let mut rest = list;
        std::iter::from_fn(move || {
            rest = rest.trim_start_matches(is_between);
            let (url, behind) = rest.split_at(end_of_url(rest));
            rest = behind;
            (!url.is_empty()).then_some(url)
        })
    }

    fn url(url: impl Into<String>) -> Self {
        Self { spec: Spec::Url(url.into()), name: None }
    }

    /// Names the node. Every process of the fleet must use the same name for it, whatever its address is there. By
    /// default a node's name is its host and port, in lower case. On a URL `#name` does the same.
    ///
    /// ```
    /// use quorlock::{Redlock, node::NodeSpec};
    ///
    /// // Reached through a tunnel, and 10.0.0.3:6379 to everybody else.
    /// let third = NodeSpec::from("redis://127.0.0.1:16379").named("10.0.0.3:6379");
    /// let builder = Redlock::builder().nodes(["redis://10.0.0.1", "redis://10.0.0.2"]).node(third);
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }
}

/// Text is a URL, in whatever form it is kept.
macro_rules! from_text {
    ($($text:ty)*) => {$(
        impl From<$text> for NodeSpec {
            fn from(url: $text) -> Self {
                Self::url(&**url)
            }
        }
    )*};
}

from_text! { &&str &String &Box<str> &Arc<str> &Cow<'_, str> }

impl From<&str> for NodeSpec {
    fn from(url: &str) -> Self {
        Self::url(url)
    }
}

impl From<String> for NodeSpec {
    fn from(url: String) -> Self {
        Self::url(url)
    }
}

impl From<Box<str>> for NodeSpec {
    fn from(url: Box<str>) -> Self {
        Self::url(url)
    }
}

impl From<Arc<str>> for NodeSpec {
    fn from(url: Arc<str>) -> Self {
        Self::url(&*url)
    }
}

impl From<Cow<'_, str>> for NodeSpec {
    fn from(url: Cow<'_, str>) -> Self {
        Self::url(url)
    }
}

#[cfg(feature = "url")]
impl From<url::Url> for NodeSpec {
    fn from(url: url::Url) -> Self {
        Self::url(url)
    }
}

#[cfg(feature = "url")]
impl From<&url::Url> for NodeSpec {
    fn from(url: &url::Url) -> Self {
        Self::url(url.as_str())
    }
}

impl<N: Node> From<N> for NodeSpec {
    fn from(node: N) -> Self {
        Self::new(Arc::new(node))
    }
}

impl<N: Node> From<Arc<N>> for NodeSpec {
    fn from(node: Arc<N>) -> Self {
        Self::new(node)
    }
}

impl<N: Node> From<&Arc<N>> for NodeSpec {
    fn from(node: &Arc<N>) -> Self {
        Self::new(Arc::<N>::clone(node))
    }
}

impl From<Arc<dyn Node>> for NodeSpec {
    fn from(node: Arc<dyn Node>) -> Self {
        Self::new(node)
    }
}

impl From<&Arc<dyn Node>> for NodeSpec {
    fn from(node: &Arc<dyn Node>) -> Self {
        Self::new(Arc::clone(node))
    }
}

impl From<&MemoryNode> for NodeSpec {
    fn from(node: &MemoryNode) -> Self {
        Self::new(Arc::new(node.clone()))
    }
}
