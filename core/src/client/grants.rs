//! The grants of a client: from begin to end, with their timers.
//!
//! It decides nothing of a lease that `Leases` does not; it must never leave a grant without the timer that it needs.

use alloc::{boxed::Box, vec::Vec};
use core::{mem, time::Duration};

use super::{
    Asks, Client, Event, Fails, FootprintId, Grant, GrantId, Moment, QueueId, Said, Timed, Traced,
};
use crate::{
    command::NodeId,
    fencing::TokenRange,
    footprint::Footprint,
    handover::Cohort,
    leases::Leases,
    lifecycle::{ExtendOutcome, LeaseAction, Lifecycle, RenewalPolicy},
    note::Note,
    owner::Owner,
    queue::{Place, Station},
    target::Target,
    time::{Nanos, Timestamp},
    timers::Wakeup,
};

/// What a request asked for its lease.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Terms {
    pub(super) renewal: RenewalPolicy,
    pub(super) hold_at_least: Option<Duration>,
    pub(super) linger: Duration,
    pub(super) alone: bool,
}

/// A grant to begin: what a round has won.
pub(super) struct Begin {
    pub(super) target: Target,
    pub(super) owner: Owner,
    pub(super) note: Option<Note>,
    pub(super) lock_delay: Duration,
    pub(super) lifecycle: Lifecycle,
    pub(super) tokens: Option<TokenRange>,
    pub(super) begun: Timestamp,
    pub(super) terms: Terms,
    /// The owner whose keys were taken over.
    pub(super) from: Option<Owner>,
    pub(super) footprint: FootprintId,
    pub(super) queue: QueueId,
    pub(super) station: Option<(QueueId, Place)>,
}

impl<G: Default, W, R, E> Client<G, W, R, E> {
    /// Begins a grant with its first lease.
    pub(super) fn begin(&mut self, begin: Begin, at: &Moment<'_>) -> GrantId {
        let Begin { target, owner, note, lock_delay, lifecycle, tokens, begun, .. } = begin;
        let Begin { terms, from, footprint, queue, station, .. } = begin;
        let (cohort, token) = Cohort::begin(tokens, begun);
        let keeps_until = terms.hold_at_least.map(|least| at.steady.saturating_add(least));
        let of_first = (terms.linger, lock_delay, terms.alone);
        let leases = Leases::new(lifecycle, cohort, token, of_first, keeps_until);
        self.hold_footprint(footprint);
        let grant = Grant {
            leases,
            target,
            owner,
            note,
            footprint,
            from,
            queue,
            station,
            scheduled: None,
            counts: false,
            doubt: None,
            users: 1,
            is_forgotten: false,
            data: G::default(),
        };
        let id = GrantId(self.grants.insert(Box::new(grant)));
        let wakeup = self.schedule(id);
        self.wake(wakeup);
        id
    }
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// A user lets go of a grant. The last one removes it.
    pub(super) fn forget_user(&mut self, id: GrantId) {
        let Some(grant) = self.grants.get_mut(id.0) else { return };
        grant.users = grant.users.saturating_sub(1);
        if grant.users == 0
            && let Some(grant) = self.grants.remove(id.0)
        {
            self.let_go_of(grant.footprint);
        }
    }

    /// Adds the footprint of a decided round, with one user.
    pub(super) fn add_footprint(&mut self, footprint: Footprint) -> FootprintId {
        FootprintId(self.footprints.insert(Traced { footprint, users: 1 }))
    }

    /// Adds a user.
    pub(super) fn hold_footprint(&mut self, id: FootprintId) {
        if let Some(traced) = self.footprints.get_mut(id.0) {
            traced.users = traced.users.saturating_add(1);
        }
    }

    /// Removes a user; the last one removes the footprint.
    pub(super) fn let_go_of(&mut self, id: FootprintId) {
        let Some(traced) = self.footprints.get_mut(id.0) else { return };
        traced.users = traced.users.saturating_sub(1);
        if traced.users == 0 {
            self.footprints.remove(id.0);
        }
    }

    /// The target of its keys on the nodes, and their owner.
    pub fn keys(&self, id: GrantId) -> Option<(&Target, Owner)> {
        self.grants.get(id.0).map(|grant| (&grant.target, grant.owner))
    }

    /// The note beside its key.
    pub fn note(&self, id: GrantId) -> Option<&Note> {
        self.grants.get(id.0)?.note.as_ref()
    }

    /// Changes the note beside its key, from now on and where the key is restored.
    pub fn set_note(&mut self, id: GrantId, note: Note) -> Option<Note> {
        self.grants.get_mut(id.0)?.note.replace(note)
    }

    /// The nodes' answers to the last extension, where that failed.
    pub fn doubt(&self, id: GrantId) -> Option<&[Said<E>]> {
        self.grants.get(id.0)?.doubt.as_deref()
    }

    /// Where its keys may stand.
    pub fn footprint(&self, id: GrantId) -> Option<&Footprint> {
        let footprint = self.grants.get(id.0)?.footprint;
        self.footprints.get(footprint.0).map(|traced| &traced.footprint)
    }

    /// Its state.
    pub fn leases(&self, id: GrantId) -> Option<&Leases> {
        self.grants.get(id.0).map(|grant| &grant.leases)
    }

    /// What the driver keeps with it.
    pub fn data(&self, id: GrantId) -> Option<&G> {
        self.grants.get(id.0).map(|grant| &grant.data)
    }

    /// The same, mutable.
    pub fn data_mut(&mut self, id: GrantId) -> Option<&mut G> {
        self.grants.get_mut(id.0).map(|grant| &mut grant.data)
    }

    /// The driver's data of all grants.
    pub fn all_data_mut(&mut self) -> impl Iterator<Item = &mut G> {
        self.grants.iter_mut().map(|(_, grant)| &mut grant.data)
    }

    /// The grants that count as held.
    pub fn held(&self) -> impl Iterator<Item = (GrantId, &G)> {
        let counted = self.grants.iter().filter(|(_, grant)| grant.counts);
        counted.map(|(key, grant)| (GrantId(key), &grant.data))
    }

    /// How many count as held.
    pub const fn held_count(&self) -> usize {
        self.held
    }

    /// Counts it as held. False: the process is shutting down, and the grant is to be given back.
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

    /// Changes its state. From the step in which it is over, nothing is set for it.
    pub fn change<T>(&mut self, id: GrantId, change: impl FnOnce(&mut Leases) -> T) -> Option<T> {
        let grant = self.grants.get_mut(id.0)?;
        let lasted = grant.leases.lasts();
        let changed = change(&mut grant.leases);
        if lasted
            && !grant.leases.lasts()
            && let Some(traced) = self.footprints.get_mut(grant.footprint.0)
        {
            traced.footprint.handle_over();
        }
        Some(changed)
    }

    /// Sets its timer, unless that is right already.
    pub fn schedule(&mut self, id: GrantId) -> Wakeup {
        let Some(grant) = self.grants.get_mut(id.0).filter(|it| !it.is_forgotten) else {
            return Wakeup::Silent;
        };
        let slack = Nanos::new(grant.leases.lifecycle().slack());
        let next = grant.leases.poll_timeout().map(|at| (at, slack));
        // Also where neither has a timer, as after a release.
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

    /// Whether each grant that needs a timer has one, no later than needed, and not taken along too early (K1).
    pub fn are_scheduled(&self) -> bool {
        let is_scheduled =
            |grant: &Grant<G, E>| match (grant.leases.poll_timeout(), grant.scheduled) {
                (Some(next), Some((at, slack))) => {
                    at < next || at == next && slack.get() <= grant.leases.lifecycle().slack()
                }
                (next, _) => next.is_none(),
            };
        self.grants.iter().all(|(_, grant)| grant.is_forgotten || is_scheduled(grant))
    }

    /// An extension has ended with this outcome, as judged by `Leases::judged`. The caller tells the returned action.
    pub fn handle_extension(
        &mut self,
        id: GrantId,
        outcome: ExtendOutcome,
        now: Timestamp,
    ) -> (Option<LeaseAction>, Wakeup) {
        let action = self.change(id, |leases| leases.handle_extension(outcome, now)).flatten();
        (action, self.schedule(id))
    }

    /// Whether a restore may be sent to a node; if so, that node is to be released on from now on.
    pub(super) fn begin_restore(&mut self, id: GrantId, node: NodeId) -> bool {
        let Some(grant) = self.grants.get(id.0).filter(|grant| grant.leases.lasts()) else {
            return false;
        };
        let traced = self.footprints.get_mut(grant.footprint.0);
        traced.is_some_and(|traced| traced.footprint.handle_restore_sent(node))
    }
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Handles all due timers and those that may come along. Returns the waiters that are due.
    ///
    /// Timers due within 2 ms come along, so a loss may be told that early. A grant has its next timer before its
    /// events are carried out; one whose linger has ended gets it only if it is taken.
    pub fn handle_timeout(&mut self, at: &Moment<'_>) -> Vec<(QueueId, Place)> {
        self.turn = at.turn;
        let (now, mut waiting) = (at.now, Vec::new());
        let (mut extend, mut give_back) = (Vec::new(), Vec::new());
        let mut all = self.timers.take_due(now);
        // A lost lease is told before waiters are told that they waited in vain.
        all.sort_by_key(|(_, timed)| !matches!(timed, Timed::Grant(_)));
        for (due_at, timed) in all {
            let id = match timed {
                Timed::Grant(id) => id,
                Timed::Waiter(queue, place) => {
                    waiting.push((queue, place));
                    continue;
                }
                Timed::Ask(ask) => {
                    self.handle_ask_due(ask, now);
                    continue;
                }
                Timed::Releases => {
                    self.handle_releases_due(at);
                    continue;
                }
                Timed::Again(node) => {
                    self.handle_again_due(node, at);
                    continue;
                }
                Timed::Restore(id) => {
                    self.handle_restore_due(id);
                    continue;
                }
            };
            let Some(grant) = self.grants.get_mut(id.0) else { continue };
            grant.scheduled = None;
            let due_at = now.max(due_at);
            let due = self.change(id, |leases| leases.handle_timeout(due_at));
            let Some(due) = due else { continue };
            if due.give_back {
                give_back.push(Event::GiveBack(id, due.extend));
                continue;
            }
            // The driver's task looks again before it sleeps.
            let _ = self.schedule(id);
            self.events.extend(due.tell.map(|action| Event::Tell(id, action)));
            extend.extend(due.extend.then_some(id));
        }
        self.extend_due(extend, at);
        // A holder that is told something may take a kept grant, which is then not given back.
        self.events.extend(give_back);
        waiting
    }

    /// The driver lets go of a grant. Unless its end was known before, nobody holds its queue from now on, and the
    /// first request there asks the nodes.
    pub fn forget(&mut self, id: GrantId) -> Option<G> {
        let grant = self.grants.get_mut(id.0).filter(|grant| !grant.is_forgotten)?;
        let station = grant.station;
        if let Some((at, _)) = grant.scheduled.take() {
            self.timers.cancel(at, Timed::Grant(id));
        }
        self.held = self.held.saturating_sub(usize::from(mem::take(&mut grant.counts)));
        grant.is_forgotten = true;
        // Also where it lasts: nobody would release what is set for it from now on.
        if let Some(traced) = self.footprints.get_mut(grant.footprint.0) {
            traced.footprint.handle_over();
        }
        let data = mem::take(&mut grant.data);
        let is_held = |(queue, place): &(QueueId, Place)| {
            // A request that still asks reports its own end.
            let waiting = self.queues.get(queue.0);
            waiting.is_some_and(|waiting| waiting.queue.station() == Station::Held(*place))
        };
        if station.is_some_and(|station| is_held(&station)) {
            self.handle_grant_over(id);
        }
        self.forget_user(id);
        Some(data)
    }

    /// A grant whose linger had ended was taken after all: sets its timer, and extends it if due.
    pub fn handle_taken(&mut self, id: GrantId, extend: bool, at: &Moment<'_>) {
        let wakeup = self.schedule(id);
        self.wake(wakeup);
        if extend && self.grants.get(id.0).is_some_and(|grant| !grant.leases.has_ended()) {
            self.extend_due(alloc::vec![id], at);
        }
    }
}
