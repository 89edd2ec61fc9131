//! One process with its handle: the production's `Client`, and in place of the driver, code that does what it says.
//!
//! Goal: the production alone decides who asks, who is let in, who is told what and when. Method: requests are numbers
//! with an account of what each has been told (`account.rs`); what the client says is done in the step in which it is
//! said, as the driver does it behind its lock. Who comes and goes is here; what is sent, and what is answered, is in
//! `calls`, and nothing else drives a client.
//!
//! Not modelled: lines on the nodes, and a crowd that waits for turns. A leader pauses until its time comes, or until it is told
//! that the key is gone, which it may be at any time, and wrongly. What the driver does in several steps of its own, such as to
//! carry out what follows from the end of a grant, is one step here, and a grant that has ended is forgotten in that. A
//! released resource is not left for a while to requests here that want it otherwise. A restore is never sent, nor is a
//! permit filled in. Lock-delays and shutdowns: `tests/proof/protocol/client`, `leases` and `terms` have those.

mod calls;
mod properties;

use core::time::Duration;

use self::calls::{Attempt, Open, Outbox};
pub(crate) use self::{calls::Message, properties::SERVED};
use super::{
    Setup, TICK,
    account::{Account, Fate, GONE, ONCE},
    kind::{Ask, Covers, Kind},
};
use crate::{
    model::request::Request,
    protocol::{
        AskId, Came, Client, ClientId, ClientSettings, Drift, End, EpochMark, Event, Failure,
        GrantId, Late, Leases, Moment, NextLease, Passed, Quorum, RenewalPolicy, Timestamp, Wanted,
        turn_of,
    },
};

/// A request that has its turn: in a round, or without one where none is left.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Asker {
    index: usize,
    attempt: Option<usize>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Handle {
    number: u8,
    client: Client<usize, Request, (), Failure>,
    attempts: Vec<Attempt>,
    /// Calls that have not been answered, in the order in which they were made.
    open: Vec<Open>,
    /// Requests that ask the nodes and do not pause, in the order in which they came.
    askers: Vec<Asker>,
    pub(crate) account: Account,
    pub(crate) is_closed: bool,
    /// Owners whose keys are said to be released, until nothing of theirs is under way.
    pub(crate) released: Vec<u8>,
    /// What is sent in this step.
    pub(crate) sent: Outbox,
}

/// When something is done, and what is known then.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) marks: &'a [EpochMark],
    pub(crate) now: Timestamp,
}

pub(crate) const LEADS: &str = "one at a time asks";

impl Handle {
    pub(crate) fn new(number: u8, setup: &Setup) -> Self {
        let client = Client::new(ClientSettings {
            quorum: Quorum::of(setup.nodes),
            client: ClientId::new([number; 8]),
            node_timeout: Duration::from_millis(500),
            drift: Drift::new(0, Duration::ZERO),
            max_ttl: Duration::from_secs(60),
            adapts: false,
            counts_ranges: true,
        });
        let (attempts, askers, account) = (Vec::new(), Vec::new(), Account::default());
        let (open, released, sent) = (Vec::new(), Vec::new(), Outbox::new());
        let is_closed = false;
        Self { number, client, attempts, open, askers, account, is_closed, released, sent }
    }

    /// A request comes.
    pub(crate) fn ask(&mut self, at: At<'_>) {
        let index = self.account.entries.len();
        let ask = at.setup.requests[usize::from(self.number)][index];
        let queue = self.client.open_queue(&ask.kind.covers().target());
        let mut request = request(index, ask, at);
        self.account.comes(ask, queue, request.acquisition.turn_deadline());
        // A grant that is kept here would be in its way.
        for kept in self.client.take_kept_beside(queue) {
            self.give_back_kept(kept, at);
        }
        let mut over = None;
        loop {
            match self.client.join(queue, over, request, at.now) {
                Came::Begins(place, id) => {
                    self.account.set(index, Fate::Waits(place));
                    self.client.begin_later(id);
                    break;
                }
                Came::Waits(place) => {
                    self.account.set(index, Fate::Waits(place));
                    break;
                }
                Came::Takes(id, taking) => {
                    match self.client.resume(id, &taking.next, &at.moment()) {
                        Some((begun, _)) => {
                            self.begin(index, id, begun);
                            break;
                        }
                        None => {
                            self.give_back_kept(id, at);
                            request = taking;
                        }
                    }
                }
                Came::Held(id, refused) => {
                    let leases = self.client.leases(id);
                    if leases.is_some_and(|leases| leases.left(None, at.now).is_ok()) {
                        self.account.answer(index);
                        break;
                    }
                    (request, over) = (refused, Some(id));
                }
                Came::Told(..) => {
                    self.account.answer(index);
                    break;
                }
                Came::Closed(_) => {
                    if !self.is_closed {
                        self.account.say(GONE);
                    }
                    self.account.answer(index);
                    break;
                }
            }
        }
        self.carry_out(at);
    }

    /// A request has its turn.
    fn begins(&mut self, id: AskId, at: At<'_>) {
        let Some(index) = self.client.request(id).map(|request| request.index) else {
            return self.account.say(GONE);
        };
        self.account.asks(index, at.now);
        self.account.begins(index, at.now);
        let (entries, queue) = (&self.account.entries, self.account.queue(index));
        let is_beside = |other: &Asker| entries[other.index].queue == queue;
        let is_any = matches!(entries[index].ask.kind, Kind::Permit(_));
        if !is_any && self.askers.iter().any(is_beside) {
            self.account.say(LEADS);
        }
        self.askers.push(Asker { index, attempt: None });
        self.askers.sort_by_key(|asker| asker.index);
        self.begin_round(id, index, at);
    }

    /// What the client has decided is done, and what it wants sent is sent.
    fn carry_out(&mut self, at: At<'_>) {
        loop {
            while let Some(event) = self.client.poll_event() {
                self.carry_out_one(event, at);
            }
            if let Some(id) = self.client.poll_begin() {
                self.begins(id, at);
            } else if !self.send(at) {
                break;
            }
        }
        for index in 0..self.account.entries.len() {
            // The leader, which asks for all waiters, is the next of them, also while it pauses.
            if matches!(self.account.fate(index), Fate::Waits(_)) && self.leads(index) {
                self.account.asks(index, at.now);
            }
        }
    }

    fn carry_out_one(&mut self, event: Event<Request, (), Failure>, at: At<'_>) {
        match event {
            Event::GoOn(id) => self.client.go_on(id, at.now),
            Event::Begin(id) => self.client.begin_later(id),
            Event::Won { request, grant, .. } => {
                assert!(self.client.count(grant), "nobody shuts down");
                self.win(request.index, grant, at);
            }
            Event::HeldHere(request, _) => self.account.answer(request.index),
            Event::GiveUp(request, ..) if !request.gone => {
                self.take_asker(request.index);
                self.account.answer(request.index);
            }
            Event::Gone(request) | Event::GiveUp(request, ..) => {
                self.account.comes_out(request.index);
                if self.account.fate(request.index) != Fate::Gone {
                    self.account.say(ONCE);
                }
            }
            Event::GiveBack(id, _) => self.give_back_kept(id, at),
            Event::Tell(id, action) => self.told(id, action, at),
            Event::Extended { grant, action, .. } => {
                action.into_iter().for_each(|action| self.told(grant, action, at));
            }
            // They are looked at at once.
            Event::Look(id, until) => self.client.handle_looked(id, until),
            Event::LetIn => self.client.let_in(&at.moment()),
            Event::PlaceGone(target) => self.client.handle_place_gone(&target, at.now),
            Event::Released(_, released) if released.result.is_ok() => {
                let owner = self.number_of(at.setup, released.owner);
                self.released.push(owner);
            }
            Event::Wake(_)
            | Event::Released(..)
            | Event::ReleaseQueued(..)
            | Event::ReleaseGivenUp(..) => {}
            event => panic!("nobody stands in a line: {event:?}"),
        }
    }

    fn take_asker(&mut self, index: usize) -> Option<Asker> {
        let at = self.askers.iter().position(|asker| asker.index == index)?;
        Some(self.askers.remove(at))
    }

    fn asks(&self, index: usize) -> Option<&Asker> {
        self.askers.iter().find(|asker| asker.index == index)
    }

    /// Whether this request asks for all who wait.
    pub(super) fn leads(&self, index: usize) -> bool {
        let place = self.account.place(index);
        place.is_some_and(|(queue, place)| self.client.leads(queue, place))
    }

    /// The same, where it pauses.
    pub(crate) fn pauses(&self, index: usize) -> bool {
        self.leads(index) && self.asks(index).is_none()
    }

    /// Whether it asks, and there is no round left for it.
    pub(crate) fn gives_up(&self, index: usize, setup: &Setup) -> bool {
        let is_without = |asker: &Asker| asker.attempt.is_none();
        !self.has_rounds(setup) && (self.pauses(index) || self.asks(index).is_some_and(is_without))
    }

    pub(crate) const fn has_rounds(&self, setup: &Setup) -> bool {
        self.attempts.len() < setup.rounds
    }

    /// A request that pauses is told that the key is gone.
    pub(crate) fn again(&mut self, index: usize, at: At<'_>) {
        let queue = self.account.queue(index);
        queue.into_iter().for_each(|queue| self.client.handle_released(queue));
        self.carry_out(at);
    }

    /// The lease of a request is given back, or was lost and is dropped.
    pub(crate) fn give_back(&mut self, index: usize, at: At<'_>) {
        let (Fate::Holds { attempt, number } | Fate::Lost { attempt, number }) =
            self.account.fate(index)
        else {
            return;
        };
        self.account.set(index, Fate::Gone);
        let Some(id) = self.attempts[attempt].grant else { return };
        let may_pass = self.client.may_pass(id);
        let passed = may_pass.then(|| self.client.hand_on(id, number, &at.moment())).flatten();
        let (passed, late) = match passed {
            Some((passed, _, late)) => (passed, late),
            None => (Passed::ToNobody, Vec::new()),
        };
        late.iter().for_each(|request| self.account.answer(request.index));
        match passed {
            Passed::To(request, begun, _) => {
                self.account.is_handed(request.index, at.now);
                self.begin(request.index, id, begun);
            }
            Passed::Kept(_) => {}
            Passed::ToNobody => self.end(attempt, id, End::GivenBack(number), at),
        }
    }

    fn give_back_kept(&mut self, id: GrantId, at: At<'_>) {
        if let Some(&attempt) = self.client.data(id) {
            self.end(attempt, id, End::Kept, at);
        }
    }

    /// A holder's grant is dropped without an end, as where a panic has ended the code that was to end it.
    pub(crate) fn drop_lease(&mut self, index: usize, at: At<'_>) {
        let (Fate::Holds { attempt, .. } | Fate::Lost { attempt, .. }) = self.account.fate(index)
        else {
            return;
        };
        self.account.set(index, Fate::Gone);
        if let Some(id) = self.attempts[attempt].grant.take() {
            self.client.forget(id);
        }
        self.carry_out(at);
    }

    /// No more are begun.
    pub(crate) fn close(&mut self, at: At<'_>) {
        self.is_closed = true;
        self.client.close();
        self.carry_out(at);
    }

    /// Whether its holder has it alone, and may share it.
    pub(crate) fn may_downgrade(&self, index: usize) -> bool {
        let holds = self.account.fate(index);
        matches!(holds, Fate::Holds { attempt, .. } if self.attempts[attempt].covers == Covers::One)
    }

    /// A holder goes on as a reader.
    pub(crate) fn downgrade(&mut self, index: usize, at: At<'_>) {
        let Fate::Holds { attempt, number } = self.account.fate(index) else { return };
        let Some(id) = self.attempts[attempt].grant else { return };
        let Some((number, _)) = self.client.downgrade(id, number) else { return };
        self.attempts[attempt].covers = Covers::Downgraded;
        self.account.set(index, Fate::Holds { attempt, number });
        self.client.extend(id, &at.moment());
        self.client.handle_grant_over(id);
        self.carry_out(at);
    }

    /// The caller of a request goes away.
    pub(crate) fn cancel(&mut self, index: usize, at: At<'_>) {
        let Some((queue, place)) = self.account.place(index) else { return };
        self.account.set(index, Fate::Gone);
        self.take_asker(index);
        if self.client.leave(queue, place).is_some() {
            self.account.comes_out(index);
        }
        self.carry_out(at);
    }

    /// Its timers.
    pub(crate) fn tick(&mut self, at: At<'_>) {
        let waiting = self.client.handle_timeout(&at.moment());
        self.carry_out(at);
        for (queue, place) in waiting {
            let late = self.client.handle_waiter_due(queue, place, at.now, |_, _, _| None::<()>);
            if let Late::InVain(request, ..) = late {
                self.account.answer(request.index);
            }
        }
        self.carry_out(at);
        self.is_told(at.now);
    }

    /// A request that is answered, and has nothing under way, has nothing to do with its queue.
    pub(crate) fn forget(&mut self, is_idle: bool) {
        self.forget_rounds(is_idle);
        for index in 0..self.account.entries.len() {
            if self.account.fate(index) != Fate::Gone || self.asks(index).is_some() {
                continue;
            }
            if !self.account.is_over(index) {
                self.account.say(GONE);
            }
            let has = |of_it: &Attempt| of_it.grant.is_some() && of_it.request == index;
            if !self.attempts.iter().any(has)
                && let Some(queue) = self.account.entries[index].queue.take()
                && !self.client.close_queue(queue).is_empty()
            {
                self.account.say(GONE);
            }
        }
    }

    /// Whether several are in rounds.
    pub(crate) const fn several_ask(&self) -> bool {
        self.askers.len() > 1
    }

    /// Whether a grant is kept as nobody's.
    pub(crate) fn keeps(&self) -> bool {
        let grants = self.attempts.iter().filter_map(|of_it| of_it.grant);
        grants.filter_map(|id| self.client.leases(id)).any(Leases::is_kept)
    }
}

fn request(index: usize, ask: Ask, at: At<'_>) -> Request {
    let (setup, lock_delay) = (at.setup, Duration::ZERO);
    let ttl = setup.ttl();
    let wanted = Wanted { ttl, lock_delay, min_validity: setup.validity(ask), alone: false };
    let linger = setup.linger(ask.kind);
    let next = NextLease { wanted, renewal: setup.policy(), keeps_until: None, linger };
    // It pauses for less than a tick.
    let pause = Duration::from_millis(TICK / 2);
    Request::new(index, (ask.policy(), ask.began(at.now), pause), next)
}

impl Setup {
    fn ttl(&self) -> Duration {
        Duration::from_millis(u64::from(self.ttl_ticks) * TICK)
    }

    /// The validity that a hurried request asks for: a round leaves so much only where it takes no tick.
    fn validity(&self, ask: Ask) -> Duration {
        if ask.hurried { self.ttl() - Duration::from_millis(TICK / 2) } else { Duration::ZERO }
    }

    /// What is read or is one of several is not kept.
    fn linger(&self, kind: Kind) -> Duration {
        let is_kept = self.lingers && kind == Kind::Alone;
        Duration::from_millis(u64::from(is_kept) * TICK)
    }

    #[allow(clippy::field_reassign_with_default, reason = "others cannot make one by its fields")]
    fn policy(&self) -> RenewalPolicy {
        let mut policy = RenewalPolicy::default();
        policy.renew = self.renews;
        policy
    }
}

impl At<'_> {
    fn moment(&self) -> Moment<'static> {
        let (now, steady) = (self.now, self.now);
        Moment { now, steady, turn: turn_of(None), round_trip: None, clocks: &[] }
    }
}
