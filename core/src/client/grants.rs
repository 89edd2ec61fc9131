//! The grants of a client: from their beginning to their end, and when each is looked at.
//!
//! It decides nothing of a lease that `Leases` does not; it must never leave a grant without the timer that it wants.

use alloc::{boxed::Box, vec::Vec};
use core::{iter, mem};

use super::{Asks, Client, FootprintId, Grant, GrantId, QueueId, Timed};
use crate::{
    command::NodeId,
    footprint::{Footprint, ReleaseOrder},
    leases::{EndedLease, Leases},
    lifecycle::{ExtendOutcome, LeaseAction},
    loss::LossReason,
    queue::{Place, Station},
    time::{Nanos, Timestamp},
    timers::Wakeup,
};

/// A grant that begins.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NewGrant<G> {
    /// Its first lease.
    pub leases: Leases,
    /// Where its keys may stand.
    pub footprint: FootprintId,
    /// Under which place of which queue it was won, where it may be handed on.
    pub station: Option<(QueueId, Place)>,
    /// What the driver keeps with it.
    pub data: G,
}

/// How a grant ends.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum End {
    /// The lease with this number is given back.
    GivenBack(u64),
    /// It is over for this reason, without a release: its keys are left to expire.
    Over(u64, LossReason),
    /// It was lost, and its keys are left for the lock-delay.
    Left(u64),
    /// It is kept as nobody's no longer.
    Kept,
}

/// A grant that has ended.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Ended {
    /// Its last lease.
    pub lease: EndedLease,
    /// Where to release.
    pub orders: Vec<ReleaseOrder>,
}

/// What has to be done for all whose time has come.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct DueNow {
    /// Grants that are to be extended.
    pub extend: Vec<GrantId>,
    /// What has to be told.
    pub tell: Vec<(GrantId, LeaseAction)>,
    /// Grants that are kept as nobody's no longer; and whether each is to be extended where it has been taken since.
    pub give_back: Vec<(GrantId, bool)>,
    /// Who waits, and is to be looked at.
    pub waiting: Vec<(QueueId, Place)>,
}

impl<G, W, M, R> Client<G, W, M, R> {
    /// A round has been decided: where its keys may stand.
    pub fn add_footprint(&mut self, footprint: Footprint) -> FootprintId {
        FootprintId(self.footprints.insert(footprint))
    }

    /// Where they may stand by now.
    pub fn footprint(&mut self, id: FootprintId) -> Option<&mut Footprint> {
        self.footprints.get_mut(id.0)
    }

    /// Nobody has to do with them any more.
    pub fn forget_footprint(&mut self, id: FootprintId) {
        self.footprints.remove(id.0);
    }

    /// A grant begins. It is among the timers from [`schedule`](Self::schedule) on.
    pub fn begin(&mut self, begun: NewGrant<G>) -> GrantId {
        let NewGrant { leases, footprint, station, data } = begun;
        let (scheduled, counts) = (None, false);
        let grant = Grant { leases, footprint, station, scheduled, counts, data };
        GrantId(self.grants.insert(Box::new(grant)))
    }

    /// Nobody has to do with it any more. Where nobody has said before that it is over, its queue is held by nobody from now
    /// on.
    pub fn forget(&mut self, id: GrantId) -> Option<G> {
        let grant = self.grants.remove(id.0)?;
        if let Some((queue, place)) = grant.station
            && let Some(waiting) = self.queues.get_mut(queue.0)
            // One that asks still says itself that it has gone.
            && waiting.queue.station() == Station::Held(place)
        {
            waiting.queue.handle_over(place);
        }
        if let Some((at, _)) = grant.scheduled {
            self.timers.cancel(at, Timed::Grant(id));
        }
        self.held = self.held.saturating_sub(usize::from(grant.counts));
        Some(grant.data)
    }

    /// What is decided of it.
    pub fn leases(&self, id: GrantId) -> Option<&Leases> {
        self.grants.get(id.0).map(|grant| &grant.leases)
    }

    /// What the driver keeps with it.
    pub fn data(&self, id: GrantId) -> Option<&G> {
        self.grants.get(id.0).map(|grant| &grant.data)
    }

    /// The same, to be changed.
    pub fn data_mut(&mut self, id: GrantId) -> Option<&mut G> {
        self.grants.get_mut(id.0).map(|grant| &mut grant.data)
    }

    /// Those that count as held.
    pub fn held(&self) -> impl Iterator<Item = (GrantId, &G)> {
        let counted = self.grants.iter().filter(|(_, grant)| grant.counts);
        counted.map(|(key, grant)| (GrantId(key), &grant.data))
    }

    /// How many count as held.
    pub const fn held_count(&self) -> usize {
        self.held
    }

    /// Counts it as held. False says that the process is shutting down, and that it is to be given back.
    pub fn count(&mut self, id: GrantId) -> bool {
        let may_count = !self.shut_down;
        if may_count && let Some(grant) = self.grants.get_mut(id.0) {
            self.held = self.held.saturating_add(usize::from(!grant.counts));
            grant.counts = true;
        }
        may_count
    }

    /// No grant counts from now on.
    pub const fn shut_down(&mut self) {
        self.shut_down = true;
    }

    /// Changes what is decided of it. From the step on in which it is over, nothing is set for it.
    pub fn change<T>(&mut self, id: GrantId, change: impl FnOnce(&mut Leases) -> T) -> Option<T> {
        let grant = self.grants.get_mut(id.0)?;
        let lasted = grant.leases.lasts();
        let changed = change(&mut grant.leases);
        if lasted
            && !grant.leases.lasts()
            && let Some(footprint) = self.footprints.get_mut(grant.footprint.0)
        {
            footprint.handle_over();
        }
        Some(changed)
    }

    /// Puts it among the timers by when it wants to be looked at, if it is not there for that time already.
    pub fn schedule(&mut self, id: GrantId) -> Wakeup {
        let Some(grant) = self.grants.get_mut(id.0) else { return Wakeup::Silent };
        let slack = Nanos::new(grant.leases.lifecycle().slack());
        let next = grant.leases.poll_timeout().map(|at| (at, slack));
        // Also where both are none, as after a release.
        if grant.scheduled == next {
            return Wakeup::Silent;
        }
        let old = mem::replace(&mut grant.scheduled, next).map(|(at, _)| at);
        match next {
            Some((at, slack)) => self.timers.schedule(old, at, slack.get(), Timed::Grant(id)),
            None => {
                old.into_iter().for_each(|at| self.timers.cancel(at, Timed::Grant(id)));
                Wakeup::Silent
            }
        }
    }

    /// Whether all grants are among the timers that want to be: for no later than they want, and not to be taken along
    /// before they may be (K1).
    pub fn are_scheduled(&self) -> bool {
        let is_scheduled = |grant: &Grant<G>| match (grant.leases.poll_timeout(), grant.scheduled) {
            (Some(next), Some((at, slack))) => {
                at < next || at == next && slack.get() <= grant.leases.lifecycle().slack()
            }
            (next, _) => next.is_none(),
        };
        self.grants.iter().all(|(_, grant)| is_scheduled(grant))
    }

    /// An extension has ended with this outcome, which `Leases::judged` has judged. What is returned first has to be told.
    pub fn handle_extension(
        &mut self,
        id: GrantId,
        outcome: ExtendOutcome,
        now: Timestamp,
    ) -> (Option<LeaseAction>, Wakeup) {
        let action = self.change(id, |leases| leases.handle_extension(outcome, now)).flatten();
        (action, self.schedule(id))
    }

    /// Whether a restore may be sent to a node; if so, the key has to be released there from now on.
    pub fn begin_restore(&mut self, id: GrantId, node: NodeId) -> bool {
        let Some(grant) = self.grants.get(id.0).filter(|grant| grant.leases.lasts()) else {
            return false;
        };
        let footprint = self.footprints.get_mut(grant.footprint.0);
        footprint.is_some_and(|footprint| footprint.handle_restore_sent(node))
    }

    /// Ends it, once: it is in no list any more. What is to be released is ordered in the same step, so that nobody else who
    /// asks its footprint for orders gets one of these.
    pub fn end(&mut self, id: GrantId, end: End) -> Option<Ended> {
        let lease = self.change(id, |leases| match end {
            End::GivenBack(number) | End::Left(number) => leases.end(number, None),
            End::Over(number, reason) => leases.end(number, Some(reason)),
            End::Kept => leases.end_kept(),
        })??;
        let grant = self.grants.get_mut(id.0)?;
        if let Some((at, _)) = grant.scheduled.take() {
            self.timers.cancel(at, Timed::Grant(id));
        }
        self.held = self.held.saturating_sub(usize::from(grant.counts));
        grant.counts = false;
        if end == End::Kept
            && let Some((queue, _)) = grant.station
            && let Some(waiting) = self.queues.get_mut(queue.0)
        {
            // What is kept there is what lingers now, and not what another holder has kept since.
            waiting.kept.take_if(|kept| *kept == id);
        }
        let mut orders = Vec::new();
        if matches!(end, End::GivenBack(_) | End::Kept)
            && let Some(footprint) = self.footprints.get_mut(grant.footprint.0)
        {
            footprint.handle_given_back();
            orders.extend(iter::from_fn(|| footprint.poll_release()));
        }
        Some(Ended { lease, orders })
    }
}

impl<G, W: Asks<M>, M: Clone, R> Client<G, W, M, R> {
    /// Sees to everything that is due at `now`, and to what may be taken along.
    ///
    /// Timers due within 2 ms come along, so that a loss may be told that much early. Whatever is told, the grant has its place
    /// among the timers again by then; one that is kept no longer gets it when that has been seen to.
    pub fn handle_timeout(&mut self, now: Timestamp) -> DueNow {
        let mut due = DueNow::default();
        for (at, timed) in self.timers.take_due(now) {
            let id = match timed {
                Timed::Grant(id) => id,
                Timed::Waiter(queue, place) => {
                    due.waiting.push((queue, place));
                    continue;
                }
                Timed::Ask(ask) => {
                    self.handle_ask_due(ask, now);
                    continue;
                }
                Timed::Releases => {
                    self.handle_releases_due(now);
                    continue;
                }
            };
            let Some(grant) = self.grants.get_mut(id.0) else { continue };
            grant.scheduled = None;
            let at = now.max(at);
            let Some(of_it) = self.change(id, |leases| leases.handle_timeout(at)) else { continue };
            if of_it.give_back {
                due.give_back.push((id, of_it.extend));
                continue;
            }
            // Those who see to the timers look again before they sleep.
            let _ = self.schedule(id);
            due.tell.extend(of_it.tell.map(|action| (id, action)));
            due.extend.extend(of_it.extend.then_some(id));
        }
        due
    }

    /// It is over, and handed to nobody: who is first in its queue asks the nodes.
    pub fn handle_grant_over(&mut self, id: GrantId) {
        if let Some((queue, place)) = self.grants.get(id.0).and_then(|grant| grant.station)
            && let Some(waiting) = self.queues.get_mut(queue.0)
            && waiting.queue.handle_over(place)
        {
            self.next_leader(queue);
        }
    }
}
