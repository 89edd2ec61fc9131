//! How a grant passes from one lease to the next: to the first in its queue, to nobody for a while, or back to the
//! nodes.
//!
//! It decides which request is next and whether the grant is handed on. One lease ends in the step in which the next
//! begins: no two numbers hold at once.

use alloc::vec::Vec;

use super::{Asks, Client, Fails, GrantId, Moment, Pause, QueueId, gone};
use crate::{
    fencing::FencingToken,
    handover::GivenBack,
    leases::{Begun, NextLease, Situation},
    timers::Wakeup,
};

/// What became of a lease that was given back.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Passed<W> {
    /// This request has it now.
    To(W, Begun, Wakeup),
    /// The grant is kept without a lease.
    Kept(Wakeup),
    /// The grant goes back to the nodes.
    ToNobody,
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Whether a given-back grant may stay in this process: a request stands in its queue, or it would be kept. If not,
    /// the caller need not read a clock.
    pub fn may_pass(&self, id: GrantId) -> bool {
        let Some(grant) = self.grants.get(id.0) else { return false };
        let waiting = |(queue, place): (QueueId, _)| self.queues.get(queue.0)?.queue.first(place);
        grant.station.is_some_and(|station| grant.leases.lingers() || waiting(station).is_some())
    }

    /// Gives back the lease with this number: the first in line gets it, or the grant is kept, or it is to be released.
    /// Returns that, the token of the ended lease, and the requests skipped because their time was up.
    ///
    /// `None`: the lease is over already, or its grant cannot pass on. It stands in no queue, is shared with readers,
    /// was ended by a shutdown, or a set of this process has waited long (H6).
    pub fn hand_on(
        &mut self,
        id: GrantId,
        number: u64,
        at: &Moment<'_>,
    ) -> Option<(Passed<W>, Option<FencingToken>, Vec<W>)> {
        self.turn = at.turn;
        let Moment { now, steady, .. } = *at;
        let (queue, place) = self.grants.get(id.0)?.station?;
        if self.kept_back_for(queue, now).is_some() {
            return None;
        }
        let (situation, spread) = (self.situation(queue, at), self.spread(queue, now));
        let grant = self.grants.get_mut(id.0)?;
        let waiting = self.queues.get_mut(queue.0)?;
        if !grant.leases.may_go_on(number) {
            return None;
        }
        let (before, mut late) = (grant.leases.token(), Vec::new());
        let passed = loop {
            // With the linger of the ended lease, which may lengthen the turn.
            let situation = grant.leases.situation(situation);
            let Some(first) = waiting.queue.first(place) else {
                let heard_until = waiting.on_nodes.hears_until();
                let is_kept = !self.closed && grant.leases.keep(situation, heard_until);
                if is_kept {
                    waiting.kept = Some(id);
                    break Passed::Kept(self.schedule(id));
                }
                break Passed::ToNobody;
            };
            let deadline = first.request.turn_deadline();
            let in_time = deadline.is_none_or(|deadline| now < deadline);
            let next = first.request.next(steady);
            let begun =
                if in_time { grant.leases.hand_on(&next, situation).map(Some) } else { Ok(None) };
            let Ok(begun) = begun else {
                let Situation { others, turn, .. } = situation;
                let given_back = GivenBack { leases: grant.leases.count(), others, turn, now };
                if let Some(most) = waiting.stay.handle_given_back(given_back) {
                    // The next leader leaves the resource to others for between half of it and all.
                    let more = (most / 2).saturating_mul(u32::from(spread)) / 255;
                    let until = now.saturating_add((most / 2).saturating_add(more));
                    waiting.begin_with(Pause::Rest(until));
                }
                break Passed::ToNobody;
            };
            let Some((_, waiter)) = waiting.queue.hand_on(place) else {
                break Passed::ToNobody;
            };
            let request = gone(&mut self.timers, queue, waiter);
            // Its time is up, and its caller is about to leave the queue.
            let Some(begun) = begun else {
                late.push(request);
                continue;
            };
            let wakeup = if begun.moved { self.schedule(id) } else { Wakeup::Silent };
            break Passed::To(request, begun, wakeup);
        };
        Some((passed, before, late))
    }

    /// Begins a lease that takes a kept grant. `None`: the grant will not do, and nothing has changed.
    pub fn resume(
        &mut self,
        id: GrantId,
        next: &NextLease,
        at: &Moment<'_>,
    ) -> Option<(Begun, Wakeup)> {
        let (queue, _) = self.grants.get(id.0)?.station?;
        let situation = self.situation(queue, at);
        let begun = self.change(id, |leases| {
            let situation = leases.situation(situation);
            leases.resume(next, situation)
        })??;
        let wakeup = if begun.moved { self.schedule(id) } else { Wakeup::Silent };
        Some((begun, wakeup))
    }

    fn situation(&self, queue: QueueId, at: &Moment<'_>) -> Situation {
        let Moment { turn, now, steady, .. } = *at;
        Situation { others: self.others_wait(queue, now), turn, now, steady }
    }
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// The grant that this queue keeps, for a caller that takes it or gives it back.
    pub fn take_kept(&mut self, queue: QueueId) -> Option<GrantId> {
        self.queues.get_mut(queue.0)?.kept.take()
    }

    /// The grants that all queues keep.
    pub fn take_all_kept(&mut self) -> Vec<GrantId> {
        self.queues.iter_mut().filter_map(|(_, waiting)| waiting.kept.take()).collect()
    }
}
