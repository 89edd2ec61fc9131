//! One process that waits in the lines on the nodes: the production's `Client`, whole, from the first round to the last release.
//!
//! Goal: the production alone decides when it asks, what it says, and what it undoes. Method: one request, whose caller
//! may give up, or hang and never do anything again; what the client says is done in the step in which it is said.
//!
//! Not modelled here: nobody is told that a key is gone, as a client in line does not need it; a release, and a place
//! that is left, count as done as soon as they are sent, and are executed later.

use core::time::Duration;

use crate::{
    model::request::Request,
    protocol::{
        Answer, AskId, CallId, Came, Client as Whole, ClientId, ClientSettings, Command, Drift,
        End, EpochMark, Event, Failure, GrantId, Granted, Leases, LineHint, Moment, NextLease,
        NodeId, Owner, Passed, Place, QueueId, Quorum, RenewalPolicy, Reply, Resource, RoundAsked,
        RoundStart, Sending, Ticket, Timestamp, Told, WaitPolicy, Wanted, turn_of,
    },
};

pub(crate) const NODES: usize = 3;
const TTL: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Doing {
    Asking,
    Waiting,
    /// It waits, and will never ask again, nor hear anything.
    Hangs,
    Holding,
    Done,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Client {
    number: u8,
    pub(crate) doing: Doing,
    /// Until nothing more is under way.
    whole: Option<Box<Whole<(), Request, (), Failure>>>,
    at: Option<(QueueId, Place)>,
    grant: Option<GrantId>,
    /// With what it stands in the lines.
    ticket: Option<Ticket>,
    rounds: u16,
    asked_at: Timestamp,
    pub(crate) token: Option<u64>,
    /// Who had won when it began, and who stood in all lines then, by the bits of their numbers.
    pub(crate) after: u8,
    pub(crate) behind: u8,
    pub(crate) wrong: Option<&'static str>,
}

/// A call on its way.
pub(crate) type Call = (CallId, Sending);
pub(crate) type Outbox = Vec<(usize, Call)>;

pub(crate) const SELF: &str = "nobody names itself as one who did not come";
pub(crate) const TICKET: &str = "a place in the line is kept up to the grant";
pub(crate) const ANSWERED: &str = "a waiter without a deadline is answered with a grant alone";

pub(crate) fn id(number: u8) -> ClientId {
    // The order of names is not that of arrival.
    ClientId::new([9 - number; 8])
}

pub(super) fn resource() -> Resource {
    Resource::new("r").expect("a name")
}

fn moment(now: Timestamp) -> Moment<'static> {
    Moment { now, steady: now, turn: turn_of(None), round_trip: None, clocks: &[] }
}

fn request(now: Timestamp) -> Request {
    let (lock_delay, min_validity) = (Duration::ZERO, Duration::ZERO);
    let wanted = Wanted { ttl: TTL, lock_delay, min_validity, alone: false };
    let (renewal, linger) = (RenewalPolicy::default(), Duration::ZERO);
    let next = NextLease { wanted, renewal, keeps_until: None, linger };
    Request::new(0, (WaitPolicy::Unlimited, now, Duration::from_millis(500)), next)
}

fn asked() -> RoundAsked {
    RoundAsked {
        from: None,
        target: resource().into(),
        ttl: TTL,
        min_validity: Duration::ZERO,
        lock_delay: Duration::ZERO,
        renewal: RenewalPolicy::default(),
        hold_at_least: None,
        linger: Duration::ZERO,
        alone: false,
    }
}

impl Client {
    /// It has not asked yet.
    pub(crate) fn new(number: u8, after: u8, behind: u8) -> Self {
        let whole = Whole::new(ClientSettings {
            quorum: Quorum::of(NODES),
            client: id(number),
            node_timeout: Duration::from_millis(500),
            drift: Drift::new(0, Duration::ZERO),
            max_ttl: Duration::from_secs(60),
            adapts: false,
            counts_ranges: true,
        });
        Self {
            number,
            doing: Doing::Waiting,
            whole: Some(Box::new(whole)),
            at: None,
            grant: None,
            ticket: None,
            rounds: 0,
            asked_at: Timestamp::ORIGIN,
            token: None,
            after,
            behind,
            wrong: None,
        }
    }

    /// When there is something to do next, if nothing is told until then.
    pub(crate) fn next_look(&self, now: Timestamp) -> Option<Timestamp> {
        let whole = self.whole.as_ref().filter(|_| self.doing != Doing::Hangs)?;
        whole.clone().next_look(now)
    }

    /// For how long it has waited since it asked last.
    pub(crate) fn waits_for(&self, now: Timestamp) -> Duration {
        let waits = self.doing == Doing::Waiting && self.at.is_some();
        if waits { now.saturating_since(self.asked_at) } else { Duration::ZERO }
    }

    /// Does this, and what follows from it. What is to be sent is returned.
    fn does(
        &mut self,
        now: Timestamp,
        step: impl FnOnce(&mut Self, &mut Whole<(), Request, (), Failure>),
    ) -> Outbox {
        let mut sent = Outbox::new();
        let Some(mut whole) = self.whole.take() else { return sent };
        step(self, &mut whole);
        loop {
            while let Some(event) = whole.poll_event() {
                self.carry_out(&mut whole, event, now);
            }
            if let Some(ask) = whole.poll_begin() {
                self.begin_round(&mut whole, ask, now);
                continue;
            }
            let Some(transmit) = whole.poll_transmit() else { break };
            sent.push((transmit.node.index(), (transmit.call, transmit.sending.clone())));
            match &transmit.sending {
                Sending::One(Command::Release { .. } | Command::Leave { .. }) => {
                    let done = Answer::One(Ok(Reply::Granted(Granted::DONE)));
                    whole.handle_answers([(transmit.call, done)], &moment(now), &mut |_, _| {});
                }
                Sending::One(command) => self.look_at(command),
                Sending::Several(_) => {}
            }
        }
        self.whole = Some(whole);
        sent
    }

    fn carry_out(
        &mut self,
        whole: &mut Whole<(), Request, (), Failure>,
        event: Event<Request, (), Failure>,
        now: Timestamp,
    ) {
        match event {
            Event::GoOn(id) => whole.go_on(id, now),
            Event::Begin(id) => whole.begin_later(id),
            Event::Won { grant, .. } => {
                assert!(whole.count(grant), "nobody shuts down");
                whole.change(grant, |leases| leases.handle_taken(0));
                let token = whole.leases(grant).and_then(Leases::token);
                (self.doing, self.grant) = (Doing::Holding, Some(grant));
                self.token = token.map(|token| token.get());
            }
            Event::GiveUp(..) if self.doing != Doing::Done => self.wrong = Some(ANSWERED),
            Event::Look(id, until) => whole.handle_looked(id, until),
            Event::LetIn => whole.let_in(&moment(now)),
            Event::PlaceGone(target) => whole.handle_place_gone(&target, now),
            _ => {}
        }
    }

    /// What it says of its place.
    fn look_at(&mut self, command: &Command) {
        let Command::Acquire { stand: Some(stand), .. } = command else { return };
        if stand.skip == Some(id(self.number)) {
            self.wrong = Some(SELF);
        }
        if self.ticket.is_some() && self.ticket != stand.ticket {
            self.wrong = Some(TICKET);
        }
        self.ticket = stand.ticket;
    }

    fn begin_round(
        &mut self,
        whole: &mut Whole<(), Request, (), Failure>,
        ask: AskId,
        now: Timestamp,
    ) {
        self.rounds += 1;
        (self.doing, self.asked_at) = (Doing::Asking, now);
        let mut bytes = [self.number + 1; 16];
        bytes[..2].copy_from_slice(&self.rounds.to_be_bytes());
        let start = RoundStart {
            owner: Owner::from_random(bytes),
            count: whole.tokens_wanted(ask, &asked(), now),
            hint: Some(1),
            marks: [EpochMark::new(1, 0); NODES].into(),
            note: None,
            random: 0,
            blocked: Vec::new(),
        };
        whole.begin_round(ask, &asked(), start, &moment(now), &mut |_, _| {});
    }

    /// It comes.
    pub(crate) fn ask(&mut self, now: Timestamp) -> Outbox {
        self.does(now, |client, whole| {
            let queue = whole.open_queue(&resource().into());
            match whole.join(queue, None, request(now), now) {
                Came::Begins(place, ask) => {
                    client.at = Some((queue, place));
                    whole.begin_later(ask);
                }
                came => panic!("nobody else is there: {came:?}"),
            }
        })
    }

    /// Its timers.
    pub(crate) fn look(&mut self, now: Timestamp) -> Outbox {
        self.does(now, |_, whole| {
            let waiting = whole.handle_timeout(&moment(now));
            assert!(waiting.is_empty(), "nobody waits behind it");
        })
    }

    /// An answer has come.
    pub(crate) fn hear(&mut self, call: CallId, answer: Answer<Failure>, now: Timestamp) -> Outbox {
        if self.doing == Doing::Hangs {
            return Outbox::new();
        }
        self.does(now, |client, whole| {
            whole.handle_answers([(call, answer)], &moment(now), &mut |_, told| {
                if let Told::Lost(..) = told {
                    client.doing = Doing::Waiting;
                }
            });
        })
    }

    pub(crate) fn handle_hint(&mut self, at: usize, hint: LineHint, now: Timestamp) -> Outbox {
        if self.doing == Doing::Hangs {
            return Outbox::new();
        }
        self.does(now, |_, whole| whole.handle_hint(NodeId::new(at), &resource(), hint, now))
    }

    /// What it held is given back.
    pub(crate) fn give_back(&mut self, now: Timestamp) -> Outbox {
        self.doing = Doing::Done;
        self.does(now, |client, whole| {
            let Some(id) = client.grant.take() else { return };
            let passed = whole.may_pass(id).then(|| whole.hand_on(id, 0, &moment(now))).flatten();
            if !matches!(passed, None | Some((Passed::ToNobody, ..))) {
                client.wrong = Some(ANSWERED);
            }
            whole.give_back(id, End::GivenBack(0), |(), _| (), &moment(now));
            whole.forget(id);
            client.close(whole);
        })
    }

    /// It waits no more.
    pub(crate) fn give_up(&mut self, now: Timestamp) -> Outbox {
        self.doing = Doing::Done;
        self.does(now, |client, whole| {
            if let Some((queue, place)) = client.at {
                whole.leave(queue, place);
            }
            client.close(whole);
        })
    }

    fn close(&mut self, whole: &mut Whole<(), Request, (), Failure>) {
        if let Some((queue, _)) = self.at.take() {
            whole.close_queue(queue);
        }
    }

    /// Nothing of it is under way any more.
    pub(crate) fn forget(&mut self) {
        (self.whole, self.ticket, self.rounds) = (None, None, 0);
        self.asked_at = Timestamp::ORIGIN;
    }
}
