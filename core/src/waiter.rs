//! One client's wait in the lines on the nodes for one resource: what its next round says, and when it begins.
//!
//! It decides by the answers to its lost rounds, by the nodes' hints, and by the time. It begins no round itself, reads
//! no clock and draws no random number. No hint may do more than begin a round, which asks all nodes as any other does.
//!
//! **One place for each client.** The ticket stands for the client, not for one of its waiting requests. Where the
//! first request gives up, the next goes on with the same place, for which the client has waited without a break.
//! Otherwise an impatient request would send its client to the end again and again. Once the resource is granted, or
//! none of the client's requests waits for it any more, the place is over, and the next one begins at the end.
//!
//! # Invariants
//!
//! - **T1** The ticket is chosen once, by the nodes' clocks and never by our own, and every round says the same one.
//!   Where those clocks are set back behind it, it goes back as far, or all later clients would come before.
//! - **T2** Wake-ups begin a round when a quorum of nodes has told of a free key, each node counted once for a round.
//!   If this client is not the first on a quorum, the first has its grace before.
//! - **T3** A head is named as missing after it has been the first before a free key for a grace; then its grace begins
//!   anew. A head that this client has passed over again and again has a longer grace. The client may have another
//!   place in the lines, to read beside one for all else. It names itself where that place is first and no request
//!   waits with it.
//! - **T4** Whatever hints come or are lost, a round begins within a poll, and the first in the line begins one when
//!   the keys in the way will have expired on a quorum, also where those of a minority keep it from one.
//! - **T5** Rounds back off exponentially, up to a limit that is small beside a poll. They do so after wake-ups without
//!   a grant, and after rounds that find neither a holder nor another first in the line, or a holder whose key is about
//!   to end. Where a key that kept it from a quorum has ended, they begin anew, once in a poll. The first round that is
//!   lost because nodes must be looked at is followed by another one at once.
//! - **T6** Where fewer than a quorum of nodes have a line, it says so, and the pauses are those of a client without
//!   one.
//! - **T7** A lost round is heard out before it is undone only where one holder has the key on a quorum and no node has
//!   granted or is free: then the round is in nobody's way, and the next one is far away or is denied like it.
//!
//! They are tested, each by name, in `tests/proof/protocol/line.rs`.

mod patience;
mod plan;
mod views;

use alloc::vec::Vec;
use core::time::Duration;

pub use self::{patience::Patience, views::LineAnswer};
use self::{
    plan::spread,
    views::{Views, median},
};
use super::{
    command::NodeId,
    line::{ClientId, LineHint, Stand, Ticket},
    round::Quorum,
    time::Timestamp,
};

/// The shortest wait for the first in the line. It is two round trips where those take longer.
const GRACE: Duration = Duration::from_millis(2);

/// The shortest wait for the first by a client that stands by. Where the resource is given back before that, the client
/// is woken instead, and has asked nothing in between: that saves a round for each grant.
const STAND_BY: Duration = Duration::from_millis(3);

/// The shortest time after which a client without a hint asks again. The longest is half as much more.
const POLL: Duration = Duration::from_secs(1);

/// How often the pause after wake-ups in vain is doubled. It begins with a quarter of a grace, so that the second in
/// the line, which waits for a whole grace, does not come before the first.
const VAIN: u32 = 6;

/// Wake-ups in vain that are longer ago than this many graces do not count.
const LONG_AGO: u32 = 50;

/// How often the pause is doubled after rounds that found neither a holder nor another first.
const UNCLEAR: u32 = 5;

/// When a node votes again, a waiter asks after this many graces, or up to twice that, as all waiters there do.
const READY: u32 = 3;

/// The first in the line, which has not come yet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct First {
    client: ClientId,
    /// Since when it is known to be the first before a free key.
    since: Timestamp,
    /// Whether it is known by hints, and not by answers. A hint is news of a key that has just become free: the same
    /// client may have been the first long before, and another client may have had the key meanwhile.
    is_told: bool,
}

/// One client's wait in the lines on the nodes for one resource, from its first round to its grant.
///
/// Before each round call [`begin_round`](Waiter::begin_round), and send its [`Stand`] in all acquires of the round.
/// After a lost round call [`handle_lost_round`](Waiter::handle_lost_round), then pass on the nodes' hints. Begin the
/// next round at [`next_round`](Waiter::next_round), which every call may have moved.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Waiter {
    client: ClientId,
    ticket: Option<Ticket>,
    /// Since when it has the ticket.
    stands_since: Option<Timestamp>,
    nodes: Views,
    first: Option<First>,
    /// Which clients get a longer grace.
    patience: Patience,
    /// The head that the last round named as missing, unless a node has told this client that it is the first.
    passes: Option<ClientId>,
    /// How many clients stand before it, as seen in its last round.
    rank: Option<u32>,
    round_trip: Option<Duration>,
    random: u8,
    /// Whether wake-ups began the last round.
    awakened: bool,
    /// How many such rounds were lost in a short time, and when the last one was.
    in_vain: (u32, Timestamp),
    /// How many rounds in a row have found neither a holder nor another first, before the last one.
    unclear: u32,
    /// The first that an earlier round found.
    before: Option<ClientId>,
    /// Wake-ups begin no round before this.
    earliest: Timestamp,
    /// When the last round was lost; `None` while one is under way.
    lost_at: Option<Timestamp>,
    /// When the next round begins at the latest, whatever hints come.
    poll: Timestamp,
    /// When it begins without a hint.
    limit: Timestamp,
    /// When the keys in the way end, where `limit` is by that and not by the pauses.
    ends: Option<Timestamp>,
    /// When a round last began by such an end.
    ended: Option<Timestamp>,
    /// When it begins by hints.
    called: Option<Timestamp>,
}

impl Waiter {
    /// A client that has not asked yet.
    pub fn new(client: ClientId, quorum: Quorum) -> Self {
        Self {
            client,
            ticket: None,
            stands_since: None,
            nodes: Views::new(client, quorum),
            first: None,
            patience: Patience::default(),
            passes: None,
            rank: None,
            round_trip: None,
            random: 0,
            awakened: false,
            in_vain: (0, Timestamp::ORIGIN),
            unclear: 0,
            before: None,
            earliest: Timestamp::ORIGIN,
            lost_at: None,
            poll: Timestamp::ORIGIN,
            limit: Timestamp::ORIGIN,
            ends: None,
            ended: None,
            called: None,
        }
    }

    /// The same, with the clients that it has passed over before.
    #[must_use]
    pub fn knowing(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// The client that was passed over if the last round was won: named as missing, while no node has told that it has
    /// come and gone.
    pub const fn passed_over(&self) -> Option<ClientId> {
        self.passes
    }

    /// Stands in the line from its first round on, as the client knows that others wait. `clocks` are the nodes' clocks
    /// in microseconds, as far as known.
    pub fn stand(&mut self, clocks: &[Option<u64>]) {
        if self.ticket.is_none() {
            self.ticket = median(clocks.iter().copied().flatten().collect()).map(Ticket::new);
        }
    }

    /// Begins a round, which sends the returned stand.
    pub fn begin_round(&mut self, now: Timestamp) -> Stand {
        let grace = self.first.map_or(Duration::ZERO, |first| self.grace_of(first.client));
        let late = self.first.take_if(|first| now.saturating_since(first.since) >= grace);
        self.awakened = self.nodes.wake();
        if self.ends.take().is_some_and(|ends| ends <= now) {
            (self.unclear, self.ended) = (0, Some(now));
        }
        let is_next = self.nodes.is_next_somewhere();
        self.nodes.begin_round();
        (self.lost_at, self.called) = (None, None);
        let skip = late.map(|first| first.client).filter(|_| self.ticket.is_some());
        self.passes = skip.filter(|_| !is_next);
        Stand { client: self.client, ticket: self.ticket, skip }
    }

    /// Says whether nodes may deny the round for this client's other place, one to read beside one for all else, with
    /// which no request waits: its farewell was lost. That place is passed over like that of a client that does not
    /// come. The caller says this before each lost round; until then there is no such place.
    pub const fn handle_other_place(&mut self, is_left_behind: bool) {
        self.nodes.handle_other_place(is_left_behind);
    }

    /// The round was lost, as known at `now`, by these answers. `clocks` are the nodes' clocks in microseconds, as far
    /// as known, by place; clocks in the answers count before them. `round_trip` is the measured one; `random` is any
    /// byte, and spreads out the waiters.
    ///
    /// Returns when the next round begins without a hint. `None` says that too few nodes have a line to wait for hints.
    pub fn handle_lost_round<'a>(
        &mut self,
        answers: impl IntoIterator<Item = (NodeId, LineAnswer<'a>)>,
        clocks: &[Option<u64>],
        round_trip: Option<Duration>,
        random: u8,
        now: Timestamp,
    ) -> Option<Timestamp> {
        (self.round_trip, self.random) = (round_trip, random);
        let mut clocks: Vec<Option<u64>> = (0..self.nodes.quorum().nodes())
            .map(|node| clocks.get(node).copied().flatten())
            .collect();
        let mut ranks = Vec::new();
        for (node, answer) in answers {
            if let Some(clock) = clocks.get_mut(node.index()) {
                *clock = match answer {
                    LineAnswer::Denied(denial) => denial.at.or(*clock),
                    LineAnswer::Granted => *clock,
                    // Not every client knows the clock of a node that does not answer.
                    LineAnswer::Failed => None,
                };
            }
            if let LineAnswer::Denied(denial) = answer {
                ranks.extend(denial.rank);
            }
            self.nodes.note(node, answer, now);
        }
        ranks.sort_unstable();
        let seen_by = ranks.len().min(self.nodes.quorum().needed());
        self.rank = seen_by.checked_sub(1).and_then(|index| ranks.get(index).copied());
        if self.awakened {
            let (before, last) = self.in_vain;
            let is_new = now.saturating_since(last) > self.grace().saturating_mul(LONG_AGO);
            let times = if is_new { 0 } else { before };
            let pause = (self.doubled(times.min(VAIN)) / 4).min(POLL / 16);
            self.earliest = now.saturating_add(pause);
            self.in_vain = (times.saturating_add(1), now);
        }
        self.lost_at = Some(now);
        self.unclear = self.unclear.saturating_add(1);
        let stood = self.is_standing();
        self.stand(&clocks);
        self.follow(&clocks, now);
        self.settle(now);
        if !stood && self.is_standing() {
            // It takes its place at once, so that later clients come after it.
            self.limit = now;
        }
        self.nodes.have_lines().then(|| self.next_round(now))
    }

    /// The round was lost because nodes whose state has changed must be looked at first: nothing is known of the line.
    /// Returns when the next round begins after that look: at once, if this has not happened just before. `None` says
    /// that the client does not stand in the line.
    pub fn handle_outdated_round(&mut self, random: u8, now: Timestamp) -> Option<Timestamp> {
        self.ticket?;
        self.random = random;
        let soon = self.doubled(self.unclear.min(UNCLEAR)).saturating_sub(self.grace());
        self.unclear = self.unclear.saturating_add(1);
        self.lost_at = Some(now);
        self.poll = now.saturating_add(POLL);
        self.limit = now.saturating_add(spread(soon, random)).min(self.poll);
        self.heed(now);
        Some(self.next_round(now))
    }

    /// A node has answered after its round was lost.
    pub fn handle_late_answer(&mut self, node: NodeId, answer: LineAnswer<'_>, now: Timestamp) {
        if self.lost_at.is_some_and(|lost_at| lost_at < self.limit) {
            self.nodes.note(node, answer, now);
            self.settle(now);
        }
    }

    /// A node sends a hint.
    pub fn handle_hint(&mut self, node: NodeId, hint: LineHint, now: Timestamp) {
        // Without a place yet, the hint is about an earlier one.
        if self.ticket.is_none() {
            return;
        }
        if self.nodes.tell(node, hint) {
            if self.nodes.is_next_somewhere() {
                self.passes = None;
            }
            self.heed(now);
        }
    }

    /// The connection to a node was lost, or is there again. Its hints meanwhile were not heard, and the client's place
    /// there may be gone, so that it asks soon. `random` is any byte.
    pub fn handle_connection(&mut self, node: NodeId, random: u8, now: Timestamp) {
        self.nodes.forget_hint(node);
        self.call(now.saturating_add(spread(self.grace(), random)));
    }

    /// A node votes from now on. Unless the client stands in its line, the node lets in any other, so that the client
    /// asks soon. `random` is any byte.
    pub fn handle_ready(&mut self, node: NodeId, random: u8, now: Timestamp) {
        if self.ticket.is_some() && !self.nodes.stands_at(node) {
            self.call(now.saturating_add(spread(self.grace().saturating_mul(READY), random)));
        }
    }

    /// When the next round begins. Where the last round was not lost, or was lost for a reason outside the line, the
    /// line does not say: the result is long after now, unless a call moves it.
    pub fn next_round(&self, now: Timestamp) -> Timestamp {
        let limit = if self.lost_at.is_some() { self.limit } else { now.saturating_add(POLL) };
        self.called.map_or(limit, |called| limit.min(called.max(self.earliest)))
    }

    /// Whether the last, lost round may be heard out before it is undone: a node that will deny needs no release. That
    /// ends when the next round begins, unless that round only takes the place in the line.
    pub fn hears_out(&self) -> bool {
        self.lost_at.is_some() && self.nodes.is_in_nobodys_way()
    }

    /// Its ticket, where it stands in the line.
    pub const fn ticket(&self) -> Option<Ticket> {
        self.ticket
    }

    /// Whether the wake-ups of a quorum began its last round.
    pub const fn is_awakened(&self) -> bool {
        self.awakened
    }

    /// Whether it stands in the line.
    pub const fn is_standing(&self) -> bool {
        self.ticket.is_some()
    }

    /// How many clients stand before it, as last seen.
    pub const fn rank(&self) -> Option<u32> {
        self.rank
    }

    /// How long it waits for the first in the line.
    pub fn grace(&self) -> Duration {
        self.round_trip.map_or(GRACE, |trip| trip.saturating_mul(2).max(GRACE))
    }

    /// How long it waits for `client`, where that is the first.
    fn grace_of(&self, client: ClientId) -> Duration {
        self.patience.of(client, self.grace())
    }

    /// The first before a free key, while this client waits for it.
    pub fn first(&self) -> Option<ClientId> {
        self.first.map(|first| first.client)
    }
}
