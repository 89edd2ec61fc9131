//! What must hold of every run, whatever goes wrong in it.
//!
//! It is told what happens, and looks at nothing else: neither at the nodes nor into a client.

use std::{collections::BTreeMap, time::Duration};

use super::network::Who;

/// A lease that may still be valid.
#[derive(Clone, Copy, Debug)]
struct Held {
    who: Who,
    until: Duration,
}

/// A waiter.
#[derive(Clone, Copy, Debug)]
struct Waits {
    /// When it asked first.
    came: Duration,
    /// Since when it stands in the line on a quorum of nodes.
    stood: Option<Duration>,
    /// Something has happened to it since: it may be overtaken.
    failed: bool,
}

/// All that was found.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    held: Option<Held>,
    /// When each grant was won, and the largest token so far.
    tokens: Vec<(Duration, u64)>,
    waits: BTreeMap<Who, Waits>,
    /// Two valid leases at a time, or tokens that do not rise.
    pub(crate) unsafe_at: Vec<String>,
    /// Clients in the line that were served after a client that came later.
    pub(crate) overtaken: Vec<String>,
}

impl Checker {
    pub(crate) fn comes(&mut self, who: Who, now: Duration) {
        self.waits.insert(who, Waits { came: now, stood: None, failed: false });
    }

    /// It stands in the line on a quorum of nodes, as these have said.
    pub(crate) fn stands(&mut self, who: Who, now: Duration) {
        if let Some(waits) = self.waits.get_mut(&who) {
            waits.stood.get_or_insert(now);
        }
    }

    /// It, a connection of its or what it was told has failed.
    pub(crate) fn fails(&mut self, who: Who) {
        if let Some(waits) = self.waits.get_mut(&who) {
            waits.failed = true;
        }
    }

    /// A node has failed: the places of all are in doubt.
    pub(crate) fn all_fail(&mut self) {
        self.waits.values_mut().for_each(|waits| waits.failed = true);
    }

    pub(crate) fn leaves(&mut self, who: Who) {
        self.waits.remove(&who);
    }

    /// It has got the resource, by a round that had begun at `begun`.
    pub(crate) fn granted(
        &mut self,
        who: Who,
        token: u64,
        begun: Duration,
        until: Duration,
        now: Duration,
    ) {
        if let Some(held) = self.held.filter(|held| held.until > now) {
            self.unsafe_at.push(format!("{now:?}: granted to {who} while {held:?}"));
        }
        self.held = Some(Held { who, until });
        let before = self.tokens.partition_point(|(won, _)| *won < begun);
        if let Some((won, largest)) = before.checked_sub(1).map(|index| self.tokens[index])
            && token <= largest
        {
            self.unsafe_at.push(format!("{now:?}: token {token} after {largest} of {won:?}"));
        }
        let largest = self.tokens.last().map_or(token, |(_, largest)| token.max(*largest));
        self.tokens.push((now, largest));
        let Some(waits) = self.waits.remove(&who) else {
            self.unsafe_at.push(format!("{now:?}: {who} did not ask"));
            return;
        };
        for (other, before) in &self.waits {
            if !before.failed && before.stood.is_some_and(|stood| stood < waits.came) {
                let line = format!("{now:?}: {who} {waits:?} overtakes {other} {before:?}");
                self.overtaken.push(line);
            }
        }
    }

    /// It gives the resource back.
    pub(crate) fn gives_back(&mut self, who: Who) {
        self.held = self.held.filter(|held| held.who != who);
    }

    /// Clients that still wait, and since when.
    pub(crate) fn waiting(&self) -> Vec<(Who, Duration)> {
        self.waits.iter().map(|(who, waits)| (*who, waits.came)).collect()
    }
}
