//! Who may begin a round now, and who waits for that, in the order of arrival.
//!
//! It keeps two lines, one for acquires and one for releases, so that neither waits behind the other; renewals wait
//! in none. How many rounds are let in, `window` decides. Who waits costs one entry and no task. Whoever is told
//! anything is told without the lock.

mod deadlines;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, MutexGuard, Weak},
    time::Duration,
};

use tokio::sync::Notify;

use self::deadlines::{Attending, attend};
use super::{Engine, after_panic};
use crate::{
    lock::Lock,
    node::NodeError,
    protocol::{Reply, Timestamp, Traffic, TurnedAway, Window},
    shield::{persist, shielded},
};

/// One of the two lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Line {
    Acquires,
    Releases,
}

/// What follows when a turn has come, or will not. It must not block.
pub(super) type Start = Box<dyn FnOnce(Result<Turn, TurnedAway>) + Send>;

/// A line, and the rounds that have been let in.
pub(super) struct Turns {
    state: Lock<State>,
    /// Wakes the task that looks after deadlines.
    wake: Arc<Notify>,
}

struct State {
    window: Window,
    under_way: usize,
    /// By place, which grows: the first came first.
    waiting: BTreeMap<u64, Waiting>,
    deadlines: BTreeSet<(Timestamp, u64)>,
    next_place: u64,
    /// Somebody is giving turns out already.
    giving: bool,
    /// A task looks after deadlines.
    attended: bool,
    closed: bool,
    /// When a quorum answered a round last.
    answered: Timestamp,
    /// When a turn was given last while there were many.
    crowded: Timestamp,
}

struct Waiting {
    deadline: Option<Timestamp>,
    start: Start,
}

impl Turns {
    pub(super) fn new(node_timeout: Duration) -> Self {
        let state = State {
            window: Window::new(node_timeout),
            under_way: 0,
            waiting: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_place: 0,
            giving: false,
            attended: false,
            closed: false,
            answered: Timestamp::ORIGIN,
            crowded: Timestamp::ORIGIN,
        };
        Self { state: Lock::new(state), wake: Arc::default() }
    }

    /// Wakes the task that looks after deadlines.
    pub(super) fn wake_up(&self) {
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    const fn is_full(&self) -> bool {
        self.under_way >= self.window.limit()
    }

    fn remove(&mut self, place: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&place)?;
        if let Some(deadline) = waiting.deadline {
            self.deadlines.remove(&(deadline, place));
        }
        Some(waiting)
    }
}

impl Engine {
    const fn turns(&self, line: Line) -> &Turns {
        match line {
            Line::Acquires => &self.acquires,
            Line::Releases => &self.releases,
        }
    }

    /// A turn at once, where there is one and nobody waits for it.
    pub(super) fn take_turn(self: &Arc<Self>, line: Line, now: Timestamp) -> Option<Turn> {
        let mut state = self.turns(line).lock();
        // Nobody overtakes the line, also where a turn has just become free.
        if state.closed || !state.waiting.is_empty() || state.is_full() {
            return None;
        }
        state.under_way += 1;
        if Window::is_crowd(state.under_way) {
            state.crowded = state.crowded.max(now);
        }
        drop(state);
        Some(Turn::new(self, line, false))
    }

    /// Waits for a turn at the end of the line, until `deadline`; the place there is returned.
    pub(super) fn wait_for_turn(
        self: &Arc<Self>,
        line: Line,
        deadline: Option<Timestamp>,
        start: Start,
    ) -> Option<u64> {
        let (place, is_first, attended) = {
            let mut state = self.turns(line).lock();
            if state.closed {
                drop(state);
                start(Err(TurnedAway::Closed));
                return None;
            }
            let place = state.next_place;
            state.next_place += 1;
            state.waiting.insert(place, Waiting { deadline, start });
            let is_first = deadline.is_some_and(|deadline| {
                state.deadlines.insert((deadline, place));
                state.deadlines.first() == Some(&(deadline, place))
            });
            let attended = std::mem::replace(&mut state.attended, true);
            (place, is_first, attended)
        };
        if !attended {
            let attending = Attending { engine: Arc::downgrade(self), line, ended: false };
            let wake = Arc::clone(&self.turns(line).wake);
            self.spawn_uncounted(async move {
                let engine = Weak::clone(&attending.engine);
                persist(|| attend(&engine, line, &wake), || after_panic(&engine)).await;
                attending.end();
            });
        } else if is_first {
            self.turns(line).wake_up();
        }
        // A turn may have been given back since it was asked for.
        self.give_turns(line);
        Some(place)
    }

    /// Gives turns to those who are next, as long as there are any.
    fn give_turns(self: &Arc<Self>, line: Line) {
        let turns = self.turns(line);
        if std::mem::replace(&mut turns.lock().giving, true) {
            // Whoever is at it sees what has changed: what is started may come back here, and must not pile up.
            return;
        }
        let mut giving = Giving { turns, ended: false };
        loop {
            // Read before anybody is taken out of the line: it is code of the user's, which may panic.
            let now = self.now();
            let first = {
                let mut state = turns.lock();
                let first = state.waiting.first_key_value().map(|(place, _)| *place);
                let first =
                    first.filter(|_| !state.is_full()).and_then(|place| state.remove(place));
                if first.is_some() {
                    state.under_way += 1;
                    state.crowded = now;
                } else {
                    state.giving = false;
                    giving.ended = true;
                }
                first
            };
            let Some(Waiting { deadline, start }) = first else { return };
            let turn = Turn::new(self, line, true);
            // The task that looks after deadlines may be late.
            let in_time = deadline.is_none_or(|deadline| now < deadline);
            // A turn that is not handed over is dropped here, which gives it to the next.
            let turn = if in_time { Ok(turn) } else { Err(TurnedAway::Late) };
            shielded(|| start(turn));
        }
    }

    /// Turns away whoever has waited until the deadline, and says when the next one will have.
    fn turn_away_late(&self, line: Line) -> Option<Timestamp> {
        let now = self.now();
        loop {
            let start = {
                let mut state = self.turns(line).lock();
                let Some((deadline, place)) = state.deadlines.first().copied() else {
                    state.attended = false;
                    return None;
                };
                if deadline > now {
                    return Some(deadline);
                }
                // Taken out here, and called without the lock: it may come back for another place.
                state.remove(place).map(|waiting| waiting.start)
            };
            if let Some(start) = start {
                shielded(|| start(Err(TurnedAway::Late)));
            }
        }
    }

    /// Turns away all who wait, and whoever comes.
    pub(super) fn close_line(&self, line: Line) {
        let waiting = {
            let mut state = self.turns(line).lock();
            state.closed = true;
            state.deadlines.clear();
            std::mem::take(&mut state.waiting)
        };
        for waiting in waiting.into_values() {
            shielded(|| (waiting.start)(Err(TurnedAway::Closed)));
        }
    }

    /// Leaves the line of the acquires.
    pub(super) fn leave_turns(self: &Arc<Self>, place: u64) {
        drop(Place { engine: Arc::clone(self), place });
    }

    /// How many wait in a line.
    pub(super) fn waiting(&self, line: Line) -> usize {
        self.turns(line).lock().waiting.len()
    }

    /// What the rounds of a line have seen.
    pub(super) fn traffic(&self, line: Line) -> Traffic {
        let state = self.turns(line).lock();
        Traffic { answered: state.answered, crowded: state.crowded }
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
            self.turns.lock().giving = false;
        }
    }
}

/// A place in the line of the acquires. Who drops it leaves the line, and what should have started does not.
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
        let waiting = self.engine.acquires.lock().remove(self.place);
        drop(waiting);
    }
}

/// A round that has been let in. It counts until a quorum has answered it, or until it is given back or dropped.
pub(super) struct Turn {
    engine: Arc<Engine>,
    line: Line,
    /// Whether it had to be waited for.
    pub(super) waited: bool,
    begun: Timestamp,
    answers: usize,
    given_back: bool,
}

impl Turn {
    fn new(engine: &Arc<Engine>, line: Line, waited: bool) -> Self {
        let begun = Timestamp::ORIGIN;
        Self { engine: Arc::clone(engine), line, waited, begun, answers: 0, given_back: false }
    }

    /// The round begins now.
    pub(super) const fn begin(&mut self, now: Timestamp) {
        self.begun = now;
    }

    /// A node has answered. At the quorum-th answer the round is no load any more: stragglers, hung or dead, hold
    /// nobody up.
    pub(super) fn handle_answer(&mut self, answer: &Result<Reply, NodeError>, now: Timestamp) {
        // Errors are no sign that the nodes keep up.
        self.answers += usize::from(answer.is_ok());
        if !self.given_back && self.answers >= self.engine.quorum.needed() {
            self.give_back_with(|state, begun| {
                state.answered = state.answered.max(now);
                let under_way = state.under_way;
                state.window.handle_answer(begun, now, under_way);
            });
        }
    }

    /// A quorum might have answered, and was too slow for it: the nodes may have too much to do.
    pub(super) fn handle_overrun(&mut self, now: Timestamp) {
        if !self.given_back {
            self.give_back_with(|state, begun| state.window.handle_timeout(begun, now));
        }
    }

    /// The time is up, and so many nodes have not answered.
    pub(super) fn handle_timeout(&mut self, unanswered: usize, now: Timestamp) {
        if self.answers.saturating_add(unanswered) >= self.engine.quorum.needed() {
            self.handle_overrun(now);
        }
    }

    /// The round is decided.
    pub(super) fn give_back(&mut self) {
        if !self.given_back {
            self.give_back_with(|_, _| ());
        }
    }

    fn give_back_with(&mut self, learn: impl FnOnce(&mut State, Timestamp)) {
        self.given_back = true;
        let wanted = {
            let mut state = self.engine.turns(self.line).lock();
            learn(&mut state, self.begun);
            state.under_way = state.under_way.saturating_sub(1);
            !state.waiting.is_empty()
        };
        if wanted {
            self.engine.give_turns(self.line);
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
            shown.field("waiting", &state.waiting.len());
            shown.field("under_way", &state.under_way).field("window", &state.window);
        }
        shown.finish_non_exhaustive()
    }
}
