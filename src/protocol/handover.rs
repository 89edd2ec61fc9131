//! A grant that is handed on inside the process, from one lease to the next, without a word to the nodes.
//!
//! It decides whether the next in line may have the grant, under which token, and how often in a row. It reads no clock
//! and moves nothing: whoever asks it gives the grant to the next, or gives it back to the nodes.
//!
//! **Why it is safe.** To the nodes nothing happens: the same owner holds the key, up to the same deadline. In the
//! process the lease before is over for its holder before the next one begins, both under the lock of the grant, so that
//! no two leases hold at any time. Each lease has its own token out of the range that the round has won; they are used in
//! order and once, and `fencing` shows that no other grant has any of them.
//!
//! # Invariants
//!
//! - **H1** The tokens of the leases of a grant rise, and no lease has one outside of the range that its round has won.
//! - **H2** A grant is handed on only while it certainly holds: it is not lost, not about to be, and has as much left as
//!   the next one needs, half of its own ttl among it.
//! - **H3** No key outlives what was asked for: a request with a shorter ttl than the keys were set with is not served
//!   by them.
//! - **H4** While others wait, or may wait, a grant is handed on at most 63 times, and not once its row has lasted for a
//!   turn. While nobody does, the range is the bound.
//!   Who then asks again rests for a moment where it is not known whether others wait, so that they may come in between.
//! - **H5** What keeps others out for a while keeps out those of this process, too.
//!
//! They are tested, each by name, in `tests/protocol/handover.rs`.

use core::time::Duration;

use super::{
    fencing::{FencingToken, TokenRange},
    lifecycle::Lifecycle,
    time::Timestamp,
    validity,
};

/// The most leases of one grant, and the most tokens that a round asks for.
pub const MOST_IN_A_ROW: u64 = 64;

/// The shortest time for which a process may keep a resource by hand-overs while others wait.
const SHORTEST_TURN: Duration = Duration::from_millis(10);

/// How many round trips such a time lasts at least: what giving it back costs must be small beside it.
const ROUND_TRIPS: u32 = 20;

/// Whether others than this process wait for a resource, as far as the nodes have said.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "yes, no, unknown; there is no fourth")]
pub enum OthersWait {
    /// The nodes have not said.
    #[default]
    Unknown,
    /// Nobody does.
    Nobody,
    /// Somebody does.
    Somebody,
}

/// What the next in line asks for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "plain facts; all of them matter")]
pub struct Wanted {
    /// The lifetime of its keys.
    pub ttl: Duration,
    /// The least that must be left.
    pub min_validity: Duration,
}

/// How a grant is when its holder gives it back.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain facts; all of them matter")]
pub struct Offer<'a> {
    /// The grant over time.
    pub lifecycle: &'a Lifecycle,
    /// Its holder has asked for others to be kept out for longer.
    pub is_kept: bool,
    /// Whether other processes wait.
    pub others: OthersWait,
    /// For how long hand-overs may go on while they do: [`turn`].
    pub turn: Duration,
    /// The time.
    pub now: Timestamp,
}

/// Why a grant goes back to the nodes, and the next in line begins with a round.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "whoever looks at it must know all of them")]
pub enum NotHandedOn {
    /// It is lost, or about to be.
    Ending,
    /// Others are to be kept out for a while.
    Kept,
    /// It has been handed on for as long, or as often, as others may be kept waiting for.
    Turn,
    /// There is no token left.
    Tokens,
    /// Its keys live for longer than was asked for.
    Shorter,
    /// Too little is left of it.
    TooLittleLeft,
}

/// For how long a process may hand a grant on while others wait: 20 round trips, and 10 ms at least.
pub fn turn(round_trip: Option<Duration>) -> Duration {
    round_trip.map_or(SHORTEST_TURN, |trip| trip.saturating_mul(ROUND_TRIPS).max(SHORTEST_TURN))
}

/// How long those of this process rest before they ask for a grant that has been given back because others may wait: about
/// an eighth of a turn, by the fraction `random` of 255. Where the nodes know who waits they see to that.
pub fn rest(why: NotHandedOn, others: OthersWait, turn: Duration, random: u8) -> Duration {
    match (why, others) {
        (NotHandedOn::Turn | NotHandedOn::Tokens, OthersWait::Unknown) => {
            (turn / 16).saturating_add((turn / 8).saturating_mul(u32::from(random)) / 255)
        }
        _ => Duration::ZERO,
    }
}

/// The leases of one grant, one after the other.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Row {
    since: Timestamp,
    /// The leases so far.
    leases: u64,
    /// Which tokens are left; `None` where leases have none.
    tokens: Option<TokenRange>,
}

impl Row {
    /// Of a grant whose first lease begins now, with that lease's token.
    pub fn begin(mut tokens: Option<TokenRange>, now: Timestamp) -> (Self, Option<FencingToken>) {
        let first = tokens.as_mut().and_then(TokenRange::next);
        (Self { since: now, leases: 1, tokens }, first)
    }

    /// Whether the next lease may begin under the grant; if so, it has begun, with the token that is returned.
    ///
    /// # Errors
    ///
    /// Why not. Nothing has changed then.
    pub fn next(
        &mut self,
        offer: &Offer<'_>,
        wanted: Wanted,
    ) -> Result<Option<FencingToken>, NotHandedOn> {
        let Offer { lifecycle, is_kept, others, turn, now } = *offer;
        if !lifecycle.is_sound(now) {
            return Err(NotHandedOn::Ending);
        }
        if is_kept {
            return Err(NotHandedOn::Kept);
        }
        let is_over = now.saturating_since(self.since) >= turn;
        if self.leases >= MOST_IN_A_ROW || is_over && others != OthersWait::Nobody {
            return Err(NotHandedOn::Turn);
        }
        if wanted.ttl < lifecycle.ttl() {
            return Err(NotHandedOn::Shorter);
        }
        let left = validity::left(lifecycle.deadline(), now);
        let promised = wanted.ttl.saturating_sub(lifecycle.drift().of(wanted.ttl));
        // Nothing left at all is too little for anybody.
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

    /// Whether another lease may follow, as far as its tokens go, and how many there have been.
    pub fn has_next(&self) -> bool {
        self.leases < MOST_IN_A_ROW && self.tokens.as_ref().is_none_or(|tokens| tokens.left() > 0)
    }

    /// How many leases there have been.
    pub const fn leases(&self) -> u64 {
        self.leases
    }
}
