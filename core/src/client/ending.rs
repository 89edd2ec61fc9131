//! How a grant ends: released, left to expire, or shared with readers.
//!
//! It changes the release, the next request and the rest of a resource in one step. `Leases` decides whether a lease
//! may end, and until when others are kept out.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Asks, Client, Fails, GrantId, Moment, Timed, releasing::all_orders};
use crate::{
    fencing::FencingToken, footprint::ReleaseOrder, leases::EndedLease, loss::LossReason,
    target::Target,
};

/// The least time that a resource is left to requests here for something that overlaps. It is as long as the first in a
/// node's line is waited for.
const MOMENT: Duration = Duration::from_millis(3);

/// How a grant ends.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum End {
    /// The lease with this number is given back.
    GivenBack(u64),
    /// It is over for this reason, without a release: its keys expire.
    Over(u64, LossReason),
    /// It was lost, and its keys stay for the lock-delay.
    Left(u64),
    /// It is no longer kept.
    Kept,
}

/// A grant that has ended.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Ended {
    /// Its last lease.
    pub(super) lease: EndedLease,
    /// Where to release.
    pub(super) orders: Vec<ReleaseOrder>,
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// Ends it, once, and removes it from every list. Its releases are ordered in the same step, so that no other
    /// caller gets one of these orders.
    fn end(&mut self, id: GrantId, end: End) -> Option<Ended> {
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
            // It lists its own grant, and not one that another holder has kept since.
            waiting.kept.take_if(|kept| *kept == id);
        }
        let mut orders = Vec::new();
        if matches!(end, End::GivenBack(_) | End::Kept)
            && let Some(traced) = self.footprints.get_mut(grant.footprint.0)
        {
            traced.footprint.handle_given_back();
            orders = all_orders(&mut traced.footprint);
        }
        Some(Ended { lease, orders })
    }
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Gives back a lease, or a kept grant, and releases it. After a lease, the next request here for the same target
    /// rests for a moment if another here wants something that overlaps. A set needs all its resources at once, and the
    /// nodes' lines keep no order within a process. `None` if it is over already.
    ///
    /// `data` makes the driver's data of the release from that of the grant. It must not hold values that are to be
    /// dropped without the lock: if nothing is released, it is dropped uncalled.
    pub fn give_back(
        &mut self,
        id: GrantId,
        end: End,
        data: impl FnOnce(&mut G, &EndedLease) -> R,
        at: &Moment<'_>,
    ) -> Option<EndedLease> {
        let ended = self.end(id, end)?;
        let queue = self.grants.get(id.0)?.queue;
        let is_released = matches!(end, End::GivenBack(_));
        if is_released && self.is_wanted_beside(queue) {
            let round_trips = at.round_trip.unwrap_or_default() * 2;
            self.rest_until(queue, at.now.saturating_add(MOMENT.max(round_trips)));
        }
        let data = self.grants.get_mut(id.0).map(|grant| data(&mut grant.data, &ended.lease))?;
        let is_kept = ended.lease.hold.is_some_and(|hold| hold > at.steady);
        let lease = ended.lease;
        self.release(id, ended, data, at);
        if is_released && !is_kept {
            self.handle_permit_given_back(queue);
        }
        // After the release, which the next round follows on every connection.
        self.handle_grant_over(id);
        Some(lease)
    }

    /// The same without a driver: returns where to release.
    pub fn end_unwatched(&mut self, id: GrantId, end: End) -> Vec<ReleaseOrder> {
        self.end(id, end).map(|ended| ended.orders).unwrap_or_default()
    }

    /// Ends it without a release: its keys expire. A restore under way is undone all the same.
    pub fn leave_to_expire(&mut self, id: GrantId, end: End) -> Option<EndedLease> {
        let ended = self.end(id, end)?;
        self.handle_grant_over(id);
        Some(ended.lease)
    }

    /// It is over and not handed on: the first request in its queue asks the nodes.
    pub fn handle_grant_over(&mut self, id: GrantId) {
        if let Some((queue, place)) = self.grants.get(id.0).and_then(|grant| grant.station)
            && let Some(waiting) = self.queues.get_mut(queue.0)
            && waiting.queue.handle_over(place)
        {
            self.next_leader(queue);
        }
    }

    /// Its holder shares it with readers from now on, under the returned number. The next request here asks the nodes,
    /// which follow with the next extension. `None` if it is over, or not of one resource.
    pub fn downgrade(&mut self, id: GrantId, number: u64) -> Option<(u64, Option<FencingToken>)> {
        let grant = self.grants.get(id.0)?;
        let Target::One(resource) = &grant.target else { return None };
        let downgraded = Target::Downgraded(resource.clone());
        let number = self.change(id, |leases| leases.downgrade(number))??;
        let grant = self.grants.get_mut(id.0)?;
        // Later commands for it are those of a reader.
        grant.target = downgraded;
        Some((number, grant.leases.token()))
    }
}
