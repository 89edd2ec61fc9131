//! Everything that one handle decides of what is asked for and held in its process.
//!
//! It composes the machines of a request ([`Acquisition`]), of a queue ([`Queue`]), of turns ([`Concurrency`]), of the place in the
//! lines on the nodes ([`Waiter`](crate::Waiter)), of a grant ([`Leases`], [`Footprint`]) and of time ([`TimerQueue`]). Each input
//! changes all that it concerns in one step. It sends nothing, wakes nobody, and reads no clock.
//!
//! # The driver
//!
//! A driver has one lock around this. Behind each call it drains [`poll_event`](Client::poll_event), without the lock, and does
//! what each [`Event`] says. It calls [`handle_timeout`](Client::handle_timeout) at [`next_look`](Client::next_look). It runs the
//! rounds, which are [`Round`](crate::Round)s: it has a request from [`Event::Begin`] until it calls
//! [`handle_won`](Client::handle_won) or [`handle_lost`](Client::handle_lost). What a grant, a request, the outcome of a round and
//! a release are beside what decides on them, the driver says (`G`, `W`, `M`, `R`). Each of them comes back out: none is dropped
//! in here, as that may be code of a user.
//!
//! ```text
//!  request --> join --+--> Begin: a round ---> handle_won --+--> begin --> schedule --> handle_timeout --> renewals, losses
//!                     |      ^       |                      |                 ^
//!                     |  go_on       +-------> handle_lost  |                 | handle_extension
//!                     +--> stands, shares --> leave, late   |                 |
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
//! - **K6** A queue that is asked for has one leader, and no other queue has one.
//! - **K7** Who asks is in a round, waits for its turn, or is among the timers for when it goes on.
//!
//! They are tested, each by name, in `tests/proof/protocol/client`; and the model runs this whole, in `handles` and `tenures`.

mod asking;
mod events;
mod grants;
mod on_nodes;
mod passing;
mod queues;
mod resources;
mod rounds;
mod turns;

use alloc::{
    boxed::Box,
    collections::{BTreeSet, VecDeque},
    vec::Vec,
};
use core::time::Duration;

pub use self::{
    asking::{AskId, Pause},
    events::Event,
    grants::{DueNow, End, Ended, NewGrant},
    on_nodes::Found,
    passing::{HandOn, Passed},
    queues::{Came, Late},
    rounds::{RoundAsked, RoundBegun},
    turns::Lane,
};
use self::{
    asking::{AskList, Asking},
    on_nodes::{NodeSet, OnNodes},
    resources::ByName,
};
use super::{
    acquisition::{Acquisition, GiveUp},
    concurrency::Concurrency,
    footprint::Footprint,
    handover::{Stay, turn},
    leases::{Leases, NextLease},
    line::ClientId,
    queue::{Place, Queue, Station},
    rare::{Rare, Unwritten},
    round::Quorum,
    slab::{Key, Slab},
    target::Target,
    time::{Nanos, Timestamp},
    timers::TimerQueue,
    waiter::Patience,
};

/// What holds for everything that a client decides.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ClientSettings {
    /// Of how many nodes.
    pub quorum: Quorum,
    /// As which it stands in the lines on the nodes.
    pub client: ClientId,
    /// By when a node has answered, or never does.
    pub node_timeout: Duration,
}

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
    /// It is told what the round of its leader has met.
    fn handle_met(&mut self, met: &M);
    /// Whether a round that took as long as this one would have been in time for it, which it was not for its leader.
    fn is_in_time(&self, met: &M) -> bool;
    /// Whether it asks for one round, and does not wait.
    fn asks_once(&self) -> bool;
    /// Whether its caller has gone.
    fn is_given_up(&self) -> bool;
}

/// Everything that is decided of them.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Client<G, W, M, R> {
    settings: ClientSettings,
    grants: Slab<Box<Grant<G>>>,
    footprints: Slab<Footprint>,
    queues: Slab<Box<Waiting<W, M>>>,
    by_name: ByName,
    asking: Slab<Asking<W>>,
    /// Who may be in a round: acquires, and releases, neither of which waits behind the other.
    acquires: Concurrency<AskId>,
    releases: Concurrency<R>,
    /// When a release is to be told that it has waited for too long.
    release_timer: Option<Timestamp>,
    timers: TimerQueue<Timed>,
    /// What is to be done.
    events: VecDeque<Event<W, R>>,
    /// Whom this client has passed over in the lines on the nodes, for whatever resource.
    patience: Patience,
    /// How many want several resources, and wait; and those who are kept back for one of them.
    waiting_sets: usize,
    kept_back: BTreeSet<AskId>,
    /// For how long others may be kept waiting by hand-overs.
    turn: Duration,
    /// How many grants count as held.
    held: usize,
    /// No grant counts from now on.
    shut_down: bool,
    /// No request is begun from now on.
    closed: bool,
}

/// A grant with all that is kept of it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Grant<G> {
    leases: Leases,
    footprint: FootprintId,
    /// Under which place of which queue it was won.
    station: Option<(QueueId, Place)>,
    /// When it is looked at, and how much before that it may be taken along.
    scheduled: Option<(Timestamp, Nanos)>,
    /// It counts as held.
    counts: bool,
    data: G,
}

/// Who is looked at when its time has come.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Timed {
    Grant(GrantId),
    Waiter(QueueId, Place),
    Ask(AskId),
    Releases,
}

/// One queue, with what is known of its resource here.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Waiting<W, M> {
    target: Target,
    /// How many have to do with it.
    users: u32,
    queue: Queue<Waiter<W>>,
    /// Who asks the nodes, under which place: the leader, and those who ask for a permit beside it.
    asks: AskList,
    /// What is held here, or was last.
    held: Option<GrantId>,
    /// What is held here as nobody's.
    kept: Option<GrantId>,
    /// The leader is in a round.
    in_round: bool,
    /// The key is gone since the last pause: the next one does not begin.
    freed: bool,
    contended: Rare<Contended<M>>,
    /// For how long it has not been left to others.
    stay: Stay,
    /// The place of this client in the lines on the nodes.
    on_nodes: OnNodes,
}

/// What is known of a resource that several want. Where one alone ever has, it takes no room.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Contended<M> {
    /// Those who ask and pause, in the order in which they began to.
    pausing: Vec<AskId>,
    /// The nodes that have said that the key is gone, since that was a quorum last.
    gone_from: NodeSet,
    /// What the last round has met that was lost, until one is won; and whether it has found the resource held.
    met: Option<(M, bool)>,
    /// What the next leader does before its first round.
    first: Pause,
    /// When somebody stood in line here last.
    waited_for: Option<Timestamp>,
    /// Of several resources: since when the leader waits, once a round was lost.
    waits_since: Option<Timestamp>,
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

impl<W, M> Waiting<W, M> {
    fn new(target: Target) -> Self {
        Self {
            target,
            users: 1,
            queue: Queue::default(),
            asks: AskList::default(),
            held: None,
            kept: None,
            in_round: false,
            freed: false,
            contended: Rare::default(),
            stay: Stay::default(),
            on_nodes: OnNodes::default(),
        }
    }
}

impl<M> Contended<M> {
    const NOT: Self = Self {
        pausing: Vec::new(),
        gone_from: NodeSet::NONE,
        met: None,
        first: Pause::None,
        waited_for: None,
        waits_since: None,
    };
}

impl<M> Default for Contended<M> {
    fn default() -> Self {
        Self::NOT
    }
}

impl<M> Unwritten for Contended<M> {
    fn unwritten<'a>() -> &'a Self
    where
        Self: 'a,
    {
        const { &Self::NOT }
    }
}

impl<G, W, M, R> Client<G, W, M, R> {
    /// One that has nothing to do yet.
    pub fn new(settings: ClientSettings) -> Self {
        let ClientSettings { quorum, node_timeout, .. } = settings;
        Self {
            settings,
            grants: Slab::default(),
            footprints: Slab::default(),
            queues: Slab::default(),
            by_name: ByName::default(),
            asking: Slab::default(),
            acquires: Concurrency::new(quorum, node_timeout),
            releases: Concurrency::new(quorum, node_timeout),
            release_timer: None,
            timers: TimerQueue::default(),
            events: VecDeque::new(),
            patience: Patience::default(),
            waiting_sets: 0,
            kept_back: BTreeSet::new(),
            turn: turn(None),
            held: 0,
            shut_down: false,
            closed: false,
        }
    }

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

impl<W, M> Waiting<W, M> {
    /// What the next leader does before its first round.
    fn begin_with(&mut self, first: Pause) {
        if self.contended.first != first {
            self.contended.first = first;
        }
    }

    /// What was met is of no use to whoever comes next.
    fn forget_met(&mut self) {
        if let Some(contended) = self.contended.written() {
            contended.met = None;
        }
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
fn all_gone<W>(timers: &mut TimerQueue<Timed>, id: QueueId, all: Vec<Waiter<W>>) -> Vec<W> {
    all.into_iter().map(|waiter| gone(timers, id, waiter)).collect()
}
