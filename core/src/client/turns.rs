//! Turns for rounds, in two lanes: acquires and releases do not wait behind each other. Renewals need no turn.
//!
//! [`Concurrency`](crate::Concurrency) decides for each lane.

use super::{AskId, Asks, Client, Event, Fails, Moment, NO_SLACK, Timed, asking::Phase};
use crate::{acquisition::TurnedAway, concurrency::Turn, time::Timestamp};

/// A lane.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Lane {
    /// Of acquires.
    Acquires,
    /// Of releases.
    Releases,
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Asks for a turn, at the end of the lane: many requests for one resource must not hold up all others.
    pub(super) fn want_turn(&mut self, id: AskId, now: Timestamp) {
        let Some(asking) = self.asking.get_mut(id.0) else { return };
        let Some(request) = &asking.request else { return };
        let deadline = request.turn_deadline();
        if asking.is_late(now) {
            return self.turn_away(id, TurnedAway::Late, now);
        }
        if let Some(turn) = self.acquires.begin(now) {
            return self.begin_turn(id, turn);
        }
        match self.acquires.wait(id, deadline) {
            Ok(place) => {
                asking.phase = Phase::Turn(place);
                deadline.into_iter().for_each(|deadline| self.look_at_ask(id, deadline));
                // If a turn was given back and nobody let in since, this makes up for it.
                self.let_acquires_in(now);
            }
            Err(_) => self.turn_away(id, TurnedAway::Closed, now),
        }
    }

    fn begin_turn(&mut self, id: AskId, turn: Turn) {
        self.stop_timer(id);
        let Some(asking) = self.asking.get_mut(id.0) else { return };
        (asking.phase, asking.turn) = (Phase::Round, Some(turn));
        self.events.push_back(Event::Begin(id));
    }

    /// A turn comes back at an unknown time. An event reports it if a request waits.
    pub(super) fn give_turn_back(&mut self, turn: &mut Turn) {
        if self.acquires.give_back(turn, None, Timestamp::ORIGIN) {
            self.events.push_back(Event::LetIn);
        }
    }

    /// Gives free turns to the next in each lane.
    pub fn let_in(&mut self, at: &Moment<'_>) {
        self.let_acquires_in(at.now);
        self.let_releases_in(at);
    }

    fn let_acquires_in(&mut self, now: Timestamp) {
        while let Some((id, turn)) = self.acquires.next(now) {
            match turn {
                Ok(turn) => self.begin_turn(id, turn),
                Err(reason) => self.turn_away(id, reason, now),
            }
        }
    }

    pub(super) fn let_releases_in(&mut self, at: &Moment<'_>) {
        while let Some((id, turn)) = self.releases.next(at.now) {
            self.handle_release_turn(id, turn, at);
        }
    }

    pub(super) fn turn_away(&mut self, id: AskId, reason: TurnedAway, now: Timestamp) {
        let request = self.asking.get_mut(id.0).and_then(|asking| asking.request.as_mut());
        let told = request.map(|request| request.acquisition().handle_turned_away(reason, now));
        self.give_up(id, None, told);
    }

    /// Releases that were too long in their lane are reported, however many stand before them.
    pub(super) fn handle_releases_due(&mut self, at: &Moment<'_>) {
        self.release_timer = None;
        while let Some(id) = self.releases.turn_away(at.now) {
            self.handle_release_turn(id, Err(TurnedAway::Late), at);
        }
        self.look_at_releases();
    }

    pub(super) fn look_at_releases(&mut self) {
        if let Some(at) = self.releases.poll_timeout()
            && self.release_timer.is_none_or(|timer| at < timer)
        {
            let old = self.release_timer.replace(at);
            let wakeup = self.timers.schedule(old, at, NO_SLACK, Timed::Releases);
            self.wake(wakeup);
        }
    }

    /// How many requests or releases wait in a lane.
    pub fn crowd(&self, lane: Lane) -> usize {
        match lane {
            Lane::Acquires => self.acquires.waiting(),
            Lane::Releases => self.releases.waiting(),
        }
    }
}
