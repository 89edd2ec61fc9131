//! The line of one resource on one node: which clients wait, which is let in, and which are told.
//!
//! It decides as the scripts of a Redis node do, and `src/node/alike_test` compares the two. It lets no client in by
//! itself: a node asks it for the first before it sets a free key, and never sets a key that is not free.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};
use core::time::Duration;

use super::{
    ClientId, LineHint, LinePlace, Stand, Ticket,
    entered::{Asks, Entered, ReadAccess},
    news::{IsStuck, LineNews},
};
use crate::time::Timestamp;

/// How long a line lives after its last visit, or a little less: not every visit moves its end.
const LIFE: Duration = Duration::from_secs(4);

/// The little less.
const LITTLE: Duration = Duration::from_millis(100);

/// The life left of a line in which every waiter has missed a poll.
const UNHEARD: Duration = Duration::from_millis(2_400);

/// How many places are searched for a client that can be told.
const FEW: usize = 16;

/// A line with more places than this is left alone until it expires.
const MOST: usize = 10_000;

/// The line of one resource on one node. An empty line is as good as none.
///
/// An acquire [`enter`](WaitList::enter)s it, and is then [`grant`](WaitList::grant)ed or [`den`](WaitList::deny)ied.
/// [`release`](WaitList::release) reports the release of a key that was there.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct WaitList {
    /// The waiters.
    scores: BTreeMap<Waiting, i64>,
    order: BTreeSet<(i64, Waiting)>,
    /// The holder of several tokens, which is told of new waiters.
    holder: Option<ClientId>,
    until: Timestamp,
}

/// A waiter. Readers let each other pass, and are told together.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Waiting {
    reads: bool,
    client: ClientId,
}

impl Waiting {
    const fn to(reads: bool, client: ClientId) -> Self {
        Self { reads, client }
    }
}

impl WaitList {
    /// Takes an acquire. A client with a ticket takes its place behind others.
    ///
    /// The releaser of a free key already woke the first waiter. A newcomer wakes it again only if the whole line looks
    /// dead. A client that stood there before has waited long enough to ask again: it wakes the first, and the next
    /// stands by. A client that names a missing head does the same.
    pub fn enter(
        &mut self,
        stand: Option<Stand>,
        is_free: bool,
        now: Timestamp,
        news: &mut LineNews<'_>,
    ) -> Entered {
        self.expire(now);
        if self.order.len() > MOST || stand.is_none() && self.is_empty(now) {
            return Entered::default();
        }
        let (client, missing) = match stand {
            Some(stand) => (Some(Waiting::to(false, stand.client)), stand.skip),
            None => (None, None),
        };
        let is_first = |line: &Self| line.places().next().is_none_or(|one| Some(one) == client);
        let mut is_new = None;
        if let Some(Stand { client, ticket: Some(ticket), .. }) = stand
            && !is_first(self)
        {
            is_new = Some(self.put(Waiting::to(false, client), score(ticket)));
        }
        // A stuck place keeps no client out that asks once.
        let is_stuck = news.is_stuck.filter(|_| asks_once(stand));
        let before = |line: &Self| line.first_not_stuck(client, None, None, is_stuck);
        let is_late = is_new == Some(false) || missing.is_some() || self.left(now) < UNHEARD;
        let first = match before(self).filter(|_| is_free) {
            Some(_) if is_late => self.wake(client, missing, news).and_then(|_| before(self)),
            first => first,
        };
        Entered { first, asks: Some(Asks { stand, is_new, reads: false }) }
    }

    /// Takes an acquire of a reader. Writers that came before it go first, readers do not.
    pub fn enter_to_read(
        &mut self,
        stand: Option<Stand>,
        access: ReadAccess,
        now: Timestamp,
        news: &mut LineNews<'_>,
    ) -> Entered {
        self.expire(now);
        if self.order.len() > MOST || stand.is_none() && self.is_empty(now) {
            return Entered::default();
        }
        let reader = stand.map(|stand| Waiting::to(true, stand.client));
        let missing = stand.and_then(|stand| stand.skip);
        let is_stuck = news.is_stuck.filter(|_| asks_once(stand));
        let writer_before = |line: &Self| {
            let before = line.few().take_while(|(_, one)| Some(*one) != reader);
            let mut writers = before.filter(|(_, one)| !one.reads);
            writers.find(|place| !is_stuck_at(place, is_stuck)).map(|(_, one)| one.client)
        };
        let mut writer = writer_before(self);
        let mut is_new = None;
        if let Some(reader) = reader.filter(|_| writer.is_some())
            && let Some(ticket) = stand.and_then(|stand| stand.ticket)
        {
            is_new = Some(self.put(reader, score(ticket)));
            writer = writer_before(self);
        }
        let is_late = is_new == Some(false) || missing.is_some() || self.left(now) < UNHEARD;
        let first = match (writer, access) {
            (Some(_), ReadAccess::Free) if is_late => {
                let told = self.wake(reader, missing, news);
                writer_before(self).map(|writer| told.unwrap_or(writer))
            }
            (Some(waits), ReadAccess::Shared) if !self.ask_writer(waits, news) => {
                self.remove(Waiting::to(false, waits));
                writer_before(self)
            }
            (writer, _) => writer,
        };
        Entered { first, asks: Some(Asks { stand, is_new, reads: true }) }
    }

    /// Tells a waiting writer that a reader is kept out for it, and returns whether the writer can be told.
    fn ask_writer(&self, writer: ClientId, news: &mut LineNews<'_>) -> bool {
        let score = self.scores.get(&Waiting::to(false, writer)).copied().unwrap_or_default();
        let ticket = Ticket::new(u64::try_from(score).unwrap_or_default());
        news.tell(writer, LineHint::KeepsOut { ticket })
    }

    /// The acquire is denied. Returns how many stand before the client, if it waits. A holder of several tokens, which
    /// can give the resource back, is told of a new waiter.
    pub fn deny(
        &mut self,
        entered: &Entered,
        now: Timestamp,
        news: &mut LineNews<'_>,
    ) -> Option<u32> {
        let Asks { stand, is_new, reads } = entered.asks?;
        let Stand { client, ticket: Some(ticket), .. } = stand? else { return None };
        let place = Waiting::to(reads, client);
        let is_new = is_new.unwrap_or_else(|| self.put(place, score(ticket)));
        self.live(LIFE, now);
        let before = self.order.iter().position(|(_, other)| *other == place);
        // The first tells it again, in case the holder did not hear.
        if let Some(holder) = self.holder.filter(|holder| *holder != client)
            && (is_new || before == Some(0))
            && !news.tell(holder, LineHint::Wanted)
        {
            self.holder = None;
        }
        before.and_then(|before| u32::try_from(before).ok())
    }

    /// The acquire is granted, with `count` tokens, for `ttl`. The client no longer waits. A writer is told whether
    /// others wait.
    pub fn grant(
        &mut self,
        entered: &Entered,
        count: u64,
        ttl: Duration,
        now: Timestamp,
        news: &mut LineNews<'_>,
    ) {
        let Some(Asks { stand, reads, .. }) = entered.asks else { return };
        self.holder = None;
        let Some(Stand { client, .. }) = stand else { return };
        self.remove(Waiting::to(reads, client));
        // A line that is empty, if only for a moment, begins anew.
        self.expire(now);
        if reads {
            // A reader does not hand its lease on, so the news is of no use to it.
            return;
        }
        let is_alone = self.order.is_empty();
        // This is part of the answer, and needs no channel.
        news.told.push((client, if is_alone { LineHint::Alone } else { LineHint::Wanted }));
        if count > 1 {
            self.holder = Some(client);
            self.live(LIFE.max(ttl), now);
        }
    }

    /// Another of several keys is free: the next waiter is told at once.
    pub fn pass_on(&mut self, news: &mut LineNews<'_>) {
        self.wake(None, None, news);
    }

    /// A key was deleted by its owner, or given a new end.
    pub fn release(&mut self, now: Timestamp, news: &mut LineNews<'_>) {
        self.expire(now);
        if self.order.len() <= MOST {
            self.wake(None, None, news);
        }
    }

    /// The owner shares the key with readers from now on: waiting readers are told, if they are next.
    pub fn downgrade(&mut self, now: Timestamp, news: &mut LineNews<'_>) {
        self.expire(now);
        let reads_next = self.places().next().is_some_and(|first| first.reads);
        if reads_next && self.order.len() <= MOST {
            self.wake(None, None, news);
        }
    }

    /// The client gives up its place with this ticket; a place that it has taken since stays. Where the key is free, or
    /// readers have it, the next waiter is woken.
    pub fn leave(
        &mut self,
        client: ClientId,
        ticket: Ticket,
        is_free: bool,
        now: Timestamp,
        news: &mut LineNews<'_>,
    ) {
        self.expire(now);
        for place in [false, true].map(|reads| Waiting::to(reads, client)) {
            if self.order.len() <= MOST && self.scores.get(&place) == Some(&score(ticket)) {
                self.remove(place);
                if is_free {
                    self.wake(None, None, news);
                }
            }
        }
    }

    /// Whether the line has no waiter and no holder of several tokens, or has expired.
    pub fn is_empty(&self, now: Timestamp) -> bool {
        self.order.is_empty() && self.holder.is_none() || now >= self.until
    }

    /// The waiters, in order.
    pub fn waiting(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.places().map(|waiting| waiting.client)
    }

    /// The members and scores that a server has for this line, and its remaining life.
    pub fn shown(&self, now: Timestamp) -> Option<(Vec<(String, i64)>, Duration)> {
        if self.is_empty(now) {
            return None;
        }
        let holder = self.holder.map(|holder| (format!("!{holder}"), -1));
        let place = |(score, waiting): &(i64, Waiting)| {
            let before = if waiting.reads { LinePlace::READER } else { "" };
            (format!("{before}{}", waiting.client), *score)
        };
        let all = holder.into_iter().chain(self.order.iter().map(place)).collect();
        Some((all, self.left(now)))
    }

    fn places(&self) -> impl Iterator<Item = Waiting> + '_ {
        self.order.iter().map(|(_, waiting)| *waiting)
    }

    /// The places that are searched; a holder of several tokens counts as one.
    fn few(&self) -> impl Iterator<Item = &(i64, Waiting)> {
        self.order.iter().take(FEW - usize::from(self.holder.is_some()))
    }

    /// The client that is let in before a client of another line for the same key: a slot of a semaphore has its own
    /// line and the line for any slot. The later ticket comes later, and the same client may wait in both lines.
    pub fn first_before(
        &self,
        stand: Option<Stand>,
        now: Timestamp,
        news: &LineNews<'_>,
    ) -> Option<ClientId> {
        if self.order.len() > MOST || self.is_empty(now) {
            return None;
        }
        let ticket = stand.and_then(|stand| stand.ticket);
        let missing = stand.and_then(|stand| stand.skip);
        self.first_not_stuck(None, ticket, missing, news.is_stuck)
    }

    /// The first waiter before `client`, with an earlier ticket, that can go on and is not `missing`.
    fn first_not_stuck(
        &self,
        client: Option<Waiting>,
        ticket: Option<Ticket>,
        missing: Option<ClientId>,
        is_stuck: Option<IsStuck<'_>>,
    ) -> Option<ClientId> {
        let is_before = |&&(at, one): &&(i64, Waiting)| {
            Some(one) != client && ticket.is_none_or(|ticket| at < score(ticket))
        };
        let mut before = self.few().take_while(is_before);
        let goes_on = |place: &&(i64, Waiting)| {
            Some(place.1.client) != missing && !is_stuck_at(place, is_stuck)
        };
        before.find(goes_on).map(|(_, one)| one.client)
    }

    /// Tells the first reachable waiter before `client` that the key is free, and the next to stand by. Readers next to
    /// a first reader are told as it is. The holder is dropped, and so is the first place if it is `missing`. Returns
    /// the first waiter told.
    fn wake(
        &mut self,
        client: Option<Waiting>,
        missing: Option<ClientId>,
        news: &mut LineNews<'_>,
    ) -> Option<ClientId> {
        let waiting: Vec<Waiting> = self.few().map(|(_, waiting)| *waiting).collect();
        self.holder = None;
        let mut first: Option<Waiting> = None;
        let name = |first: Option<Waiting>| first.map(|first| first.client);
        for (place, waiter) in waiting.into_iter().enumerate() {
            if Some(waiter) == client {
                return name(first);
            }
            if place == 0 && Some(waiter.client) == missing {
                self.remove(waiter);
                continue;
            }
            let is_beside = waiter.reads && first.is_some_and(|first| first.reads);
            let before = first.filter(|_| !is_beside);
            let hint =
                before.map_or(LineHint::Next, |head| LineHint::StandBy { head: head.client });
            if !news.tell(waiter.client, hint) {
                self.remove(waiter);
            } else if before.is_some() {
                return name(first);
            } else {
                first = first.or(Some(waiter));
            }
        }
        name(first)
    }

    /// Returns whether the place is new.
    fn put(&mut self, client: Waiting, score: i64) -> bool {
        let before = self.scores.insert(client, score);
        if let Some(before) = before {
            self.order.remove(&(before, client));
        }
        self.order.insert((score, client));
        before.is_none()
    }

    fn remove(&mut self, client: Waiting) {
        if let Some(score) = self.scores.remove(&client) {
            self.order.remove(&(score, client));
        }
    }

    fn live(&mut self, life: Duration, now: Timestamp) {
        if self.left(now).saturating_add(LITTLE) < life {
            self.until = now.saturating_add(life);
        }
    }

    fn left(&self, now: Timestamp) -> Duration {
        self.until.saturating_since(now)
    }

    fn expire(&mut self, now: Timestamp) {
        if self.is_empty(now) {
            *self = Self::default();
        }
    }
}

/// Whether the client has no ticket: it is let in before stuck waiters.
fn asks_once(stand: Option<Stand>) -> bool {
    stand.is_none_or(|stand| stand.ticket.is_none())
}

/// A reader waits for one key alone, and is never stuck.
fn is_stuck_at(&(score, one): &(i64, Waiting), is_stuck: Option<IsStuck<'_>>) -> bool {
    let ticket = Ticket::new(u64::try_from(score).unwrap_or_default());
    !one.reads && is_stuck.is_some_and(|is_stuck| is_stuck(one.client, ticket))
}

fn score(ticket: Ticket) -> i64 {
    i64::try_from(ticket.get()).unwrap_or(i64::MAX)
}
