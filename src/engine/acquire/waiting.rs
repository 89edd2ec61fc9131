//! How whoever asks the nodes for a resource waits between two rounds: in the lines on the nodes, and where there are too
//! few of them for the pause that `protocol::Acquisition` says.
//!
//! A wait ends early when the caller goes away, the engine is closed, or the resource is released in this process.

use std::{future::pending, pin::pin, sync::Arc};

use futures::future::{Either, select};

use super::Request;
use crate::{
    engine::{
        Engine, NodeSlot,
        fanout::{Fanout, Progress},
        round::AcquireRound,
        stand::Lost,
    },
    protocol::{
        ClientId, Command, LostRound, NodeId, RoundLoss, Target, Ticket, Timestamp, WaitPolicy,
    },
};

impl Engine {
    /// A lost round, with when the next one begins by the lines on the nodes.
    pub(super) fn stand_in_line(
        &self,
        request: &Request,
        round: &AcquireRound,
        lost: LostRound,
        now: Timestamp,
    ) -> LostRound {
        // Who asks once does not stand there, nor does who asks for a permit beside the line of this process.
        if request.asked.wait_policy == WaitPolicy::OneRound || request.is_beside_line() {
            return lost;
        }
        let (on_nodes, random) = (request.resource.on_nodes(), self.random_byte());
        match lost.loss {
            RoundLoss::Contended => {}
            RoundLoss::NoQuorum if lost.outdated => {
                return lost.in_line(on_nodes.handle_outdated(random, now));
            }
            RoundLoss::NoQuorum | RoundLoss::TooLate | RoundLoss::Abandoned => return lost,
        }
        let round_trip = self.round_trip.round_trip();
        let steady = self.steady();
        let clock = |slot: &NodeSlot| slot.node.clock().and_then(|clock| clock.at(steady));
        let clocks: Vec<Option<u64>> = self.nodes.iter().map(clock).collect();
        let outcomes = round.outcomes();
        // One that has not said who asks was denied for the same place as well.
        let is_left_behind = round.stood() && request.resource.has_left_a_place(outcomes);
        let clocks = &clocks;
        let shown = Lost { outcomes, is_left_behind, clocks, round_trip, random, now };
        let lost = lost.in_line(on_nodes.handle_lost(&shown));
        if lost.in_line.is_some() {
            request.resource.handle_placed();
        }
        lost
    }

    /// Pauses until `at`, or until the nodes or this process have told that there is something to be had. False says that
    /// the caller is gone.
    pub(super) async fn pause_before_round(&self, request: &mut Request, at: Timestamp) -> bool {
        let slot = Arc::clone(&request.resource);
        // In an outage they say nothing, and without a pause the nodes that are left would be asked all the time.
        let is_in_line = request.acquisition.is_in_line();
        let (mut closing, mut freed) = (pin!(self.closing()), pin!(slot.freed()));
        loop {
            let now = self.now();
            let in_line = slot.on_nodes().next_round(now).filter(|_| is_in_line);
            if in_line.is_some_and(|next| next <= now) {
                return !request.answer.is_closed();
            }
            // The one that has lost it may be another than this one, where both wait here.
            let until = in_line.map_or(at, |next| next.min(at));
            let moved = pin!(async {
                if in_line.is_some() { slot.on_nodes().moved().await } else { pending().await }
            });
            let over = select(closing.as_mut(), freed.as_mut());
            let pause = select(self.runtime.sleep_until(until), select(over, moved));
            match select(pin!(request.answer.closed()), pause).await {
                Either::Left(_) => return false,
                Either::Right((Either::Right((Either::Right(_), _)), _)) => {}
                Either::Right(_) => return true,
            }
        }
    }

    /// Gives up a place in the lines on the nodes, for which nobody waits here any more. Nobody waits for it to be done:
    /// without it, whoever is next has to find out that the first one does not come.
    pub(in crate::engine) fn leave_line(
        self: &Arc<Self>,
        target: &Target,
        client: ClientId,
        ticket: Ticket,
    ) {
        let all = (0..self.nodes.len()).map(NodeId::new).collect();
        self.leave_lines(target, client, ticket, all);
        self.resources.handle_place_gone(target);
    }

    /// The same on these nodes alone.
    pub(in crate::engine) fn leave_lines(
        self: &Arc<Self>,
        target: &Target,
        client: ClientId,
        ticket: Ticket,
        nodes: Vec<NodeId>,
    ) {
        let (engine, target) = (Arc::clone(self), target.clone());
        self.spawn(async move {
            let mut calls = Fanout::new(&engine);
            for node in nodes {
                for resource in target.lines() {
                    let resource = resource.clone();
                    calls.push(&engine, node, Command::Leave { resource, client, ticket });
                }
            }
            while let Progress::Answered(_) = calls.progress(&engine).await {}
        });
    }
}
