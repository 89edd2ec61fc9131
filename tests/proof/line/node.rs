//! A node: the production's `NodeStore`, by a clock of its own, with the faults and lies of a world.
//!
//! What is planted is done around it: what it is asked, what stands there meanwhile, and what it says.

use std::{collections::BTreeSet, time::Duration};

use quorlock_core::{
    ClientId, Command, Denial, LineHint, NodeKey, NodeNews, NodeStore, Reply, Resource, Stand,
    Timestamp, WaitList,
};
use rand::{Rng, rngs::StdRng, seq::IteratorRandom};

use super::{client::Client, setup::Bug};

pub(crate) struct Node {
    store: NodeStore,
    has_line: bool,
    pub(crate) is_up: bool,
    /// By how many microseconds its clock is ahead.
    ahead: u64,
    /// By how many microseconds what it tells was set back.
    pub(crate) set_back: u64,
    /// By how many parts in a million it is fast.
    fast: i64,
    bug: Bug,
    lie: f64,
    named: BTreeSet<ClientId>,
}

/// What a node can be asked with, beside the command.
pub(crate) struct Around<'a> {
    pub(crate) hears: &'a dyn Fn(ClientId) -> bool,
    pub(crate) clients: &'a [Client],
    pub(crate) now: Duration,
    pub(crate) rng: &'a mut StdRng,
}

type Answered = (Reply, Vec<(ClientId, LineHint)>);

impl Node {
    pub(crate) fn new(has_line: bool, ahead: u64, fast: i64, bug: Bug, lie: f64) -> Self {
        let (store, named) = (NodeStore::new(), BTreeSet::new());
        Self { store, has_line, is_up: true, ahead, set_back: 0, fast, bug, lie, named }
    }

    /// Its clock, at this time of the world, as it tells it.
    pub(crate) fn clock_us(&self, now: Duration) -> u64 {
        self.expiry_us(now) - self.set_back
    }

    fn expiry_us(&self, now: Duration) -> u64 {
        let us = i128::try_from(now.as_micros()).unwrap();
        let own = us + us * i128::from(self.fast) / 1_000_000;
        u64::try_from(own).unwrap() + self.ahead
    }

    pub(crate) fn flush_lines(&mut self) {
        self.store.lines().clear();
    }

    fn line(&self) -> Option<&WaitList> {
        self.store.line(&Resource::new("r").unwrap())
    }

    fn done(&mut self, command: Command, around: &Around<'_>) -> Answered {
        let us = self.expiry_us(around.now);
        let now = Timestamp::from_origin(Duration::from_micros(us));
        let (reply, news) = self.store.execute(command, now, u64::MAX, around.hears);
        let told = news.into_iter().filter_map(|news| match news {
            NodeNews::Line { client, hint, .. } => Some((client, hint)),
            NodeNews::Freed(_) => None,
        });
        (reply.expect("it votes"), told.collect())
    }

    pub(crate) fn execute(&mut self, command: &Command, around: &mut Around<'_>) -> Answered {
        let (reply, mut told) = match command {
            Command::Acquire { stand, .. } => self.acquire(command.clone(), *stand, around),
            _ => self.done(command.clone(), around),
        };
        if self.bug == Bug::WakesTheWrongAndNobodyPolls {
            let last = self.line().and_then(|line| line.waiting().last());
            told.retain(|(_, hint)| *hint == LineHint::Next);
            told.iter_mut().for_each(|(client, _)| *client = last.unwrap_or(*client));
        }
        (reply, told)
    }

    fn acquire(
        &mut self,
        mut command: Command,
        asks: Option<Stand>,
        around: &mut Around<'_>,
    ) -> Answered {
        if let Command::Acquire { stand, .. } = &mut command {
            *stand = asks.filter(|it| self.has_line && !self.named.contains(&it.client));
        }
        if self.bug == Bug::NamedForGood {
            self.named.extend(asks.and_then(|stand| stand.skip));
        }
        let now = Timestamp::from_origin(Duration::from_micros(self.expiry_us(around.now)));
        let is_free = self.store.keys(now).is_empty();
        let is_first = asks.is_some_and(|stand| {
            self.line().is_some_and(|line| line.waiting().next() == Some(stand.client))
        });
        if self.bug == Bug::LineGrants && is_first {
            self.store.keys(now).clear();
        }
        let lies = is_free && around.rng.random_bool(self.lie);
        let is_new = asks.is_none_or(|stand| stand.ticket.is_none());
        let overtakes = self.bug == Bug::NewcomersOvertake && is_new;
        if is_free && (overtakes || lies && around.rng.random_bool(0.5)) {
            // It is let in past everyone in the line.
            let before = std::mem::take(self.store.lines());
            let answered = self.done(command, around);
            *self.store.lines() = before;
            return answered;
        }
        if lies {
            // It says that somebody is before this one, also where nobody is.
            let (value, expires) = (Vec::new(), None);
            self.store.keys(now).insert(b"r".to_vec(), NodeKey::new(value, expires));
        }
        let (reply, told) = self.done(command, around);
        if lies {
            self.store.keys(now).clear();
        }
        let Reply::Denied(mut denial) = reply else { return (reply, told) };
        if !self.has_line {
            return (Reply::Denied(Denial::new(denial.holder, denial.remaining)), told);
        }
        if lies {
            let anybody = around.clients.iter().map(|client| client.id).choose(around.rng);
            denial = anybody.map_or(denial, Denial::behind);
        }
        let mut rank = denial.rank;
        if around.rng.random_bool(self.lie) {
            let ranks = [None, Some(around.rng.random_range(0..5)), Some(u32::MAX)];
            rank = ranks.into_iter().choose(around.rng).unwrap();
        }
        (Reply::Denied(denial.in_line(self.clock_us(around.now), rank)), told)
    }
}
