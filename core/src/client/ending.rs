//! How a grant ends: released, left to expire, or shared with readers.
//!
//! It decides that what is released, who is next and whom the resource is left to change in one step. Whether a lease may end, and
//! up to when others are kept out, `Leases` decides.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Asks, Client, Fails, GrantId, Moment, Timed, releasing::all_orders};
use crate::{
    fencing::FencingToken, footprint::ReleaseOrder, leases::EndedLease, loss::LossReason,
    target::Target,
};

/// For how long a resource is left at the least to those here who want something else that overlaps. It is as long as the
/// first in a line on the nodes is waited for.
const MOMENT: Duration = Duration::from_millis(3);

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
pub(super) struct Ended {
    /// Its last lease.
    pub(super) lease: EndedLease,
    /// Where to release.
    pub(super) orders: Vec<ReleaseOrder>,
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// Ends it, once: it is in no list any more. What is to be released is ordered in the same step, so that nobody else who
    /// asks its footprint for orders gets one of these.
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
            // What is kept there is what lingers now, and not what another holder has kept since.
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
    /// Its lease is given back, or it is kept no longer: it is released. Whoever is next here for the same leaves it for a moment
    /// to those here who want something else that overlaps: a set needs all of its resources at one time, and on the nodes nobody
    /// of the same process is before another. Nothing where it is over already.
    ///
    /// What the driver keeps with the release it makes of what it keeps with the grant. What is to be dropped without the lock
    /// it must not move in there, as nothing is made where nothing is released.
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
        // Behind the release, which the next round follows on every connection.
        self.handle_grant_over(id);
        Some(lease)
    }

    /// The same without anybody who carries it out: where to release is returned.
    pub fn end_unwatched(&mut self, id: GrantId, end: End) -> Vec<ReleaseOrder> {
        self.end(id, end).map(|ended| ended.orders).unwrap_or_default()
    }

    /// It ends without a release: its keys are left to expire. A restore that is under way is undone all the same.
    pub fn leave_to_expire(&mut self, id: GrantId, end: End) -> Option<EndedLease> {
        let ended = self.end(id, end)?;
        self.handle_grant_over(id);
        Some(ended.lease)
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

    /// Its holder shares it with readers from now on, under the number that is returned. Whoever is next here asks the nodes,
    /// which follow with the next extension. Nothing where it is over, or not of one resource.
    pub fn downgrade(&mut self, id: GrantId, number: u64) -> Option<(u64, Option<FencingToken>)> {
        let grant = self.grants.get(id.0)?;
        let Target::One(resource) = &grant.target else { return None };
        let downgraded = Target::Downgraded(resource.clone());
        let number = self.change(id, |leases| leases.downgrade(number))??;
        let grant = self.grants.get_mut(id.0)?;
        // Whoever sends something for it from now on does so as a reader's.
        grant.target = downgraded;
        Some((number, grant.leases.token()))
    }
}
