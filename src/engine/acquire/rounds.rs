//! What the leader of a line does between its rounds, and what follows when one is won.
//!
//! It carries out what `protocol::Acquisition` decides, and tells those who wait behind it what its rounds have found.

use std::{future::poll_fn, pin::pin, sync::Arc};

use futures::future::{Either, select};
use tokio::sync::oneshot;

use super::Request;
use crate::{
    engine::{
        Engine, HeldTenure,
        acquire::Met,
        line::{Ahead, QueueLeader},
        round::{AcquireRound, HeardOut},
        turns::{Lane, Place, Turn},
    },
    error::AcquireError,
    protocol::{LostRound, Next, NodeId, Pause, RoundLoss, Timestamp, TurnedAway},
    telemetry::{self, Held, metrics},
};

/// Where a leader goes on.
#[allow(clippy::large_enum_variant, reason = "one at a time, in a task of its own")]
pub(super) enum Step {
    /// Behind a round that is decided.
    Decided(AcquireRound),
    /// Before its first round.
    Pause(Pause),
}

impl Engine {
    /// Goes on with a request until it is answered.
    pub(super) async fn go_on(self: Arc<Self>, mut request: Request, mut step: Step) {
        // Whatever ends this, they are heard no longer.
        let mut heard_out: Vec<HeardOut> = Vec::new();
        loop {
            let mut takes_place = false;
            let begins = matches!(step, Step::Pause(_));
            let (look_until, at) = match step {
                // No longer than it may wait at all.
                Step::Pause(Pause::UntilFree(at)) => (None, request.within(at)),
                Step::Pause(Pause::Rest(until)) => {
                    let until = request.within(until);
                    if !self.rest(&mut request, until).await {
                        return;
                    }
                    (None, until)
                }
                Step::Pause(Pause::None) => (None, Timestamp::ORIGIN),
                Step::Decided(mut round) => {
                    let now = round.decided_at();
                    let Some(lost) = round.lost() else {
                        heard_out.clear();
                        self.won(request, &round, now);
                        return round.settle().await;
                    };
                    self.find_place(&mut request, lost);
                    let lost = self.stand_in_line(&request, &round, lost, now);
                    takes_place = !round.stood();
                    if lost.in_line.is_some() && request.resource.on_nodes().hears_out() {
                        heard_out.extend(round.hear_out());
                    }
                    match self.lost(&mut request, round, lost, now) {
                        // Nobody holds it, and those behind may have asked for a longer ttl.
                        Next::Again { look_until, at } if lost.loss == RoundLoss::TooLate => {
                            match self.stand_back(request) {
                                Some(asks) => request = asks,
                                None => return,
                            }
                            (look_until, at)
                        }
                        Next::Again { look_until, at } => match self.stand_behind(request) {
                            Some(asks) => {
                                request = asks;
                                (look_until, at)
                            }
                            None => return,
                        },
                        Next::GiveUp(give_up) => return request.give_up(&self, give_up),
                    }
                }
            };
            if let Some(until) = look_until
                && let Either::Left(_) =
                    select(pin!(request.answer.closed()), pin!(self.look_ended(until))).await
            {
                return;
            }
            if !self.pause_before_round(&mut request, at).await {
                return;
            }
            if begins && !self.let_sets_in(&mut request).await {
                return;
            }
            // What is under way must not be in the way of the next round. One that takes the place in line comes at once,
            // and is denied as the one before it was.
            if !takes_place {
                heard_out.clear();
            }
            let turn = match self.next_turn(&mut request).await {
                Some(Ok(turn)) => turn,
                Some(Err(reason)) => return request.turned_away(&self, reason),
                None => return,
            };
            if !request.may_begin(&self) {
                return request.not_begun(&self);
            }
            let mut round = AcquireRound::begin(&self, &request, turn);
            poll_fn(|cx| round.poll_decided(&mut request.answer, cx)).await;
            step = Step::Decided(round);
        }
    }

    /// Takes a lost round, tells those behind of it, and says what follows.
    fn lost(
        self: &Arc<Self>,
        request: &mut Request,
        round: AcquireRound,
        lost: LostRound,
        now: Timestamp,
    ) -> Next {
        let (owner, granted) = (round.round.spec().owner, round.granted());
        telemetry::round_lost(request.shown(now), owner, lost.loss, granted);
        if lost.loss == RoundLoss::Contended {
            self.unloaded.sample(now.saturating_since(lost.begun));
        }
        let reports = round.reports();
        let waited = now.saturating_since(request.acquisition.started());
        let error = self.error(&round, lost, reports, waited);
        let met = Arc::new(Met { error, lost, at: now });
        request.handle_met(&met);
        round.undo();
        // In a task of its own: the next round must not wait for stragglers, nor the releases for the pause.
        self.spawn(round.settle());

        let traffic = self.traffic(Lane::Acquires);
        let next = request.acquisition.handle_lost_round(
            lost,
            traffic,
            self.round_trip.round_trip(),
            self.random_byte(),
            now,
        );
        // One that its caller gave up has found nothing.
        if let Some(leader) = request.leader.as_ref().filter(|_| lost.loss != RoundLoss::Abandoned)
        {
            leader.lose(&met, request.acquisition.next_round(), traffic);
        }
        let ahead = Ahead { here: 0, elsewhere: request.resource.on_nodes().rank() };
        if let Next::Again { .. } = next
            && lost.loss == RoundLoss::Contended
            && request.leader.is_some()
        {
            request.resource.handle_waits(request.acquisition.started());
        }
        if let Next::Again { .. } = next
            && let Some(said) = request.says_for_whom(None, ahead, now)
        {
            said.tell(self, now);
        }
        next
    }

    /// Hands over what a round has won.
    pub(super) fn won(
        self: &Arc<Self>,
        mut request: Request,
        round: &AcquireRound,
        now: Timestamp,
    ) {
        let took = now.saturating_since(round.started);
        self.round_trip.sample(took);
        self.unloaded.sample(took);
        metrics::round_won(took);
        let rounds = request.acquisition.lost_rounds().saturating_add(1);
        let waited = now.saturating_since(request.acquisition.started());
        let is_beside_line = request.is_beside_line();
        let leader = request.leader.take();
        let is_any = request.asked.target.is_any();
        // Who has a permit is in nobody's way here: others ask, and it is not handed on.
        let station = leader.as_ref().filter(|_| !is_any).map(QueueLeader::place);
        let Some(grant) = round.grant(&request.resource, station) else {
            return;
        };
        if !is_beside_line {
            request.resource.on_nodes().handle_won(now);
            self.resources.handle_place_gone(request.resource.target());
        }
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
        let sharing = leader.map(|leader| {
            if is_any {
                leader.win_permit();
                return Vec::new();
            }
            leader.win(&grant, now)
        });
        let held = HeldTenure::new(tenure, Arc::clone(self));
        // The caller is answered first, and the stragglers are waited for afterwards. A caller that is gone hands the
        // grant back: dropping it hands it on to the next in line, or releases it.
        drop(request.answer.send(if registered { Ok(held) } else { Err(AcquireError::Closed) }));
        if let Some(sharing) = sharing.filter(|sharing| !sharing.is_empty()) {
            self.refuse_held_here(sharing, &grant);
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

    /// Leaves the resource to others until then, whether or not it is free. False says that the caller is gone.
    async fn rest(&self, request: &mut Request, until: Timestamp) -> bool {
        let closing = pin!(self.closing());
        let rest = select(self.runtime.sleep_until(until), closing);
        matches!(select(pin!(request.answer.closed()), rest).await, Either::Right(_))
    }

    /// Leaves the resource to those here who want several, and have waited for long. False says that the caller is gone.
    async fn let_sets_in(&self, request: &mut Request) -> bool {
        loop {
            // Made before it is looked: from then on no end is missed.
            let (served, closing) = (pin!(self.resources.set_served()), pin!(self.closing()));
            let now = self.now();
            let until = request.kept_back_until(self).map(|until| request.within(until));
            let Some(until) = until.filter(|until| *until > now) else { return true };
            let over = select(self.runtime.sleep_until(until), closing);
            match select(pin!(request.answer.closed()), select(served, over)).await {
                Either::Left(_) => return false,
                Either::Right((Either::Right((Either::Right(_), _)), _)) => return true,
                Either::Right(_) => {}
            }
        }
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
        if let Some(turn) = self.take_turn(Lane::Acquires, now) {
            return Some(Ok(turn));
        }
        let (give, given) = oneshot::channel();
        // Where nobody takes it, it is given back by being dropped.
        let start = Box::new(move |turn| drop(give.send(turn)));
        let deadline = request.acquisition.turn_deadline();
        let place = self.wait_for_turn(Lane::Acquires, deadline, start);
        let _place = place.map(|place| Place { engine: Arc::clone(self), place });
        match select(pin!(request.answer.closed()), given).await {
            Either::Left(_) => None,
            Either::Right((turn, _)) => Some(turn.unwrap_or(Err(TurnedAway::Closed))),
        }
    }

    pub(crate) fn random_byte(&self) -> u8 {
        let [byte, ..] = self.runtime.random();
        byte
    }
}
