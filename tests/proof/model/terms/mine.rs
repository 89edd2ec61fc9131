//! What a client of this world has in its process: the production's `Client`, whole, with one grant and its queue.
//!
//! Goal: the production alone decides what is sent, who has the grant next, when it is looked at and what is set for
//! it. Method: the next request joins the queue as any does, right before the grant goes on; the timers of the client
//! are asked at each tick; what it wants sent are letters, and each answer is told to the call that it belongs to.
//!
//! Not modelled here: restores, which are never sent, and what becomes of releases: each counts as confirmed as soon as it is
//! sent, whatever becomes of it, so that none is sent again.

use core::time::Duration;

use super::{
    Setup,
    holder::{Letter, NODES, Outbox, letter},
};
use crate::{
    model::{
        node::{owner, resource},
        request::Request,
    },
    protocol::{
        Answer, CallId, Came, Client, ClientId, ClientSettings, End, EpochMark, Event, Failure,
        GrantId, Granted, LeaseAction, Leases, LineHint, Moment, NextLease, NodeId, Passed,
        QueueId, Quorum, Reply, RoundAsked, RoundStart, Sending, Timestamp, WaitPolicy, turn_of,
    },
};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Mine {
    client: Client<(), Request, (), Failure>,
    queue: QueueId,
    /// Until it is given back.
    grant: Option<GrantId>,
    /// Calls that have not been answered, in the order in which they were made.
    open: Vec<(CallId, usize, Letter)>,
    extensions: u8,
    /// What has happened in this step, and to which nodes what is sent.
    pub(super) news: Vec<News>,
    pub(super) sent: Outbox,
}

/// What a holder learns.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum News {
    /// It has the lease.
    Won,
    /// Its round was lost.
    Refused,
    /// Its lease is lost.
    Lost,
    /// What is kept is given back.
    GiveBack,
}

/// The next request here.
fn request(next: NextLease, policy: WaitPolicy, now: Timestamp) -> Request {
    Request::new(0, (policy, now, Duration::ZERO), next)
}

pub(super) fn at(now: Timestamp) -> Moment<'static> {
    Moment { now, steady: now, turn: turn_of(None), round_trip: None, clocks: &[] }
}

impl Mine {
    /// Its round begins.
    pub(super) fn begin(
        number: u8,
        setup: &Setup,
        marks: [EpochMark; NODES],
        next: NextLease,
        now: Timestamp,
    ) -> Self {
        let mut client = Client::new(ClientSettings {
            quorum: Quorum::of(NODES),
            client: ClientId::new([number; 8]),
            node_timeout: Duration::from_millis(500),
            drift: setup.drift(),
            max_ttl: Duration::from_secs(60),
            adapts: false,
            counts_ranges: true,
        });
        let queue = client.open_queue(&resource(0).into());
        let came = client.join(queue, None, request(next, WaitPolicy::OneRound, now), now);
        let Came::Begins(_, ask) = came else { panic!("nobody is there: {came:?}") };
        let asked = RoundAsked {
            from: None,
            target: resource(0).into(),
            ttl: setup.ttl(),
            min_validity: Duration::ZERO,
            lock_delay: setup.lock_delay(),
            renewal: setup.policy(),
            hold_at_least: None,
            linger: setup.linger(),
            alone: false,
        };
        let start = RoundStart {
            owner: owner(number),
            count: setup.count,
            hint: Some(1),
            marks: marks.into(),
            note: None,
            random: 0,
            blocked: Vec::new(),
        };
        client.begin_round(ask, &asked, start, &at(now), &mut |_, _| {});
        let mut mine = Self {
            client,
            queue,
            grant: None,
            open: Vec::new(),
            extensions: 0,
            news: Vec::new(),
            sent: Outbox::new(),
        };
        mine.settle(now);
        mine
    }

    /// What the client has decided is done, and what it wants sent is sent.
    fn settle(&mut self, now: Timestamp) {
        loop {
            while let Some(event) = self.client.poll_event() {
                self.carry_out(event, now);
            }
            let Some(transmit) = self.client.poll_transmit() else { return };
            let node = transmit.node.index();
            let command = match transmit.sending {
                Sending::One(command) => Some(command),
                Sending::Several(mut commands) => {
                    self.extensions += u8::from(node == 0);
                    commands.pop()
                }
            };
            let letter = command.and_then(|command| letter(&command, self.extensions));
            match letter {
                Some(letter) => {
                    self.sent.push((node, letter));
                    if matches!(letter, Letter::Release { .. }) {
                        self.answer(transmit.call, Ok(Reply::Granted(Granted::DONE)), now);
                    } else {
                        self.open.push((transmit.call, node, letter));
                    }
                }
                None => self.answer(transmit.call, Err(Failure::NOT_SENT), now),
            }
        }
    }

    fn answer(&mut self, call: CallId, reply: Result<Reply, Failure>, now: Timestamp) {
        self.client.handle_answers([(call, Answer::One(reply))], &at(now), &mut |_, _| {});
    }

    fn carry_out(&mut self, event: Event<Request, (), Failure>, now: Timestamp) {
        match event {
            Event::GoOn(id) => self.client.go_on(id, now),
            Event::Won { grant, .. } => {
                assert!(self.client.count(grant), "nobody shuts down");
                self.client.change(grant, |leases| leases.handle_taken(0));
                // The nodes have said that nobody else waits, and tell of who comes.
                for node in (0..NODES).map(NodeId::new) {
                    self.client.handle_hint(node, &resource(0), LineHint::Alone, now);
                }
                self.grant = Some(grant);
                self.news.push(News::Won);
            }
            Event::GiveUp(..) | Event::Gone(_) => self.news.push(News::Refused),
            Event::Tell(_, action) => self.tell(action, now),
            Event::Extended { action, .. } => {
                action.into_iter().for_each(|action| self.tell(action, now));
            }
            // A round is not repeated here.
            Event::Look(id, _) => self.client.handle_gone_away(id),
            Event::GiveBack(..) => self.news.push(News::GiveBack),
            Event::Wake(_)
            | Event::Released(..)
            | Event::ReleaseQueued(..)
            | Event::ReleaseGivenUp(..) => {}
            event => panic!("nobody else asks: {event:?}"),
        }
    }

    fn tell(&mut self, action: LeaseAction, _: Timestamp) {
        if let LeaseAction::Lose(_) = action {
            self.news.push(News::Lost);
        }
    }

    /// A node has answered.
    pub(super) fn hear(
        &mut self,
        node: usize,
        heard: Letter,
        reply: Result<Reply, Failure>,
        now: Timestamp,
    ) {
        let is_it = |(_, at, letter): &(CallId, usize, Letter)| *at == node && *letter == heard;
        if let Some(open) = self.open.iter().position(is_it) {
            let (call, ..) = self.open.remove(open);
            self.answer(call, reply, now);
            self.settle(now);
        }
    }

    /// Whether anybody waits for the answer to this.
    pub(super) fn hears(&self, node: usize, heard: Letter) -> bool {
        self.open.iter().any(|(_, at, letter)| *at == node && *letter == heard)
    }

    pub(super) fn is_extending(&self) -> bool {
        self.open.iter().any(|(_, _, letter)| matches!(letter, Letter::Extend { .. }))
    }

    /// The time for its extension has passed: nobody waits for the answers any more.
    pub(super) fn give_up_extension(&mut self, now: Timestamp) {
        let is_extension =
            |(_, _, letter): &mut (CallId, usize, Letter)| matches!(letter, Letter::Extend { .. });
        let late: Vec<_> = self.open.extract_if(.., is_extension).collect();
        for (call, ..) in late {
            self.answer(call, Err(Failure::TIMED_OUT), now);
        }
        self.settle(now);
    }

    pub(super) fn leases(&self) -> Option<&Leases> {
        self.client.leases(self.grant?)
    }

    /// Its timers.
    pub(super) fn tick(&mut self, now: Timestamp) {
        let waiting = self.client.handle_timeout(&at(now));
        assert!(waiting.is_empty(), "nobody waits for so long");
        self.settle(now);
    }

    /// The next lease begins, behind the current one or of the kept grant. Its number.
    pub(super) fn hand_on(&mut self, next: NextLease, now: Timestamp) -> Option<u64> {
        let (client, id) = (&mut self.client, self.grant?);
        let number = client.leases(id)?.number();
        let request = request(next, WaitPolicy::Unlimited, now);
        let begun = match client.join(self.queue, None, request, now) {
            Came::Takes(kept, request) => client.resume(kept, &request.next, &at(now))?.0,
            Came::Waits(..) => {
                match client.may_pass(id).then(|| client.hand_on(id, number, &at(now)))?? {
                    (Passed::To(_, begun, _), _, late) if late.is_empty() => begun,
                    _ => return None,
                }
            }
            _ => return None,
        };
        client.change(id, |leases| leases.handle_taken(begun.number));
        self.settle(now);
        Some(begun.number)
    }

    /// Nobody is next, and it is kept. The number of the lease before.
    pub(super) fn keep(&mut self, now: Timestamp) -> Option<u64> {
        let id = self.grant?;
        let number = self.client.leases(id)?.number();
        let may_pass = self.client.may_pass(id);
        let passed = may_pass.then(|| self.client.hand_on(id, number, &at(now)))??;
        matches!(passed.0, Passed::Kept(_)).then_some(number)
    }

    /// It is shared with readers, and the nodes follow. The number of the lease before.
    pub(super) fn downgrade(&mut self, now: Timestamp) -> Option<u64> {
        let id = self.grant?;
        let number = self.client.leases(id)?.number();
        let downgraded = self.client.downgrade(id, number);
        self.client.extend(id, &at(now));
        self.settle(now);
        downgraded.map(|_| number)
    }

    /// Whether a request that saw it kept a moment ago would end it.
    pub(super) fn would_end_kept(&self, now: Timestamp) -> bool {
        let end = |id| self.client.clone().give_back(id, End::Kept, |(), _| (), &at(now));
        self.grant.is_some_and(|id| end(id).is_some())
    }

    /// It ends, and is given back to the nodes; false where it has ended before. Others are kept out up to then at least.
    pub(super) fn give_back(&mut self, hold: Option<Timestamp>, now: Timestamp) -> bool {
        let Some(id) = self.grant.take() else { return true };
        let number = self.client.leases(id).map(Leases::number).unwrap_or_default();
        if let Some(until) = hold {
            self.client.change(id, |leases| leases.hold(number, until));
        }
        let mut give_back = |end| self.client.give_back(id, end, |(), _| (), &at(now)).is_some();
        let is_given_back = give_back(End::Kept) || give_back(End::GivenBack(number));
        self.client.forget(id);
        self.settle(now);
        is_given_back
    }
}
