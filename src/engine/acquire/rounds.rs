//! The task of one round: it begins, is decided, and what it leaves on the nodes is undone. Whatever is decided, it tells.
//!
//! It carries out what `protocol::Client` decides of whoever asks. A request is in here while its round is not decided; how that
//! comes to its end, by a panic too, the client learns.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::future::{Either, select};

use super::Request;
use crate::{
    engine::{
        Counted, Engine, HeldTenure, NodeSlot,
        acquire::Met,
        fanout::{Fanout, Progress},
        line::Ahead,
        round::{AcquireRound, said_of_line},
        turn::Turn,
    },
    error::AcquireError,
    protocol::{
        self, AskId, Command, Found, LineAnswer, LostRound, NodeId, RoundLoss, Target, Ticket,
        Timestamp, turn_of,
    },
    shield::shielded,
    telemetry::{self, Held, metrics},
};

/// One who asks the nodes, while its task has its request. Dropping it lets in who is next.
struct Asker {
    engine: Arc<Engine>,
    id: AskId,
    is_decided: bool,
}

impl Drop for Asker {
    fn drop(&mut self) {
        if self.is_decided {
            return;
        }
        let Self { engine, id, .. } = self;
        if !engine.is_served() {
            // Nobody is left who could be the next.
            return engine.abandon_lines();
        }
        // It may be dropped by a panic, and a second one would end the process.
        shielded(|| engine.decide(|client| client.handle_gone_away(*id)));
    }
}

/// The task. It is written by hand: as an `async fn` it would have room for everything twice, and be copied about with it.
struct RoundTask {
    engine: Arc<Engine>,
    /// Until the round begins.
    begins: Option<Turn>,
    /// Until it is decided.
    asks: Option<(Box<Request>, Asker)>,
    round: Option<AcquireRound>,
    /// Closing waits for it.
    #[allow(dead_code, reason = "it counts until it is dropped")]
    counted: Counted,
}

impl Future for RoundTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { engine, begins, asks, round, .. } = &mut *self;
        if let (Some(turn), Some((request, asker))) = (begins.take(), asks.as_mut()) {
            if !request.may_begin(engine) {
                request.heard_out.clear();
                drop(turn);
                if let Some((request, asker)) = asks.take() {
                    drop(asker);
                    request.not_begun(engine);
                }
                return Poll::Ready(());
            }
            request.forget_heard_out();
            *round = Some(AcquireRound::begin(engine, asker.id, request, turn));
        }
        let Some(round) = round else { return Poll::Ready(()) };
        if let Some((request, _)) = asks {
            ready!(round.poll_decided(&mut request.answer, cx));
        }
        if let Some((request, asker)) = asks.take() {
            let now = round.decided_at();
            match round.lost() {
                None => engine.won(asker, request, round, now),
                Some(lost) => engine.lost(asker, request, round, lost, now),
            }
        }
        round.poll_settled(cx)
    }
}

impl Engine {
    /// A round begins, in a task of its own. Closing waits for it.
    pub(in crate::engine) fn begin_round(
        self: &Arc<Self>,
        id: AskId,
        request: Box<Request>,
        turn: protocol::Turn,
    ) {
        let asker = Asker { engine: Arc::clone(self), id, is_decided: false };
        let turn = Turn::acquire(self, turn);
        self.spawn_uncounted(RoundTask {
            engine: Arc::clone(self),
            begins: Some(turn),
            asks: Some((request, asker)),
            round: None,
            counted: self.count(),
        });
    }

    /// Takes a lost round, undoes it, and tells the client of it.
    fn lost(
        self: &Arc<Self>,
        mut asker: Asker,
        mut request: Box<Request>,
        round: &mut AcquireRound,
        lost: LostRound,
        now: Timestamp,
    ) {
        let round_trip = self.round_trip.round_trip();
        let random = self.random_byte();
        let lost = {
            let steady = self.steady();
            let clock = |slot: &NodeSlot| slot.node.clock().and_then(|clock| clock.at(steady));
            let clocks: Vec<Option<u64>> = self.nodes.iter().map(clock).collect();
            let answers = round.outcomes().iter().enumerate();
            let answers: Vec<(NodeId, LineAnswer<'_>)> = answers
                .filter_map(|(index, outcome)| Some((NodeId::new(index), said_of_line(outcome)?)))
                .collect();
            let (stood, clocks) = (round.stood(), &clocks);
            let found = Found { answers: &answers, stood, clocks, round_trip, random, now };
            let (lost, hears_out) =
                self.client.lock().handle_found(asker.id, &request, lost, &found);
            request.takes_place = !stood;
            if hears_out {
                request.heard_out.extend(round.hear_out());
            }
            lost
        };
        let (owner, granted) = (round.round.spec().owner, round.granted());
        telemetry::round_lost(request.shown(now), owner, lost.loss, granted);
        if lost.loss == RoundLoss::Contended {
            self.unloaded.sample(now.saturating_since(lost.begun));
        }
        let reports = round.reports();
        let waited = now.saturating_since(request.acquisition.started());
        let error = self.error(round, lost, reports, waited);
        let met = Arc::new(Met { error, lost, at: now, drift: self.config.drift() });
        request.note_met(&met);
        // Before anybody else may ask.
        if lost.loss == RoundLoss::TooLate {
            request.heard_out.clear();
        }
        round.undo();
        asker.is_decided = true;
        let turn = turn_of(self.unloaded.round_trip());
        let said = self.decide(|client| {
            let by = (turn, round_trip, random);
            client.handle_lost(asker.id, request, (lost, met), by, now, |request, elsewhere| {
                request.says_for_whom(None, Ahead { here: 0, elsewhere }, now)
            })
        });
        if let Some(said) = said {
            said.tell(self, now);
        }
    }

    /// Hands over what a round has won.
    fn won(
        self: &Arc<Self>,
        mut asker: Asker,
        mut request: Box<Request>,
        round: &AcquireRound,
        now: Timestamp,
    ) {
        request.heard_out.clear();
        let took = now.saturating_since(round.started);
        self.round_trip.sample(took);
        self.unloaded.sample(took);
        metrics::round_won(took);
        let rounds = request.acquisition.lost_rounds().saturating_add(1);
        let waited = now.saturating_since(request.acquisition.started());
        let Some(grant) = round.grant(&request.resource) else { return };
        let tenure = grant.tenure();
        let spec = round.round.spec();
        let held = Held {
            caller: &request.asked.caller,
            target: &spec.target,
            owner: spec.owner,
            token: tenure.token(),
        };
        telemetry::acquired(held, rounds, waited);
        let registered = grant.register(self);
        asker.is_decided = true;
        let turn = turn_of(self.unloaded.round_trip());
        let sharing = self.client.lock().handle_won(asker.id, grant.id(), turn, now);
        let held = HeldTenure::new(tenure, Arc::clone(self));
        // The caller is answered first, and the stragglers are waited for afterwards. A caller that is gone hands the
        // grant back: dropping it hands it on to the next in line, or releases it.
        drop(request.answer.send(if registered { Ok(held) } else { Err(AcquireError::Closed) }));
        sharing.into_iter().for_each(|request| self.refuse_late(request, &grant));
        self.carry_out();
    }

    /// Ends when the nodes have been looked at again, so that a quorum may vote, or at `until`.
    pub(in crate::engine) async fn look_ended(&self, until: Timestamp) {
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

    /// Gives up a place in the lines on these nodes, for which nobody waits here any more. Nobody waits for it to be done:
    /// without it, whoever is next has to find out that the first one does not come.
    pub(in crate::engine) fn leave_lines(
        self: &Arc<Self>,
        target: &Target,
        ticket: Ticket,
        nodes: Vec<NodeId>,
    ) {
        let (engine, target, client) = (Arc::clone(self), target.clone(), self.client_id);
        self.spawn(async move {
            let mut calls = Fanout::new(&engine);
            for node in nodes {
                for resource in target.lines() {
                    let resource = resource.clone();
                    calls.push(&engine, node, Command::Leave { resource, client, ticket });
                }
            }
            while let Progress::Answered(_) = calls.progress(&engine).await {}
        });
    }

    pub(crate) fn random_byte(&self) -> u8 {
        let [byte, ..] = self.runtime.random();
        byte
    }
}
