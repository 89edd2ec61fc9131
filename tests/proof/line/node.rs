//! A node: a key, its counter, and its line, by a clock of its own.
//!
//! The key and the counter follow the rules of `protocol::fencing` in a few lines; the line is that of production.

use std::{collections::BTreeSet, time::Duration};

use quorlock::protocol::{
    ClientId, Command, Denial, FencingToken, Granted, LineHint, LineNews, NodeLine, Owner, Reply,
    Stand, Timestamp,
};
use rand::{Rng, rngs::StdRng, seq::IteratorRandom};

use super::{client::Client, setup::Bug};

pub(crate) struct Node {
    key: Option<(Owner, Timestamp)>,
    counter: u64,
    line: NodeLine,
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

impl Node {
    pub(crate) fn new(has_line: bool, ahead: u64, fast: i64, bug: Bug, lie: f64) -> Self {
        Self {
            key: None,
            counter: 0,
            line: NodeLine::default(),
            has_line,
            is_up: true,
            ahead,
            set_back: 0,
            fast,
            bug,
            lie,
            named: BTreeSet::new(),
        }
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
        self.line = NodeLine::default();
    }

    fn local(&self, now: Duration) -> Timestamp {
        Timestamp::from_origin(Duration::from_micros(self.expiry_us(now)))
    }

    pub(crate) fn execute(
        &mut self,
        command: &Command,
        around: &mut Around<'_>,
    ) -> (Reply, Vec<(ClientId, LineHint)>) {
        let now = self.local(around.now);
        self.key = self.key.filter(|(_, until)| now < *until);
        let mut news = LineNews::new(around.hears);
        let reply = match command {
            Command::Acquire { owner, ttl, hint: Some(hint), count, stand, .. } => {
                let stand = stand.filter(|stand| !self.named.contains(&stand.client));
                let wanted = (*owner, *ttl, *hint, *count);
                self.acquire(wanted, stand, around, &mut news)
            }
            Command::Confirm { owner, token, .. } => {
                let ours = self.key.is_some_and(|(holder, _)| holder == *owner);
                if ours && self.counter <= token.get() {
                    self.counter = token.get();
                    Reply::Granted(Granted::at(*token))
                } else {
                    Reply::Denied(Denial::default())
                }
            }
            Command::Release { owner, .. } => match self.key {
                Some((holder, _)) if holder == *owner => {
                    self.key = None;
                    if self.has_line {
                        self.line.release(now, &mut news);
                    }
                    Reply::Granted(Granted::DONE)
                }
                Some(_) => Reply::Denied(Denial::default()),
                None => Reply::Denied(Denial::gone()),
            },
            Command::Leave { client, ticket, .. } => {
                self.line.leave(*client, *ticket, self.key.is_none(), now, &mut news);
                Reply::Granted(Granted::DONE)
            }
            other => panic!("nobody sends {other:?}"),
        };
        let mut told = news.into_told();
        if self.bug == Bug::WakesTheWrongAndNobodyPolls {
            let last = self.line.waiting().last();
            told = told
                .into_iter()
                .filter(|(_, hint)| *hint == LineHint::Next)
                .map(|(client, hint)| (last.unwrap_or(client), hint))
                .collect();
        }
        (reply, told)
    }

    fn acquire(
        &mut self,
        (owner, ttl, hint, count): (Owner, Duration, u64, u64),
        stand: Option<Stand>,
        around: &mut Around<'_>,
        news: &mut LineNews<'_>,
    ) -> Reply {
        let now = self.local(around.now);
        let is_free = self.key.is_none();
        if !self.has_line {
            return if is_free {
                self.grant(owner, ttl, hint, count, now)
            } else {
                Reply::Denied(self.held(now))
            };
        }
        let mut entered = self.line.enter(stand, is_free, now, news);
        if let Some(skip) = stand.and_then(|stand| stand.skip)
            && self.bug == Bug::NamedForGood
        {
            self.named.insert(skip);
        }
        let is_new = stand.is_none_or(|stand| stand.ticket.is_none());
        if self.bug == Bug::NewcomersOvertake && is_new {
            entered.first = None;
        }
        if is_free && around.rng.random_bool(self.lie) {
            let anybody = around.clients.iter().map(|client| client.id).choose(around.rng);
            entered.first = anybody.filter(|_| around.rng.random_bool(0.5));
        }
        let is_first = stand.is_some() && self.line.waiting().next() == stand.map(|s| s.client);
        let grants = self.bug == Bug::LineGrants && is_first;
        if (is_free || grants) && entered.first.is_none() {
            let reply = self.grant(owner, ttl, hint, count, now);
            self.line.grant(&entered, count, ttl, now, news);
            return reply;
        }
        let denial = entered.first.map_or_else(|| self.held(now), Denial::behind);
        let mut rank = self.line.deny(&entered, now, news);
        if around.rng.random_bool(self.lie) {
            rank = [None, Some(around.rng.random_range(0..5)), Some(u32::MAX)]
                .into_iter()
                .choose(around.rng)
                .unwrap();
        }
        Reply::Denied(denial.in_line(self.clock_us(around.now), rank))
    }

    fn held(&self, now: Timestamp) -> Denial {
        let holder = self.key.map(|(owner, _)| Box::from(owner.to_hex().as_slice()));
        Denial::new(holder, self.key.map(|(_, until)| until.saturating_since(now)))
    }

    fn grant(
        &mut self,
        owner: Owner,
        ttl: Duration,
        hint: u64,
        count: u64,
        now: Timestamp,
    ) -> Reply {
        self.counter = hint.max(self.counter + count);
        self.key = Some((owner, now.saturating_add(ttl)));
        Reply::Granted(Granted::at(FencingToken::new(self.counter)))
    }
}
