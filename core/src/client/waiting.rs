//! One queue with what is known of its resource, and what stands in it.
//!
//! It decides nothing but what of that is forgotten together.

use alloc::{sync::Arc, vec::Vec};

use super::{AskId, AskList, Asks, GrantId, Met, NodeSet, OnNodes, Pause, QueueId, Timed};
use crate::{
    acquisition::GiveUp,
    handover::Stay,
    queue::{Place, Queue, Station},
    rare::{Rare, Unwritten},
    target::Target,
    time::Timestamp,
    timers::TimerQueue,
};

/// One queue, with what is known of its resource here.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Waiting<W, E> {
    pub(super) target: Target,
    /// How many have to do with it.
    pub(super) users: u32,
    pub(super) queue: Queue<Waiter<W>>,
    /// Who asks the nodes, under which place: the leader, and those who ask for a permit beside it.
    pub(super) asks: AskList,
    /// What is held here, or was last.
    pub(super) held: Option<GrantId>,
    /// What is held here as nobody's.
    pub(super) kept: Option<GrantId>,
    /// The leader is in a round.
    pub(super) in_round: bool,
    /// The key is gone since the last pause: the next one does not begin.
    pub(super) freed: bool,
    pub(super) contended: Rare<Contended<E>>,
    /// For how long it has not been left to others.
    pub(super) stay: Stay,
    /// The place of this client in the lines on the nodes.
    pub(super) on_nodes: OnNodes,
}

/// What is known of a resource that several want. Where one alone ever has, it takes no room.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Contended<E> {
    /// Those who ask and pause, in the order in which they began to.
    pub(super) pausing: Vec<AskId>,
    /// The nodes that have said that the key is gone, since that was a quorum last.
    pub(super) gone_from: NodeSet,
    /// What the last round has met that was lost, until one is won; and whether it has found the resource held.
    pub(super) met: Option<(Arc<Met<E>>, bool)>,
    /// What the next leader does before its first round.
    pub(super) first: Pause,
    /// When somebody stood in line here last.
    pub(super) waited_for: Option<Timestamp>,
    /// Of several resources: since when the leader waits, once a round was lost.
    pub(super) waits_since: Option<Timestamp>,
}

/// One who waits in a queue, or for what a round finds.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Waiter<W> {
    pub(super) request: W,
    /// When it is looked at, and under which place.
    pub(super) timer: Option<(Timestamp, Place)>,
    /// Its time is up, and it waits for what the round finds that is under way.
    pub(super) shares: bool,
    /// What it is told, where it waits in vain.
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
    /// What the next leader does before its first round.
    pub(super) fn begin_with(&mut self, first: Pause) {
        if self.contended.first != first {
            self.contended.first = first;
        }
    }

    /// What was met is of no use to whoever comes next.
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

/// When a request wants to be looked at.
pub(super) fn looked_at<W: Asks<E>, E>(request: &W) -> Option<Timestamp> {
    [request.turn_deadline(), request.says_at()].into_iter().flatten().min()
}

impl<W, E> Waiting<W, E> {
    /// What is held here, where anything is.
    pub(super) fn holder(&self) -> Option<GrantId> {
        self.held.filter(|_| matches!(self.queue.station(), Station::Held(_)))
    }
}

/// The request that leaves a queue. It is among the timers no more.
pub(super) fn gone<W>(timers: &mut TimerQueue<Timed>, id: QueueId, waiter: Waiter<W>) -> W {
    let Waiter { request, timer, .. } = waiter;
    if let Some((at, place)) = timer {
        timers.cancel(at, Timed::Waiter(id, place));
    }
    request
}

/// The same of several.
pub(super) fn all_gone<W>(
    timers: &mut TimerQueue<Timed>,
    id: QueueId,
    all: Vec<Waiter<W>>,
) -> Vec<W> {
    all.into_iter().map(|waiter| gone(timers, id, waiter)).collect()
}
