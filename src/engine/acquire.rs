//! One acquire as its caller and its task have it: from its place in line to the verdict of its first round.
//!
//! It runs beside the caller, who may go away at any moment: whatever has been set by then is released here. What follows
//! a lost round stands in `rounds`, who stands where in `line`.

mod request;
mod rounds;
mod waiting;

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::oneshot;

pub(super) use self::request::{Met, Request};
use self::rounds::Step;
use super::{
    Counted, Engine, HeldTenure,
    line::{Ahead, Standing},
    resources::{ResourceSlot, Which},
    round::{AcquireRound, AcquireSpec},
    turns::{Lane, Turn},
};
use crate::{
    error::{AcquireError, ReadersError, SemaphoreError, TogetherError},
    protocol::{Acquisition, Pause, Timestamp, TurnedAway, WaitPolicy, says_at, turn_of},
    runtime::Task,
    telemetry::metrics,
};

/// An acquire under way, as its caller holds it. Dropping it gives up.
pub(crate) struct Acquiring {
    /// Until it is left to the parent of a process that was forked.
    answer: Option<oneshot::Receiver<Result<HeldTenure, AcquireError>>>,
    /// Its place in the line of the resource, until it is answered.
    standing: Option<Standing>,
    /// Whether it counts if it is never answered.
    unanswered: bool,
    /// It has been polled, and was not answered then.
    has_waited: bool,
}

impl Acquiring {
    /// Whether this process was forked since it took its place.
    fn is_parents(&self) -> bool {
        self.standing.as_ref().is_some_and(|standing| !standing.engine.process.is_here())
    }

    /// How many come before it, and who holds the resource as last seen, while it stands in line.
    pub(crate) fn standing(&self) -> Option<(Ahead, Option<String>)> {
        self.standing.as_ref()?.look()
    }
}

impl Future for Acquiring {
    type Output = Result<HeldTenure, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Asked before the answer is looked at: what was granted in the parent is the parent's.
        if self.has_waited && self.is_parents() {
            return Poll::Ready(Err(AcquireError::RuntimeEnded));
        }
        self.has_waited = true;
        let Some(answer) = &mut self.answer else {
            return Poll::Ready(Err(AcquireError::RuntimeEnded));
        };
        let answer = ready!(Pin::new(answer).poll(cx));
        self.unanswered = false;
        self.standing = None;
        Poll::Ready(answer.unwrap_or(Err(AcquireError::RuntimeEnded)))
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        if self.is_parents() {
            // Its place and its channel are the parent's. To close the copy would wake a task that is not there, which
            // takes a lock of its runtime.
            std::mem::forget((self.standing.take(), self.answer.take()));
        }
        let Some(standing) = self.standing.take() else { return };
        if let Some(answer) = &mut self.answer {
            // Before it leaves: one who asks beside the line does not come to stand there afterwards.
            answer.close();
        }
        standing.leave();
        // Where nobody serves it, as in a forked process, a recorder may wait for a thread that is not there.
        if self.unanswered && cfg!(feature = "metrics") && standing.engine.is_served() {
            // What has been answered is counted by its answer.
            if let Some(answer) = &mut self.answer {
                answer.close();
                if answer.try_recv().is_err() {
                    metrics::acquire_abandoned();
                }
            }
        }
    }
}

/// The task of one request. It is written by hand because most end with their first round: as an `async fn` each of them
/// would have room for everything that may come after a lost one, ten times as much, and be copied about with it.
struct Acquire {
    engine: Arc<Engine>,
    /// Until the first round begins.
    turn: Option<Turn>,
    /// Until the first round is decided.
    request: Option<Request>,
    first_round: Option<AcquireRound>,
    /// What follows where that is lost.
    again: Option<Task>,
    /// Closing waits for it.
    #[allow(dead_code, reason = "it counts until it is dropped")]
    counted: Counted,
}

impl Request {
    /// It is the leader of its line: it begins when it has a turn among all acquires of the process.
    pub(super) fn ask(self, engine: &Arc<Engine>, now: Timestamp) {
        if let Some(turn) = engine.take_turn(Lane::Acquires, now) {
            return self.start(engine, Ok(turn));
        }
        let deadline = self.acquisition.turn_deadline();
        let slot = Arc::clone(&self.resource);
        let place = self.place();
        let of_start = Arc::clone(engine);
        let start = Box::new(move |turn| self.start(&of_start, turn));
        let turn = engine.wait_for_turn(Lane::Acquires, deadline, start);
        if let (Some(place), Some(turn)) = (place, turn) {
            slot.handle_turn_waited_for(place, turn);
        }
    }

    /// Begins, or says why not. No node has been asked.
    fn start(self, engine: &Arc<Engine>, turn: Result<Turn, TurnedAway>) {
        match turn {
            Ok(turn) => {
                if turn.waited() {
                    // It waits for none any more.
                    engine.client.lock().handle_turn(self.resource.queue());
                }
                engine.spawn_uncounted(Acquire::new(engine, self, turn));
            }
            Err(reason) => self.turned_away(engine, reason),
        }
    }

    /// It is the leader of its line by now: it begins with a pause, or asks.
    pub(super) fn begin(self, engine: &Arc<Engine>, first: Pause) {
        let now = engine.now();
        let rests = match first {
            Pause::UntilFree(until) | Pause::Rest(until) => until > now,
            Pause::None => false,
        };
        if rests || self.kept_back_until(engine).is_some() {
            engine.spawn(Arc::clone(engine).go_on(self, Step::Pause(first)));
        } else {
            self.ask(engine, now);
        }
    }

    /// Up to when it leaves the resource to one here who wants several, and has waited for long.
    pub(super) fn kept_back_until(&self, engine: &Engine) -> Option<Timestamp> {
        let asks_once = self.asked.wait_policy == WaitPolicy::OneRound;
        if asks_once { None } else { engine.kept_back(&self.resource) }
    }
}

impl Acquire {
    fn new(engine: &Arc<Engine>, request: Request, turn: Turn) -> Self {
        Self {
            engine: Arc::clone(engine),
            turn: Some(turn),
            request: Some(request),
            first_round: None,
            again: None,
            counted: engine.count(),
        }
    }

    fn begin(&mut self, turn: Turn) {
        let Some(request) = self.request.as_ref() else { return };
        if request.may_begin(&self.engine) {
            self.first_round = Some(AcquireRound::begin(&self.engine, request, turn));
        } else if let Some(request) = self.request.take() {
            request.not_begun(&self.engine);
        }
    }

    fn poll_first_round(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let (Some(request), Some(round)) = (&mut self.request, &mut self.first_round) {
            ready!(round.poll_decided(&mut request.answer, cx));
        }
        let Some(request) = self.request.take() else { return Poll::Ready(()) };
        if let Some(lost) = self.first_round.take_if(|round| !round.is_won()) {
            let step = Step::Decided(lost);
            self.again = Some(Box::pin(Arc::clone(&self.engine).go_on(request, step)));
        } else if let Some(won) = &mut self.first_round {
            let now = won.decided_at();
            self.engine.won(request, won, now);
        }
        Poll::Ready(())
    }
}

impl Future for Acquire {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if let Some(turn) = this.turn.take() {
            this.begin(turn);
        }
        ready!(this.poll_first_round(cx));
        if let Some(again) = &mut this.again {
            return again.as_mut().poll(cx);
        }
        // It is won, and stragglers may be under way.
        this.first_round.as_mut().map_or(Poll::Ready(()), |won| won.poll_settled(cx))
    }
}

impl Engine {
    /// Why no more than one resource can be had at once, if that is so.
    pub(crate) fn may_take_sets(&self) -> Result<(), TogetherError> {
        if self.config.classic {
            return Err(TogetherError::Classic);
        }
        match self.takes_no_sets.and_then(|node| Some((node, self.slot(node)?))) {
            None => Ok(()),
            Some((node, slot)) => {
                Err(TogetherError::OneAtATime { node, address: Arc::clone(&slot.address) })
            }
        }
    }

    /// Why a resource cannot be read together with others, if that is so.
    pub(crate) fn may_read(&self) -> Result<(), ReadersError> {
        if self.config.classic {
            return Err(ReadersError::Classic);
        }
        match self.takes_no_readers.and_then(|node| Some((node, self.slot(node)?))) {
            None => Ok(()),
            Some((node, slot)) => {
                Err(ReadersError::OneAtATime { node, address: Arc::clone(&slot.address) })
            }
        }
    }

    /// Why nobody can have a permit here, if that is so.
    pub(crate) fn may_pick(&self) -> Result<(), SemaphoreError> {
        if self.config.classic {
            return Err(SemaphoreError::Classic);
        }
        match self.picks_no_slots.and_then(|node| Some((node, self.slot(node)?))) {
            None => Ok(()),
            Some((node, slot)) => {
                Err(SemaphoreError::PicksNone { node, address: Arc::clone(&slot.address) })
            }
        }
    }

    /// Up to when whoever comes anew leaves a resource to one here who wants several, and has waited for long.
    pub(super) fn kept_back(&self, slot: &ResourceSlot) -> Option<Timestamp> {
        if !self.resources.have_waiting_sets() {
            return None;
        }
        let (now, turn) = (self.now(), turn_of(self.unloaded.round_trip()));
        slot.kept_back_for(turn, now).map(|left| now.saturating_add(left))
    }

    /// Takes its place in the line of its resource, and asks the nodes where there is none; the answer comes through the
    /// channel.
    pub(crate) fn acquire(self: &Arc<Self>, asked: AcquireSpec) -> Acquiring {
        let (answer, receiver) = oneshot::channel();
        let mut acquiring = Acquiring {
            answer: Some(receiver),
            standing: None,
            unanswered: true,
            has_waited: false,
        };
        if !self.is_served() {
            // The sender is dropped here, which the caller sees as `RuntimeEnded`.
            return acquiring;
        }
        let settings = self.config.wait_settings(asked.through_outages);
        let now = self.now();
        let acquisition = Acquisition::new(settings, asked.wait_policy, now);
        let resource = self.resources.slot(&asked.target);
        // What is kept here as nobody's would be in its way, and the nodes tell nobody of one who comes from here.
        for other in self.resources.overlapping(resource.target(), Which::Others) {
            self.give_back_kept(&other);
        }
        let says_at = says_at(asked.wait_policy, now);
        let request = Request::new(asked, Arc::clone(&resource), acquisition, answer, says_at);
        acquiring.standing = self.join(&resource, request, now);
        acquiring
    }
}
