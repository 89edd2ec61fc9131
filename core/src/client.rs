//! Everything that one handle decides about the requests and grants of its process.
//!
//! It composes the state machines of a request ([`Acquisition`]), a queue ([`Queue`](crate::queue::Queue)), turns
//! ([`Concurrency`]), a place in the nodes' lines ([`Waiter`](crate::Waiter)), a grant ([`Leases`], [`Footprint`]) and
//! time ([`TimerQueue`]). Each input changes everything it concerns in one step. It sends nothing, wakes nobody, and
//! reads no clock.
//!
//! # The driver
//!
//! The driver holds one lock around the client and runs one task. After each call it drains
//! [`poll_event`](Client::poll_event) without the lock and carries out each [`Event`]. Its task begins the rounds of
//! [`poll_begin`](Client::poll_begin) and makes the calls of [`poll_transmit`](Client::poll_transmit), in their order.
//! It reports each result by [`handle_answers`](Client::handle_answers), and calls
//! [`handle_timeout`](Client::handle_timeout) at [`next_look`](Client::next_look). The driver chooses its own data for
//! a grant, a request, a release and a node's error (`G`, `W`, `R`, `E`). The client hands each of the first three back
//! and drops none, because a drop may run a user's code.
//!
//! ```text
//!  request --> join --> begin_round --> poll_transmit --> handle_answers --+--> Won: a grant --> handle_timeout --> renewals, losses
//!                |          ^                                              |      |
//!                |       go_on <-------------------------------------------+ lost |
//!                +--> takes what is kept --> resume <-------------------------+---+-- hand_on: the next in line has it, or it is kept
//!                +--> leave                                                       +-- give_back: it is released, up to Released
//! ```
//!
//! # Invariants
//!
//! - **K1** A grant that needs a look has a timer for it, no later; so has a request in a queue. An ended grant or a
//!   request that has left has none.
//! - **K2** A grant that a queue lists as kept is kept, and only one queue lists it.
//! - **K3** From the step in which a grant is over, nothing is set for it on a node (F3).
//! - **K4** A grant is handed on to the first request in its queue whose time is not up, or to nobody.
//! - **K5** While a grant is handed on, kept or taken, its queue at no step says that nobody has it.
//! - **K6** A queue that is asked for has one leader, and no other queue has one.
//! - **K7** An asking request is in a round, waits for its turn, has a timer for when it goes on, or an event calls it.
//!
//! Each is tested by name in `tests/proof/protocol/client`; the model runs the whole client, in `handles` and `terms`.

mod again;
mod ask_list;
mod asking;
mod attempts;
mod calls;
mod ending;
mod events;
mod found;
mod grants;
mod leaving;
mod on_nodes;
mod passing;
mod predecessor;
mod queues;
mod releasing;
mod renewals;
mod resources;
mod rounds;
mod turns;
mod undo;
mod undone;
mod waiting;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};
use core::{iter, time::Duration};

use self::{
    again::Again,
    ask_list::AskList,
    asking::Asking,
    attempts::{Attempt, AttemptId},
    calls::Outgoing,
    ending::Ended,
    on_nodes::OnNodes,
    releasing::Releasing,
    renewals::{Renewal, Restore, RestoreId},
    resources::ByName,
    undo::Leaving,
    waiting::{Waiter, Waiting, all_gone, gone, looked_at},
};
pub use self::{
    asking::{AskId, Pause},
    calls::{Answer, CallId, Fails, Moment, Said, Sending, Told, Transmit},
    ending::End,
    events::Event,
    found::{Met, RoundAsked, RoundStart},
    passing::Passed,
    queues::{Came, Late},
    releasing::ReleaseId,
    renewals::RenewalId,
    turns::Lane,
    undone::Released,
};
use super::{
    NodeId,
    acquisition::Acquisition,
    concurrency::Concurrency,
    footprint::Footprint,
    handover::turn,
    leases::{Leases, NextLease},
    line::ClientId,
    note::Note,
    owner::Owner,
    queue::Place,
    round::Quorum,
    slab::{Key, Slab},
    target::Target,
    time::{Nanos, Timestamp},
    timers::{TimerQueue, Wakeup},
    validity::Drift,
    waiter::Patience,
};

/// Settings for every decision of a client.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ClientSettings {
    /// The quorum of the configured nodes.
    pub quorum: Quorum,
    /// The client's name in the nodes' lines.
    pub client: ClientId,
    /// The time limit for one answer of a node.
    pub node_timeout: Duration,
    /// The allowance for clock rates.
    pub drift: Drift,
    /// No key lives for longer.
    pub max_ttl: Duration,
    /// Whether the limit on rounds under way adapts to the nodes' answers.
    pub adapts: bool,
    /// Whether every node counts ranges of tokens. Where one does not, each round asks for one token.
    pub counts_ranges: bool,
}

/// A grant of this client.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct GrantId(Key);

/// The id of a footprint.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct FootprintId(Key);

/// A footprint, kept while it has users.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Traced {
    footprint: Footprint,
    users: u32,
}

/// The queue of a resource.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct QueueId(Key);

/// What the client asks of a request.
pub trait Asks<E> {
    /// The acquisition, which decides how long it waits.
    fn acquisition(&mut self) -> &mut Acquisition;
    /// Until when it may wait for its turn.
    fn turn_deadline(&self) -> Option<Timestamp>;
    /// When it reports what it waits for.
    fn says_at(&self) -> Option<Timestamp>;
    /// What it asks of a grant handed on to it.
    fn next(&self, steady: Timestamp) -> NextLease;
    /// Tells it what a round before its arrival found.
    fn handle_known(&mut self, met: &Arc<Met<E>>);
    /// Tells it what its leader's round found.
    fn handle_met(&mut self, met: &Arc<Met<E>>);
    /// Whether a round as long as this one would be in time for it, though too late for its leader.
    fn is_in_time(&self, met: &Arc<Met<E>>) -> bool;
    /// Whether it asks for one round, and does not wait.
    fn asks_once(&self) -> bool;
    /// Whether it takes keys over from an owner that has let go. It stands in no line: nobody waits for that.
    fn adopts(&self) -> bool {
        false
    }
    /// Whether its caller has gone.
    fn is_given_up(&self) -> bool;
}

/// All state of a client.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Client<G, W, R, E> {
    settings: ClientSettings,
    grants: Slab<Box<Grant<G, E>>>,
    footprints: Slab<Traced>,
    queues: Slab<Box<Waiting<W, E>>>,
    by_name: ByName,
    asking: Slab<Asking<W>>,
    /// Limits on the rounds of acquires and of releases; neither waits behind the other.
    acquires: Concurrency<AskId>,
    releases: Concurrency<ReleaseId>,
    /// Rounds under way.
    attempts: Slab<Box<Attempt<E>>>,
    releasing: Slab<Releasing<R, E>>,
    renewals: Slab<Box<Renewal<E>>>,
    restores: Slab<Restore>,
    leaving: Box<[Leaving]>,
    /// Releases that wait for their turn, by the queue of their grant.
    unsent: BTreeMap<QueueId, VecDeque<ReleaseId>>,
    /// Releases that a node has not confirmed, by node.
    again: Box<[Again]>,
    /// Requests whose rounds are to begin.
    begins: VecDeque<AskId>,
    /// Commands to send, in this order.
    outbox: VecDeque<Outgoing>,
    /// When the next release is told that it has waited too long.
    release_timer: Option<Timestamp>,
    timers: TimerQueue<Timed>,
    /// Work for the driver.
    events: VecDeque<Event<W, R, E>>,
    /// Clients that this one has passed over in the nodes' lines, for any resource.
    patience: Patience,
    /// How many sets wait; and the requests that are kept back for one of them.
    waiting_sets: usize,
    kept_back: BTreeSet<AskId>,
    /// How long hand-overs may keep others waiting.
    turn: Duration,
    /// How many grants count as held.
    held: usize,
    /// No grant counts from now on.
    shut_down: bool,
    /// No request is begun from now on.
    closed: bool,
}

/// A grant with its state.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Grant<G, E> {
    leases: Leases,
    /// The target of its keys on the nodes.
    target: Target,
    owner: Owner,
    /// The note beside its key.
    note: Option<Note>,
    footprint: FootprintId,
    /// The owner whose keys were taken over.
    from: Option<Owner>,
    /// The queue of the request that won it.
    queue: QueueId,
    /// The queue and place under which it may be handed on.
    station: Option<(QueueId, Place)>,
    /// Its timer, and how much earlier it may come along with others.
    scheduled: Option<(Timestamp, Nanos)>,
    /// It counts as held.
    counts: bool,
    /// The nodes' answers to the last extension, where that failed.
    doubt: Option<Box<[Said<E>]>>,
    /// How many users it has: the driver, and work under way for it.
    users: u32,
    /// The driver has let go of it.
    is_forgotten: bool,
    data: G,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Timed {
    Grant(GrantId),
    Waiter(QueueId, Place),
    Ask(AskId),
    Releases,
    Again(NodeId),
    Restore(RestoreId),
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// A client with nothing to do yet.
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
            attempts: Slab::default(),
            releasing: Slab::default(),
            renewals: Slab::default(),
            restores: Slab::default(),
            leaving: iter::repeat_with(Leaving::default).take(quorum.nodes()).collect(),
            unsent: BTreeMap::new(),
            again: iter::repeat_with(Again::default).take(quorum.nodes()).collect(),
            begins: VecDeque::new(),
            outbox: VecDeque::new(),
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

    /// When to look again; `None` if nothing is due before the next wake-up.
    pub fn next_look(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.timers.next_look(now)
    }

    /// Whether that still holds, but for what a [`Wakeup`] tells.
    pub fn rests(&self) -> bool {
        self.timers.rests()
    }

    /// There is work for the driver's task: says whether to wake or start it.
    pub fn look(&mut self) -> Wakeup {
        self.timers.attend()
    }

    /// The driver's task ended with work undone: the next entry starts another.
    pub const fn abandon_timers(&mut self) {
        self.timers.abandon();
    }

    /// How many timers are set.
    pub fn timers(&self) -> usize {
        self.timers.len()
    }
}

/// A request's timer is not taken along early.
const NO_SLACK: Duration = Duration::ZERO;
