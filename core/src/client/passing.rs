//! How a grant passes from one lease to the next: to the first in its queue, to nobody for a while, or back to the nodes.
//!
//! It decides who is next in line and whether the grant is handed on. The lease before ends in the step in which the next one
//! begins: no two numbers hold at once.

use alloc::vec::Vec;

use super::{Asks, Client, Fails, GrantId, Moment, Pause, QueueId, gone};
use crate::{
    fencing::FencingToken,
    handover::GivenBack,
    leases::{Begun, NextLease, Situation},
    timers::Wakeup,
};

/// What has become of a lease that was given back.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Passed<W> {
    /// It is this one's now.
    To(W, Begun, Wakeup),
    /// It is kept as nobody's.
    Kept(Wakeup),
    /// It goes back to the nodes.
    ToNobody,
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Whether a grant that is given back may go to anybody of this process: somebody stands in its queue, or it would be
    /// kept. Where not, nobody need read a clock for it.
    pub fn may_pass(&self, id: GrantId) -> bool {
        let Some(grant) = self.grants.get(id.0) else { return false };
        let waiting = |(queue, place): (QueueId, _)| self.queues.get(queue.0)?.queue.first(place);
        grant.station.is_some_and(|station| grant.leases.lingers() || waiting(station).is_some())
    }

    /// The lease with this number is given back: it goes to the first in line, or the grant is kept, or it is to be released.
    /// Returns that, the token of the lease that is over, and the requests that were skipped since their time was up. `None`:
    /// this lease is over already, or its grant cannot pass to another: it stands in no queue, is shared with readers, a
    /// shutdown has ended it, or one here who wants several resources has waited for long (H6).
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
            // Of the lease that is over: how long it was to be kept counts for how long others wait.
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
                    // Between half of it and all, the next leader leaves the resource to others.
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
            // Its time is up, or its caller is about to leave the line.
            let Some(begun) = begun else {
                late.push(request);
                continue;
            };
            let wakeup = if begun.moved { self.schedule(id) } else { Wakeup::Silent };
            break Passed::To(request, begun, wakeup);
        };
        Some((passed, before, late))
    }

    /// A lease begins that takes what is kept. Where it will not do for that, nothing has changed.
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
    /// What this queue keeps as nobody's, for one who takes it or gives it back.
    pub fn take_kept(&mut self, queue: QueueId) -> Option<GrantId> {
        self.queues.get_mut(queue.0)?.kept.take()
    }

    /// What all of them keep.
    pub fn take_all_kept(&mut self) -> Vec<GrantId> {
        self.queues.iter_mut().filter_map(|(_, waiting)| waiting.kept.take()).collect()
    }
}
