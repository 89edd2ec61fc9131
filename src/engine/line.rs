//! The line of a resource in this process: who waits for it here, who of them asks the nodes, and who gets it next.
//!
//! It carries out what `protocol::Queue` decides. Only the head of a line has a task and speaks to the nodes; whoever
//! waits behind it is an entry, with one among the timers for its deadline. Whoever is told anything is told without the
//! lock of the line, since a waker may do anything; that lock is taken inside that of a grant, and around that of the
//! timers, and never the other way round. A head that ends in whatever way, by a panic too, makes room for the next.

mod heads;
mod join;
mod late;

use std::{
    fmt,
    sync::{Arc, MutexGuard, Weak},
    time::Duration,
};

pub(super) use self::heads::Head;
use super::{AcquireSpec, Engine, Grant, Met, Request, resources::ResourceSlot};
use crate::protocol::{
    GiveUp, GivenBack, NextLease, Place, Queue, Station, Stay, TimerKey, Timestamp,
};

/// For how long a resource that was waited for here is taken for one that will be waited for again.
const LATELY: Duration = Duration::from_secs(1);

/// What is known of one resource in this process. It stands under a lock of its own.
#[derive(Default)]
pub(super) struct Line {
    queue: Queue<Box<Waiter>>,
    /// What is held here, or was last.
    grant: Weak<Grant>,
    /// Somebody starts heads already.
    starting: bool,
    /// What is held here as nobody's.
    kept: Option<Arc<Grant>>,
    /// The head is in a round.
    in_round: bool,
    /// What the last round has met that was lost, until one is won.
    met: Option<Arc<Met>>,
    /// What the next head does before its first round.
    first: Pause,
    /// Which place the head has in the line of all acquires, while it waits there for its first turn.
    turn: Option<(Place, u64)>,
    /// When somebody stood in line here last.
    waited_for: Option<Timestamp>,
    /// For how long it has not been left to others.
    stay: Stay,
}

/// What a head does before its first round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Pause {
    #[default]
    None,
    /// It goes on with the pause of the head before, which ends when the key is gone.
    UntilFree(Timestamp),
    /// It leaves the resource to others until then, whether or not it is free.
    Rest(Timestamp),
}

/// One who waits in line, or for what a round finds.
pub(super) struct Waiter {
    request: Request,
    timer: Option<TimerKey>,
    /// Its time is up, and it waits for what the round finds that is under way.
    shares: bool,
    /// What it is told, where it waits in vain.
    in_vain: Option<GiveUp>,
}

impl Line {
    /// How many come before this place: those in line, and who asks for them.
    fn ahead(&self, place: Place) -> Option<usize> {
        match (self.queue.ahead(place), self.queue.station()) {
            (Some(ahead), Station::Asked(_)) => Some(ahead.saturating_add(1)),
            (Some(ahead), _) => Some(ahead),
            (None, Station::Asked(head)) if head == self.queue.now_at(place) => Some(0),
            (None, _) => None,
        }
    }

    /// Whether somebody waits for it here, or has lately. A resource that nobody waits for is asked for as ever: it costs
    /// no more tokens than leases.
    fn is_wanted_here(&self, now: Timestamp) -> bool {
        let lately = |at: Timestamp| now.saturating_since(at) < LATELY;
        !self.queue.is_empty() || self.waited_for.is_some_and(lately)
    }
}

impl Line {
    /// Whether nobody stands in line for what is held under this place.
    pub(super) fn is_deserted(&self, station: Place) -> bool {
        self.queue.first(station).is_none()
    }

    /// What the first in line asks for; an error where its time is up.
    pub(super) fn wanted_next(
        &self,
        station: Place,
        steady: Timestamp,
        now: Timestamp,
    ) -> Option<Result<NextLease, ()>> {
        let waiter = self.queue.first(station)?;
        let deadline = waiter.request.acquisition.turn_deadline();
        let asked = waiter.asked();
        let keeps_until = asked.hold_at_least.map(|least| steady.saturating_add(least));
        let in_time = deadline.is_none_or(|deadline| now < deadline);
        Some(if in_time { Ok(asked.next(keeps_until)) } else { Err(()) })
    }

    /// Keeps what is nobody's for whoever comes next.
    pub(super) fn keep(&mut self, grant: Arc<Grant>) {
        self.kept = Some(grant);
    }

    /// What is kept, for one who takes it or gives it back.
    pub(super) const fn take_kept(&mut self) -> Option<Arc<Grant>> {
        self.kept.take()
    }

    /// This one is not kept any more.
    pub(super) fn forget(&mut self, grant: &Grant) {
        // Whoever calls has it too, so that it is not dropped under the lock.
        drop(self.kept.take_if(|kept| std::ptr::eq(Arc::as_ptr(kept), grant)));
    }

    /// The head has its turn.
    pub(super) const fn handle_turn(&mut self) {
        self.turn = None;
    }

    /// Takes out the first in line.
    pub(super) fn hand_on(&mut self, station: Place) -> Option<Box<Waiter>> {
        self.queue.hand_on(station).map(|(_, waiter)| waiter)
    }

    /// A grant goes back behind which somebody here is next. How long at most, and half as long at least, the next head is
    /// to leave the resource to others.
    pub(super) fn handle_given_back(&mut self, given_back: GivenBack) -> Option<Duration> {
        self.stay.handle_given_back(given_back)
    }

    /// The next head leaves the resource to others until then.
    pub(super) const fn rest_until(&mut self, until: Timestamp) {
        self.first = Pause::Rest(until);
    }
}

impl Waiter {
    pub(super) const fn asked(&self) -> &AcquireSpec {
        &self.request.asked
    }

    /// When it wants to be looked at.
    fn at(&self) -> Option<Timestamp> {
        self.request.at()
    }
}

/// A place in a line, as whoever awaits the answer has it.
pub(super) struct Standing {
    pub(super) engine: Arc<Engine>,
    pub(super) slot: Arc<ResourceSlot>,
    pub(super) place: Place,
}

/// Where somebody stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// How many requests of this process come before it.
    pub(crate) here: usize,
    /// How many other clients do, as last seen on the nodes.
    pub(crate) elsewhere: Option<u32>,
}

impl Standing {
    /// How many come before it, and who holds the resource as last seen; `None` where it does not stand in line.
    pub(super) fn look(&self) -> Option<(Ahead, Option<String>)> {
        if !self.engine.is_served() {
            return None;
        }
        let elsewhere = self.slot.on_nodes().rank();
        let (here, holder, met) = {
            let line = self.slot.line();
            (line.ahead(self.place)?, held_here(&line), line.met.clone())
        };
        let holder = match holder {
            Some(grant) => Some(grant.owner().to_string()),
            None => met.and_then(|met| met.holder()),
        };
        Some((Ahead { here, elsewhere }, holder))
    }

    /// Leaves the line, from wherever in it.
    pub(super) fn leave(&self) {
        let Self { engine, slot, place } = self;
        // In a process that was forked, whoever has the lock may have it for ever.
        let Some(mut line) = slot.line.lock_if(|| engine.process.is_here()) else { return };
        let now_at = line.queue.now_at(*place);
        let left = line.queue.leave(*place);
        let turn = line.turn.take_if(|(head, _)| left.is_none() && *head == now_at);
        drop(line);
        if let Some(Waiter { timer: Some(timer), .. }) = left.as_deref() {
            engine.cancel(*timer);
        }
        // What waited is dropped behind the locks.
        drop(left);
        if let Some((_, turn)) = turn {
            engine.leave_turns(turn);
        }
    }
}

impl Engine {
    /// What was won under this place is over, and handed to nobody: whoever is first in line asks the nodes.
    pub(super) fn station_over(self: &Arc<Self>, slot: &Arc<ResourceSlot>, place: Place) {
        let is_this = slot.line().queue.handle_over(place);
        if is_this {
            self.next_head(slot);
        }
    }

    /// Turns away all who wait for any resource. Whoever comes from now on sees that it is closed.
    pub(super) fn close_lines(&self) {
        for slot in self.resources.all() {
            let all = slot.line().queue.take_all();
            for waiter in all {
                self.answer(waiter, |request, _| request.give_up(self, GiveUp::Closed));
            }
        }
    }

    /// Nobody runs the engine any more: whoever waits learns that by being dropped. In a process that was forked no
    /// lock is waited for, since that has only one of the threads.
    pub(super) fn abandon_lines(&self) {
        for slot in self.resources.all_if(|| self.process.is_here()) {
            let line = slot.line.lock_if(|| self.process.is_here());
            let all = line.map(|mut line| line.queue.take_all());
            drop(all);
        }
    }

    /// Those who wanted to know what a round finds are told that it was won here.
    #[allow(clippy::vec_box, reason = "as they stood in line")]
    pub(super) fn refuse_held_here(&self, all: Vec<Box<Waiter>>, grant: &Grant) {
        let left = grant.left().unwrap_or_default();
        for waiter in all {
            self.answer(waiter, |request, _| request.held_here(self, grant.owner(), left));
        }
    }

    /// One whose time was up when a grant might have been handed on to it.
    pub(super) fn turn_away_late_waiter(&self, waiter: Box<Waiter>, grant: &Grant) {
        let left = grant.left().unwrap_or_default();
        self.answer(waiter, |request, _| request.held_here(self, grant.owner(), left));
    }

    /// Answers a request that has been taken out of a line. No lock may be held.
    pub(super) fn answer(&self, waiter: Box<Waiter>, answer: impl FnOnce(Request, Option<GiveUp>)) {
        let Waiter { request, timer, in_vain, .. } = *waiter;
        if let Some(timer) = timer {
            self.cancel(timer);
        }
        answer(request, in_vain);
    }
}

impl ResourceSlot {
    pub(super) fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock()
    }

    /// Notes for which turn the head waits, so that it leaves that line too when its caller goes away.
    pub(super) fn handle_turn_waited_for(&self, place: Place, turn: u64) {
        let mut line = self.line();
        if line.queue.station() == Station::Asked(place) && !line.in_round {
            line.turn = Some((place, turn));
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("waiting", &self.queue.len())
            .field("station", &self.queue.station())
            .finish_non_exhaustive()
    }
}

/// Who holds a resource here, where somebody does.
pub(super) fn held_here(line: &Line) -> Option<Arc<Grant>> {
    matches!(line.queue.station(), Station::Held(_)).then(|| line.grant.upgrade()).flatten()
}
