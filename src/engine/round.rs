//! One acquire round as it runs: what is sent, what comes back, and what has to be undone.
//!
//! It carries out what the round and its footprint decide. It must see to every node that it asked, also after the
//! verdict.

mod undo;

use std::{
    sync::{Arc, OnceLock, Weak},
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::sync::oneshot;

pub(super) use self::undo::HeardOut;
use super::{
    Engine, Grant, HeldTenure, Request,
    fanout::{Fanout, Progress},
    footprint::SharedFootprint,
    grant::Granted,
    resources::ResourceSlot,
    turn::Turn,
};
use crate::{
    error::{AcquireError, NodeOutcome, Reports},
    node::NodeError,
    protocol::{
        AskId, Cohort, Failure, Lifecycle, LineAnswer, LostRound, MOST_IN_A_ROW, NextLease, NodeId,
        Owner, Place, QueueId, RenewalPolicy, Reply, Round, RoundAsked, RoundLoss, RoundSpec,
        Target, Timestamp, Verdict, WaitPolicy, Wanted,
    },
    telemetry::{Caller, metrics},
};

/// What a caller asked for, checked.
#[derive(Clone, Debug)]
pub(crate) struct AcquireSpec {
    /// What is to be held.
    pub(crate) target: Target,
    pub(crate) ttl: Duration,
    pub(crate) min_validity: Duration,
    pub(crate) wait_policy: WaitPolicy,
    pub(crate) through_outages: bool,
    pub(crate) renewal: RenewalPolicy,
    /// In which span it was asked for.
    pub(crate) caller: Caller,
    /// How long others are kept out at least, also where it is released before.
    pub(crate) hold_at_least: Option<Duration>,
    /// For how long the grant is kept behind it as nobody's.
    pub(crate) linger: Duration,
    /// For how long the nodes keep the key beyond the ttl.
    pub(crate) lock_delay: Duration,
    /// It is to have a round of its own, and is not handed on.
    pub(crate) alone: bool,
}

impl AcquireSpec {
    /// What it asks of a grant that is handed on to it.
    pub(super) const fn next(&self, keeps_until: Option<Timestamp>) -> NextLease {
        let Self { ttl, lock_delay, min_validity, alone, renewal, linger, .. } = *self;
        let wanted = Wanted { ttl, lock_delay, min_validity, alone };
        NextLease { wanted, renewal, keeps_until, linger }
    }
}

/// What a node has said, as far as its line is concerned.
pub(super) const fn said_of_line(outcome: &NodeOutcome) -> Option<LineAnswer<'_>> {
    match outcome {
        NodeOutcome::Granted => Some(LineAnswer::Granted),
        NodeOutcome::Denied(denial) => Some(LineAnswer::Denied(denial)),
        NodeOutcome::Failed(_) => Some(LineAnswer::Failed),
        NodeOutcome::Unanswered | NodeOutcome::NotAsked => None,
    }
}

pub(super) type Answer = oneshot::Sender<Result<HeldTenure, AcquireError>>;

/// One round with its commands under way.
pub(super) struct AcquireRound {
    engine: Arc<Engine>,
    pub(super) round: Round,
    pub(super) started: Timestamp,
    calls: Fanout,
    outcomes: Vec<NodeOutcome>,
    renewal: RenewalPolicy,
    caller: Caller,
    hold_at_least: Option<Duration>,
    linger: Duration,
    alone: bool,
    /// From the verdict on, when others have to do with it too.
    footprint: Option<Arc<SharedFootprint>>,
    /// Of the slots that were picked and not won.
    others: Option<Arc<SharedFootprint>>,
    /// What has been won, which is filled in where another slot was picked.
    won: OnceLock<Weak<Grant>>,
    turn: Turn,
    /// Where its answers are to be told that come after it was lost, and its number there. It keeps no place in line.
    line: (QueueId, u64),
    /// Under which place of which queue what it wins may be handed on.
    station: Option<(QueueId, Place)>,
}

impl AcquireRound {
    /// Reads the clock, and then sends, behind whatever has been given back here and would be in its way.
    pub(super) fn begin(
        engine: &Arc<Engine>,
        ask: AskId,
        request: &Request,
        mut turn: Turn,
    ) -> Self {
        engine.send_unsent(&request.resource);
        let asked = &request.asked;
        // Read before the first send: validity counts from here.
        let started = engine.now();
        let is_any = asked.target.is_any();
        let begun = engine.client.lock().begin_round(
            ask,
            RoundAsked {
                may_have_several: engine.counts_ranges && !asked.alone && !is_any,
                lingers: !asked.linger.is_zero(),
                ttl: asked.ttl,
            },
            started,
        );
        let several = begun.is_some_and(|begun| begun.several);
        // `uuid` sets the bits of the version, and draws nothing.
        let owner = uuid::Builder::from_random_bytes(engine.runtime.random()).into_uuid();
        let owner = Owner::from_random(owner.into_bytes());
        let mut spec = RoundSpec::new(asked.target.clone(), owner, asked.ttl);
        spec.drift = engine.config.drift();
        spec.min_validity = asked.min_validity;
        spec.lock_delay = asked.lock_delay;
        spec.count = if several { MOST_IN_A_ROW } else { 1 };
        spec.hint = engine.hint(spec.count);
        spec.marks = engine.marks();
        spec.note = engine.note();
        if is_any {
            let first = usize::from(engine.random_byte()) * asked.target.len() / 256;
            spec.first = u8::try_from(first).unwrap_or_default();
        }
        spec.stand = begun.and_then(|begun| begun.stand);
        turn.begin(started);
        let mut round = Self {
            round: Round::acquire(engine.quorum, spec, started),
            started,
            calls: Fanout::begun_at(engine, started),
            outcomes: vec![NodeOutcome::NotAsked; engine.nodes.len()],
            renewal: asked.renewal,
            caller: asked.caller.clone(),
            hold_at_least: asked.hold_at_least,
            linger: asked.linger,
            alone: asked.alone,
            footprint: None,
            others: None,
            won: OnceLock::new(),
            turn,
            line: (request.resource.queue(), begun.map_or(0, |begun| begun.number)),
            station: begun.and_then(|begun| begun.station),
            engine: Arc::clone(engine),
        };
        round.leave_out_unreachable();
        round.send();
        round
    }

    /// Counts the nodes that cannot be asked before any other is, so that a round that cannot be won sends
    /// nothing.
    fn leave_out_unreachable(&mut self) {
        let engine = Arc::clone(&self.engine);
        for (index, slot) in engine.nodes.iter().enumerate() {
            let node = NodeId::new(index);
            if let Err(error) = slot.node.reachable().and_then(|()| engine.may_vote(node)) {
                let failure = error.failure();
                self.note(node, Err(error));
                self.round.handle_reply(node, Err(failure), self.started);
            }
        }
    }

    /// Sends what the round asks for. At the verdict the footprint leaves it, and what is to be undone is kept there for
    /// `settle`.
    fn send(&mut self) {
        if self.footprint.is_none() {
            let shared = |footprint| Arc::new(SharedFootprint::new(&self.engine.client, footprint));
            let footprint = self.round.take_footprint();
            self.footprint = footprint.map(shared);
            let others = self.round.take_others();
            self.others = others.map(shared);
        }
        while let Some((node, command)) = self.round.poll_command() {
            // A confirm follows a grant, which stands.
            if let Some(outcome @ NodeOutcome::NotAsked) = self.outcomes.get_mut(node.index()) {
                *outcome = NodeOutcome::Unanswered;
            }
            self.calls.push(&self.engine, node, command);
        }
    }

    /// Ends with the verdict, or when the caller is gone.
    pub(super) fn poll_decided(&mut self, answer: &mut Answer, cx: &mut Context<'_>) -> Poll<()> {
        // Answers that have come are taken before the caller is found to be gone: they may settle the round.
        while self.round.verdict() == Verdict::Pending {
            match self.calls.poll_progress(&self.engine, cx) {
                Poll::Ready(progress) => self.take(progress),
                Poll::Pending if answer.poll_closed(cx).is_ready() => {
                    self.round.handle_abandoned();
                    self.send();
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        // What has come together with the answer that decided it need not be undone where it is a denial.
        while self.round.verdict() == Verdict::Lost
            && let Some(answer) = self.calls.next_heard()
        {
            self.take(Progress::Answered(answer));
        }
        match self.round.loss() {
            // What a caller has given up is under way all the same: it counts until it is answered.
            Some(RoundLoss::Abandoned) => {}
            Some(RoundLoss::NoQuorum) if self.round.is_overrun() => {
                self.turn.handle_overrun(self.calls.heard(&self.engine));
            }
            _ => self.turn.give_back(),
        }
        Poll::Ready(())
    }

    /// A time at or after that of the verdict.
    pub(super) fn decided_at(&mut self) -> Timestamp {
        self.calls.heard(&self.engine)
    }

    pub(super) fn is_won(&self) -> bool {
        self.round.verdict() == Verdict::Won
    }

    /// What it has said, where it is lost.
    pub(super) fn lost(&self) -> Option<LostRound> {
        LostRound::of(&self.round, self.started, self.turn.waited())
    }

    fn take(&mut self, progress: Progress) {
        let now = self.calls.heard(&self.engine);
        match progress {
            Progress::Answered((node, result)) => {
                self.turn.handle_answer(&result, now);
                if result.is_ok()
                    && let Some(slot) = self.engine.slot(node)
                {
                    let took = now.saturating_since(self.started);
                    slot.round_trip.sample(took);
                    metrics::round_trip(self.engine.labelled(slot), took);
                }
                let reply = result.clone().map_err(|error| error.failure());
                self.note(node, result);
                self.tell_line(node);
                self.handle_reply(node, reply, now);
            }
            // Every node has replied or failed by now, so the verdict is settled.
            Progress::TimedOut | Progress::Done => {
                let mut unanswered = 0;
                for outcome in &mut self.outcomes {
                    if *outcome == NodeOutcome::Unanswered {
                        *outcome = NodeOutcome::Failed(NodeError::TimedOut);
                        unanswered += 1;
                    }
                }
                self.turn.handle_timeout(unanswered, now);
                // All of them, since the round ignores a second answer.
                for index in 0..self.outcomes.len() {
                    self.handle_reply(NodeId::new(index), Err(Failure::TIMED_OUT), now);
                }
            }
        }
        self.send();
    }

    fn handle_reply(&mut self, node: NodeId, reply: Result<Reply, Failure>, now: Timestamp) {
        // Until the verdict the round keeps the footprint and tells it; from then on it is told here.
        if let Some(footprint) = &self.footprint {
            footprint.with(|footprint| self.round.tell(footprint, node, &reply));
        }
        if let Some(others) = &self.others {
            others.with(|others| self.round.tell_others(others, node, &reply));
        }
        self.round.handle_reply(node, reply, now);
    }

    /// What is answered to a round that was lost is news for one who waits in the lines on the nodes.
    fn tell_line(&mut self, node: NodeId) {
        let (queue, number) = self.line;
        if self.round.verdict() == Verdict::Lost
            && let Some(answer) = self.outcomes.get(node.index()).and_then(said_of_line)
        {
            let now = self.calls.heard(&self.engine);
            self.engine.decide(|client| {
                client.handle_late_answer(queue, number, (node, answer), now);
            });
        }
    }

    fn note(&mut self, node: NodeId, result: Result<Reply, NodeError>) {
        if let Some(outcome) = self.outcomes.get_mut(node.index()) {
            // A grant that was not confirmed is still a grant.
            if *outcome == NodeOutcome::Granted && result.is_ok() {
                return;
            }
            *outcome = NodeOutcome::of(result);
        }
    }

    /// What it has won; `None` where it has not.
    pub(super) fn grant(&self, resource: &Arc<ResourceSlot>) -> Option<Arc<Grant>> {
        let footprint = self.footprint.as_ref().filter(|_| self.is_won())?;
        let spec = self.round.spec();
        let deadline = self.round.deadline();
        let lifecycle = Lifecycle::new(self.started, deadline, spec.ttl, spec.drift, self.renewal);
        let (cohort, token) = Cohort::begin(self.round.tokens(), self.started);
        let grant = Grant::new(
            &self.engine,
            Arc::clone(resource),
            Granted {
                target: spec.target.clone(),
                owner: spec.owner,
                token,
                note: spec.note.clone(),
                cohort,
                linger: self.linger,
                lock_delay: spec.lock_delay,
                alone: self.alone,
                station: self.station,
            },
            lifecycle,
            Arc::clone(footprint),
            self.caller.clone(),
            self.hold_at_least,
        );
        self.engine.counted(&self.round);
        metrics::lease_begun();
        grant.schedule(&self.engine);
        if self.others.is_some() {
            let _ = self.won.set(Arc::downgrade(&grant));
        }
        Some(grant)
    }

    /// Waits for the stragglers, and undoes whatever the footprint says must be undone.
    pub(super) fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.undo();
            if self.calls.is_empty() {
                self.leave_where_denied();
                return Poll::Ready(());
            }
            let progress = ready!(self.calls.poll_progress(&self.engine, cx));
            self.take(progress);
        }
    }

    /// Whether it said with what its client stands in the line.
    pub(super) fn stood(&self) -> bool {
        self.round.spec().stand.is_some_and(|stand| stand.ticket.is_some())
    }

    /// What each node has said.
    pub(super) fn outcomes(&self) -> &[NodeOutcome] {
        &self.outcomes
    }

    /// How many nodes granted, but for those whose counters no clock explains: as it is reported.
    pub(super) fn granted(&self) -> usize {
        self.round.granted().saturating_sub(self.round.implausible().count())
    }

    pub(super) fn reports(&self) -> Reports {
        let mut outcomes = self.outcomes.clone();
        for node in self.round.implausible() {
            if let Some(outcome) = outcomes.get_mut(node.index()) {
                *outcome = NodeOutcome::Failed(NodeError::CounterImplausible);
            }
        }
        self.engine.reports(&outcomes)
    }
}
