//! One acquire from its first round to its answer: it carries out what `protocol::Acquisition` decides.
//!
//! It runs beside the caller, who may go away at any moment: whatever has been set by then is released here.

mod request;

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::future::{Either, select};
use tokio::sync::oneshot;

use self::request::Request;
use super::{
    Counted, Engine, HeldTenure,
    round::{AcquireRound, AcquireSpec},
    turns::{Line, Place, Turn},
};
use crate::{
    error::AcquireError,
    protocol::{Acquisition, Next, NodeId, RoundLoss, Timestamp, TurnedAway, says_at},
    runtime::Task,
    telemetry::{self, Held, metrics},
};

/// An acquire under way, as its caller holds it. Dropping it gives up.
pub(crate) struct Acquiring {
    answer: oneshot::Receiver<Result<HeldTenure, AcquireError>>,
    /// Its place in the line, if it had to wait for its first round. Dropping it leaves the line.
    _place: Option<Place>,
    /// Until it is answered, where it counts if it never is.
    #[cfg(feature = "metrics")]
    unanswered: Option<std::sync::Weak<Engine>>,
}

impl Acquiring {
    #[cfg_attr(
        not(feature = "metrics"),
        allow(unused_variables, clippy::missing_const_for_fn, reason = "nobody counts")
    )]
    fn new(
        engine: &Arc<Engine>,
        answer: oneshot::Receiver<Result<HeldTenure, AcquireError>>,
        place: Option<Place>,
    ) -> Self {
        Self {
            answer,
            _place: place,
            #[cfg(feature = "metrics")]
            unanswered: Some(Arc::downgrade(engine)),
        }
    }
}

impl Future for Acquiring {
    type Output = Result<HeldTenure, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
        #[cfg(feature = "metrics")]
        {
            self.unanswered = None;
        }
        Poll::Ready(answer.unwrap_or(Err(AcquireError::RuntimeEnded)))
    }
}

#[cfg(feature = "metrics")]
impl Drop for Acquiring {
    fn drop(&mut self) {
        let engine = self.unanswered.take().and_then(|engine| engine.upgrade());
        // Where nobody serves it, as in a forked process, a recorder may wait for a thread that is not there.
        if engine.is_some_and(|engine| engine.is_served()) {
            self.answer.close();
            // What has been answered is counted by its answer.
            if self.answer.try_recv().is_err() {
                metrics::acquire_abandoned();
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
    /// Begins, or says why not. No node has been asked.
    fn start(self, engine: &Arc<Engine>, turn: Result<Turn, TurnedAway>) {
        match turn {
            Ok(turn) => {
                engine.spawn_uncounted(Acquire::new(engine, self, turn));
            }
            Err(reason) => self.turned_away(engine, reason),
        }
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
            self.first_round = Some(AcquireRound::begin(&self.engine, &request.asked, turn));
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
            self.again = Some(Box::pin(Arc::clone(&self.engine).acquire_again(request, lost)));
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
    /// Starts to acquire, or waits in line for that; the answer comes through the channel.
    pub(crate) fn acquire(self: &Arc<Self>, asked: AcquireSpec) -> Acquiring {
        let (answer, receiver) = oneshot::channel();
        if !self.is_served() {
            // The sender is dropped here, which the caller sees as `RuntimeEnded`.
            return Acquiring::new(self, receiver, None);
        }
        let settings = self.config.wait_settings(asked.through_outages);
        let now = self.now();
        let acquisition = Acquisition::new(settings, asked.wait_policy, now);
        let resource = self.resources.slot(&asked.resource);
        let says_at = says_at(asked.wait_policy, now);
        let (last, found_held) = (None, None);
        let request = Request { asked, resource, acquisition, answer, last, found_held, says_at };
        let place = match self.take_turn(Line::Acquires, now) {
            Some(turn) => {
                request.start(self, Ok(turn));
                None
            }
            None => {
                let deadline = request.acquisition.turn_deadline();
                let engine = Arc::clone(self);
                let start = Box::new(move |turn| request.start(&engine, turn));
                self.wait_for_turn(Line::Acquires, deadline, start)
            }
        };
        let place = place.map(|place| Place { engine: Arc::clone(self), place });
        Acquiring::new(self, receiver, place)
    }

    /// Goes on with a request whose first round is lost, until it is answered.
    async fn acquire_again(self: Arc<Self>, mut request: Request, mut round: AcquireRound) {
        loop {
            let now = round.decided_at();
            let Some(lost) = round.lost() else {
                self.won(request, &round, now);
                return round.settle().await;
            };
            let (owner, granted) = (round.round.spec().owner, round.round.granted());
            telemetry::round_lost(request.shown(now), owner, lost.loss, granted);
            let reports = round.reports();
            if !matches!(lost.loss, RoundLoss::NoQuorum | RoundLoss::TooLate) {
                request.found_held = Some(reports.clone());
            }
            let waited = now.saturating_since(request.acquisition.started());
            request.last = Some(self.error(&round, lost, reports, waited));
            // In a task of its own: the next round must not wait for stragglers, nor the releases for the pause.
            self.spawn(round.settle());

            let traffic = self.traffic(Line::Acquires);
            let next = request.acquisition.handle_lost_round(
                lost,
                traffic,
                self.round_trip.round_trip(),
                self.random_byte(),
                now,
            );
            let (look_until, at) = match next {
                Next::Again { look_until, at } => (look_until, at),
                Next::GiveUp(give_up) => return request.give_up(&self, give_up),
            };
            request.say_for_whom(&self, now);
            if let Some(until) = look_until
                && let Either::Left(_) =
                    select(pin!(request.answer.closed()), pin!(self.look_ended(until))).await
            {
                return;
            }
            if !self.pause_before_round(&mut request, at).await {
                return;
            }
            let turn = match self.next_turn(&mut request).await {
                Some(Ok(turn)) => turn,
                Some(Err(reason)) => return request.turned_away(&self, reason),
                None => return,
            };
            if !request.may_begin(&self) {
                return request.not_begun(&self);
            }
            round = AcquireRound::begin(&self, &request.asked, turn);
            poll_fn(|cx| round.poll_decided(&mut request.answer, cx)).await;
        }
    }

    /// Hands over what a round has won.
    fn won(self: &Arc<Self>, request: Request, round: &AcquireRound, now: Timestamp) {
        let took = now.saturating_since(round.started);
        self.round_trip.sample(took);
        metrics::round_won(took);
        let rounds = request.acquisition.lost_rounds().saturating_add(1);
        let waited = now.saturating_since(request.acquisition.started());
        let spec = round.round.spec();
        let held = Held {
            caller: &request.asked.caller,
            resource: &spec.resource,
            owner: spec.owner,
            token: round.round.token(),
        };
        telemetry::acquired(held, rounds, waited);
        // The caller is answered first, and the stragglers are waited for afterwards.
        if let Some(grant) = round.grant(&request.resource) {
            let registered = grant.register(self);
            let held = HeldTenure::new(grant.tenure(), Arc::clone(self));
            // A caller that is gone hands the grant back, and dropping it releases it.
            drop(request.answer.send(if registered {
                Ok(held)
            } else {
                Err(AcquireError::Closed)
            }));
        }
    }

    /// Ends when the nodes have been looked at again, so that a quorum may vote, or at `until`.
    async fn look_ended(&self, until: Timestamp) {
        let mut limit = self.runtime.sleep_until(until);
        loop {
            // Made before the nodes are looked at: from then on no change is missed.
            let changed = pin!(self.fleet.changed.notified());
            let nodes = (0..self.nodes.len()).map(NodeId::new);
            if nodes.filter(|node| self.may_vote(*node).is_ok()).count() >= self.quorum.needed() {
                return;
            }
            if let Either::Right(_) = select(changed, &mut limit).await {
                return;
            }
        }
    }

    /// Pauses until `at`, or until the key is gone, or no more rounds are begun. False says that the caller is gone.
    async fn pause_before_round(&self, request: &mut Request, at: Timestamp) -> bool {
        let (closing, freed) = (pin!(self.closing()), pin!(request.resource.freed()));
        let pause = select(self.runtime.sleep_until(at), select(closing, freed));
        matches!(select(pin!(request.answer.closed()), pause).await, Either::Right(_))
    }

    /// A turn for another round. It is at the end of the line: many who wait for one resource must not keep all others
    /// from theirs. `None` says that the caller is gone.
    async fn next_turn(
        self: &Arc<Self>,
        request: &mut Request,
    ) -> Option<Result<Turn, TurnedAway>> {
        let now = self.now();
        if !request.acquisition.may_begin(now) {
            return Some(Err(TurnedAway::Late));
        }
        if let Some(turn) = self.take_turn(Line::Acquires, now) {
            return Some(Ok(turn));
        }
        let (give, given) = oneshot::channel();
        // Where nobody takes it, it is given back by being dropped.
        let start = Box::new(move |turn| drop(give.send(turn)));
        let deadline = request.acquisition.turn_deadline();
        let place = self.wait_for_turn(Line::Acquires, deadline, start);
        let _place = place.map(|place| Place { engine: Arc::clone(self), place });
        match select(pin!(request.answer.closed()), given).await {
            Either::Left(_) => None,
            Either::Right((turn, _)) => Some(turn.unwrap_or(Err(TurnedAway::Closed))),
        }
    }

    fn random_byte(&self) -> u8 {
        let [byte, ..] = self.runtime.random();
        byte
    }
}
