//! One queue, with the state of its resource.
//!
//! It decides only which of that is forgotten together.

use alloc::{sync::Arc, vec::Vec};

use super::{AskId, AskList, Asks, GrantId, Met, OnNodes, Pause, QueueId, Timed};
use crate::{
    acquisition::GiveUp,
    handover::Stay,
    node_set::NodeSet,
    queue::{Place, Queue, Station},
    rare::{Rare, Unwritten},
    target::Target,
    time::Timestamp,
    timers::TimerQueue,
};

/// One queue, with the state of its resource here.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Waiting<W, E> {
    pub(super) target: Target,
    /// How many users it has.
    pub(super) users: u32,
    pub(super) queue: Queue<Waiter<W>>,
    /// The requests that ask, by place: the leader, and those beside the queue.
    pub(super) asks: AskList,
    /// The grant that is held here, or was last.
    pub(super) held: Option<GrantId>,
    /// The grant that is kept here.
    pub(super) kept: Option<GrantId>,
    /// The leader is in a round.
    pub(super) in_round: bool,
    /// The key went free since the last pause: the next pause is skipped.
    pub(super) freed: bool,
    pub(super) contended: Rare<Contended<E>>,
    /// How long it has not been left to others.
    pub(super) stay: Stay,
    /// This client's place in the nodes' lines.
    pub(super) on_nodes: OnNodes,
}

/// The state of a resource that several requests want. It takes no room before that.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Contended<E> {
    /// The asking requests that pause, in the order in which they began to.
    pub(super) pausing: Vec<AskId>,
    /// The nodes that reported the key gone, since the last quorum of them.
    pub(super) gone_from: NodeSet,
    /// What the last lost round found, until one is won; and whether it found the resource held.
    pub(super) met: Option<(Arc<Met<E>>, bool)>,
    /// What the next leader does before its first round.
    pub(super) first: Pause,
    /// When a request last stood in line here.
    pub(super) waited_for: Option<Timestamp>,
    /// Of a set: since when its leader waits, once a round was lost.
    pub(super) waits_since: Option<Timestamp>,
}

/// A request in a queue, or one that shares a round's result.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Waiter<W> {
    pub(super) request: W,
    /// Its timer, and the place that this is set under.
    pub(super) timer: Option<(Timestamp, Place)>,
    /// Its time is up, and it waits for the result of the round under way.
    pub(super) shares: bool,
    /// What it is told if it waits in vain.
    pub(super) in_vain: Option<GiveUp>,
}

impl<W, E> Waiting<W, E> {
    pub(super) fn new(target: Target) -> Self {
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

impl<E> Contended<E> {
    const NOT: Self = Self {
        pausing: Vec::new(),
        gone_from: NodeSet::NONE,
        met: None,
        first: Pause::None,
        waited_for: None,
        waits_since: None,
    };
}

impl<E> Default for Contended<E> {
    fn default() -> Self {
        Self::NOT
    }
}

impl<E> Unwritten for Contended<E> {
    fn unwritten<'a>() -> &'a Self
    where
        Self: 'a,
    {
        const { &Self::NOT }
    }
}

impl<W, E> Waiting<W, E> {
    /// Sets what the next leader does before its first round.
    pub(super) fn begin_with(&mut self, first: Pause) {
        if self.contended.first != first {
            self.contended.first = first;
        }
    }

    /// Forgets findings that are of no use to the next request.
    pub(super) fn forget_met(&mut self) {
        if let Some(contended) = self.contended.written() {
            contended.met = None;
        }
    }
}

impl<W> Waiter<W> {
    pub(super) const fn new(request: W) -> Self {
        Self { request, timer: None, shares: false, in_vain: None }
    }
}

/// When a request needs a look.
pub(super) fn looked_at<W: Asks<E>, E>(request: &W) -> Option<Timestamp> {
    [request.turn_deadline(), request.says_at()].into_iter().flatten().min()
}

impl<W, E> Waiting<W, E> {
    /// The grant that is held here, if any.
    pub(super) fn holder(&self) -> Option<GrantId> {
        self.held.filter(|_| matches!(self.queue.station(), Station::Held(_)))
    }
}

/// Takes the request out of a waiter, and cancels its timer.
pub(super) fn gone<W>(timers: &mut TimerQueue<Timed>, id: QueueId, waiter: Waiter<W>) -> W {
    let Waiter { request, timer, .. } = waiter;
    if let Some((at, place)) = timer {
        timers.cancel(at, Timed::Waiter(id, place));
    }
    request
}

/// The same for several.
pub(super) fn all_gone<W>(
    timers: &mut TimerQueue<Timed>,
    id: QueueId,
    all: Vec<Waiter<W>>,
) -> Vec<W> {
    all.into_iter().map(|waiter| gone(timers, id, waiter)).collect()
}
