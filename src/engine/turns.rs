//! Who may begin a round now, and who waits for that.
//!
//! It keeps two lanes, one for acquires and one for releases, so that neither waits behind the other; renewals wait
//! in none. What a lane decides, `Concurrency` decides. Whoever is told anything is told without the lock.

mod deadlines;

use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use self::deadlines::{Attending, attend};
use super::{Engine, after_panic};
use crate::{
    lock::Lock,
    node::NodeError,
    protocol::{self, Concurrency, Load, Reply, Timestamp, Traffic, TurnedAway},
    shield::{persist, shielded},
};

/// One of the two lanes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Lane {
    Acquires,
    Releases,
}

/// What follows when a turn has come, or will not. It must not block.
pub(super) type Start = Box<dyn FnOnce(Result<Turn, TurnedAway>) + Send>;

/// A lane, and the rounds that have been let in.
pub(super) struct Turns {
    state: Lock<State>,
    /// Wakes the task that looks after deadlines.
    wake: Arc<Notify>,
}

struct State {
    rounds: Concurrency<Start>,
    /// Somebody is giving turns out already.
    giving: bool,
    /// A task looks after deadlines.
    attended: bool,
}

impl Turns {
    pub(super) fn new(rounds: Concurrency<Start>) -> Self {
        let state = State { rounds, giving: false, attended: false };
        Self { state: Lock::new(state), wake: Arc::default() }
    }

    /// Wakes the task that looks after deadlines.
    pub(super) fn wake_up(&self) {
        self.wake.notify_one();
    }
}

impl Engine {
    const fn turns(&self, lane: Lane) -> &Turns {
        match lane {
            Lane::Acquires => &self.acquires,
            Lane::Releases => &self.releases,
        }
    }

    /// A turn at once, where there is one and nobody waits for it.
    pub(super) fn take_turn(self: &Arc<Self>, lane: Lane, now: Timestamp) -> Option<Turn> {
        let turn = self.turns(lane).state.lock().rounds.begin(now)?;
        Some(Turn { engine: Arc::clone(self), lane, turn })
    }

    /// Waits for a turn at the end of the lane, until `deadline`; the place there is returned.
    pub(super) fn wait_for_turn(
        self: &Arc<Self>,
        lane: Lane,
        deadline: Option<Timestamp>,
        start: Start,
    ) -> Option<u64> {
        let turns = self.turns(lane);
        let (waits, is_first, attended) = {
            let mut state = turns.state.lock();
            let before = state.rounds.poll_timeout();
            let waits = state.rounds.wait(start, deadline);
            let is_first = state.rounds.poll_timeout() != before;
            let attended = waits.is_err() || std::mem::replace(&mut state.attended, true);
            (waits, is_first, attended)
        };
        let place = match waits {
            Ok(place) => place,
            Err(start) => {
                start(Err(TurnedAway::Closed));
                return None;
            }
        };
        if !attended {
            let attending = Attending { engine: Arc::downgrade(self), lane, ended: false };
            let wake = Arc::clone(&turns.wake);
            self.spawn_uncounted(async move {
                let engine = Weak::clone(&attending.engine);
                persist(|| attend(&engine, lane, &wake), || after_panic(&engine)).await;
                attending.end();
            });
        } else if is_first {
            turns.wake_up();
        }
        // A turn may have been given back since it was asked for.
        self.give_turns(lane);
        Some(place)
    }

    /// Gives turns to those who are next, as long as there are any.
    fn give_turns(self: &Arc<Self>, lane: Lane) {
        let turns = self.turns(lane);
        if std::mem::replace(&mut turns.state.lock().giving, true) {
            // Whoever is at it sees what has changed: what is started may come back here, and must not pile up.
            return;
        }
        let mut giving = Giving { turns, ended: false };
        loop {
            // Read before anybody is taken out of the lane: it is code of the user's, which may panic.
            let now = self.now();
            let first = {
                let mut state = turns.state.lock();
                let first = state.rounds.next(now);
                state.giving = first.is_some();
                giving.ended = first.is_none();
                first
            };
            let Some((start, turn)) = first else { return };
            // A turn that is not handed over is dropped here, which gives it to the next.
            let turn = turn.map(|turn| Turn { engine: Arc::clone(self), lane, turn });
            shielded(|| start(turn));
        }
    }

    /// Turns away whoever has waited until the deadline, and says when the next one will have.
    fn turn_away_late(&self, lane: Lane) -> Option<Timestamp> {
        let now = self.now();
        loop {
            let start = {
                let mut state = self.turns(lane).state.lock();
                let Some(start) = state.rounds.turn_away(now) else {
                    let next = state.rounds.poll_timeout();
                    state.attended = next.is_some();
                    return next;
                };
                start
            };
            // Without the lock: it may come back for another place.
            shielded(|| start(Err(TurnedAway::Late)));
        }
    }

    /// Turns away all who wait, and whoever comes.
    pub(super) fn close_lane(&self, lane: Lane) {
        let waiting = self.turns(lane).state.lock().rounds.close();
        for start in waiting {
            shielded(|| start(Err(TurnedAway::Closed)));
        }
    }

    /// Leaves the lane of the acquires.
    pub(super) fn leave_turns(self: &Arc<Self>, place: u64) {
        drop(Place { engine: Arc::clone(self), place });
    }

    /// How many wait in a lane.
    pub(super) fn waiting(&self, lane: Lane) -> usize {
        self.turns(lane).state.lock().rounds.waiting()
    }

    /// What the rounds of a lane have seen.
    pub(super) fn traffic(&self, lane: Lane) -> Traffic {
        self.turns(lane).state.lock().rounds.traffic()
    }
}

/// Somebody is giving turns. When that comes to a bad end, the next one goes on with it.
struct Giving<'a> {
    turns: &'a Turns,
    ended: bool,
}

impl Drop for Giving<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.turns.state.lock().giving = false;
        }
    }
}

/// A place in the lane of the acquires. Who drops it leaves the lane, and what should have started does not.
pub(super) struct Place {
    pub(super) engine: Arc<Engine>,
    pub(super) place: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.engine.is_served() {
            return;
        }
        // What waited is dropped behind the lock.
        let waiting = self.engine.acquires.state.lock().rounds.leave(self.place);
        drop(waiting);
    }
}

/// A round that has been let in. It counts until a quorum has answered it, or until it is given back or dropped.
pub(super) struct Turn {
    engine: Arc<Engine>,
    lane: Lane,
    turn: protocol::Turn,
}

impl Turn {
    /// Whether it had to be waited for.
    pub(super) const fn waited(&self) -> bool {
        self.turn.waited()
    }

    /// The round begins now.
    pub(super) const fn begin(&mut self, now: Timestamp) {
        self.turn.handle_begun(now);
    }

    /// A node has answered.
    pub(super) fn handle_answer(&mut self, answer: &Result<Reply, NodeError>, now: Timestamp) {
        if let Some(load) = self.turn.handle_answer(answer.is_ok()) {
            self.give_back_with(Some(load), now);
        }
    }

    /// A quorum might have answered, and was too slow for it.
    pub(super) fn handle_overrun(&mut self, now: Timestamp) {
        self.give_back_with(Some(Load::Overrun), now);
    }

    /// The time is up, and so many nodes have not answered.
    pub(super) fn handle_timeout(&mut self, unanswered: usize, now: Timestamp) {
        if let Some(load) = self.turn.handle_timeout(unanswered) {
            self.give_back_with(Some(load), now);
        }
    }

    /// The round is decided.
    pub(super) fn give_back(&mut self) {
        self.give_back_with(None, Timestamp::ORIGIN);
    }

    fn give_back_with(&mut self, load: Option<Load>, now: Timestamp) {
        if self.turn.is_over() {
            return;
        }
        let turns = self.engine.turns(self.lane);
        let wanted = turns.state.lock().rounds.give_back(&mut self.turn, load, now);
        if wanted {
            self.engine.give_turns(self.lane);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // It may be dropped by a panic, and a second one would end the process.
        shielded(|| self.give_back());
    }
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Turns");
        // Nothing where somebody has the lock: in a forked process that may be for ever.
        if let Some(state) = self.state.try_lock() {
            shown.field("waiting", &state.rounds.waiting());
            shown.field("under_way", &state.rounds.under_way());
            shown.field("limit", &state.rounds.limit());
        }
        shown.finish_non_exhaustive()
    }
}
