//! The line of one resource on one node: who stands there, who is let in, and who is told.
//!
//! It decides as the scripts of a Redis node do, and `src/node/alike_test` compares the two. It lets nobody in by
//! itself: a node asks it who is first before it sets a key that is free, and never sets one that is not.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};
use core::time::Duration;

use super::{
    ClientId, LineHint, Stand, Ticket,
    entered::{Asks, Entered, ReadAccess},
    news::{IsStuck, LineNews},
};
use crate::time::Timestamp;

/// For how long a line is kept after the last one has stood in it, or a little less: its end is not moved for each one
/// who comes.
const LIFE: Duration = Duration::from_secs(4);

/// By so much less.
const LITTLE: Duration = Duration::from_millis(100);

/// What is left of that where all who stand there have missed a poll.
const UNHEARD: Duration = Duration::from_millis(2_400);

/// As many are looked at for one who can be told.
const FEW: usize = 16;

/// With more than these it is left alone until they are gone.
const MOST: usize = 10_000;

/// The line of one resource on one node. One that is empty is as good as none.
///
/// An acquire [`enter`](WaitList::enter)s it, and is then [`grant`](WaitList::grant)ed or [`den`](WaitList::deny)ied. A
/// release of a key that was there is told by [`release`](WaitList::release).
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct WaitList {
    /// Those who wait.
    scores: BTreeMap<Waiting, i64>,
    order: BTreeSet<(i64, Waiting)>,
    /// The holder of several tokens, who is told of those who come.
    holder: Option<ClientId>,
    until: Timestamp,
}

/// One who waits. Readers let each other pass, and are told together.
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
    /// An acquire comes. Who waits behind others takes its place.
    ///
    /// Where the key is free, the first is on its way: whoever has released it has woken that one. So one who comes anew
    /// tells nobody; who stood there before, and so has waited for long enough to ask again, or names one who did not
    /// come, wakes the first and has the next one stand by.
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
        // A place that is stuck keeps nobody out who asks once.
        let is_stuck = news.is_stuck.filter(|_| asks_once(stand));
        let before = |line: &Self| line.first_not_stuck(client, None, None, is_stuck);
        let is_late = is_new == Some(false) || missing.is_some() || self.left(now) < UNHEARD;
        let first = match before(self).filter(|_| is_free) {
            Some(_) if is_late => self.wake(client, missing, news).and_then(|_| before(self)),
            first => first,
        };
        Entered { first, asks: Some(Asks { stand, is_new, reads: false }) }
    }

    /// The acquire of a reader comes. It lets those writers in first that came before it, and no reader.
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

    /// A reader is kept out for a writer that waits: whether that hears of it.
    fn ask_writer(&self, writer: ClientId, news: &mut LineNews<'_>) -> bool {
        let score = self.scores.get(&Waiting::to(false, writer)).copied().unwrap_or_default();
        let ticket = Ticket::new(u64::try_from(score).unwrap_or_default());
        news.tell(writer, LineHint::KeepsOut { ticket })
    }

    /// It is denied. Returns how many stand before the client, where that waits; holders that can give the resource back
    /// are told that it does.
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
        // Told again by the first, should it not have been heard.
        if let Some(holder) = self.holder.filter(|holder| *holder != client)
            && (is_new || before == Some(0))
            && !news.tell(holder, LineHint::Wanted)
        {
            self.holder = None;
        }
        before.and_then(|before| u32::try_from(before).ok())
    }

    /// It is granted, with so many tokens, for `ttl`. The client is told whether others wait, and waits no more.
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
        // One that is empty, if only for a moment, begins anew.
        self.expire(now);
        if reads {
            // Whether others wait is of use to those who may hand it on.
            return;
        }
        let is_alone = self.order.is_empty();
        // It is an answer, and needs no channel.
        news.told.push((client, if is_alone { LineHint::Alone } else { LineHint::Wanted }));
        if count > 1 {
            self.holder = Some(client);
            self.live(LIFE.max(ttl), now);
        }
    }

    /// Of several keys another one is free: whoever is next is let in at once.
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

    /// Its owner shares the key with readers from now on: those who wait to read are told, if they are next.
    pub fn downgrade(&mut self, now: Timestamp, news: &mut LineNews<'_>) {
        self.expire(now);
        let reads_next = self.places().next().is_some_and(|first| first.reads);
        if reads_next && self.order.len() <= MOST {
            self.wake(None, None, news);
        }
    }

    /// One waits no more that had this ticket: a place that it has taken since stays. Where the key is free, or readers have
    /// it, whoever is next is woken.
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

    /// Whether nobody stands there, nor holds the resource with more than one token.
    pub fn is_empty(&self, now: Timestamp) -> bool {
        self.order.is_empty() && self.holder.is_none() || now >= self.until
    }

    /// Those who wait, in order.
    pub fn waiting(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.places().map(|waiting| waiting.client)
    }

    /// Who stands there, by the names and scores that a server has, and for how long the line lives still.
    pub fn shown(&self, now: Timestamp) -> Option<(Vec<(String, i64)>, Duration)> {
        if self.is_empty(now) {
            return None;
        }
        let holder = self.holder.map(|holder| (format!("!{holder}"), -1));
        let place = |(score, waiting): &(i64, Waiting)| {
            let before = if waiting.reads { "~" } else { "" };
            (format!("{before}{}", waiting.client), *score)
        };
        let all = holder.into_iter().chain(self.order.iter().map(place)).collect();
        Some((all, self.left(now)))
    }

    fn places(&self) -> impl Iterator<Item = Waiting> + '_ {
        self.order.iter().map(|(_, waiting)| *waiting)
    }

    /// Those who are looked at; a holder of several tokens stands before them.
    fn few(&self) -> impl Iterator<Item = &(i64, Waiting)> {
        self.order.iter().take(FEW - usize::from(self.holder.is_some()))
    }

    /// Who is let in before one that comes for the same key from another line: a slot of a semaphore has its own line, and
    /// that of those who wait for any slot. Whoever came later by its ticket comes later, and the same client may wait in both.
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

    /// The first who can go on, before `client`, with an earlier ticket, and who is not `missing`.
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

    /// The first who can be told that the key is free, which no holder has any more, and the next one to stand by; a reader
    /// that comes next after one is told as the first is. Nobody where `client` is before that. The first is forgotten if it
    /// is `missing`.
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

    /// Whether it was not there before.
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

/// Whether it does not stand in the line: it is let in before those who cannot go on.
fn asks_once(stand: Option<Stand>) -> bool {
    stand.is_none_or(|stand| stand.ticket.is_none())
}

/// Who reads waits for one key alone.
fn is_stuck_at(&(score, one): &(i64, Waiting), is_stuck: Option<IsStuck<'_>>) -> bool {
    let ticket = Ticket::new(u64::try_from(score).unwrap_or_default());
    !one.reads && is_stuck.is_some_and(|is_stuck| is_stuck(one.client, ticket))
}

fn score(ticket: Ticket) -> i64 {
    i64::try_from(ticket.get()).unwrap_or(i64::MAX)
}
