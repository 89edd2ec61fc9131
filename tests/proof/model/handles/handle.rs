//! One process with its handle: the production's `Client`, and in the place of the driver what carries out what it says.
//!
//! Goal: who asks, who is let in, who is told what and when, the production alone decides. Method: requests are numbers with an
//! account of what each has been told (`account.rs`); what the client says is done in the step in which it is said, as the
//! driver does it behind its lock. Who comes and goes is here; rounds, renewals and releases are in `rounds`, and nothing else
//! drives a client.
//!
//! Not modelled: lines on the nodes, and a crowd that waits for turns. A leader pauses until its time comes, or until it is told
//! that the key is gone, which it may be at any time, and wrongly. What the driver does in several steps of its own, such as to
//! carry out what follows from the end of a grant, is one step here, and a grant that has ended is forgotten in that. Of what
//! was released a moment ago nothing is left for a while to those here who want it otherwise. Lock-delays, restores, and with
//! them permits that are filled in, and shutdowns: `tests/proof/protocol/client`, `leases` and `tenures` have those.

mod properties;
mod rounds;

use core::time::Duration;

use self::rounds::{Attempt, Outbox};
pub(crate) use self::{properties::SERVED, rounds::Message};
use super::{
    Setup, TICK,
    account::{Account, Fate, GONE, ONCE},
    kind::{Ask, Covers, Kind},
};
use crate::{
    model::request::Request,
    protocol::{
        AskId, Came, Client, ClientId, ClientSettings, End, Event, GrantId, HandOn, Lane, Late,
        Leases, Mark, NextLease, Passed, Quorum, RenewalPolicy, Timestamp, Turn, Wanted, turn_of,
    },
};

/// One who asks, while its driver has it: in a round, or about to begin one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Asker {
    id: AskId,
    request: Request,
    turn: Turn,
    attempt: Option<usize>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Handle {
    number: u8,
    client: Client<usize, Request, (), ()>,
    attempts: Vec<Attempt>,
    /// Those who ask the nodes, where they do not pause, in the order in which they came.
    askers: Vec<Asker>,
    pub(crate) account: Account,
    /// What is sent in this step.
    pub(crate) sent: Outbox,
}

/// When something is done, and what is known then.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) marks: &'a [Mark],
    pub(crate) now: Timestamp,
}

pub(crate) const LEADS: &str = "one at a time asks";

impl Handle {
    pub(crate) fn new(number: u8, setup: &Setup) -> Self {
        let client = Client::new(ClientSettings {
            quorum: Quorum::of(setup.nodes),
            client: ClientId::new([number; 8]),
            node_timeout: Duration::from_millis(500),
        });
        let (attempts, askers, account) = (Vec::new(), Vec::new(), Account::default());
        Self { number, client, attempts, askers, account, sent: Outbox::new() }
    }

    /// Somebody comes.
    pub(crate) fn ask(&mut self, at: At<'_>) {
        let index = self.account.entries.len();
        let ask = at.setup.requests[usize::from(self.number)][index];
        let queue = self.client.open_queue(&ask.kind.covers().target());
        let mut request = request(index, ask, at);
        self.account.comes(ask, queue, request.acquisition.turn_deadline());
        // What is kept here as nobody's would be in its way.
        for kept in self.client.take_kept_beside(queue) {
            self.give_back_kept(kept, at);
        }
        let mut over = None;
        loop {
            match self.client.join(queue, over, request, at.now) {
                Came::Begins(place, id, request, turn) => {
                    self.account.set(index, Fate::Waits(place));
                    self.begins(id, request, turn, at);
                    break;
                }
                Came::Waits(place) => {
                    self.account.set(index, Fate::Waits(place));
                    break;
                }
                Came::Takes(id, taking) => {
                    match self.client.resume(id, &taking.next, hand_on(at.now)) {
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
                Came::Told((), _) => {
                    self.account.answer(index);
                    break;
                }
                Came::Closed(_) => panic!("nobody is closed"),
            }
        }
        self.carry_out(at);
    }

    /// One who asks has its turn.
    fn begins(&mut self, id: AskId, request: Request, turn: Turn, at: At<'_>) {
        let index = request.index;
        self.account.asks(index, at.now);
        let (entries, queue) = (&self.account.entries, self.account.queue(index));
        let is_beside = |other: &Asker| entries[other.request.index].queue == queue;
        let is_any = matches!(entries[index].ask.kind, Kind::Permit(_));
        if !is_any && self.askers.iter().any(is_beside) {
            self.account.say(LEADS);
        }
        self.askers.push(Asker { id, request, turn, attempt: None });
        self.askers.sort_by_key(|asker| asker.request.index);
        self.begin_round(index, at);
    }

    /// What the client has decided is done.
    fn carry_out(&mut self, at: At<'_>) {
        while let Some(event) = self.client.poll_event() {
            match event {
                Event::GoOn(id) => self.client.go_on(id, at.now),
                Event::Begin(id, request, turn) => self.begins(id, request, turn, at),
                Event::GiveUp(request, ..) if !request.gone => self.account.answer(request.index),
                Event::Gone(request) | Event::GiveUp(request, ..) => {
                    self.account.comes_out(request.index);
                    if self.account.fate(request.index) != Fate::Gone {
                        self.account.say(ONCE);
                    }
                }
                Event::Wake(_) => {}
                Event::GiveBack(id) => self.give_back_kept(id, at),
                Event::PlaceGone(target) => self.client.handle_place_gone(&target, at.now),
                event => panic!("nobody closes or stands in a line: {event:?}"),
            }
        }
        for index in 0..self.account.entries.len() {
            // Who asks for all who wait is the next of them, also while it pauses.
            if matches!(self.account.fate(index), Fate::Waits(_)) && self.leads(index) {
                self.account.asks(index, at.now);
            }
        }
    }

    fn asker(&mut self, index: usize) -> Option<&mut Asker> {
        self.askers.iter_mut().find(|asker| asker.request.index == index)
    }

    fn take_asker(&mut self, index: usize) -> Option<Asker> {
        let at = self.askers.iter().position(|asker| asker.request.index == index)?;
        Some(self.askers.remove(at))
    }

    fn asks(&self, index: usize) -> Option<&Asker> {
        self.askers.iter().find(|asker| asker.request.index == index)
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

    /// One who pauses is told that the key is gone.
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
        let passed = may_pass.then(|| self.client.hand_on(id, number, hand_on(at.now))).flatten();
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

    /// Whether its holder has it alone, and may share it.
    pub(crate) fn may_lower(&self, index: usize) -> bool {
        let holds = self.account.fate(index);
        matches!(holds, Fate::Holds { attempt, .. } if self.attempts[attempt].covers == Covers::One)
    }

    /// A holder goes on as a reader.
    pub(crate) fn lower(&mut self, index: usize, at: At<'_>) {
        let Fate::Holds { attempt, number } = self.account.fate(index) else { return };
        let Some(id) = self.attempts[attempt].grant else { return };
        let Some(number) = self.client.change(id, |leases| leases.lower(number)).flatten() else {
            return;
        };
        self.attempts[attempt].covers = Covers::Lowered;
        self.account.set(index, Fate::Holds { attempt, number });
        self.make_room(id, at);
        self.extend(id, at);
    }

    /// A grant is over: who is next asks.
    fn make_room(&mut self, id: GrantId, at: At<'_>) {
        self.client.handle_grant_over(id);
        self.carry_out(at);
    }

    /// Whoever has made a request goes away.
    pub(crate) fn cancel(&mut self, index: usize, at: At<'_>) {
        let Some((queue, place)) = self.account.place(index) else { return };
        self.account.set(index, Fate::Gone);
        let Some(asker) = self.asker(index) else {
            if self.client.leave(queue, place).is_some() {
                self.account.comes_out(index);
            }
            return self.carry_out(at);
        };
        asker.request.gone = true;
        if let Some(attempt) = asker.attempt {
            return self.abandon(attempt, at);
        }
        // Its round has not begun, and does not.
        if let Some(mut asker) = self.take_asker(index) {
            self.client.give_back(Lane::Acquires, &mut asker.turn, None, at.now);
            self.client.handle_gone_away(asker.id);
            self.account.comes_out(index);
        }
        self.carry_out(at);
    }

    /// Its timers.
    pub(crate) fn tick(&mut self, at: At<'_>) {
        let due = self.client.handle_timeout(at.now);
        for id in due.extend {
            self.extend(id, at);
        }
        for (id, action) in due.tell {
            self.told(id, action, at);
        }
        for (id, _) in due.give_back {
            self.give_back_kept(id, at);
        }
        for (queue, place) in due.waiting {
            let late = self.client.handle_waiter_due(queue, place, at.now, |_, _, _| None::<()>);
            if let Late::InVain(request, ..) = late {
                self.account.answer(request.index);
            }
        }
        self.carry_out(at);
        self.is_told(at.now);
    }

    /// Who has been answered, and has nothing under way, has nothing to do with its queue.
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
    let wanted = Wanted { ttl, lock_delay, min_validity: Duration::ZERO, alone: false };
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

fn hand_on(now: Timestamp) -> HandOn {
    HandOn { turn: turn_of(None), now, steady: now }
}
