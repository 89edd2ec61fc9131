//! One look of `top`: the lines, the holders of what they are for, and the hosts of those who wait.
//!
//! It decides of which resources the holder is asked, and when the nodes are asked for their clients. It must never ask for
//! these more often than `HOSTS_EVERY`: a server with many connections has a long list.

use std::{
    collections::HashMap,
    process::ExitCode,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use quorlock::{
    Holder, Redlock, Reports,
    inspect::{FleetError, Line},
    node::{ClockOffset, ConnectedClient},
    protocol::{LinePlace, Quorum, Ticket},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    exit::{Failure, Status},
    holder::{as_json, with},
    shown,
};

/// The clients of the nodes are asked for no more often.
const HOSTS_EVERY: Duration = Duration::from_secs(5);

/// Where clients are, as the nodes see them.
#[derive(Default)]
pub(super) struct Hosts {
    known: HashMap<Arc<str>, At>,
    asked: Option<Instant>,
}

/// Where a client is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) enum At {
    /// Nodes do not say.
    #[default]
    Unknown,
    Host(Arc<str>),
    /// No longer there, as most nodes say.
    Gone,
}

impl Hosts {
    async fn learn(&mut self, redlock: &Redlock, rows: &[Row]) {
        let places = rows.iter().flat_map(|row| &row.line.places);
        let waiting: Vec<Arc<str>> =
            places.map(|place| Arc::from(place.client.to_string())).collect();
        let is_early = self.asked.is_some_and(|asked| asked.elapsed() < HOSTS_EVERY);
        if waiting.is_empty() || is_early {
            return;
        }
        self.asked = Some(Instant::now());
        let nodes = redlock.inspect(Duration::ZERO).await.nodes;
        let needed = Quorum::of(nodes.len()).needed();
        let told: Vec<Vec<ConnectedClient>> =
            nodes.into_iter().filter_map(|node| node.server.ok()?.clients).collect();
        // Those that wait no more are forgotten.
        self.known = waiting
            .into_iter()
            .map(|client| {
                let seen = told.iter().flatten().filter(|seen| seen.client == client);
                let hosts: Vec<&Arc<str>> = seen.filter_map(|seen| seen.host.as_ref()).collect();
                let at = match most(&hosts) {
                    Some(host) => At::Host(Arc::clone(host)),
                    None if told.len() >= needed => At::Gone,
                    None => At::Unknown,
                };
                (client, at)
            })
            .collect();
    }

    fn of(&self, place: &LinePlace) -> At {
        self.known.get(&*place.client.to_string()).cloned().unwrap_or_default()
    }
}

/// What most nodes say. A node on the client's own machine does not tell which one that is.
fn most<'a>(hosts: &[&'a Arc<str>]) -> Option<&'a Arc<str>> {
    let is_here = |host: &str| host.starts_with("127.") || host == "[::1]" || host.starts_with('/');
    let count = |host: &str| hosts.iter().filter(|other| other.as_ref() == host).count();
    hosts.iter().copied().max_by_key(|host| (!is_here(host), count(host)))
}

/// A line, and who holds what it is for; that is not asked of a semaphore.
pub(super) struct Row {
    pub(super) line: Line,
    pub(super) holder: Option<Holder>,
    /// Where those are who stand there, in order.
    pub(super) hosts: Vec<At>,
}

impl Row {
    /// For how long the first has waited, if that is known.
    pub(super) fn longest(&self, at: Duration) -> Option<Duration> {
        self.line.places.first().map(|place| waited(place.ticket, at))
    }
}

/// What was seen.
pub(super) struct Seen {
    /// When, since 1970, by our clock and by the nodes'.
    pub(super) at: Duration,
    pub(super) by_nodes: Duration,
    pub(super) rows: Vec<Row>,
    /// How many clients wait in all lines, and in how many.
    pub(super) waiting: usize,
    pub(super) lines: usize,
    pub(super) nodes: usize,
    pub(super) untold: Reports,
}

impl Seen {
    pub(super) async fn ask(
        redlock: &Redlock,
        pattern: &[u8],
        rows: usize,
        hosts: &mut Hosts,
    ) -> Result<Self, FleetError> {
        let lines = redlock.lines(pattern).await?;
        let mut seen = Self::nothing(redlock, lines.untold);
        seen.lines = lines.lines.len();
        seen.waiting = lines.lines.iter().map(|line| line.waiting).sum();
        for line in lines.lines.into_iter().take(rows) {
            let is_one = !line.is_semaphore;
            let holder = if is_one { redlock.holder(&*line.name).await.ok() } else { None };
            seen.rows.push(Row { line, holder, hosts: Vec::new() });
        }
        hosts.learn(redlock, &seen.rows).await;
        for row in &mut seen.rows {
            row.hosts = row.line.places.iter().map(|place| hosts.of(place)).collect();
        }
        Ok(seen)
    }

    /// Where no node tells.
    pub(super) fn nothing(redlock: &Redlock, untold: Reports) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let statuses = redlock.nodes();
        let mut clocks: Vec<Duration> = statuses
            .iter()
            .filter_map(|node| match node.clock? {
                ClockOffset::Ahead(by) => at.checked_add(by),
                ClockOffset::Behind(by) => at.checked_sub(by),
            })
            .collect();
        clocks.sort_unstable();
        let by_nodes = clocks.get(clocks.len() / 2).copied().unwrap_or(at);
        let nodes = statuses.len();
        Self { at, by_nodes, rows: Vec::new(), waiting: 0, lines: 0, nodes, untold }
    }

    /// How many nodes have told their lines.
    pub(super) fn told(&self) -> usize {
        self.nodes.saturating_sub(self.untold.iter().count())
    }

    /// The status, behind a single look.
    pub(super) fn verdict(&self) -> Result<ExitCode, Failure> {
        if self.told() >= Quorum::of(self.nodes).needed() {
            return Ok(Status::Done.into());
        }
        let (told, all, untold) = (self.told(), self.nodes, &self.untold);
        let text = format!("{told} of {all} nodes have told who waits: others may: {untold}");
        Err(Failure::new(Status::Broken, text))
    }

    pub(super) fn as_json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(|row| self.row(row)).collect();
        let untold = self.untold.failures().map(
            |(report, error)| json!({ "address": &*report.address, "error": error.to_string() }),
        );
        let untold: Vec<Value> = untold.collect();
        json!({
            "at": self.at.as_secs_f64(),
            "waiting": self.waiting,
            "lines": self.lines,
            "nodes": self.nodes,
            "untold": untold,
            "resources": rows,
        })
    }

    fn row(&self, row: &Row) -> Value {
        let clients = row.line.places.iter().zip(&row.hosts).map(|(place, at)| {
            let host = if let At::Host(host) = at { Some(&**host) } else { None };
            json!({
                "client": place.client.to_string(),
                "host": host,
                "gone": *at == At::Gone,
                "reads": place.reads,
                "waited": waited(place.ticket, self.by_nodes).as_secs_f64(),
            })
        });
        let clients: Vec<Value> = clients.collect();
        let holder = row.holder.as_ref().map(|holder| as_json(&row.line.name, holder));
        let more = json!({
            "semaphore": row.line.is_semaphore,
            "waiting": row.line.waiting,
            "longest": row.longest(self.by_nodes).map(|longest| longest.as_secs_f64()),
            "clients": clients,
            "holder": holder,
        });
        with(shown::resource(&row.line.name), more)
    }
}

/// By the nodes' clocks.
fn waited(ticket: Ticket, at: Duration) -> Duration {
    at.saturating_sub(Duration::from_micros(ticket.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_most_nodes_say_that_are_not_on_it() {
        let of = |hosts: &[&str]| {
            let hosts: Vec<Arc<str>> = hosts.iter().map(|host| Arc::from(*host)).collect();
            most(&hosts.iter().collect::<Vec<_>>()).map(ToString::to_string)
        };
        assert_eq!(of(&["10.0.0.3", "10.0.0.3", "127.0.0.1"]).as_deref(), Some("10.0.0.3"));
        assert_eq!(of(&["127.0.0.1", "127.0.0.1", "10.0.0.3"]).as_deref(), Some("10.0.0.3"));
        assert_eq!(of(&["10.0.0.3", "[fe80::1]", "[fe80::1]"]).as_deref(), Some("[fe80::1]"));
        assert_eq!(of(&["[::1]"]).as_deref(), Some("[::1]"));
        assert_eq!(of(&[]), None);
    }
}
