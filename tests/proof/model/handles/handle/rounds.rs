//! The rounds of a process, and what they have won: what is sent, what comes back, what is renewed and released.
//!
//! Goal: a round is begun for whoever the client says, and its end told to the client in the order in which the driver tells it:
//! what a lost round has set is given back before anybody else asks. It decides nothing of that.
//!
//! Not modelled: `handle.rs` says it.

use core::time::Duration;

use super::{
    super::{
        Setup,
        account::{Fate, GONE, ONCE},
        kind::{Covers, Kind},
        letter::Letter,
    },
    Asker, At, Handle,
};
use crate::{
    model::{
        node::{owner, resource},
        tenures::holder::small,
    },
    protocol::{
        Begun, Cohort, Drift, End, ExtendOutcome, ExtendSpec, Failure, FootprintId, Found, GrantId,
        Lane, LeaseAction, Leases, Lifecycle, LineHint, LostRound, NewGrant, NodeId, Place,
        QueueId, Quorum, Reply, Round, RoundAsked, RoundBegun, RoundLoss, RoundSpec, Tally,
        Timestamp, Verdict, turn_of,
    },
};

/// Of which owner.
pub(crate) type Message = (u8, Letter);
/// To which node.
pub(crate) type Outbox = Vec<(usize, Message)>;

/// A round, with what it has won.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Attempt {
    /// For which request.
    pub(super) request: usize,
    /// What it asks for, or has won.
    pub(super) covers: Covers,
    round: Option<Round>,
    footprint: Option<FootprintId>,
    pub(super) grant: Option<GrantId>,
    /// With whether it was begun as a reader's that had it alone.
    extension: Option<(Tally, bool)>,
    extensions: u8,
    started: Timestamp,
    station: Option<(QueueId, Place)>,
}

impl Attempt {
    /// One that asks, or of which nothing is left.
    const fn new(request: usize, covers: Covers) -> Self {
        Self {
            request,
            covers,
            round: None,
            footprint: None,
            grant: None,
            extension: None,
            extensions: 0,
            started: Timestamp::ORIGIN,
            station: None,
        }
    }
}

impl Handle {
    /// The owner of one of its rounds.
    fn owner(&self, setup: &Setup, attempt: usize) -> u8 {
        self.number * setup.rounds as u8 + attempt as u8
    }

    /// Which of its rounds has this owner.
    fn attempt(&self, setup: &Setup, owner: u8) -> usize {
        usize::from(owner) - usize::from(self.number) * setup.rounds
    }

    /// One who asks begins a round, if there is one left.
    pub(super) fn begin_round(&mut self, index: usize, at: At<'_>) {
        let (setup, attempt) = (at.setup, self.attempts.len());
        let kind = self.account.entries[index].ask.kind;
        let is_any = matches!(kind, Kind::Permit(_));
        let has_rounds = self.has_rounds(setup);
        let Some(asker) = self.asker(index).filter(|_| has_rounds) else { return };
        asker.attempt = Some(attempt);
        let id = asker.id;
        let lingers = !setup.linger(kind).is_zero();
        let asked = RoundAsked { may_have_several: !is_any, lingers, ttl: setup.ttl() };
        let Some(begun) = self.client.begin_round(id, asked, at.now) else {
            return self.account.say(GONE);
        };
        let RoundBegun { several, station, .. } = begun;
        let owner = owner(self.owner(setup, attempt));
        let mut spec = RoundSpec::new(kind.covers().target(), owner, setup.ttl());
        spec.drift = Drift::new(0, Duration::ZERO);
        (spec.hint, spec.count) = (Some(1), if several { 3 } else { 1 });
        if let Kind::Permit(first) = kind {
            spec.first = first;
        }
        spec.marks = at.marks.into();
        let round = Round::acquire(Quorum::of(setup.nodes), spec, at.now);
        self.attempts.push(Attempt {
            round: Some(round),
            started: at.now,
            station,
            ..Attempt::new(index, kind.covers())
        });
        self.pump(attempt, at);
    }

    /// What follows from what a round has been answered.
    fn pump(&mut self, attempt: usize, at: At<'_>) {
        let owner = self.owner(at.setup, attempt);
        let mut is_lost = false;
        let of_it = &mut self.attempts[attempt];
        if of_it.footprint.is_none()
            && let Some(round) = &mut of_it.round
            && let Some(footprint) = round.take_footprint()
        {
            let others = round.take_others().and_then(|mut others| others.poll_release());
            assert!(others.is_none(), "of two nodes both have taken the permit that was won");
            let verdict = round.verdict();
            of_it.footprint = Some(self.client.add_footprint(footprint));
            if verdict == Verdict::Won {
                of_it.covers = Covers::of(&round.spec().target);
                self.win(attempt, at);
            }
            is_lost = verdict == Verdict::Lost;
        }
        let of_it = &mut self.attempts[attempt];
        while let Some((node, command)) = of_it.round.as_mut().and_then(Round::poll_command) {
            let letter = Letter::of(&command, 0);
            self.sent.extend(letter.map(|letter| (node.index(), (owner, letter))));
        }
        let footprint = of_it.footprint.and_then(|id| self.client.footprint(id));
        if let Some(footprint) = footprint {
            while let Some(order) = footprint.poll_release() {
                // Of several permits a node has taken one that was not won.
                let undone = of_it.round.as_ref().filter(|_| of_it.covers == Covers::Any);
                let undone = undone.and_then(|round| round.undone_at(order.node));
                let covers = undone.map_or(of_it.covers, |target| Covers::of(&target));
                self.sent.push((order.node.index(), (owner, Letter::Release { covers })));
            }
        }
        // What it has set is given back before anybody else asks.
        if is_lost {
            self.lose(attempt, at.now);
        }
        self.carry_out(at);
    }

    fn win(&mut self, attempt: usize, at: At<'_>) {
        let (setup, now) = (at.setup, at.now);
        let index = self.attempts[attempt].request;
        let Some(mut asker) = self.take_asker(index) else { return self.account.say(GONE) };
        self.client.give_back(Lane::Acquires, &mut asker.turn, None, now);
        let kind = self.account.entries[index].ask.kind;
        let of_it = &self.attempts[attempt];
        let (Some(round), Some(footprint)) = (&of_it.round, of_it.footprint) else { return };
        let (cohort, token) = Cohort::begin(round.tokens(), now);
        let drift = Drift::new(0, Duration::ZERO);
        let lifecycle =
            Lifecycle::new(of_it.started, round.deadline(), setup.ttl(), drift, setup.policy());
        let asked = (setup.linger(kind), Duration::ZERO, false);
        let leases = Leases::new(lifecycle, cohort, token, asked, None);
        let station = of_it.station;
        let id = self.client.begin(NewGrant { leases, footprint, station, data: attempt });
        let _ = self.client.schedule(id);
        assert!(self.client.count(id), "nobody shuts down");
        let sharing = self.client.handle_won(asker.id, id, turn_of(None), now);
        if kind == Kind::Alone {
            // The nodes have said that nobody else waits.
            for node in (0..setup.nodes).map(NodeId::new) {
                self.client.handle_hint(node, &resource(0), LineHint::Alone, now);
            }
        }
        // It is held here.
        sharing.iter().for_each(|request| self.account.answer(request.index));
        self.attempts[attempt].grant = Some(id);
        self.begin(index, id, Begun { number: 0, token, moved: false });
    }

    /// A round is lost: who asks goes on, or is answered, or has gone away.
    fn lose(&mut self, attempt: usize, now: Timestamp) {
        let index = self.attempts[attempt].request;
        let Some(asker) = self.take_asker(index) else { return self.account.say(GONE) };
        let Asker { id, request, mut turn, .. } = asker;
        let of_it = &self.attempts[attempt];
        let Some(round) = &of_it.round else { return };
        let Some(lost) = LostRound::of(round, of_it.started, turn.waited()) else { return };
        self.client.give_back(Lane::Acquires, &mut turn, None, now);
        let (answers, clocks, round_trip, random) = (&[][..], &[][..], None, 0);
        let found = Found { answers, stood: false, clocks, round_trip, random, now };
        let (lost, _) = self.client.handle_found(id, &request, lost, &found);
        let is_beside = !self.leads(index);
        let by = (turn_of(None), None, 0);
        let said = self.client.handle_lost(id, request, (lost, ()), by, now, |_, _| None::<()>);
        assert!(said.is_none(), "nobody says for whom it waits");
        if is_beside && !self.leads(index) {
            self.account.stands(index);
        }
    }

    /// Nobody waits for it any more.
    pub(super) fn abandon(&mut self, attempt: usize, at: At<'_>) {
        if let Some(round) = &mut self.attempts[attempt].round {
            round.handle_abandoned();
        }
        self.pump(attempt, at);
    }

    /// A lease begins.
    pub(super) fn begin(&mut self, index: usize, id: GrantId, begun: Begun) {
        let Some(&attempt) = self.client.data(id) else { return };
        self.client.change(id, |leases| leases.handle_taken(begun.number));
        self.account.holds(index, attempt, begun.number);
        let covers = self.attempts[attempt].covers;
        self.account.begun.extend(begun.token.map(|token| (covers, small(token.get()))));
    }

    /// A grant goes back to the nodes.
    pub(super) fn end(&mut self, attempt: usize, id: GrantId, end: End, at: At<'_>) {
        let ended = self.client.end(id, end);
        if ended.is_none() {
            self.account.say(ONCE);
        }
        let owner = self.owner(at.setup, attempt);
        let of_it = &mut self.attempts[attempt];
        (of_it.grant, of_it.extension) = (None, None);
        let release = (owner, Letter::Release { covers: of_it.covers });
        let orders = ended.into_iter().flat_map(|ended| ended.orders);
        self.sent.extend(orders.map(|order| (order.node.index(), release)));
        let queue = self.account.queue(of_it.request);
        queue.into_iter().for_each(|queue| self.client.handle_permit_given_back(queue));
        self.make_room(id, at);
        self.client.forget(id);
    }

    /// What is to be told of a grant.
    pub(super) fn told(&mut self, id: GrantId, action: LeaseAction, at: At<'_>) {
        let LeaseAction::Lose(_) = action else { return };
        if self.client.leases(id).is_some_and(Leases::is_kept) {
            // Nobody has lost anything. It is given back when its timer comes.
            return;
        }
        let Some(&attempt) = self.client.data(id) else { return };
        self.account.lose(attempt);
        self.make_room(id, at);
    }

    pub(super) fn extend(&mut self, id: GrantId, at: At<'_>) {
        let (Some(&attempt), Some(leases)) = (self.client.data(id), self.client.leases(id)) else {
            return;
        };
        let (ttl, lowered) = (leases.lifecycle().ttl(), leases.is_lowered());
        let number = self.owner(at.setup, attempt);
        let of_it = &mut self.attempts[attempt];
        let mut spec = ExtendSpec::new(of_it.covers.target(), owner(number), ttl);
        (spec.drift, spec.fenced) = (Drift::new(0, Duration::ZERO), true);
        let mut tally = Tally::extend(Quorum::of(at.setup.nodes), spec, at.now);
        of_it.extensions += 1;
        while let Some((node, command)) = tally.poll_command() {
            let letter = Letter::of(&command, of_it.extensions);
            self.sent.extend(letter.map(|letter| (node.index(), (number, letter))));
        }
        of_it.extension = Some((tally, lowered));
    }

    /// A node has answered.
    pub(crate) fn hear(
        &mut self,
        node: usize,
        (owner, heard): Message,
        reply: Result<Reply, Failure>,
        at: At<'_>,
    ) {
        let (node, attempt) = (NodeId::new(node), self.attempt(at.setup, owner));
        let of_it = &mut self.attempts[attempt];
        match heard {
            Letter::Acquire { .. } | Letter::Confirm { .. } => {
                let Some(round) = &mut of_it.round else { return };
                if matches!(heard, Letter::Acquire { .. })
                    && let Some(footprint) = of_it.footprint
                    && let Some(footprint) = self.client.footprint(footprint)
                {
                    round.tell(footprint, node, &reply);
                }
                round.handle_reply(node, reply, at.now);
                self.pump(attempt, at);
            }
            Letter::Extend { number, .. } => {
                let is_last = number == of_it.extensions;
                let Some((tally, _)) = of_it.extension.as_mut().filter(|_| is_last) else { return };
                tally.handle_reply(node, reply, at.now);
                self.settle_extension(attempt, at);
            }
            Letter::Release { .. } => {}
        }
    }

    fn settle_extension(&mut self, attempt: usize, at: At<'_>) {
        let of_it = &mut self.attempts[attempt];
        let Some((tally, was_lowered)) = &of_it.extension else { return };
        let outcome = match (tally.verdict(), tally.loss()) {
            (Verdict::Pending, _) => return,
            (Verdict::Won, _) => ExtendOutcome::Extended(tally.deadline()),
            (_, Some(RoundLoss::Contended)) => ExtendOutcome::Lost,
            _ => ExtendOutcome::InDoubt,
        };
        let was_lowered = *was_lowered;
        of_it.extension = None;
        let (Some(id), request) = (of_it.grant, of_it.request) else { return };
        let judged = self.client.leases(id).map(|leases| leases.judged(outcome, was_lowered));
        let (action, _) = self.client.handle_extension(id, judged.unwrap_or(outcome), at.now);
        if let Some(action) = action {
            self.told(id, action, at);
        }
        if was_lowered
            && matches!(outcome, ExtendOutcome::Extended(_))
            && let Some(queue) = self.account.queue(request)
        {
            self.client.handle_shared(queue);
        }
        self.carry_out(at);
    }

    /// Whether anybody waits for what a node says.
    pub(crate) fn hears(&self, (owner, letter): Message, setup: &Setup) -> bool {
        let of_it = &self.attempts[self.attempt(setup, owner)];
        match letter {
            Letter::Release { .. } => false,
            Letter::Extend { number, .. } => {
                of_it.extension.is_some() && of_it.extensions == number
            }
            _ => of_it.round.is_some(),
        }
    }

    /// Rounds of which nothing is under way and nothing is held: all that is left of them are their numbers.
    pub(super) fn forget_rounds(&mut self, is_idle: bool) {
        let is_open = |index| self.askers.iter().any(|asker| asker.attempt == Some(index));
        for (index, of_it) in self.attempts.iter_mut().enumerate() {
            if is_idle && of_it.grant.is_none() && !is_open(index) {
                if let Some(footprint) = of_it.footprint.take() {
                    self.client.forget_footprint(footprint);
                }
                *of_it = Attempt::new(0, Covers::Any);
            }
        }
    }

    /// Whether the lease of this attempt with this number holds.
    pub(super) fn holds(&self, attempt: usize, number: u64, now: Timestamp) -> bool {
        let leases = self.attempts[attempt].grant.and_then(|id| self.client.leases(id));
        leases.is_some_and(|leases| leases.left(Some(number), now).is_ok())
    }

    /// Whether something may be set for a grant that is over.
    pub(super) fn is_set_too_late(&self) -> bool {
        self.attempts.iter().any(|of_it| {
            let leases = of_it.grant.and_then(|id| self.client.leases(id));
            let is_over = leases.is_some_and(|leases| !leases.lasts());
            let footprint = of_it.footprint.filter(|_| is_over);
            let may_set =
                |id| Some(self.client.clone().footprint(id)?.handle_restore_sent(NodeId::new(0)));
            footprint.and_then(may_set).unwrap_or_default()
        })
    }

    /// What its requests hold, as far as they have been told.
    pub(crate) fn held(&self) -> impl Iterator<Item = Covers> + '_ {
        self.account.entries.iter().filter_map(|entry| match entry.fate {
            Fate::Holds { attempt, .. } => Some(self.attempts[attempt].covers),
            _ => None,
        })
    }
}
