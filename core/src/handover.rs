//! A grant that is handed on inside the process, from one lease to the next, without a word to the nodes.
//!
//! It decides whether the next in line may have the grant, under which token, and how often in a row. It reads no clock
//! and moves nothing: whoever asks it gives the grant to the next, or gives it back to the nodes.
//!
//! **Why it is safe.** To the nodes nothing happens: the same owner holds the key, up to the same deadline. In the
//! process the lease before is over for its holder before the next one begins, both under the lock of the client, so that
//! no two leases hold at any time. Each lease has its own token out of the range that the round has won; they are used in
//! order and once, and `fencing` shows that no other grant has any of them.
//!
//! # Invariants
//!
//! - **H1** The tokens of the leases of a grant rise, and no lease has one outside of the range that its round has won.
//! - **H2** A grant is handed on only while it certainly holds: it is not lost, not about to be, and has as much left as
//!   the next one needs, half of its own ttl among it.
//! - **H3** No key outlives what was asked for: a request with a shorter ttl than the keys were set with is not served
//!   by them; nor is one with another lock-delay.
//! - **H4** A grant is handed on at most 63 times; while others wait, or may wait, not once its cohort has lasted for a turn,
//!   and while nobody does, for 5 s. Whoever asks the nodes in this process behind it rests for a moment where hand-overs
//!   have kept the resource from those of whom the nodes know nothing: for no longer than these would have had it free
//!   without hand-overs, and for an eighth of the time at most, or an eightieth where nobody is known to wait.
//! - **H5** What keeps others out for a while keeps out those of this process, too.
//! - **H6** Of those here who want several resources, the one that waits keeps back those who come anew for a part of them:
//!   from a turn on, for the first quarter of the time between each doubling of its wait, and for a second at most. So it is
//!   served once it has waited for eight times as long as leases of a part are held here, up to a second, or before.
//!
//! They are tested, each by name, in `tests/proof/protocol/handover.rs`.

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

/// The longest time for which a grant is handed on where nobody is known to wait. Of clients of other libraries the nodes
/// know nothing.
const LONGEST_ROW: Duration = Duration::from_secs(5);

/// Where nobody is known to wait, this many leases are begun without a round before others are left a moment, ...
const KEPT_FROM_NOBODY: u64 = 2 * (MOST_IN_A_ROW - 1);

/// ... and the resource is had for so many turns.
const TURNS_FROM_NOBODY: u32 = 25;

/// The longest such moment: the shortest pause between two tries that other libraries have by default.
const LONGEST_MOMENT: Duration = Duration::from_millis(50);

/// The longest time for which those who want a part of several resources are kept back without a break.
const LONGEST_KEPT_BACK: Duration = Duration::from_secs(1);

/// Whether others than this process wait for a resource, as far as the nodes have said.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
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
pub struct Wanted {
    /// The lifetime that it asks for.
    pub ttl: Duration,
    /// For how long its keys are to stand beyond that.
    pub lock_delay: Duration,
    /// The least that must be left.
    pub min_validity: Duration,
    /// It is to have a round of its own, and so an owner.
    pub alone: bool,
}

/// How a grant is when its holder gives it back.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The grant over time.
    pub lifecycle: &'a Lifecycle,
    /// For how long its keys stand beyond its ttl.
    pub lock_delay: Duration,
    /// Its holder has asked for others to be kept out for longer.
    pub is_kept: bool,
    /// Its holder has asked for a round of its own.
    pub alone: bool,
    /// Whether other processes wait.
    pub others: OthersWait,
    /// For how long hand-overs may go on while they do: [`turn`].
    pub turn: Duration,
    /// The time.
    pub now: Timestamp,
}

/// Why a grant goes back to the nodes, and the next in line begins with a round.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum NotHandedOn {
    /// It is lost, or about to be.
    Ending,
    /// One of the two has asked for a round of its own.
    Alone,
    /// Others are to be kept out for a while.
    Kept,
    /// It has been handed on for as long, or as often, as others may be kept waiting for.
    Turn,
    /// There is no token left.
    Tokens,
    /// Its keys live for longer than was asked for.
    Shorter,
    /// They stand beyond its end for another time than was asked for.
    LockDelay,
    /// Too little is left of it.
    TooLittleLeft,
}

/// For how long a process may hand a grant on while others wait: 20 round trips without load, and 10 ms at least. What
/// slows a round trip down when many ask is no reason to keep them waiting for longer.
pub fn turn(unloaded: Option<Duration>) -> Duration {
    unloaded.map_or(SHORTEST_TURN, |trip| trip.saturating_mul(ROUND_TRIPS).max(SHORTEST_TURN))
}

/// For how long yet one who wants several resources, and has waited for so long, keeps back those of its process who come
/// anew for a part of them, where it does. They come to their end at different times, and never leave all of it free by
/// themselves. What is in its way may be held elsewhere, so that they are kept back for two fifths of
/// its wait at most.
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
    /// Which tokens are left; `None` where leases have none.
    tokens: Option<TokenRange>,
}

impl Cohort {
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
        // With a shorter one its promise would be broken; with a longer one others would be kept out for longer than was
        // asked for.
        if wanted.lock_delay != lock_delay {
            return Err(NotHandedOn::LockDelay);
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

    /// Whether they have tokens.
    pub const fn is_fenced(&self) -> bool {
        self.tokens.is_some()
    }

    /// How many leases there have been.
    pub const fn leases(&self) -> u64 {
        self.leases
    }
}

/// For how long a process has had a resource, under one grant after the other, without leaving it to others.
///
/// Between two leases that are not handed on, the key is free for a moment, and whoever tries just then gets it. Those
/// who stand in a line on the nodes are told; a client of another library, or one where the nodes keep no line, tries now
/// and then, and a hand-over takes such a moment from it. They are left to it together, all those of one stay.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Stay {
    since: Option<Timestamp>,
    /// How many leases have begun without a round.
    kept: u64,
}

/// A grant that goes back to the nodes, while somebody of this process waits.
#[derive(Clone, Copy, Debug)]
pub struct GivenBack {
    /// How many leases it has served.
    pub leases: u64,
    /// Whether other processes wait.
    pub others: OthersWait,
    /// For how long a grant may be handed on while they do: [`turn`].
    pub turn: Duration,
    /// The time.
    pub now: Timestamp,
}

impl Stay {
    /// A round of this process was won.
    pub fn handle_won(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// Others have had the resource, or might have.
    pub const fn handle_left(&mut self) {
        (self.since, self.kept) = (None, 0);
    }

    /// A grant goes back. How long at most whoever is next here leaves the resource to others before it asks for it again,
    /// where it does; half of that is the least.
    pub fn handle_given_back(&mut self, given_back: GivenBack) -> Option<Duration> {
        let GivenBack { leases, others, turn, now } = given_back;
        self.kept = self.kept.saturating_add(leases.saturating_sub(1));
        let had = now.saturating_since(self.since.unwrap_or(now));
        // What they would have had: as much as a round trip for each, as far as a turn says what that is.
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
