//! What a client of this world has in its process: the production's `Client`, with one grant and its queue.
//!
//! Goal: who has the grant next, when it is looked at and what is set for it, the production alone decides. Method: whoever is
//! next joins the queue as any request does, right before the grant goes on; the timers of the client are asked at each tick.

use core::time::Duration;

use crate::protocol::{
    Acquisition, Asks, Backoff, Came, Client, Comer, DueNow, End, ExtendOutcome, Footprint,
    FootprintId, GrantId, HandOn, LeaseAction, Leases, NewGrant, NextLease, NodeId, OthersWait,
    Passed, QueueId, Situation, Timestamp, WaitPolicy, WaitSettings, turn_of,
};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Mine {
    client: Client<(), Request, ()>,
    queue: QueueId,
    footprint: FootprintId,
    /// Until it is given back.
    grant: Option<GrantId>,
}

/// Who is next here.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Request {
    acquisition: Acquisition,
    next: NextLease,
}

impl Asks<()> for Request {
    fn acquisition(&mut self) -> &mut Acquisition {
        &mut self.acquisition
    }

    fn turn_deadline(&self) -> Option<Timestamp> {
        self.acquisition.turn_deadline()
    }

    fn says_at(&self) -> Option<Timestamp> {
        None
    }

    fn next(&self, _: Timestamp) -> NextLease {
        self.next
    }

    fn handle_known(&mut self, (): &()) {}
}

impl Request {
    fn new(next: NextLease, now: Timestamp) -> Self {
        let (wait, backoff) =
            (Duration::ZERO, Backoff { min: Duration::ZERO, max: Duration::ZERO });
        let node_timeout = Duration::from_millis(500);
        let settings = WaitSettings { node_timeout, wait, backoff, through_outages: false };
        let acquisition = Acquisition::new(settings, WaitPolicy::Unlimited, now);
        Self { acquisition, next }
    }
}

const WAITS: Comer = Comer { asks_once: false, is_any: false };

impl Mine {
    /// The round is decided.
    pub(super) fn new(footprint: Footprint) -> Self {
        let mut client = Client::default();
        let (queue, footprint) = (client.open_queue(), client.add_footprint(footprint));
        Self { client, queue, footprint, grant: None }
    }

    /// It is won.
    pub(super) fn win(&mut self, leases: Leases, next: NextLease, now: Timestamp) {
        let Self { client, queue, footprint, .. } = self;
        let came = client.join(*queue, WAITS, (false, None), Request::new(next, now), now);
        let Came::Asks(place, ..) = came else { panic!("nobody is there: {came:?}") };
        let (station, footprint) = (Some((*queue, place)), *footprint);
        let id = client.begin(NewGrant { leases, footprint, station, data: () });
        let _ = client.schedule(id);
        assert!(client.count(id));
        client.handle_won(*queue, place, id, now);
        client.change(id, |leases| leases.handle_taken(0));
        self.grant = Some(id);
    }

    pub(super) fn footprint(&mut self) -> &mut Footprint {
        self.client.footprint(self.footprint).expect("it is there")
    }

    pub(super) fn leases(&self) -> Option<&Leases> {
        self.client.leases(self.grant?)
    }

    /// Its timers.
    pub(super) fn tick(&mut self, now: Timestamp) -> DueNow {
        self.client.handle_timeout(now)
    }

    pub(super) fn handle_extension(
        &mut self,
        outcome: ExtendOutcome,
        was_lowered: bool,
        now: Timestamp,
    ) -> Option<LeaseAction> {
        let id = self.grant?;
        let outcome = self.client.leases(id)?.judged(outcome, was_lowered);
        self.client.handle_extension(id, outcome, now).0
    }

    /// The lease behind the current one begins, or one that takes what is kept. Its number.
    pub(super) fn hand_on(&mut self, next: NextLease, now: Timestamp) -> Option<u64> {
        let (client, id) = (&mut self.client, self.grant?);
        let number = client.leases(id)?.number();
        let request = Request::new(next, now);
        let begun = match client.join(self.queue, WAITS, (false, None), request, now) {
            Came::Takes(kept, request) => client.resume(kept, &request.next, situation(now))?.0,
            Came::Waits(..) => {
                let given_back =
                    HandOn { situation: situation(now), heard_until: None, closed: false };
                match client.may_pass(id).then(|| client.hand_on(id, number, given_back))?? {
                    (Passed::To(_, begun, _), _, late) if late.is_empty() => begun,
                    _ => return None,
                }
            }
            _ => return None,
        };
        client.change(id, |leases| leases.handle_taken(begun.number));
        Some(begun.number)
    }

    /// Nobody is next, and it is kept. The number of the lease before.
    pub(super) fn keep(&mut self, now: Timestamp) -> Option<u64> {
        let id = self.grant?;
        let number = self.client.leases(id)?.number();
        let given_back = HandOn { situation: situation(now), heard_until: None, closed: false };
        let may_pass = self.client.may_pass(id);
        let passed = may_pass.then(|| self.client.hand_on(id, number, given_back))??;
        matches!(passed.0, Passed::Kept(_)).then_some(number)
    }

    /// It is shared with readers. The number of the lease before.
    pub(super) fn lower(&mut self) -> Option<u64> {
        let id = self.grant?;
        let number = self.client.leases(id)?.number();
        self.client.change(id, |leases| leases.lower(number)).flatten().map(|_| number)
    }

    /// Whether what is kept would end by one who has found it kept a moment ago.
    pub(super) fn would_end_kept(&self) -> bool {
        self.grant.is_some_and(|id| self.client.clone().end(id, End::Kept).is_some())
    }

    /// It ends, and is given back to the nodes, in this order; nothing where it has ended before.
    pub(super) fn give_back(&mut self) -> Option<Vec<NodeId>> {
        let id = self.grant.take()?;
        let number = self.client.leases(id).map(Leases::number).unwrap_or_default();
        let ended = self.client.end(id, End::Kept);
        let ended = ended.or_else(|| self.client.end(id, End::GivenBack(number)));
        self.client.handle_grant_over(id);
        self.client.forget(id);
        self.client.close_queue(self.queue);
        Some(ended?.orders.iter().map(|order| order.node).collect())
    }
}

/// Nobody else is known to wait.
fn situation(now: Timestamp) -> Situation {
    Situation { others: OthersWait::Nobody, turn: turn_of(None), now, steady: now }
}
