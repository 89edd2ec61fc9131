//! One node with a line: who has the key, how far the counter has come, and who waits.
//!
//! Goal: the line on a node is that of the production. Method: its `NodeLine`, asked as `src/node/memory/store.rs` does it,
//! around a key and a counter in a few lines.

use core::{
    hash::{Hash, Hasher},
    time::Duration,
};

use crate::protocol::{
    ClientId, Command, Denial, FencingToken, Granted, LineHint, LineNews, NodeLine, Owner, Reply,
    Stand, Timestamp,
};

/// A line that can be a part of a state.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Line(NodeLine);

impl Hash for Line {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Those that differ in more than that are compared.
        self.0.waiting().for_each(|client| client.hash(state));
    }
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Node {
    pub(crate) key: Option<(Owner, Timestamp)>,
    counter: u64,
    line: Line,
}

/// What a node tells whom.
pub(crate) type Told = Vec<(ClientId, LineHint)>;

impl Node {
    pub(crate) fn new(counter: u64) -> Self {
        Self { counter, ..Self::default() }
    }

    /// Whether a client stands in its line.
    pub(crate) fn has_in_line(&self, client: ClientId) -> bool {
        self.line.0.waiting().any(|other| other == client)
    }

    pub(crate) fn execute(&mut self, command: &Command, now: Timestamp) -> (Reply, Told) {
        let hears = |_: ClientId| true;
        let mut news = LineNews::new(&hears);
        self.key = self.key.filter(|(_, until)| now < *until);
        let is_of = |owner: &Owner| self.key.is_some_and(|(holder, _)| holder == *owner);
        let reply = match command {
            Command::Acquire { owner, ttl, hint: Some(hint), stand, .. } => {
                self.acquire((*owner, *ttl, *hint), *stand, now, &mut news)
            }
            Command::Confirm { owner, token, .. } => {
                if is_of(owner) && self.counter <= token.get() {
                    self.counter = token.get();
                    Reply::Granted(Granted::at(*token))
                } else {
                    Reply::Denied(Denial::default())
                }
            }
            Command::Release { owner, .. } => {
                if is_of(owner) {
                    self.key = None;
                    self.line.0.release(now, &mut news);
                    Reply::Granted(Granted::DONE)
                } else {
                    Reply::Denied(Denial::default())
                }
            }
            Command::Leave { client, ticket, .. } => {
                self.line.0.leave(*client, *ticket, self.key.is_none(), now, &mut news);
                Reply::Granted(Granted::DONE)
            }
            other => panic!("nobody sends {other:?}"),
        };
        (reply, news.into_told())
    }

    fn acquire(
        &mut self,
        (owner, ttl, hint): (Owner, Duration, u64),
        stand: Option<Stand>,
        now: Timestamp,
        news: &mut LineNews<'_>,
    ) -> Reply {
        let entered = self.line.0.enter(stand, self.key.is_none(), now, news);
        if self.key.is_none() && entered.first.is_none() {
            self.counter = hint.max(self.counter + 1);
            self.key = Some((owner, now.saturating_add(ttl)));
            self.line.0.grant(&entered, 1, ttl, now, news);
            return Reply::Granted(Granted::at(FencingToken::new(self.counter)));
        }
        let denial = match (entered.first, self.key) {
            (Some(first), _) => Denial::behind(first),
            (None, Some((holder, until))) => {
                let holder = Box::from(holder.to_hex().as_slice());
                Denial::new(Some(holder), Some(until.saturating_since(now)))
            }
            (None, None) => Denial::default(),
        };
        let rank = self.line.0.deny(&entered, now, news);
        let clock = u64::try_from(now.since_origin().as_micros()).expect("a short time");
        Reply::Denied(denial.in_line(clock, rank))
    }
}
