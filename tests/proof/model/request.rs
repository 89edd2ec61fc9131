//! A request, as the production's queues know it.
//!
//! Goal: whatever a queue asks of a request is answered by the production's `Acquisition`. Method: a number, by which the world
//! knows it again, beside that.
//!
//! Not modelled here: what a round has met, which is told to nobody; who says for whom it waits.

use core::time::Duration;
use std::sync::Arc;

use crate::protocol::{
    Acquisition, Asks, Backoff, Failure, Met, NextLease, Timestamp, WaitPolicy, WaitSettings,
};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Request {
    pub(crate) index: usize,
    pub(crate) acquisition: Acquisition,
    pub(crate) next: NextLease,
    pub(crate) asks_once: bool,
    /// Its caller has gone.
    pub(crate) gone: bool,
}

impl Request {
    /// A request that pauses for so long between two rounds.
    pub(crate) fn new(
        index: usize,
        (policy, began, pause): (WaitPolicy, Timestamp, Duration),
        next: NextLease,
    ) -> Self {
        let (wait, node_timeout) = (Duration::ZERO, Duration::from_millis(500));
        let backoff = Backoff { min: pause, max: pause };
        let settings = WaitSettings { node_timeout, wait, backoff, through_outages: true };
        let acquisition = Acquisition::new(settings, policy, began);
        let asks_once = policy == WaitPolicy::OneRound;
        Self { index, acquisition, next, asks_once, gone: false }
    }
}

impl Asks<Failure> for Request {
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

    fn handle_known(&mut self, _: &Arc<Met<Failure>>) {}

    fn handle_met(&mut self, _: &Arc<Met<Failure>>) {}

    fn is_in_time(&self, met: &Arc<Met<Failure>>) -> bool {
        met.would_do_for(self.next.wanted.ttl, self.next.wanted.min_validity)
    }

    fn asks_once(&self) -> bool {
        self.asks_once
    }

    fn is_given_up(&self) -> bool {
        self.gone
    }
}
