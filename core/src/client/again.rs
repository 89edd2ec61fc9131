//! Releases that a node has not confirmed, sent again until it does.
//!
//! It carries out [`Unconfirmed`]. Only here is a command sent again, and a release may be: it deletes no key but its
//! owner's. Its times are those of the steady clock.

use alloc::{boxed::Box, vec::Vec};
use core::mem;

use super::{Asks, Client, Event, Fails, Moment, NO_SLACK, Timed, calls::Purpose, undone::Undone};
use crate::{
    command::{NodeId, Reply},
    footprint::UnconfirmedRelease,
    releases::{Kept, Unconfirmed},
    time::Timestamp,
};

/// The releases that one node has not confirmed.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Again {
    releases: Unconfirmed<Undone>,
    /// Releases under way, by their index in the batch.
    sent: Vec<Option<Kept<Undone>>>,
    sent_at: Timestamp,
    open: usize,
    /// Whether there are any.
    pub(super) attended: bool,
    timer: Option<Timestamp>,
}

impl Default for Again {
    fn default() -> Self {
        let (sent, sent_at) = (Vec::new(), Timestamp::ORIGIN);
        let releases = Unconfirmed::default();
        Self { releases, sent, sent_at, open: 0, attended: false, timer: None }
    }
}

impl Again {
    /// Changes each, also those under way.
    pub(super) fn each(&mut self, change: impl Fn(&mut Undone)) {
        self.releases.data_mut().for_each(&change);
        self.sent.iter_mut().flatten().for_each(|(_, undone)| change(undone));
    }
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// How many releases a node has not confirmed, without those under way.
    pub fn unconfirmed(&self, node: NodeId) -> usize {
        self.again.get(node.index()).map_or(0, |again| again.releases.len())
    }

    /// Whether any node has unconfirmed releases.
    pub fn has_unconfirmed(&self) -> bool {
        self.again.iter().any(|again| again.attended)
    }
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Keeps a release for later.
    pub(super) fn leave_for_later(
        &mut self,
        node: NodeId,
        release: UnconfirmedRelease,
        undone: Undone,
        at: &Moment<'_>,
    ) {
        if node.index() >= self.again.len() {
            return;
        }
        self.hold_footprint(undone.footprint);
        let (target, owner) = (undone.target.clone(), undone.owner);
        self.events.push_back(Event::ReleaseQueued(node, Box::new(target), owner));
        let Some(again) = self.again.get_mut(node.index()) else { return };
        let oldest = again.releases.push(release, undone, at.steady);
        let is_new = !mem::replace(&mut again.attended, true);
        self.give_up_release(node, oldest);
        if is_new {
            self.look_again_at(node, at.now.saturating_add(Unconfirmed::<Undone>::PAUSE));
        }
    }

    /// Their keys expire.
    fn give_up_release(&mut self, node: NodeId, all: impl IntoIterator<Item = Undone>) {
        for Undone { target, owner, footprint, .. } in all {
            self.let_go_of(footprint);
            self.events.push_back(Event::ReleaseGivenUp(node, Box::new(target), owner));
        }
    }

    fn look_again_at(&mut self, node: NodeId, at: Timestamp) {
        let Some(again) = self.again.get_mut(node.index()) else { return };
        let old = again.timer.replace(at);
        let wakeup = self.timers.schedule(old, at, NO_SLACK, Timed::Again(node));
        self.wake(wakeup);
    }

    /// Some node's state has changed: unconfirmed releases may be confirmed now.
    pub fn handle_change(&mut self, at: &Moment<'_>) {
        for node in (0..self.again.len()).map(NodeId::new) {
            let again = self.again.get_mut(node.index());
            if let Some(timer) = again.and_then(|again| again.timer.take()) {
                self.timers.cancel(timer, Timed::Again(node));
                self.send_again(node, at);
            }
        }
    }

    pub(super) fn handle_again_due(&mut self, node: NodeId, at: &Moment<'_>) {
        if let Some(again) = self.again.get_mut(node.index()) {
            again.timer = None;
        }
        self.send_again(node, at);
    }

    /// Sends the releases that are due. It pauses only when nothing gets on.
    fn send_again(&mut self, node: NodeId, at: &Moment<'_>) {
        let Some(again) = self.again.get_mut(node.index()).filter(|again| again.open == 0) else {
            return;
        };
        let batch = again.releases.take(at.steady);
        self.give_up_release(node, batch.given_up);
        let (mut due, mut clear) = (Vec::new(), Vec::new());
        for (release, undone) in batch.due {
            let footprint = self.footprints.get(undone.footprint.0);
            // The acquire turned out to be refused, so nothing was set.
            if footprint.is_none_or(|traced| traced.footprint.is_clear(node)) {
                clear.push(undone.footprint);
            } else {
                due.push((release, undone));
            }
        }
        clear.into_iter().for_each(|footprint| self.let_go_of(footprint));
        let drift = self.settings.drift;
        let commands: Vec<_> = due
            .iter()
            .map(|(_, undone): &Kept<Undone>| undone.command(undone.keep(at.steady, drift)))
            .collect();
        let Some(again) = self.again.get_mut(node.index()) else { return };
        if due.is_empty() {
            let next = again.releases.poll_timeout();
            again.attended = next.is_some();
            if let Some(next) = next {
                let pause = next.saturating_since(at.steady).min(Unconfirmed::<Undone>::PAUSE);
                self.look_again_at(node, at.now.saturating_add(pause));
            }
            return;
        }
        (again.open, again.sent_at) = (due.len(), at.steady);
        again.sent = due.into_iter().map(Some).collect();
        for (number, command) in commands.into_iter().enumerate() {
            self.send(Purpose::Again(node, number), node, command);
        }
    }

    /// A release was answered, or its time is up.
    pub(super) fn handle_again_answer(
        &mut self,
        node: NodeId,
        number: usize,
        result: Result<Reply, E>,
        at: &Moment<'_>,
    ) {
        let node_timeout = self.settings.node_timeout;
        let Some(again) = self.again.get_mut(node.index()) else { return };
        again.open = again.open.saturating_sub(1);
        let mut done = None;
        if let Ok(reply) = result
            && let Some((release, undone)) = again.sent.get_mut(number).and_then(Option::take)
        {
            let has_deleted = matches!(reply, Reply::Granted(_));
            match release.handle_answer(has_deleted, again.sent_at, at.steady, node_timeout) {
                Some(release) => again.releases.put((release, undone)),
                None => done = Some(undone.footprint),
            }
        }
        let mut pause = None;
        let is_over = again.open == 0;
        if is_over {
            let sent = again.sent.len();
            let open = mem::take(&mut again.sent).into_iter().flatten().collect();
            pause = again.releases.handle_sent(open, sent);
        }
        done.into_iter().for_each(|footprint| self.let_go_of(footprint));
        match pause {
            Some(pause) => self.look_again_at(node, at.now.saturating_add(pause)),
            None if is_over => self.send_again(node, at),
            None => {}
        }
    }
}
