//! One look of `top`: the lines, the holders of what they are for, and the hosts of those who wait.
//!
//! It decides of which resources the holder is asked, and when the nodes are asked for their clients. It must never ask for
//! these at each look: a server with many connections has a long list.

use std::{
    collections::HashMap,
    process::ExitCode,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use quorlock::{
    Holder, Redlock, Reports,
    inspect::{FleetError, Line},
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
    known: HashMap<Arc<str>, Arc<str>>,
    asked: Option<Instant>,
}

impl Hosts {
    async fn learn(&mut self, redlock: &Redlock, rows: &[Row]) {
        let places = rows.iter().flat_map(|row| &row.line.places);
        let is_known = |place: &LinePlace| self.known.contains_key(&*place.client.to_string());
        if places.clone().all(is_known)
            || self.asked.is_some_and(|asked| asked.elapsed() < HOSTS_EVERY)
        {
            return;
        }
        self.asked = Some(Instant::now());
        let nodes = redlock.inspect(Duration::ZERO).await.nodes;
        let clients = nodes.into_iter().filter_map(|node| node.server.ok()?.clients).flatten();
        // Those that are gone are forgotten.
        self.known = clients.filter_map(|client| Some((client.client, client.host?))).collect();
    }
}

/// A line, and who holds what it is for; that is not asked of a semaphore.
pub(super) struct Row {
    pub(super) line: Line,
    pub(super) holder: Option<Holder>,
    /// Where those are who stand there, in order, as far as is known.
    pub(super) hosts: Vec<Option<Arc<str>>>,
}

impl Row {
    /// For how long the first has waited.
    pub(super) fn longest(&self, at: Duration) -> Duration {
        self.line.places.first().map_or(Duration::ZERO, |place| waited(place.ticket, at))
    }
}

/// What was seen.
pub(super) struct Seen {
    /// When, since 1970.
    pub(super) at: Duration,
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
            let known =
                |place: &LinePlace| hosts.known.get(&*place.client.to_string()).map(Arc::clone);
            row.hosts = row.line.places.iter().map(known).collect();
        }
        Ok(seen)
    }

    /// Where no node tells.
    pub(super) fn nothing(redlock: &Redlock, untold: Reports) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nodes = redlock.nodes().len();
        Self { at, rows: Vec::new(), waiting: 0, lines: 0, nodes, untold }
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
        let clients = row.line.places.iter().zip(&row.hosts).map(|(place, host)| {
            json!({
                "client": place.client.to_string(),
                "host": host.as_deref(),
                "reads": place.reads,
                "waited": waited(place.ticket, self.at).as_secs_f64(),
            })
        });
        let clients: Vec<Value> = clients.collect();
        let holder = row.holder.as_ref().map(|holder| as_json(&row.line.name, holder));
        let more = json!({
            "semaphore": row.line.is_semaphore,
            "waiting": row.line.waiting,
            "longest": row.longest(self.at).as_secs_f64(),
            "clients": clients,
            "holder": holder,
        });
        with(shown::resource(&row.line.name), more)
    }
}

/// By our clock and that of the nodes, which may differ.
fn waited(ticket: Ticket, at: Duration) -> Duration {
    at.saturating_sub(Duration::from_micros(ticket.get()))
}
