//! One process with its handle: the production's `Client`, and in the place of the driver what carries out what it says.
//!
//! Goal: who asks, who is let in, who is told what and when, the production alone decides. Method: requests are numbers with an
//! account of what each has been told; a round is begun for whoever the client says is the leader, and its end told to the
//! client; what the client says is done in the step in which it is said, as the driver does it behind its lock.
//!
//! Not modelled: lines on the nodes, and a crowd that waits for turns. A leader pauses until its time comes, or until it is told
//! that the key is gone, which it may be at any time, and wrongly. What the driver does in several steps of its own, such as to
//! carry out what follows from the end of a grant, is one step here, and a grant that has ended is forgotten in that. Requests
//! that ask once or for so long, lock-delays, restores and shutdowns: `tests/proof/protocol/client`, `leases` and `tenures` have
//! those.

use core::time::Duration;

use super::Setup;
use crate::{
    model::{
        node::{owner, resource},
        tenures::holder::{Letter, letter, life, small},
    },
    protocol::{
        Acquisition, AskId, Asks, Backoff, Begun, Came, Client, ClientId, ClientSettings, Cohort,
        Drift, End, Event, ExtendOutcome, ExtendSpec, Failure, FootprintId, Found, GrantId, HandOn,
        Lane, LeaseAction, Leases, Lifecycle, LineHint, LostRound, Mark, NewGrant, NextLease,
        NodeId, Passed, Place, QueueId, Quorum, RenewalPolicy, Reply, Round, RoundAsked,
        RoundBegun, RoundLoss, RoundSpec, Tally, Timestamp, Turn, Verdict, WaitPolicy,
        WaitSettings, Wanted, turn_of,
    },
};

/// One who wants the resource.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Request {
    index: usize,
    acquisition: Acquisition,
    next: NextLease,
    gone: bool,
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

    fn handle_met(&mut self, (): &()) {}

    fn is_in_time(&self, (): &()) -> bool {
        false
    }

    fn asks_once(&self) -> bool {
        false
    }

    fn is_given_up(&self) -> bool {
        self.gone
    }
}

/// One who asks, while its driver has it: in a round, or about to begin one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Asker {
    id: AskId,
    request: Request,
    turn: Turn,
    attempt: Option<usize>,
}

/// What has become of a request, as far as its caller knows.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Fate {
    /// It comes in this step.
    Comes,
    Waits(Place),
    /// It is the leader.
    Asks(Place),
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
    station: Option<(QueueId, Place)>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Handle {
    number: u8,
    client: Client<usize, Request, (), ()>,
    queue: QueueId,
    attempts: Vec<Attempt>,
    /// Who asks the nodes, where it does not pause.
    leader: Option<Asker>,
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
pub(crate) const LEADS: &str = "one at a time asks";
pub(crate) const GOES_ON: &str = "who asks goes on in time";
pub(crate) const FIRST: &str = "who came first is let in first";

impl Handle {
    pub(crate) fn new(number: u8, setup: &Setup) -> Self {
        let node_timeout = Duration::from_millis(500);
        let settings = ClientSettings {
            quorum: Quorum::of(setup.nodes),
            client: ClientId::new([number; 8]),
            node_timeout,
        };
        let mut client = Client::new(settings);
        let queue = client.open_queue(&resource(0).into());
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
            match self.client.join(self.queue, None, request, now) {
                Came::Begins(place, id, request, turn) => {
                    self.fates[index] = Fate::Waits(place);
                    sent.extend(self.lead(id, request, turn, setup, marks, now));
                    sent.extend(self.carry_out(setup, marks, now));
                    return sent;
                }
                Came::Waits(place) => {
                    self.fates[index] = Fate::Waits(place);
                    sent.extend(self.carry_out(setup, marks, now));
                    return sent;
                }
                Came::Takes(id, taking) => {
                    match self.client.resume(id, &taking.next, hand_on(now)) {
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
        id: AskId,
        request: Request,
        turn: Turn,
        setup: &Setup,
        marks: &[Mark],
        now: Timestamp,
    ) -> Outbox {
        match self.fates[request.index] {
            Fate::Waits(place) => {
                self.is_first(request.index);
                self.fates[request.index] = Fate::Asks(place);
            }
            Fate::Asks(_) => {}
            _ => self.wrong = Some(GONE),
        }
        if self.leader.is_some() {
            self.wrong = Some(LEADS);
        }
        self.leader = Some(Asker { id, request, turn, attempt: None });
        self.begin_round(setup, marks, now)
    }

    /// What the client has decided is done.
    fn carry_out(&mut self, setup: &Setup, marks: &[Mark], now: Timestamp) -> Outbox {
        let mut sent = Outbox::new();
        while let Some(event) = self.client.poll_event() {
            match event {
                Event::GoOn(id) => self.client.go_on(id, now),
                Event::Begin(id, request, turn) => {
                    sent.extend(self.lead(id, request, turn, setup, marks, now));
                }
                Event::Gone(request) => {
                    if self.fates[request.index] != Fate::Gone {
                        self.wrong = Some(ONCE);
                    }
                }
                Event::Wake(_) => {}
                Event::GiveBack(id) => sent.extend(self.give_back_kept(id, setup, marks, now)),
                event => panic!("nobody gives up, closes or stands in a line: {event:?}"),
            }
        }
        sent
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
        let asks = self.client.is_led(self.queue);
        asks && self.leader.as_ref().is_none_or(|leader| leader.attempt.is_none())
    }

    /// Whether this request asks for all who wait.
    pub(crate) fn leads(&self, index: usize) -> bool {
        let (Fate::Waits(place) | Fate::Asks(place)) = self.fates[index] else { return false };
        self.client.leads(self.queue, place)
    }

    pub(crate) fn has_rounds(&self, setup: &Setup) -> bool {
        self.attempts.len() < setup.rounds
    }

    /// The leader is told that the key is gone.
    pub(crate) fn again(&mut self, setup: &Setup, marks: &[Mark], now: Timestamp) -> Outbox {
        if self.leader.is_some() {
            return self.begin_round(setup, marks, now);
        }
        self.client.handle_released(self.queue);
        self.carry_out(setup, marks, now)
    }

    /// The leader asks the nodes, if there is a round left.
    fn begin_round(&mut self, setup: &Setup, marks: &[Mark], now: Timestamp) -> Outbox {
        let attempt = self.attempts.len();
        let Some(leader) = self.leader.as_mut().filter(|_| attempt < setup.rounds) else {
            return Outbox::new();
        };
        leader.attempt = Some(attempt);
        let asked = RoundAsked { may_have_several: true, lingers: setup.lingers, ttl: setup.ttl() };
        let begun = self.client.begin_round(leader.id, asked, now);
        let Some(RoundBegun { several, station, .. }) = begun else {
            self.wrong = Some(GONE);
            return Outbox::new();
        };
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
            station,
        });
        self.pump(attempt, setup, marks, now)
    }

    fn pump(&mut self, attempt: usize, setup: &Setup, marks: &[Mark], now: Timestamp) -> Outbox {
        let owner = self.owner(setup, attempt);
        let mut is_lost = false;
        let of_it = &mut self.attempts[attempt];
        if of_it.footprint.is_none()
            && let Some(round) = &mut of_it.round
            && let Some(footprint) = round.take_footprint()
        {
            let verdict = round.verdict();
            of_it.footprint = Some(self.client.add_footprint(footprint));
            if verdict == Verdict::Won {
                self.win(attempt, setup, now);
            }
            is_lost = verdict == Verdict::Lost;
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
        // What it has set is given back before anybody else asks.
        if is_lost {
            self.lose(attempt, now);
        }
        sent.extend(self.carry_out(setup, marks, now));
        sent
    }

    fn win(&mut self, attempt: usize, setup: &Setup, now: Timestamp) {
        let Some(mut leader) = self.leader.take() else {
            self.wrong = Some(GONE);
            return;
        };
        self.client.give_back(Lane::Acquires, &mut leader.turn, None, now);
        let of_it = &self.attempts[attempt];
        let (Some(round), Some(footprint)) = (&of_it.round, of_it.footprint) else { return };
        let (cohort, token) = Cohort::begin(round.tokens(), now);
        let drift = Drift::new(0, Duration::ZERO);
        let lifecycle =
            Lifecycle::new(of_it.started, round.deadline(), setup.ttl(), drift, setup.policy());
        let asked = (setup.linger(), Duration::ZERO, false);
        let leases = Leases::new(lifecycle, cohort, token, asked, None);
        let station = of_it.station;
        let id = self.client.begin(NewGrant { leases, footprint, station, data: attempt });
        let _ = self.client.schedule(id);
        assert!(self.client.count(id), "nobody shuts down");
        let sharing = self.client.handle_won(leader.id, id, turn_of(None), now);
        // The nodes have said that nobody else waits.
        for node in (0..setup.nodes).map(NodeId::new) {
            self.client.handle_hint(node, &resource(0), LineHint::Alone, now);
        }
        assert!(sharing.is_empty(), "nobody asks once");
        self.attempts[attempt].grant = Some(id);
        self.begin(leader.request.index, id, Begun { number: 0, token, moved: false });
    }

    /// The leader's round is lost: it goes on, or it has gone away.
    fn lose(&mut self, attempt: usize, now: Timestamp) {
        let Some(Asker { id, request, mut turn, .. }) = self.leader.take() else {
            self.wrong = Some(GONE);
            return;
        };
        let of_it = &self.attempts[attempt];
        let Some(round) = &of_it.round else { return };
        let Some(lost) = LostRound::of(round, of_it.started, turn.waited()) else { return };
        self.client.give_back(Lane::Acquires, &mut turn, None, now);
        let (answers, clocks, round_trip, random) = (&[][..], &[][..], None, 0);
        let found = Found { answers, stood: false, clocks, round_trip, random, now };
        let (lost, _) = self.client.handle_found(id, &request, lost, &found);
        let by = (turn_of(None), None, 0);
        let said = self.client.handle_lost(id, request, (lost, ()), by, now, |_, _| None::<()>);
        assert!(said.is_none(), "nobody says for whom it waits");
    }

    /// A lease begins.
    fn begin(&mut self, index: usize, id: GrantId, begun: Begun) {
        let Some(&attempt) = self.client.data(id) else { return };
        if !matches!(self.fates[index], Fate::Comes | Fate::Waits(_) | Fate::Asks(_)) {
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
        let may_pass = self.client.may_pass(id);
        let passed = may_pass.then(|| self.client.hand_on(id, number, hand_on(now))).flatten();
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
        self.client.handle_grant_over(id);
        self.carry_out(setup, marks, now)
    }

    /// Whoever has made a request goes away.
    pub(crate) fn cancel(
        &mut self,
        index: usize,
        setup: &Setup,
        marks: &[Mark],
        now: Timestamp,
    ) -> Outbox {
        let (Fate::Waits(place) | Fate::Asks(place)) = self.fates[index] else {
            return Outbox::new();
        };
        self.fates[index] = Fate::Gone;
        if let Some(mut leader) = self.leader.take_if(|leader| leader.request.index == index) {
            leader.request.gone = true;
            let Some(attempt) = leader.attempt else {
                // Its round has not begun, and does not.
                self.client.give_back(Lane::Acquires, &mut leader.turn, None, now);
                self.client.handle_gone_away(leader.id);
                return self.carry_out(setup, marks, now);
            };
            self.leader = Some(leader);
            if let Some(round) = &mut self.attempts[attempt].round {
                round.handle_abandoned();
            }
            return self.pump(attempt, setup, marks, now);
        }
        self.client.leave(self.queue, place);
        self.carry_out(setup, marks, now)
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
        sent.extend(self.carry_out(setup, marks, now));
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
                self.pump(attempt, setup, marks, now)
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
        let under_way = self.leader.as_ref().and_then(|leader| leader.attempt);
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
        if !self.client.go_on_in_time() {
            return Some(GOES_ON);
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
        let asks = self.client.is_led(self.queue);
        let is_served = asks || self.holders() > 0;
        if waits && !is_served {
            return Some(SERVED);
        }
        None
    }
}

impl Request {
    fn new(index: usize, setup: &Setup) -> Self {
        // It pauses for less than a tick.
        let pause = Duration::from_millis(super::TICK / 2);
        let backoff = Backoff { min: pause, max: pause };
        let (wait, node_timeout) = (Duration::ZERO, Duration::from_millis(500));
        let settings = WaitSettings { node_timeout, wait, backoff, through_outages: true };
        let acquisition = Acquisition::new(settings, WaitPolicy::Unlimited, Timestamp::ORIGIN);
        let (ttl, lock_delay) = (setup.ttl(), Duration::ZERO);
        let wanted = Wanted { ttl, lock_delay, min_validity: Duration::ZERO, alone: false };
        let (renewal, linger) = (setup.policy(), setup.linger());
        let next = NextLease { wanted, renewal, keeps_until: None, linger };
        Self { index, acquisition, next, gone: false }
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

fn hand_on(now: Timestamp) -> HandOn {
    HandOn { turn: turn_of(None), now, steady: now }
}
