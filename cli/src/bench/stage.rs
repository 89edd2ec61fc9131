//! The nodes that are measured: servers of its own, one of which it may kill, or those of a user, which it never harms.
//!
//! It decides how the handles reach them. Where a node of a user has to be away, it is away for this process alone: its address
//! is replaced by one where nothing listens.

use std::time::Duration;

use quorlock::{ConnectError, Redlock, node::NodeSpec};
use quorlock_harness::Cluster;

use crate::{
    args::Nodes,
    connect::connected,
    exit::{Failure, Status},
    output::note,
    place::Place,
};

pub(super) struct Stage {
    own: Option<Cluster>,
    nodes: Nodes,
    urls: Vec<String>,
    /// The directory of its own servers; it is dropped last.
    _place: Option<Place>,
}

/// Grants do not linger, whatever the settings say: a name that lingers here would be measured without any node.
const NONE: Duration = Duration::ZERO;

/// Where nothing can listen: a socket in what is no directory.
const NOWHERE: &str = "unix:///dev/null/nobody";

impl Stage {
    /// On servers of its own where there is a number.
    pub(super) fn start(nodes: &Nodes, servers: Option<usize>) -> Result<Self, Failure> {
        let place = servers.map(|_| Place::make()).transpose()?;
        let own = servers.zip(place.as_ref()).map(|(count, place)| {
            Cluster::start_with(count, |_, server| server.parent(place.path()))
        });
        let mut nodes = nodes.clone();
        let urls: Vec<String> = match (&own, nodes.nodes.is_empty()) {
            (Some(own), _) => {
                // They are new, and their quarantine would only cost time.
                nodes.danger_skip_quarantine = true;
                own.urls()
            }
            (None, false) => split(&nodes.nodes.join(",")),
            (None, true) => split(&given().unwrap_or_default()),
        };
        nodes.nodes.clone_from(&urls);
        Ok(Self { own, nodes, urls, _place: place })
    }

    pub(super) const fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// What the crate puts before every name: a user may have no right to others.
    pub(super) fn key_prefix(&self) -> String {
        let of = |set: &str| set.trim().strip_prefix("key_prefix=").map(str::to_owned);
        let mut named = self.nodes.set.iter().flat_map(|set| set.split_whitespace()).filter_map(of);
        let named = named.next_back().or_else(|| std::env::var("QUORLOCK_KEY_PREFIX").ok());
        named.unwrap_or_default()
    }

    pub(super) fn urls(&self) -> &[String] {
        &self.urls
    }

    pub(super) const fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// A handle whose nodes vote.
    pub(super) async fn connect(&self, classic: bool) -> Result<Redlock, Failure> {
        connect(&self.nodes, classic).await
    }

    /// A handle that has to do without the last node, which it knows to be away.
    pub(super) async fn without_one(&self) -> Result<Redlock, Failure> {
        let (mut nodes, mut away) = (self.nodes.clone(), None);
        match &self.own {
            Some(own) => own.iter().last().into_iter().for_each(quorlock_harness::Server::kill),
            None => {
                let others = self.urls.iter().take(self.urls.len().saturating_sub(1)).cloned();
                nodes.nodes = others.collect();
                away = self.urls.last().map(|url| NodeSpec::from(NOWHERE).named(called(url)));
            }
        }
        let builder = nodes.builder()?.linger(NONE);
        let builder = away.into_iter().fold(builder, quorlock::Builder::node);
        // That a node is missing is no error here, whatever the settings ask for.
        let redlock = builder.build();
        let redlock = redlock.map_err(|error| Failure::new(Status::Config, error))?;
        let ready = redlock.ready(Duration::from_secs(5)).await;
        ready.map_err(|error| Failure::new(Status::Broken, error))?;
        connected(&redlock, Duration::from_secs(2)).await?;
        Ok(redlock)
    }
}

/// The name of this URL's node in the list of its fleet: that node is the one away.
fn called(url: &str) -> String {
    if let Some((_, name)) = url.split_once('#') {
        return name.to_owned();
    }
    let address = Redlock::builder().node(url).build().map(|redlock| redlock.nodes());
    let address = address.ok().and_then(|nodes| nodes.into_iter().next());
    address.map_or_else(|| NOWHERE.to_owned(), |node| node.address.to_string())
}

/// The addresses of the environment.
pub(super) fn given() -> Option<String> {
    std::env::var("QUORLOCK_NODES").ok().filter(|nodes| !nodes.trim().is_empty())
}

fn split(nodes: &str) -> Vec<String> {
    NodeSpec::urls(nodes).map(str::to_owned).collect()
}

/// Connects. It fails at once where too few nodes are there, and waits for those that may have forgotten.
pub(super) async fn connect(nodes: &Nodes, classic: bool) -> Result<Redlock, Failure> {
    let nodes = Nodes { classic, ..nodes.clone() };
    let redlock = nodes.builder()?.linger(NONE).connect().await;
    let redlock = redlock.map_err(|error| match error {
        ConnectError::Config(error) => Failure::new(Status::Config, error),
        refused @ ConnectError::Refused { .. } => Failure::new(Status::Config, refused),
        error => Failure::new(Status::Broken, error),
    })?;
    if redlock.ready(Duration::from_secs(1)).await.is_err() {
        note(
            "the nodes do not vote yet, since they may have forgotten locks: it waits for a minute",
        );
        let ready = redlock.ready(Duration::from_secs(60)).await;
        ready.map_err(|error| Failure::new(Status::Broken, error))?;
    }
    // Waits for all that there are, so that the first operation is like the next.
    connected(&redlock, Duration::from_secs(2)).await?;
    Ok(redlock)
}
