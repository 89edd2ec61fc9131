//! Rounds under way: what each asks for, its answers, and what it leaves on the nodes to undo.
//!
//! It decides that everything a round has set and not won is undone in the step in which that is known. [`Round`]
//! decides whether it is won, and `rounds` what becomes of its request. It must see to every node that it has asked,
//! also after the verdict.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{iter, mem};

use super::{
    AskId, Asks, Client, FootprintId, GrantId, Met, Moment, QueueId, RoundAsked, RoundStart, Said,
    Told, Transmit,
    calls::{CallId, Fails, Outgoing, Purpose, Sending, replied},
    found::adoption_end,
    grants::{Begin, Terms},
    on_nodes::Found,
};
use crate::{
    acquisition::LostRound,
    command::{NodeId, Reply},
    concurrency::{Load, Turn},
    fencing::TokenRange,
    lifecycle::Lifecycle,
    node_set::NodeSet,
    queue::Place,
    round::{Round, RoundLoss, RoundSpec, Verdict},
    slab::Key,
    time::Timestamp,
    waiter::LineAnswer,
};

/// A round under way.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct AttemptId(pub(super) Key);

/// One round, until each asked node has answered.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Attempt<E> {
    pub(super) round: Round,
    pub(super) begun: Timestamp,
    pub(super) terms: Terms,
    /// Its request, until it is decided.
    pub(super) ask: Option<AskId>,
    pub(super) turn: Turn,
    pub(super) said: Box<[Said<E>]>,
    /// How many commands are unanswered.
    pub(super) open: usize,
    /// Set at the verdict.
    pub(super) footprint: Option<FootprintId>,
    /// Of slots that were taken and not won.
    pub(super) others: Option<FootprintId>,
    /// Its grant, for filling in where another slot was taken.
    pub(super) won: Option<GrantId>,
    /// The queue that learns of answers after a loss, and the round's number there.
    pub(super) line: (QueueId, u64),
    /// The queue and place under which its grant may be handed on.
    pub(super) station: Option<(QueueId, Place)>,
    /// It has an answer that has not been followed up.
    pub(super) is_told: bool,
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Begins the round of a request that has its turn. Its time counts from now, before anything is sent.
    pub fn begin_round(
        &mut self,
        id: AskId,
        asked: &RoundAsked,
        start: RoundStart<E>,
        at: &Moment<'_>,
        log: &mut dyn FnMut(&mut W, Told<'_>),
    ) {
        let Some((queue, turn)) = self.take_turn(id, at) else { return };
        self.send_before(queue, at);
        self.leave_before(&asked.target);
        let Some(mut turn) = turn else { return };
        let begun = self.place_of_round(id, asked, start.count > 1, at.now);
        turn.handle_begun(at.now);
        let RoundStart { owner, count, hint, marks, note, random, blocked } = start;
        let target = asked.target.clone();
        let nodes = self.settings.quorum.nodes();
        let first = usize::from(random) * target.len() / 256;
        let spec = RoundSpec {
            owner,
            ttl: asked.ttl,
            lock_delay: asked.lock_delay,
            drift: self.settings.drift,
            min_validity: asked.min_validity,
            hint,
            count,
            first: if target.is_any() { u8::try_from(first).unwrap_or_default() } else { 0 },
            marks,
            note,
            stand: begun.stand,
            from: asked.from,
            target,
        };
        let mut attempt = Attempt {
            round: Round::acquire(self.settings.quorum, spec, at.now),
            begun: at.now,
            terms: Terms {
                renewal: asked.renewal,
                hold_at_least: asked.hold_at_least,
                linger: asked.linger,
                alone: asked.alone,
            },
            ask: Some(id),
            turn,
            said: iter::repeat_with(Said::default).take(nodes).collect(),
            open: 0,
            footprint: None,
            others: None,
            won: None,
            line: (queue, begun.number),
            station: begun.station,
            is_told: false,
        };
        // Counted before any other node is asked, so that a round that cannot be won sends nothing.
        for (node, error) in blocked {
            let failure = error.failure();
            attempt.says(node, Said::Failed(error));
            attempt.round.handle_reply(node, Err(failure), at.now);
        }
        let attempt = AttemptId(self.attempts.insert(Box::new(attempt)));
        if let Some(asking) = self.asking.get_mut(id.0) {
            asking.attempt = Some(attempt);
        }
        self.follow(attempt, at, log);
        // A round decided at once has given its turn back.
        self.let_in(at);
    }

    /// The next command of a round.
    pub(super) fn poll_attempt(&mut self, id: AttemptId) -> Option<Transmit> {
        let attempt = self.attempts.get_mut(id.0)?;
        let (node, command) = attempt.round.poll_command()?;
        // A confirm follows a grant, which stands.
        if let Some(said @ Said::NotAsked) = attempt.said.get_mut(node.index()) {
            *said = Said::Unanswered;
        }
        attempt.open = attempt.open.saturating_add(1);
        let call = CallId(Purpose::Acquire(id, node));
        // All commands of a round share one time limit.
        let until = Some(attempt.begun.saturating_add(self.settings.node_timeout));
        Some(Transmit { call, node, sending: Sending::One(command), until })
    }

    /// A node has answered. Returns the round once, to be followed up when all answers that came together are recorded.
    pub(super) fn handle_attempt_answer(
        &mut self,
        id: AttemptId,
        node: NodeId,
        result: Result<Reply, E>,
        at: &Moment<'_>,
    ) -> Option<AttemptId> {
        let attempt = self.attempts.get_mut(id.0)?;
        attempt.open = attempt.open.saturating_sub(1);
        let load = match &result {
            Err(error) if error.is_late() => attempt.turn.handle_timeout(attempt.open + 1),
            result => attempt.turn.handle_answer(result.is_ok()),
        };
        if load.is_some() {
            let load = load.filter(|_| self.settings.adapts);
            self.acquires.give_back(&mut attempt.turn, load, at.now);
        }
        let reply = replied(&result);
        let is_late = result.as_ref().is_err_and(Fails::is_late);
        attempt.says(node, Said::of(result));
        // A late answer to a lost round is news for a client that waits in the nodes' lines.
        if attempt.round.verdict() == Verdict::Lost && !is_late {
            let ((queue, number), said) = (attempt.line, attempt.said.get(node.index()).cloned());
            if let Some(answer) = said.as_ref().and_then(Said::of_line) {
                self.handle_late_answer(queue, number, (node, answer), at.now);
            }
        }
        let attempt = self.attempts.get_mut(id.0)?;
        // Until the verdict the round tells its footprint itself.
        if let Some(traced) = attempt.footprint.and_then(|id| self.footprints.get_mut(id.0)) {
            attempt.round.tell(&mut traced.footprint, node, &reply);
        }
        if let Some(traced) = attempt.others.and_then(|id| self.footprints.get_mut(id.0)) {
            attempt.round.tell_others(&mut traced.footprint, node, &reply);
        }
        attempt.round.handle_reply(node, reply, at.now);
        (!mem::replace(&mut attempt.is_told, true)).then_some(id)
    }

    /// Acts on the recorded answers.
    pub(super) fn follow(
        &mut self,
        id: AttemptId,
        at: &Moment<'_>,
        log: &mut dyn FnMut(&mut W, Told<'_>),
    ) {
        let Some(attempt) = self.attempts.get_mut(id.0) else { return };
        attempt.is_told = false;
        let verdict = attempt.round.verdict();
        self.take_footprints(id);
        let ask = self.attempts.get_mut(id.0).filter(|_| verdict != Verdict::Pending);
        match (verdict, ask.and_then(|attempt| attempt.ask.take())) {
            (Verdict::Won, Some(ask)) => self.win(id, ask, at),
            (Verdict::Lost, Some(ask)) => self.lose(id, ask, at, log),
            _ => {}
        }
        self.go_on_with(id);
    }

    /// Sends the next commands, undoes what is to be undone, and ends a decided round without open commands.
    fn go_on_with(&mut self, id: AttemptId) {
        self.undo(id);
        let Some(attempt) = self.attempts.get(id.0) else { return };
        if attempt.round.has_commands() {
            self.send_next(Outgoing::Attempt(id));
        } else if attempt.open == 0 && attempt.round.verdict() != Verdict::Pending {
            self.leave_where_denied(id);
            self.release_predecessor(id);
            if let Some(attempt) = self.attempts.remove(id.0) {
                let mut turn = attempt.turn;
                self.give_turn_back(&mut turn);
                let footprints = [attempt.footprint, attempt.others].into_iter().flatten();
                footprints.for_each(|footprint| self.let_go_of(footprint));
            }
        }
    }

    /// At the verdict the footprint leaves the round, because it gets other users.
    fn take_footprints(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(id.0).filter(|it| it.footprint.is_none()) else {
            return;
        };
        let taken = attempt.round.take_footprint();
        let others = attempt.round.take_others();
        let taken = taken.map(|footprint| self.add_footprint(footprint));
        let others = others.map(|footprint| self.add_footprint(footprint));
        if let Some(attempt) = self.attempts.get_mut(id.0) {
            (attempt.footprint, attempt.others) = (taken, others);
        }
    }

    fn win(&mut self, id: AttemptId, ask: AskId, at: &Moment<'_>) {
        let Some(attempt) = self.attempts.get_mut(id.0) else { return };
        self.acquires.give_back(&mut attempt.turn, None, at.now);
        let Some(footprint) = attempt.footprint else { return };
        let RoundSpec { target, owner, ttl, lock_delay, drift, note, hint, from, .. } =
            attempt.round.spec();
        let (hint, from) = (*hint, *from);
        let begin = Begin {
            target: target.clone(),
            owner: *owner,
            note: note.clone(),
            lock_delay: *lock_delay,
            lifecycle: Lifecycle::new(
                attempt.begun,
                attempt.round.deadline(),
                *ttl,
                *drift,
                attempt.terms.renewal,
            ),
            tokens: attempt.round.tokens(),
            begun: attempt.begun,
            terms: attempt.terms,
            from,
            footprint,
            queue: attempt.line.0,
            station: attempt.station,
        };
        let took = at.now.saturating_since(attempt.begun);
        // Only a counter above the hint is news.
        let counter = begin.tokens.as_ref().map(TokenRange::last);
        let counter = counter.filter(|last| hint.is_some_and(|hint| hint < last.get()));
        let has_others = attempt.others.is_some();
        let grant = self.begin(begin, at);
        from.into_iter().for_each(|from| self.consume(from));
        if let Some(attempt) = self.attempts.get_mut(id.0).filter(|_| has_others) {
            attempt.won = Some(grant);
        }
        self.handle_won(ask, grant, (took, counter), at.now);
    }

    /// The round was lost: it is undone, then its request goes on or is answered.
    fn lose(
        &mut self,
        id: AttemptId,
        ask: AskId,
        at: &Moment<'_>,
        log: &mut dyn FnMut(&mut W, Told<'_>),
    ) {
        let Some(attempt) = self.attempts.get_mut(id.0) else { return };
        let Some(lost) = LostRound::of(&attempt.round, attempt.begun, attempt.turn.waited()) else {
            return;
        };
        match lost.loss {
            // An abandoned round is still under way: it counts until it is answered.
            RoundLoss::Abandoned => {}
            RoundLoss::NoQuorum if lost.overrun => {
                let load = Some(Load::Overrun).filter(|_| self.settings.adapts);
                self.acquires.give_back(&mut attempt.turn, load, at.now);
            }
            _ => {
                self.acquires.give_back(&mut attempt.turn, None, at.now);
            }
        }
        let implausible: NodeSet = attempt.round.implausible().collect();
        let granted = attempt.round.granted().without(implausible);
        let spec = attempt.round.spec();
        let (owner, stand) = (spec.owner, spec.stand);
        let random = owner.random_byte();
        for node in implausible.iter() {
            attempt.says(node, Said::Implausible);
        }
        let said = attempt.said.clone();
        let footprint = attempt.footprint;
        let answers: Vec<(NodeId, LineAnswer<'_>)> = (0..)
            .map(NodeId::new)
            .zip(&said)
            .filter_map(|(node, said)| Some((node, said.of_line()?)))
            .collect();
        let stood = stand.is_some_and(|stand| stand.ticket.is_some());
        let found = Found { answers: &answers, stood, random, at };
        let lost = match attempt.round.spec().from {
            Some(_) => lost.adopting(adoption_end(self.settings.quorum, &said)),
            None => lost,
        };
        let Some((lost, hears_out)) = self.handle_found(ask, lost, &found) else { return };
        if hears_out && let Some(footprint) = footprint {
            self.hear_out(ask, id, footprint);
        }
        drop(answers);
        let met = Met { lost, at: at.now, drift: self.settings.drift, granted, said };
        self.undo(id);
        self.handle_lost(ask, Arc::new(met), owner, random, at, log);
    }

    /// The caller of a round under way has gone.
    pub(super) fn abandon_round(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(id.0) else { return };
        attempt.ask = None;
        attempt.round.handle_abandoned();
        self.take_footprints(id);
        self.go_on_with(id);
    }
}

impl<E> Attempt<E> {
    fn says(&mut self, node: NodeId, said: Said<E>) {
        if let Some(before) = self.said.get_mut(node.index()) {
            // A grant that was not confirmed is still a grant.
            if !(matches!(before, Said::Granted) && matches!(said, Said::Granted | Said::Denied(_)))
            {
                *before = said;
            }
        }
    }
}
