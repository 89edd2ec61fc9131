//! A grant is handed on inside the process, from one lease to the next, without a command to the nodes.
//!
//! It decides whether the next in line may have the grant, under which token, and how often in a row. It reads no clock
//! and moves nothing: its caller gives the grant to the next, or back to the nodes.
//!
//! **Why it is safe.** To the nodes nothing happens: the same owner holds the key, up to the same deadline. In the
//! process one lease ends for its holder before the next begins, both under the lock of the client, so that no two
//! leases hold at any time. Each lease has its own token from the range that the round won. The tokens are used in
//! order and once, and `fencing` shows that no other grant has any of them.
//!
//! # Invariants
//!
//! - **H1** The tokens of a grant's leases rise, and each comes from the range that its round won.
//! - **H2** A grant is handed on only while it certainly holds. It is not lost or about to be, and has as much left as
//!   the next lease needs, at least half of what that lease's ttl promises.
//! - **H3** No key outlives what was asked for: a request with a shorter ttl than the keys were set with is not served
//!   by them; nor is one with another lock-delay.
//! - **H4** A grant is handed on at most 63 times: until its cohort has lasted for a turn while others wait or may
//!   wait, and for 5 s, or a longer turn, while nobody waits. The next request here to ask the nodes rests for a moment
//!   if hand-overs have kept the resource from clients that the nodes do not know. The rest is at most the time that
//!   these would have had it free without hand-overs, and at most an eighth of the time, or an eightieth while nobody
//!   is known to wait.
//! - **H5** A lease that keeps others out for a while also keeps out other requests of its process.
//! - **H6** A waiting set keeps back new requests of its process for a part of it. It does so from a turn on, for the
//!   first quarter of the time between each doubling of its wait, and for at most a second. So it is served, at the
//!   latest, once it has waited eight times as long as leases of a part are held here, if those last up to a second.
//!
//! Each is tested by name in `tests/proof/protocol/handover.rs`.

use core::time::Duration;

use super::{
    fencing::{FencingToken, TokenRange},
    lifecycle::Lifecycle,
    time::Timestamp,
    validity,
};

/// The most leases of one grant, and the most tokens that a round asks for.
pub const MOST_IN_A_ROW: u64 = 64;

/// The least time for which a process may keep a resource by hand-overs while others wait.
const SHORTEST_TURN: Duration = Duration::from_millis(10);

/// The least number of round trips in such a time: the cost of giving it back must be small beside it.
const ROUND_TRIPS: u32 = 20;

/// The longest time for which a grant is handed on while nobody is known to wait. The nodes know nothing of clients of
/// other libraries.
const LONGEST_ROW: Duration = Duration::from_secs(5);

/// While nobody is known to wait, others are left a moment after this many leases without a round, ...
const KEPT_FROM_NOBODY: u64 = 2 * (MOST_IN_A_ROW - 1);

/// ... and this many turns with the resource.
const TURNS_FROM_NOBODY: u32 = 25;

/// The longest such moment: the least default pause between two tries of other libraries.
const LONGEST_MOMENT: Duration = Duration::from_millis(50);

/// The longest time without a break for which a set keeps back requests for a part of it.
const LONGEST_KEPT_BACK: Duration = Duration::from_secs(1);

/// Whether other processes wait for a resource, by what the nodes said.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum OthersWait {
    /// The nodes have not said.
    #[default]
    Unknown,
    /// No other process waits.
    Nobody,
    /// Another process waits.
    Somebody,
}

/// What the next in line asks for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Wanted {
    /// Its ttl.
    pub ttl: Duration,
    /// How much longer its keys are to stand.
    pub lock_delay: Duration,
    /// The least that must be left.
    pub min_validity: Duration,
    /// It needs a round of its own, and so an owner.
    pub alone: bool,
}

/// The state of a grant when its holder gives it back.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The grant over time.
    pub lifecycle: &'a Lifecycle,
    /// How long its keys stand beyond its ttl.
    pub lock_delay: Duration,
    /// Its holder asked to keep others out for longer.
    pub is_kept: bool,
    /// Its holder asked for a round of its own.
    pub alone: bool,
    /// Whether other processes wait.
    pub others: OthersWait,
    /// How long hand-overs may go on while they do: [`turn`].
    pub turn: Duration,
    /// The time.
    pub now: Timestamp,
}

/// Why a grant goes back to the nodes and the next in line begins with a round.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum NotHandedOn {
    /// It is lost, or about to be.
    Ending,
    /// One of the two asked for a round of its own.
    Alone,
    /// Others are to be kept out for a while.
    Kept,
    /// It was handed on for as long, or as often, as others may be kept waiting.
    Turn,
    /// There is no token left.
    Tokens,
    /// Its keys live longer than asked for.
    Shorter,
    /// Its keys stand beyond its end for another time than asked for.
    LockDelay,
    /// Too little is left of it.
    TooLittleLeft,
}

/// How long a process may hand a grant on while others wait: 20 round trips without load, and at least 10 ms. Load that
/// slows a round trip must not keep others waiting longer.
pub fn turn(unloaded: Option<Duration>) -> Duration {
    unloaded.map_or(SHORTEST_TURN, |trip| trip.saturating_mul(ROUND_TRIPS).max(SHORTEST_TURN))
}

/// How long a set that has waited for `waited` still keeps back new requests of its process for a part of it, if it
/// does. Leases of the parts end at different times, and never leave the whole set free by themselves. Its other parts
/// may be held elsewhere, so that it keeps requests back for at most two fifths of its wait.
pub fn keeps_back(waited: Duration, turn: Duration) -> Option<Duration> {
    let turns = waited.as_nanos().checked_div(turn.as_nanos())?;
    let doubled = u32::try_from(turns).unwrap_or(u32::MAX).checked_ilog2()?;
    let since = turn.saturating_mul(1 << doubled);
    let until = since.saturating_add((since / 4).min(LONGEST_KEPT_BACK));
    until.checked_sub(waited).filter(|left| !left.is_zero())
}

/// The leases of one grant, one after the other.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Cohort {
    since: Timestamp,
    /// The leases so far.
    leases: u64,
    /// The tokens left; `None` if leases have none.
    tokens: Option<TokenRange>,
}

impl Cohort {
    /// The cohort of a grant whose first lease begins now, with that lease's token.
    pub fn begin(mut tokens: Option<TokenRange>, now: Timestamp) -> (Self, Option<FencingToken>) {
        let first = tokens.as_mut().and_then(TokenRange::next);
        (Self { since: now, leases: 1, tokens }, first)
    }

    /// Begins the next lease under the grant, if it may, and returns its token.
    ///
    /// # Errors
    ///
    /// Why it may not. Nothing has changed then.
    pub fn next(
        &mut self,
        offer: &Offer<'_>,
        wanted: Wanted,
    ) -> Result<Option<FencingToken>, NotHandedOn> {
        let Offer { lifecycle, lock_delay, is_kept, alone, others, turn, now } = *offer;
        if !lifecycle.is_sound(now) {
            return Err(NotHandedOn::Ending);
        }
        if is_kept {
            return Err(NotHandedOn::Kept);
        }
        if alone || wanted.alone {
            return Err(NotHandedOn::Alone);
        }
        let most = if others == OthersWait::Nobody { turn.max(LONGEST_ROW) } else { turn };
        if self.leases >= MOST_IN_A_ROW || now.saturating_since(self.since) >= most {
            return Err(NotHandedOn::Turn);
        }
        if wanted.ttl < lifecycle.ttl() {
            return Err(NotHandedOn::Shorter);
        }
        // A shorter one would break the next lease's promise; a longer one would keep others out for longer than asked
        // for.
        if wanted.lock_delay != lock_delay {
            return Err(NotHandedOn::LockDelay);
        }
        let left = validity::left(lifecycle.deadline(), now);
        let promised = wanted.ttl.saturating_sub(lifecycle.drift().of(wanted.ttl));
        // With nothing left, it is too little for any request.
        if left.is_zero() || left < wanted.min_validity || left < promised / 2 {
            return Err(NotHandedOn::TooLittleLeft);
        }
        let token = match &mut self.tokens {
            Some(tokens) => Some(tokens.next().ok_or(NotHandedOn::Tokens)?),
            None => None,
        };
        self.leases += 1;
        Ok(token)
    }

    /// Whether the number of leases and the tokens left allow another.
    pub fn has_next(&self) -> bool {
        self.leases < MOST_IN_A_ROW && self.tokens.as_ref().is_none_or(|tokens| tokens.left() > 0)
    }

    /// Whether its leases have tokens.
    pub const fn is_fenced(&self) -> bool {
        self.tokens.is_some()
    }

    /// How many leases there have been.
    pub const fn leases(&self) -> u64 {
        self.leases
    }
}

/// How long a process has had a resource, under successive grants, without leaving it to others.
///
/// Between two leases without a hand-over the key is free for a moment, and a client that tries just then gets it. A
/// client in a node's line is told. A client of another library, or of nodes without a line, tries now and then, and a
/// hand-over takes such a moment from it. These clients get all moments of one stay together.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Stay {
    since: Option<Timestamp>,
    /// How many leases began without a round.
    kept: u64,
}

/// A grant that goes back to the nodes while a request of this process waits.
#[derive(Clone, Copy, Debug)]
pub struct GivenBack {
    /// How many leases it had.
    pub leases: u64,
    /// Whether other processes wait.
    pub others: OthersWait,
    /// How long a grant may be handed on while they do: [`turn`].
    pub turn: Duration,
    /// The time.
    pub now: Timestamp,
}

impl Stay {
    /// A round of this process was won.
    pub fn handle_won(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// Others had the resource, or might have.
    pub const fn handle_left(&mut self) {
        (self.since, self.kept) = (None, 0);
    }

    /// A grant goes back. Returns how long at most the next request here leaves the resource to others before it asks
    /// again; the least is half of that.
    pub fn handle_given_back(&mut self, given_back: GivenBack) -> Option<Duration> {
        let GivenBack { leases, others, turn, now } = given_back;
        self.kept = self.kept.saturating_add(leases.saturating_sub(1));
        let had = now.saturating_since(self.since.unwrap_or(now));
        // The moments they would have had: a round trip for each, as a turn implies it.
        let moments = u32::try_from(self.kept).unwrap_or(u32::MAX);
        let moments = (turn / ROUND_TRIPS).saturating_mul(moments);
        let moment = match others {
            // The nodes see to that.
            OthersWait::Somebody => Some(Duration::ZERO),
            OthersWait::Unknown => (had >= turn).then_some(had / 8),
            OthersWait::Nobody => {
                let is_long = self.kept >= KEPT_FROM_NOBODY || had >= LONGEST_ROW;
                let is_long = is_long && had >= turn.saturating_mul(TURNS_FROM_NOBODY);
                is_long.then_some((had / 80).min(LONGEST_MOMENT))
            }
        };
        let moment = moment?.min(moments);
        self.handle_left();
        (!moment.is_zero()).then_some(moment)
    }
}
