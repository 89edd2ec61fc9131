//! One process with its handle: the production's `Client`, and in the place of the driver what carries out what it says.
//!
//! Goal: who asks, who is let in, who is told what and when, the production alone decides. Method: requests are numbers with an
//! account of what each has been told; a round is begun for whoever the client says is the leader, and its end told to the
//! client; what the client says is done in the step in which it is said, as the driver does it behind its lock.
//!
//! Not modelled: the pauses between rounds, turns, and lines on the nodes: a leader goes on whenever it likes. What the driver
//! does in several steps of its own, such as to look for the next leader behind the end of a grant, is one step here, and a
//! grant that has ended is forgotten in that. Requests that ask once or for so long, permits, readers, lock-delays, restores
//! and shutdowns: `tests/proof/protocol/client.rs`, `leases` and `tenures` have those.

use core::time::Duration;

use super::Setup;
use crate::{
    model::{
        node::{owner, resource},
        tenures::holder::{Letter, letter, life, small},
    },
    protocol::{
        Acquisition, Asks, Backoff, Begun, Came, Client, Cohort, Comer, Drift, End, ExtendOutcome,
        ExtendSpec, Failure, FootprintId, GrantId, HandOn, LeaseAction, Leases, Lifecycle, Mark,
        NewGrant, NextLease, NodeId, OthersWait, Passed, Place, QueueId, Quorum, RenewalPolicy,
        Reply, Round, RoundLoss, RoundSpec, Situation, Tally, Timestamp, Verdict, WaitPolicy,
        WaitSettings, Wanted, turn_of,
    },
};

/// One who wants the resource.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Request {
    index: usize,
    acquisition: Acquisition,
    next: NextLease,
}

impl Asks<()> for Request {
    fn acquisition(&mut self) -> &mut Acquisition {
        &mut self.acquisition
    }

    fn turn_deadline(&self) -> Option<Timestamp> {
        None
    }

    fn says_at(&self) -> Option<Timestamp> {
        None
    }

    fn next(&self, _: Timestamp) -> NextLease {
        self.next
    }

    fn handle_known(&mut self, (): &()) {}
}

/// What has become of a request, as far as its caller knows.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Fate {
    /// It comes in this step.
    Comes,
    Waits(Place),
    /// It is the leader.
    Asks,
    Holds {
        attempt: usize,
        number: u64,
    },
    /// It has been told that its lease is lost, and has not dropped it.
    Lost {
        attempt: usize,
        number: u64,
    },
    Gone,
}

/// A round, with what it has won.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Attempt {
    round: Option<Round>,
    footprint: Option<FootprintId>,
    grant: Option<GrantId>,
    extension: Option<Tally>,
    extensions: u8,
    started: Timestamp,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Handle {
    number: u8,
    client: Client<usize, Request, ()>,
    queue: QueueId,
    attempts: Vec<Attempt>,
    /// Who asks the nodes, and whether a round is under way.
    leader: Option<(Request, Place, Option<usize>)>,
    pub(crate) fates: Vec<Fate>,
    /// Those of its leases that have begun in this step.
    pub(crate) begun: Vec<u16>,
    pub(crate) wrong: Option<&'static str>,
}

/// To a node, of which owner.
pub(crate) type Outbox = Vec<(usize, (u8, Letter))>;

pub(crate) const ONCE: &str = "each request is answered once, and each grant ends once";
pub(crate) const GONE: &str = "who has gone away is not let in";
pub(crate) const HOLDS: &str = "whoever has a lease holds it, and nobody else of its process does";
pub(crate) const TOLD: &str = "a loss is told in time";
pub(crate) const SERVED: &str = "where anybody waits, somebody asks or holds";
pub(crate) const DUE: &str = "what wants to be looked at is among the timers";
pub(crate) const SET: &str = "nothing is set for a grant that is over";
pub(crate) const FIRST: &str = "who came first is let in first";

impl Handle {
    pub(crate) fn new(number: u8) -> Self {
        let mut client = Client::default();
        let queue = client.open_queue();
        Self {
            number,
            client,
            queue,
            attempts: Vec::new(),
            leader: None,
            fates: Vec::new(),
            begun: Vec::new(),
            wrong: None,
        }
    }

    /// The owner of one of its rounds.
    fn owner(&self, setup: &Setup, attempt: usize) -> u8 {
        self.number * setup.rounds as u8 + attempt as u8
    }

    /// Somebody comes.
    pub(crate) fn ask(&mut self, setup: &Setup, marks: &[Mark], now: Timestamp) -> Outbox {
        let index = self.fates.len();
        self.fates.push(Fate::Comes);
        let mut request = Request::new(index, setup);
        let mut sent = Outbox::new();
        loop {
            let comer = Comer { asks_once: false, is_any: false };
            match self.client.join(self.queue, comer, (false, None), request, now) {
                Came::Asks(place, request, _) => {
                    sent.extend(self.lead(request, place, setup, marks, now));
                    return sent;
                }
                Came::Waits(place, _) => {
                    self.fates[index] = Fate::Waits(place);
                    return sent;
                }
                Came::Takes(id, taking) => {
                    match self.client.resume(id, &taking.next, situation(now)) {
                        Some((begun, _)) => {
                            self.begin(index, id, begun);
                            return sent;
                        }
                        None => {
                            sent.extend(self.give_back_kept(id, setup, marks, now));
                            request = taking;
                        }
                    }
                }
                came => panic!("it waits, and nobody is closed: {came:?}"),
            }
        }
    }

    fn lead(
        &mut self,
        request: Request,
        place: Place,
        setup: &Setup,
        marks: &[Mark],
        now: Timestamp,
    ) -> Outbox {
        self.is_first(request.index);
        if !matches!(self.fates[request.index], Fate::Comes | Fate::Waits(_)) {
            self.wrong = Some(GONE);
        }
        self.fates[request.index] = Fate::Asks;
        self.leader = Some((request, place, None));
        self.begin_round(setup, marks, now)
    }

    /// One of those who wait is let in.
    fn is_first(&mut self, index: usize) {
        let is_before = |fate: &Fate| match (fate, self.fates[index]) {
            (Fate::Waits(other), Fate::Waits(place)) => *other < place,
            (Fate::Waits(_), Fate::Comes) => true,
            _ => false,
        };
        if self.fates.iter().any(is_before) {
            self.wrong = Some(FIRST);
        }
    }

    /// Whether the leader pauses, and may go on.
    pub(crate) fn pauses(&self) -> bool {
        matches!(self.leader, Some((_, _, None)))
    }

    pub(crate) fn has_rounds(&self, setup: &Setup) -> bool {
        self.attempts.len() < setup.rounds
    }

    /// The leader asks the nodes.
    pub(crate) fn begin_round(&mut self, setup: &Setup, marks: &[Mark], now: Timestamp) -> Outbox {
        let attempt = self.attempts.len();
        if attempt == setup.rounds {
            return Outbox::new();
        }
        let several = self.client.begin_round(self.queue, now) || setup.lingers;
        let owner = owner(self.owner(setup, attempt));
        let mut spec = RoundSpec::new(resource(0), owner, setup.ttl());
        spec.drift = Drift::new(0, Duration::ZERO);
        (spec.hint, spec.count) = (Some(1), if several { 3 } else { 1 });
        spec.marks = marks.into();
        let round = Round::acquire(Quorum::of(setup.nodes), spec, now);
        self.attempts.push(Attempt {
            round: Some(round),
            footprint: None,
            grant: None,
            extension: None,
            extensions: 0,
            started: now,
        });
        if let Some((_, _, under_way)) = &mut self.leader {
            *under_way = Some(attempt);
        }
        self.pump(attempt, setup, now)
    }

    fn pump(&mut self, attempt: usize, setup: &Setup, now: Timestamp) -> Outbox {
        let owner = self.owner(setup, attempt);
        let of_it = &mut self.attempts[attempt];
        if of_it.footprint.is_none()
            && let Some(round) = &mut of_it.round
            && let Some(footprint) = round.take_footprint()
        {
            let verdict = round.verdict();
            of_it.footprint = Some(self.client.add_footprint(footprint));
            if verdict == Verdict::Won {
                self.win(attempt, setup, now);
            } else {
                self.lose();
            }
        }
        let of_it = &mut self.attempts[attempt];
        let mut sent = Outbox::new();
        while let Some((node, command)) = of_it.round.as_mut().and_then(Round::poll_command) {
            sent.extend(letter(&command).map(|letter| (node.index(), (owner, letter))));
        }
        let footprint = of_it.footprint.and_then(|id| self.client.footprint(id));
        if let Some(footprint) = footprint {
            while let Some(order) = footprint.poll_release() {
                sent.push((order.node.index(), (owner, Letter::Release { keep: 0 })));
            }
        }
        sent
    }

    fn win(&mut self, attempt: usize, setup: &Setup, now: Timestamp) {
        let Some((request, place, _)) = self.leader.take() else {
            self.wrong = Some(GONE);
            return;
        };
        let of_it = &self.attempts[attempt];
        let (Some(round), Some(footprint)) = (&of_it.round, of_it.footprint) else { return };
        let (cohort, token) = Cohort::begin(round.tokens(), now);
        let drift = Drift::new(0, Duration::ZERO);
        let lifecycle =
            Lifecycle::new(of_it.started, round.deadline(), setup.ttl(), drift, setup.policy());
        let asked = (setup.linger(), Duration::ZERO, false);
        let leases = Leases::new(lifecycle, cohort, token, asked, None);
        let station = Some((self.queue, place));
        let id = self.client.begin(NewGrant { leases, footprint, station, data: attempt });
        let _ = self.client.schedule(id);
        assert!(self.client.count(id), "nobody shuts down");
        let sharing = self.client.handle_won(self.queue, place, id, now);
        assert!(sharing.is_empty(), "nobody asks once");
        self.attempts[attempt].grant = Some(id);
        self.begin(request.index, id, Begun { number: 0, token, moved: false });
    }

    /// The leader's round is lost: it goes on when it likes, or it has gone away.
    fn lose(&mut self) {
        if let Some((_, _, under_way)) = &mut self.leader {
            *under_way = None;
            let next = Timestamp::ORIGIN;
            let out = self.client.handle_lost(self.queue, (), (true, true), next, |_| None);
            assert!(out.is_empty(), "nobody is told to give up");
        }
    }

    /// A lease begins.
    fn begin(&mut self, index: usize, id: GrantId, begun: Begun) {
        let Some(&attempt) = self.client.data(id) else { return };
        if !matches!(self.fates[index], Fate::Comes | Fate::Waits(_) | Fate::Asks) {
            self.wrong = Some(GONE);
        }
        self.client.change(id, |leases| leases.handle_taken(begun.number));
        self.fates[index] = Fate::Holds { attempt, number: begun.number };
        self.begun.extend(begun.token.map(|token| small(token.get())));
    }

    /// The lease of a request is given back, or was lost and is dropped.
    pub(crate) fn give_back(
        &mut self,
        index: usize,
        setup: &Setup,
        marks: &[Mark],
        now: Timestamp,
    ) -> Outbox {
        let (Fate::Holds { attempt, number } | Fate::Lost { attempt, number }) = self.fates[index]
        else {
            return Outbox::new();
        };
        self.fates[index] = Fate::Gone;
        let Some(id) = self.attempts[attempt].grant else { return Outbox::new() };
        let given_back = HandOn { situation: situation(now), heard_until: None, closed: false };
        let may_pass = self.client.may_pass(id);
        let passed = may_pass.then(|| self.client.hand_on(id, number, given_back)).flatten();
        match passed {
            Some((Passed::To(request, begun, _), ..)) => {
                self.is_first(request.index);
                self.begin(request.index, id, begun);
                Outbox::new()
            }
            Some((Passed::Kept(_), ..)) => Outbox::new(),
            _ => self.end(attempt, id, End::GivenBack(number), setup, marks, now),
        }
    }

    fn give_back_kept(
        &mut self,
        id: GrantId,
        setup: &Setup,
        marks: &[Mark],
        now: Timestamp,
    ) -> Outbox {
        let Some(&attempt) = self.client.data(id) else { return Outbox::new() };
        self.end(attempt, id, End::Kept, setup, marks, now)
    }

    fn end(
        &mut self,
        attempt: usize,
        id: GrantId,
        end: End,
        setup: &Setup,
        marks: &[Mark],
        now: Timestamp,
    ) -> Outbox {
        let ended = self.client.end(id, end);
        if ended.is_none() {
            self.wrong = Some(ONCE);
        }
        let owner = self.owner(setup, attempt);
        let of_it = &mut self.attempts[attempt];
        (of_it.grant, of_it.extension) = (None, None);
        let orders = ended.into_iter().flat_map(|ended| ended.orders);
        let release = (owner, Letter::Release { keep: 0 });
        let mut sent: Outbox = orders.map(|order| (order.node.index(), release)).collect();
        sent.extend(self.make_room(id, setup, marks, now));
        self.client.forget(id);
        sent
    }

    /// A grant is over: who is next asks.
    fn make_room(&mut self, id: GrantId, setup: &Setup, marks: &[Mark], now: Timestamp) -> Outbox {
        if self.client.handle_grant_over(id) {
            self.next_leader(setup, marks, now)
        } else {
            Outbox::new()
        }
    }

    fn next_leader(&mut self, setup: &Setup, marks: &[Mark], now: Timestamp) -> Outbox {
        let (mut sent, mut begins) = (Outbox::new(), true);
        while let Some((place, request, _)) = self.client.next_leader(self.queue, begins) {
            begins = false;
            sent.extend(self.lead(request, place, setup, marks, now));
        }
        sent
    }

    /// Whoever has made a request goes away.
    pub(crate) fn cancel(
        &mut self,
        index: usize,
        setup: &Setup,
        marks: &[Mark],
        now: Timestamp,
    ) -> Outbox {
        match self.fates[index] {
            Fate::Waits(place) => {
                self.fates[index] = Fate::Gone;
                self.client.leave(self.queue, place);
                Outbox::new()
            }
            Fate::Asks => {
                self.fates[index] = Fate::Gone;
                let Some((_, place, under_way)) = self.leader.take() else {
                    return Outbox::new();
                };
                let mut sent = Outbox::new();
                if let Some(attempt) = under_way {
                    if let Some(round) = &mut self.attempts[attempt].round {
                        round.handle_abandoned();
                    }
                    sent.extend(self.pump(attempt, setup, now));
                }
                self.client.handle_over(self.queue, place);
                self.client.is_idle(self.queue);
                sent.extend(self.next_leader(setup, marks, now));
                sent
            }
            _ => Outbox::new(),
        }
    }

    /// Its timers.
    pub(crate) fn tick(&mut self, setup: &Setup, marks: &[Mark], now: Timestamp) -> Outbox {
        let mut sent = Outbox::new();
        let due = self.client.handle_timeout(now);
        for id in due.extend {
            sent.extend(self.extend(id, setup, now));
        }
        for (id, action) in due.tell {
            sent.extend(self.told(id, action, setup, marks, now));
        }
        for (id, _) in due.give_back {
            sent.extend(self.give_back_kept(id, setup, marks, now));
        }
        let is_late = |fate: &Fate| match *fate {
            Fate::Holds { attempt, number } => !self.holds(attempt, number, now),
            _ => false,
        };
        if self.fates.iter().any(is_late) {
            self.wrong = Some(TOLD);
        }
        sent
    }

    fn told(
        &mut self,
        id: GrantId,
        action: LeaseAction,
        setup: &Setup,
        marks: &[Mark],
        now: Timestamp,
    ) -> Outbox {
        let LeaseAction::Lose(_) = action else { return Outbox::new() };
        if self.client.leases(id).is_some_and(Leases::is_kept) {
            // Nobody has lost anything. It is given back when its timer comes.
            return Outbox::new();
        }
        let Some(&of_it) = self.client.data(id) else { return Outbox::new() };
        let has =
            |fate: &&mut Fate| matches!(fate, Fate::Holds { attempt, .. } if *attempt == of_it);
        match self.fates.iter_mut().find(has) {
            Some(fate) => {
                if let Fate::Holds { attempt, number } = *fate {
                    *fate = Fate::Lost { attempt, number };
                }
            }
            None => self.wrong = Some(ONCE),
        }
        self.make_room(id, setup, marks, now)
    }

    fn extend(&mut self, id: GrantId, setup: &Setup, now: Timestamp) -> Outbox {
        let (Some(&attempt), Some(leases)) = (self.client.data(id), self.client.leases(id)) else {
            return Outbox::new();
        };
        let ttl = leases.lifecycle().ttl();
        let number = self.owner(setup, attempt);
        let mut spec = ExtendSpec::new(resource(0), owner(number), ttl);
        (spec.drift, spec.fenced) = (Drift::new(0, Duration::ZERO), true);
        let mut tally = Tally::extend(Quorum::of(setup.nodes), spec, now);
        let of_it = &mut self.attempts[attempt];
        of_it.extensions += 1;
        let letter = Letter::Extend { life: life(ttl), number: of_it.extensions, lowered: false };
        let mut sent = Outbox::new();
        while let Some((node, _)) = tally.poll_command() {
            sent.push((node.index(), (number, letter)));
        }
        of_it.extension = Some(tally);
        sent
    }

    /// A node has answered.
    pub(crate) fn hear(
        &mut self,
        at: usize,
        (owner, heard): (u8, Letter),
        reply: Result<Reply, Failure>,
        setup: &Setup,
        marks: &[Mark],
        now: Timestamp,
    ) -> Outbox {
        let node = NodeId::new(at);
        let attempt = usize::from(owner) - usize::from(self.number) * setup.rounds;
        let of_it = &mut self.attempts[attempt];
        match heard {
            Letter::Acquire { .. } | Letter::Confirm { .. } => {
                if let Some(footprint) = of_it.footprint
                    && matches!(heard, Letter::Acquire { .. })
                    && let Some(footprint) = self.client.footprint(footprint)
                {
                    footprint.handle_acquire(node, &reply);
                }
                if let Some(round) = &mut of_it.round {
                    round.handle_reply(node, reply, now);
                }
                self.pump(attempt, setup, now)
            }
            Letter::Extend { number, .. } => {
                if number != of_it.extensions {
                    return Outbox::new();
                }
                let Some(tally) = &mut of_it.extension else { return Outbox::new() };
                tally.handle_reply(node, reply, now);
                let outcome = match (tally.verdict(), tally.loss()) {
                    (Verdict::Pending, _) => return Outbox::new(),
                    (Verdict::Won, _) => ExtendOutcome::Extended(tally.deadline()),
                    (_, Some(RoundLoss::Contended)) => ExtendOutcome::Lost,
                    _ => ExtendOutcome::InDoubt,
                };
                of_it.extension = None;
                let Some(id) = of_it.grant else { return Outbox::new() };
                let (action, _) = self.client.handle_extension(id, outcome, now);
                let mut sent = Outbox::new();
                if let Some(action) = action {
                    sent.extend(self.told(id, action, setup, marks, now));
                }
                sent
            }
            Letter::Release { .. } => Outbox::new(),
        }
    }

    /// Whether anybody waits for what a node says.
    pub(crate) fn hears(&self, (owner, letter): (u8, Letter), setup: &Setup) -> bool {
        let attempt = usize::from(owner) - usize::from(self.number) * setup.rounds;
        let of_it = &self.attempts[attempt];
        match letter {
            Letter::Release { .. } => false,
            Letter::Extend { number, .. } => {
                of_it.extension.is_some() && of_it.extensions == number
            }
            _ => of_it.round.is_some(),
        }
    }

    /// Rounds of which nothing is under way and nothing is held: all that is left of them are their numbers.
    pub(crate) fn forget(&mut self, is_idle: bool) {
        let under_way = self.leader.as_ref().and_then(|(_, _, under_way)| *under_way);
        for (index, of_it) in self.attempts.iter_mut().enumerate() {
            if is_idle && of_it.grant.is_none() && under_way != Some(index) {
                if let Some(footprint) = of_it.footprint.take() {
                    self.client.forget_footprint(footprint);
                }
                (of_it.round, of_it.started, of_it.extensions) = (None, Timestamp::ORIGIN, 0);
            }
        }
    }

    fn holds(&self, attempt: usize, number: u64, now: Timestamp) -> bool {
        let leases = self.attempts[attempt].grant.and_then(|id| self.client.leases(id));
        leases.is_some_and(|leases| leases.left(Some(number), now).is_ok())
    }

    /// How many of its requests think that they hold.
    pub(crate) fn holders(&self) -> usize {
        self.fates.iter().filter(|fate| matches!(fate, Fate::Holds { .. })).count()
    }

    /// Whether all that was asked for has been answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.fates.iter().all(|fate| *fate == Fate::Gone)
    }

    /// Whether a grant is kept as nobody's.
    pub(crate) fn keeps(&self) -> bool {
        let grants = self.attempts.iter().filter_map(|of_it| of_it.grant);
        grants.filter_map(|id| self.client.leases(id)).any(Leases::is_kept)
    }

    /// The same, and given back.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_answered() && self.attempts.iter().all(|of_it| of_it.grant.is_none())
    }

    /// Which property does not hold here.
    pub(crate) fn wrong(&self, now: Timestamp) -> Option<&'static str> {
        if self.wrong.is_some() {
            return self.wrong;
        }
        let has = |fate: &Fate| match *fate {
            Fate::Holds { attempt, number } => self.holds(attempt, number, now),
            _ => true,
        };
        if self.holders() > 1 || !self.fates.iter().all(has) {
            return Some(HOLDS);
        }
        if !self.client.are_scheduled() {
            return Some(DUE);
        }
        let is_set = |of_it: &Attempt| {
            let is_over = of_it
                .grant
                .and_then(|id| self.client.leases(id))
                .is_some_and(|leases| !leases.lasts());
            let footprint = of_it.footprint.filter(|_| is_over);
            let may_set =
                |id| Some(self.client.clone().footprint(id)?.handle_restore_sent(NodeId::new(0)));
            footprint.and_then(may_set).unwrap_or_default()
        };
        if self.attempts.iter().any(is_set) {
            return Some(SET);
        }
        let waits = self.fates.iter().any(|fate| matches!(fate, Fate::Waits(_)));
        let is_served = self.leader.is_some() || self.holders() > 0;
        if waits && !is_served {
            return Some(SERVED);
        }
        None
    }
}

impl Request {
    fn new(index: usize, setup: &Setup) -> Self {
        let backoff = Backoff { min: Duration::ZERO, max: Duration::ZERO };
        let (wait, node_timeout) = (Duration::ZERO, Duration::from_millis(500));
        let settings = WaitSettings { node_timeout, wait, backoff, through_outages: false };
        let acquisition = Acquisition::new(settings, WaitPolicy::Unlimited, Timestamp::ORIGIN);
        let (ttl, lock_delay) = (setup.ttl(), Duration::ZERO);
        let wanted = Wanted { ttl, lock_delay, min_validity: Duration::ZERO, alone: false };
        let (renewal, linger) = (setup.policy(), setup.linger());
        Self { index, acquisition, next: NextLease { wanted, renewal, keeps_until: None, linger } }
    }
}

impl Setup {
    fn ttl(&self) -> Duration {
        Duration::from_millis(u64::from(self.ttl_ticks) * super::TICK)
    }

    fn linger(&self) -> Duration {
        let ticks = u64::from(self.lingers);
        Duration::from_millis(ticks * super::TICK)
    }

    #[allow(clippy::field_reassign_with_default, reason = "others cannot make one by its fields")]
    fn policy(&self) -> RenewalPolicy {
        let mut policy = RenewalPolicy::default();
        policy.renew = self.renews;
        policy
    }
}

/// Nobody else is known to wait.
fn situation(now: Timestamp) -> Situation {
    Situation { others: OthersWait::Nobody, turn: turn_of(None), now, steady: now }
}
