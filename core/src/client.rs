//! What one handle has to do with in its process: the grants that it holds, who waits for what here, and who is looked at when.
//!
//! It composes the machines of a grant ([`Leases`], [`Footprint`]), of a queue ([`Queue`]) and of time ([`TimerQueue`]): each
//! input changes all that it concerns in one step, and what follows comes out as a value. It sends nothing and wakes nobody;
//! a driver carries that out, behind the one lock that it has around this. What a grant, a request or the outcome of a round
//! is beside what decides on it, the driver says (`G`, `W`, `M`). Each grant and each request comes back out: none is dropped
//! in here, as that may be code of a user.
//!
//! ```text
//!  request --> join --+--> asks the nodes --> handle_won ---+--> begin --> schedule --> handle_timeout --> renewals, losses
//!                     |                   --> handle_lost   |                 ^
//!                     +--> stands, shares --> leave, late   |                 | handle_extension
//!                     +--> takes what is kept --> resume <--+-- hand_on: the next in line has it, or it is kept
//!                                                           +-- end: it is to be released, or is left to expire
//! ```
//!
//! # Invariants
//!
//! - **K1** A grant that wants to be looked at is among the timers, for no later than it wants to be; so is a request in a
//!   queue. What has ended or gone is not among them.
//! - **K2** What a queue keeps as nobody's is kept; and one queue keeps it.
//! - **K3** From the step on in which a grant is over, nothing is set for it on a node (F3).
//! - **K4** A grant is handed on to the first in its queue that is in time, or to nobody.
//! - **K5** While a grant is handed on, kept or taken, there is no step in which its queue says that nobody has it.
//!
//! They are tested, each by name, in `tests/proof/protocol/client.rs`; and the model runs this whole, in `handles` and `tenures`.

mod grants;
mod leader;
mod passing;
mod queues;

use alloc::{boxed::Box, vec::Vec};
use core::time::Duration;

pub use self::{
    grants::{DueNow, End, Ended, NewGrant},
    leader::Pause,
    passing::{HandOn, Passed},
    queues::{Came, Late, Left},
};
use super::{
    acquisition::{Acquisition, GiveUp},
    footprint::Footprint,
    handover::Stay,
    leases::{Leases, NextLease},
    queue::{Place, Queue, Station},
    slab::{Key, Slab},
    time::Timestamp,
    timers::TimerQueue,
};

/// A grant of this client.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct GrantId(Key);

/// Where the keys of one owner may stand.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FootprintId(Key);

/// The queue of a resource.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct QueueId(Key);

/// What a queue asks of a request that stands there.
pub trait Asks<M> {
    /// What decides how long it waits.
    fn acquisition(&mut self) -> &mut Acquisition;
    /// Up to when it may wait for its turn.
    fn turn_deadline(&self) -> Option<Timestamp>;
    /// When it says for whom it waits.
    fn says_at(&self) -> Option<Timestamp>;
    /// What it asks of a grant that is handed on to it.
    fn next(&self, steady: Timestamp) -> NextLease;
    /// It is told what a round before it came has met.
    fn handle_known(&mut self, met: &M);
}

/// Everything that is decided of them.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Client<G, W, M> {
    grants: Slab<Box<Grant<G>>>,
    footprints: Slab<Footprint>,
    queues: Slab<Box<Waiting<W, M>>>,
    timers: TimerQueue<Timed>,
    /// How many grants count as held.
    held: usize,
    /// No grant counts from now on.
    shut_down: bool,
}

/// A grant with all that is kept of it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Grant<G> {
    leases: Leases,
    footprint: FootprintId,
    /// Under which place of which queue it was won.
    station: Option<(QueueId, Place)>,
    /// When it is looked at, and how much before that it may be taken along.
    scheduled: Option<(Timestamp, Duration)>,
    /// It counts as held.
    counts: bool,
    data: G,
}

/// Who is looked at when its time has come.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Timed {
    Grant(GrantId),
    Waiter(QueueId, Place),
}

/// One queue, with what is known of its resource here.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Waiting<W, M> {
    queue: Queue<Box<Waiter<W>>>,
    /// What is held here, or was last.
    held: Option<GrantId>,
    /// What is held here as nobody's.
    kept: Option<GrantId>,
    /// Somebody starts leaders already.
    starting: bool,
    /// The leader is in a round.
    in_round: bool,
    /// What the last round has met that was lost, until one is won; and whether it has found the resource held.
    met: Option<(M, bool)>,
    /// What the next leader does before its first round.
    first: Pause,
    /// Which place the leader has among all acquires, while it waits there for its first turn.
    turn: Option<(Place, u64)>,
    /// When somebody stood in line here last.
    waited_for: Option<Timestamp>,
    /// For how long it has not been left to others.
    stay: Stay,
}

/// One who waits in a queue, or for what a round finds.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Waiter<W> {
    request: W,
    /// When it is looked at, and under which place.
    timer: Option<(Timestamp, Place)>,
    /// Its time is up, and it waits for what the round finds that is under way.
    shares: bool,
    /// What it is told, where it waits in vain.
    in_vain: Option<GiveUp>,
}

impl<G, W, M> Default for Client<G, W, M> {
    fn default() -> Self {
        Self {
            grants: Slab::default(),
            footprints: Slab::default(),
            queues: Slab::default(),
            timers: TimerQueue::default(),
            held: 0,
            shut_down: false,
        }
    }
}

impl<W, M> Default for Waiting<W, M> {
    fn default() -> Self {
        Self {
            queue: Queue::default(),
            held: None,
            kept: None,
            starting: false,
            in_round: false,
            met: None,
            first: Pause::None,
            turn: None,
            waited_for: None,
            stay: Stay::default(),
        }
    }
}

impl<G, W, M> Client<G, W, M> {
    /// When to look again; `None` when there is nothing left, and so nobody sees to the timers any more.
    pub fn next_look(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.timers.next_look(now)
    }

    /// Whoever saw to the timers has ended with the work undone: the next entry starts somebody else.
    pub const fn abandon_timers(&mut self) {
        self.timers.abandon();
    }

    /// How many are among the timers.
    pub fn timers(&self) -> usize {
        self.timers.len()
    }
}

impl<W> Waiter<W> {
    const fn new(request: W) -> Self {
        Self { request, timer: None, shares: false, in_vain: None }
    }
}

/// When a request wants to be looked at.
fn looked_at<W: Asks<M>, M>(request: &W) -> Option<Timestamp> {
    [request.turn_deadline(), request.says_at()].into_iter().flatten().min()
}

/// A request in a queue is looked at in time, and is not taken along before.
const NO_SLACK: Duration = Duration::ZERO;

impl<W, M> Waiting<W, M> {
    /// What is held here, where anything is.
    fn holder(&self) -> Option<GrantId> {
        self.held.filter(|_| matches!(self.queue.station(), Station::Held(_)))
    }
}

/// The request that leaves a queue. It is among the timers no more.
fn gone<W>(timers: &mut TimerQueue<Timed>, id: QueueId, waiter: Waiter<W>) -> W {
    let Waiter { request, timer, .. } = waiter;
    if let Some((at, place)) = timer {
        timers.cancel(at, Timed::Waiter(id, place));
    }
    request
}

/// The same of several.
fn all_gone<W>(timers: &mut TimerQueue<Timed>, id: QueueId, all: Vec<Box<Waiter<W>>>) -> Vec<W> {
    all.into_iter().map(|waiter| gone(timers, id, *waiter)).collect()
}
