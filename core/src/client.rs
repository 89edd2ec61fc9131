//! Everything that one handle decides of what is asked for and held in its process.
//!
//! It composes the machines of a request ([`Acquisition`]), of a queue ([`Queue`](crate::queue::Queue)), of turns ([`Concurrency`]), of the place in the
//! lines on the nodes ([`Waiter`](crate::Waiter)), of a grant ([`Leases`], [`Footprint`]) and of time ([`TimerQueue`]). Each input
//! changes all that it concerns in one step. It sends nothing, wakes nobody, and reads no clock.
//!
//! # The driver
//!
//! A driver has one lock around this, and one task. Behind each call it drains [`poll_event`](Client::poll_event), without the
//! lock, and does what each [`Event`] says. Its task begins the rounds of [`poll_begin`](Client::poll_begin), makes the calls that
//! [`poll_transmit`](Client::poll_transmit) yields, in that order, and tells by [`handle_answers`](Client::handle_answers) what each
//! has come to. It calls [`handle_timeout`](Client::handle_timeout) at [`next_look`](Client::next_look). What a grant, a request, a
//! release and an error of a node are beside what decides on them, the driver says (`G`, `W`, `R`, `E`). Of the first three each
//! comes back out: none is dropped in here, as that may be code of a user.
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
//! - **K1** A grant that wants to be looked at is among the timers, for no later than it wants to be; so is a request in a
//!   queue. What has ended or gone is not among them.
//! - **K2** What a queue keeps as nobody's is kept; and one queue keeps it.
//! - **K3** From the step on in which a grant is over, nothing is set for it on a node (F3).
//! - **K4** A grant is handed on to the first in its queue that is in time, or to nobody.
//! - **K5** While a grant is handed on, kept or taken, there is no step in which its queue says that nobody has it.
//! - **K6** A queue that is asked for has one leader, and no other queue has one.
//! - **K7** Who asks is in a round, waits for its turn, or is among the timers for when it goes on.
//!
//! They are tested, each by name, in `tests/proof/protocol/client`; and the model runs this whole, in `handles` and `terms`.

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
    on_nodes::{NodeSet, OnNodes},
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

/// What holds for everything that a client decides.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ClientSettings {
    /// Of how many nodes.
    pub quorum: Quorum,
    /// As which it stands in the lines on the nodes.
    pub client: ClientId,
    /// By when a node has answered, or never does.
    pub node_timeout: Duration,
    /// How much clocks may be off by.
    pub drift: Drift,
    /// Whether the number of rounds under way follows how the nodes answer.
    pub adapts: bool,
    /// Whether every node counts ranges of tokens. Where one does not, each round asks for one token.
    pub counts_ranges: bool,
}

/// A grant of this client.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct GrantId(Key);

/// Where the keys of one owner may stand.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct FootprintId(Key);

/// The same, for as long as anybody has to do with it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Traced {
    footprint: Footprint,
    users: u32,
}

/// The queue of a resource.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct QueueId(Key);

/// What a queue asks of a request that stands there.
pub trait Asks<E> {
    /// What decides how long it waits.
    fn acquisition(&mut self) -> &mut Acquisition;
    /// Up to when it may wait for its turn.
    fn turn_deadline(&self) -> Option<Timestamp>;
    /// When it says for whom it waits.
    fn says_at(&self) -> Option<Timestamp>;
    /// What it asks of a grant that is handed on to it.
    fn next(&self, steady: Timestamp) -> NextLease;
    /// It is told what a round before it came has met.
    fn handle_known(&mut self, met: &Arc<Met<E>>);
    /// It is told what the round of its leader has met.
    fn handle_met(&mut self, met: &Arc<Met<E>>);
    /// Whether a round that took as long as this one would have been in time for it, which it was not for its leader.
    fn is_in_time(&self, met: &Arc<Met<E>>) -> bool;
    /// Whether it asks for one round, and does not wait.
    fn asks_once(&self) -> bool;
    /// Whether its caller has gone.
    fn is_given_up(&self) -> bool;
}

/// Everything that is decided of them.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Client<G, W, R, E> {
    settings: ClientSettings,
    grants: Slab<Box<Grant<G, E>>>,
    footprints: Slab<Traced>,
    queues: Slab<Box<Waiting<W, E>>>,
    by_name: ByName,
    asking: Slab<Asking<W>>,
    /// Who may be in a round: acquires, and releases, neither of which waits behind the other.
    acquires: Concurrency<AskId>,
    releases: Concurrency<ReleaseId>,
    /// What is under way.
    attempts: Slab<Box<Attempt<E>>>,
    releasing: Slab<Releasing<R, E>>,
    renewals: Slab<Box<Renewal<E>>>,
    restores: Slab<Restore>,
    leaving: Box<[Leaving]>,
    /// Releases that wait for their turn, by the queue of what they give back.
    unsent: BTreeMap<QueueId, VecDeque<ReleaseId>>,
    /// Those that a node has not confirmed, by node.
    again: Box<[Again]>,
    /// What is to be sent, in this order.
    /// Whose rounds are to begin.
    begins: VecDeque<AskId>,
    outbox: VecDeque<Outgoing>,
    /// When a release is to be told that it has waited for too long.
    release_timer: Option<Timestamp>,
    timers: TimerQueue<Timed>,
    /// What is to be done.
    events: VecDeque<Event<W, R, E>>,
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
struct Grant<G, E> {
    leases: Leases,
    /// What stands on the nodes for it.
    target: Target,
    owner: Owner,
    /// What it leaves beside its key.
    note: Option<Note>,
    footprint: FootprintId,
    /// In whose way it is, here.
    queue: QueueId,
    /// Under which place of which queue it was won.
    station: Option<(QueueId, Place)>,
    /// When it is looked at, and how much before that it may be taken along.
    scheduled: Option<(Timestamp, Nanos)>,
    /// It counts as held.
    counts: bool,
    /// What the nodes have said to the last extension, where that has failed.
    doubt: Option<Box<[Said<E>]>>,
    /// How many have to do with it: the driver, and what is under way for it.
    users: u32,
    /// The driver has not.
    is_forgotten: bool,
    data: G,
}

/// Who is looked at when its time has come.
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

    /// When to look again; `None` where there is nothing to look at, up to the next wake-up.
    pub fn next_look(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.timers.next_look(now)
    }

    /// Whether that has not changed since, but for what a [`Wakeup`] tells.
    pub fn rests(&self) -> bool {
        self.timers.rests()
    }

    /// Somebody is to look what there is to do: says who has to be woken for that, or started.
    pub fn look(&mut self) -> Wakeup {
        self.timers.attend()
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

/// A request in a queue is looked at in time, and is not taken along before.
const NO_SLACK: Duration = Duration::ZERO;
