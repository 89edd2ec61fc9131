//! What a client of this world has in its process: the production's `Client`, with one grant and its queue.
//!
//! Goal: who has the grant next, when it is looked at and what is set for it, the production alone decides. Method: whoever is
//! next joins the queue as any request does, right before the grant goes on; the timers of the client are asked at each tick.

use core::time::Duration;

use crate::{
    model::{node::resource, request::Request},
    protocol::{
        Came, Client, ClientId, ClientSettings, DueNow, End, ExtendOutcome, Footprint, FootprintId,
        GrantId, HandOn, Lane, LeaseAction, Leases, LineHint, NewGrant, NextLease, NodeId, Passed,
        QueueId, Quorum, RoundAsked, Timestamp, WaitPolicy, turn_of,
    },
};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Mine {
    client: Client<(), Request, (), ()>,
    queue: QueueId,
    footprint: FootprintId,
    /// Until it is given back.
    grant: Option<GrantId>,
}

/// Who is next here.
fn request(next: NextLease, now: Timestamp) -> Request {
    Request::new(0, (WaitPolicy::Unlimited, now, Duration::ZERO), next)
}

impl Mine {
    /// The round is decided.
    pub(super) fn new(footprint: Footprint) -> Self {
        let (node_timeout, name) = (Duration::from_millis(500), ClientId::new([0; 8]));
        let quorum = Quorum::of(1);
        let mut client = Client::new(ClientSettings { quorum, client: name, node_timeout });
        let footprint = client.add_footprint(footprint);
        let queue = client.open_queue(&resource(0).into());
        Self { client, queue, footprint, grant: None }
    }

    /// It is won.
    pub(super) fn win(&mut self, leases: Leases, next: NextLease, now: Timestamp) {
        let Self { client, queue, footprint, .. } = self;
        let came = client.join(*queue, None, request(next, now), now);
        let Came::Begins(place, ask, _, mut turn) = came else {
            panic!("nobody is there: {came:?}")
        };
        client.give_back(Lane::Acquires, &mut turn, None, now);
        // The nodes have said that nobody else waits, and tell of who comes.
        let asked =
            RoundAsked { may_have_several: true, lingers: false, ttl: Duration::from_secs(600) };
        client.begin_round(ask, asked, now);
        client.handle_hint(NodeId::new(0), &resource(0), LineHint::Alone, now);
        let (station, footprint) = (Some((*queue, place)), *footprint);
        let id = client.begin(NewGrant { leases, footprint, station, data: () });
        let _ = client.schedule(id);
        assert!(client.count(id));
        client.handle_won(ask, id, turn_of(None), now);
        client.change(id, |leases| leases.handle_taken(0));
        self.grant = Some(id);
        self.settle();
    }

    /// Nobody else asks here, and the timers are asked at each tick: there is nothing to carry out.
    fn settle(&mut self) {
        while self.client.poll_event().is_some() {}
    }

    pub(super) fn footprint(&mut self) -> &mut Footprint {
        self.client.footprint(self.footprint).expect("it is there")
    }

    pub(super) fn leases(&self) -> Option<&Leases> {
        self.client.leases(self.grant?)
    }

    /// Its timers.
    pub(super) fn tick(&mut self, now: Timestamp) -> DueNow {
        let due = self.client.handle_timeout(now);
        self.settle();
        due
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
        let next = request(next, now);
        let begun = match client.join(self.queue, None, next, now) {
            Came::Takes(kept, request) => client.resume(kept, &request.next, hand_on(now))?.0,
            Came::Waits(..) => {
                match client.may_pass(id).then(|| client.hand_on(id, number, hand_on(now)))?? {
                    (Passed::To(_, begun, _), _, late) if late.is_empty() => begun,
                    _ => return None,
                }
            }
            _ => return None,
        };
        client.change(id, |leases| leases.handle_taken(begun.number));
        self.settle();
        Some(begun.number)
    }

    /// Nobody is next, and it is kept. The number of the lease before.
    pub(super) fn keep(&mut self, now: Timestamp) -> Option<u64> {
        let id = self.grant?;
        let number = self.client.leases(id)?.number();
        let may_pass = self.client.may_pass(id);
        let passed = may_pass.then(|| self.client.hand_on(id, number, hand_on(now)))??;
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
        self.settle();
        Some(ended?.orders.iter().map(|order| order.node).collect())
    }
}

fn hand_on(now: Timestamp) -> HandOn {
    HandOn { turn: turn_of(None), now, steady: now }
}
