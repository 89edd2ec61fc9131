//! One resource, set or semaphore that is wanted or held in this process: who waits for it here, whom it keeps out, and
//! who of those who pause asks at once when it is given up.
//!
//! It tells one of those who pause between rounds for a resource that its key is gone. That is a hint: it ends a pause
//! early, and no vote and no deadline rests on it.

use std::{
    fmt,
    sync::{
        Arc, MutexGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{Resources, by_name::Which};
use crate::{
    engine::{Unsent, UnsentHere, client::Client, stand::OnNodes},
    error::NodeOutcome,
    lock::Lock,
    protocol::{NodeId, OthersWait, QueueId, Slots, Target, Timestamp, keeps_back},
    shield::shielded,
};

/// So many releases are sent at once for one who asks: all permits of a semaphore.
const MOST_AT_ONCE: usize = Slots::MOST;

/// One target that is wanted or held here.
pub(in crate::engine) struct ResourceSlot {
    target: Target,
    home: Arc<Resources>,
    /// The nodes that have said that the key is gone, since that was a quorum last.
    gone_from: Lock<Vec<NodeId>>,
    freed: Notify,
    /// Somebody here asks the nodes for it.
    asks: AtomicBool,
    /// Of several resources: since when the one waits who asks the nodes for them here, once a round was lost.
    waits_since: Lock<Option<Timestamp>>,
    /// Who waits for it here.
    queue: QueueId,
    /// The place of this process in the lines on the nodes.
    on_nodes: OnNodes,
    /// What has been given back of it and has not been sent.
    unsent: UnsentHere,
}

fn is_slot(weak: &Weak<ResourceSlot>, slot: &ResourceSlot) -> bool {
    std::ptr::eq(weak.as_ptr(), slot)
}

impl ResourceSlot {
    /// One that nobody has to do with yet.
    pub(super) fn new(home: &Arc<Resources>, target: &Target, queue: QueueId) -> Arc<Self> {
        let (patience, runtime) = (Arc::clone(&home.patience), Arc::clone(&home.runtime));
        Arc::new(Self {
            target: target.clone(),
            home: Arc::clone(home),
            gone_from: Lock::default(),
            freed: Notify::new(),
            asks: AtomicBool::new(false),
            waits_since: Lock::default(),
            queue,
            on_nodes: OnNodes::new(home.client, home.quorum, patience, runtime),
            unsent: UnsentHere::default(),
        })
    }

    /// Whether others than those who stand in this line wait for it, as far as is known: other processes, or those of this
    /// one who want, or have, something else that it has a resource in common with.
    pub(in crate::engine) fn others_wait(&self, now: Timestamp) -> OthersWait {
        if self.is_shared() { OthersWait::Somebody } else { self.on_nodes.others_wait(now) }
    }

    /// Whether somebody here wants, or has, something else that it has a resource in common with.
    fn is_shared(&self) -> bool {
        if !self.home.knows_sets.load(Ordering::Relaxed) || self.target.is_any() {
            return false;
        }
        let by_name = self.home.by_name.lock();
        let is_another = |other: &Weak<Self>| other.strong_count() > 0 && !is_slot(other, self);
        self.target.resources().iter().any(|one| by_name.covering(one, Which::All).any(is_another))
    }

    /// Somebody here begins to ask the nodes for it, or has it, or does not want it any more. For several resources no lock
    /// may be held.
    pub(in crate::engine) fn set_asks(&self, asks: bool) {
        self.asks.store(asks, Ordering::Relaxed);
        if self.target.is_set() && self.waits_since.lock().take().is_some() {
            self.home.waiting_sets.fetch_sub(1, Ordering::Relaxed);
            // A waker may be anybody's code.
            shielded(|| self.home.set_served.notify_waiters());
        }
    }

    /// Who asks the nodes for it here has lost a round by others' keys, and waits since then.
    pub(in crate::engine) fn handle_waits(&self, since: Timestamp) {
        if self.target.is_set() && self.waits_since.lock().replace(since).is_none() {
            self.home.waiting_sets.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// For how long yet whoever comes anew leaves it to one here who wants several resources, this one among them, and has
    /// waited for long.
    pub(in crate::engine) fn kept_back_for(
        &self,
        turn: Duration,
        now: Timestamp,
    ) -> Option<Duration> {
        // Readers are kept out by the line on the nodes.
        if self.target.is_shared() {
            return None;
        }
        let left = |other: Arc<Self>| {
            let since = (*other.waits_since.lock())?;
            keeps_back(now.saturating_since(since), turn)
        };
        self.home.overlapping(&self.target, Which::Others).into_iter().filter_map(left).max()
    }

    /// Whether somebody here asks the nodes for something else that it has a resource in common with. In the lines on the
    /// nodes that is the same client, so that they do not keep the order between the two.
    pub(in crate::engine) fn is_wanted_beside(&self) -> bool {
        // A reader leaves nobody a moment: nobody else of this process asks under its place.
        if self.target.is_shared() {
            return false;
        }
        let others = self.home.overlapping(&self.target, Which::All);
        others.iter().any(|other| other.asks.load(Ordering::Relaxed))
    }

    /// It has been released: whoever waits here for something that it has a resource in common with asks at once. On the
    /// nodes they stand in its lines under the same name, and a grant has taken that out.
    pub(in crate::engine) fn handle_released(&self) {
        if self.target.is_any() {
            // Whoever pauses all the same has asked since then, too early.
            self.freed.notify_waiters();
            return;
        }
        self.handle_freed();
        for other in self.home.overlapping(&self.target, self.in_the_way()) {
            other.handle_freed();
        }
    }

    /// A permit is given back, of which the nodes are told before whoever asks from now on: one of those who pause asks at
    /// once. Anything else makes room in its line.
    pub(in crate::engine) fn handle_given_back(&self) {
        if self.target.is_any() {
            self.handle_freed();
        }
    }

    /// Whom it keeps out, of those who have a resource in common with it: a reader lets others read.
    const fn in_the_way(&self) -> Which {
        if self.target.is_shared() { Which::Others } else { Which::All }
    }

    /// Whether nodes have denied a round, which said who asks, for another place of this process in its lines, with which
    /// nobody here waits: one to read, where this one is for all else, and the other way round.
    pub(in crate::engine) fn has_left_a_place(&self, outcomes: &[NodeOutcome]) -> bool {
        let own = Some(self.home.client);
        let is_own = |it: &NodeOutcome| matches!(it, NodeOutcome::Denied(it) if it.behind == own);
        if !outcomes.iter().any(is_own) {
            return false;
        }
        let which = if self.target.is_shared() { Which::Others } else { Which::Readers };
        let others = self.home.overlapping(&self.target, which);
        !others.iter().any(|other| other.asks.load(Ordering::Relaxed) && other.on_nodes.waits())
    }

    /// It stands in the lines on the nodes with a place of its own, from the round on that begins, or that was lost.
    pub(in crate::engine) fn handle_placed(self: &Arc<Self>) {
        if self.target.is_shared() {
            self.home.by_name.lock().note_placed(self);
        }
    }

    /// A release of it waits to be sent.
    pub(in crate::engine) fn count_unsent(&self) {
        self.home.unsent.fetch_add(1, Ordering::Relaxed);
    }

    /// It waits no longer.
    pub(in crate::engine) fn discount_unsent(&self) {
        self.home.unsent.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whoever asks here finds this one.
    pub(in crate::engine) fn handle_unsent(&self, unsent: &Arc<Unsent>) {
        self.unsent.add(unsent);
    }

    /// What waits to be sent, and whoever asks for it would be denied without: of its own line, and of whatever it has a
    /// resource in common with, but for other readers where it is one. No more than so many, of thousands of readers: they
    /// would take the room of renewals.
    pub(in crate::engine) fn unsent_in_the_way(&self) -> Vec<Arc<Unsent>> {
        // Nearly always there are none. What has been given back before this was asked for is counted by now.
        if self.home.unsent.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut all = self.unsent.take(MOST_AT_ONCE);
        for other in self.in_the_way_of_it() {
            let left = MOST_AT_ONCE.saturating_sub(all.len());
            if left == 0 {
                break;
            }
            all.append(&mut other.unsent.take(left));
        }
        all
    }

    /// Whatever is wanted or held here that may keep it out. A slot of a semaphore is in the way of whoever wants its name
    /// by itself, and the other way round.
    fn in_the_way_of_it(&self) -> Vec<Arc<Self>> {
        let resources = self.target.resources();
        let mut all: Vec<Weak<Self>> = Vec::new();
        if self.target.is_any() {
            // Of another number of permits too.
            let by_name = self.home.by_name.lock();
            let named = self.target.lines().iter().chain(resources);
            named.for_each(|name| all.extend(by_name.covering(name, Which::All).cloned()));
        } else {
            let lines = resources.iter().filter_map(Slots::line_of);
            lines.for_each(|line| all.append(&mut self.home.covering(&line)));
        }
        // Upgraded without the lock, as in `overlapping`.
        let mut others: Vec<_> = all.iter().filter_map(Weak::upgrade).collect();
        if !self.target.is_any() {
            others.append(&mut self.home.overlapping(&self.target, self.in_the_way()));
        }
        others
    }

    /// It is shared with readers from now on: those who pause here until they may read ask at once.
    pub(in crate::engine) fn handle_shared(&self) {
        for other in self.home.overlapping(&self.target, Which::Readers) {
            other.handle_freed();
        }
    }

    /// The place of this process in the lines on the nodes.
    pub(in crate::engine) const fn on_nodes(&self) -> &OnNodes {
        &self.on_nodes
    }

    /// Who waits for it here.
    pub(in crate::engine) const fn queue(&self) -> QueueId {
        self.queue
    }

    pub(in crate::engine) fn client(&self) -> MutexGuard<'_, Client> {
        self.home.here.lock()
    }

    pub(in crate::engine) const fn target(&self) -> &Target {
        &self.target
    }

    /// The key is gone from a quorum: one of those who pause need not pause any longer.
    pub(in crate::engine) fn handle_freed(&self) {
        // Counted anew from here: the next holder's key is another one. One permit is kept where nobody waits yet.
        self.gone_from.lock().clear();
        self.freed.notify_one();
    }

    /// Ends when the key is gone from a quorum, for one of those who wait for that.
    pub(in crate::engine) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// A node says that the key is gone there.
    pub(super) fn handle_gone(&self, node: NodeId) {
        let is_quorum = {
            let mut gone_from = self.gone_from.lock();
            if !gone_from.contains(&node) {
                gone_from.push(node);
            }
            gone_from.len() >= self.home.quorum.needed()
        };
        if is_quorum {
            self.handle_freed();
        }
    }
}

impl Drop for ResourceSlot {
    fn drop(&mut self) {
        // A process that was forked drops its copies too, and in its parent another thread may have had the lock. Where
        // one of this process has it, what is left in the map is looked for later.
        if let Some(mut by_name) = self.home.by_name.try_lock() {
            by_name.forget(self);
        }
        // Whoever stands there would keep it.
        let all = self.home.here.lock_here().map(|mut client| client.close_queue(self.queue));
        drop(all);
        if let Some((client, ticket)) = self.on_nodes.leave()
            && let Some(engine) = self.home.engine.get().and_then(Weak::upgrade)
            && engine.is_served()
        {
            engine.leave_line(&self.target, client, ticket);
        }
    }
}

impl fmt::Debug for ResourceSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceSlot").field("target", &self.target).finish_non_exhaustive()
    }
}
