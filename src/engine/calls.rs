//! The node calls under way, and their time limits.
//!
//! It decides nothing. Calls are first polled in the order in which they were added, so that commands are sent in that
//! order (contract N1 of the node). An answer that has come counts, however late it is read.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::{
    FutureExt,
    stream::{FuturesUnordered, StreamExt},
};

use super::{Engine, shield::Answering};
use crate::{
    node::NodeError,
    protocol::{Answer, CallId, Command, NodeId, Reply, Sending, Timestamp, Transmit, VoteGuard},
    telemetry::metrics,
};

/// The shortest time between two looks for late calls.
const TOGETHER: Duration = Duration::from_millis(2);

/// The calls of one engine.
#[derive(Default)]
pub(super) struct Calls {
    open: FuturesUnordered<Call>,
    /// No limit comes before this.
    next_limit: Option<Timestamp>,
}

struct Call {
    about: About,
    answer: Asked,
    until: Timestamp,
    is_over: bool,
    waker: Option<Waker>,
}

/// What is known of a call besides its answer.
#[derive(Clone, Copy)]
struct About {
    id: CallId,
    node: NodeId,
    /// The guard under which a vote was asked; `None` for other calls.
    vote_guard: Option<VoteGuard>,
    begun: Timestamp,
    /// It is part of a round, so its duration is a sample.
    is_round: bool,
    /// The number of commands sent.
    commands: usize,
}

enum Asked {
    One(Answering<Reply>),
    Several(Answering<Vec<Result<Reply, NodeError>>>),
}

/// A call that has ended.
pub(super) struct Ended {
    about: About,
    answer: Answer<NodeError>,
}

impl Future for Call {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let answer = match &mut self.answer {
            Asked::One(answer) => answer.poll_unpin(cx).map(Answer::One),
            Asked::Several(answers) => answers.poll_unpin(cx).map(|answers| match answers {
                Ok(answers) => Answer::Several(answers),
                Err(error) => Answer::Failed(error),
            }),
        };
        let about = self.about;
        match answer {
            Poll::Ready(answer) => Poll::Ready(Ended { about, answer }),
            Poll::Pending if self.is_over => {
                Poll::Ready(Ended { about, answer: Answer::Failed(NodeError::TimedOut) })
            }
            Poll::Pending => {
                if self.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                    self.waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// No limit comes before this.
    pub(super) fn next_limit(&self) -> Option<Timestamp> {
        self.next_limit.filter(|_| !self.open.is_empty())
    }

    /// Makes a call, whose time begins now. `blocked` is its answer if the node is not to be asked.
    pub(super) fn add(
        &mut self,
        engine: &Engine,
        transmit: Transmit,
        vote_guard: Option<VoteGuard>,
        blocked: Option<NodeError>,
        now: Timestamp,
    ) {
        let Transmit { call: id, node, sending, until } = transmit;
        let Some(slot) = engine.slot(node) else { return };
        let (is_round, commands) = match &sending {
            Sending::One(command) => {
                (command.is_asking() || matches!(command, Command::Confirm { .. }), 1)
            }
            Sending::Several(commands) => (false, commands.len()),
        };
        let answer = match sending {
            Sending::One(command) => Asked::One(match blocked {
                None => slot.node.call(command),
                Some(error) => error.into(),
            }),
            Sending::Several(commands) => Asked::Several(match blocked {
                None => slot.node.call_many(commands),
                Some(error) => error.into(),
            }),
        };
        let until = until.unwrap_or_else(|| now.saturating_add(engine.config.node_timeout));
        if self.open.is_empty() {
            self.next_limit = None;
        }
        self.next_limit = Some(self.next_limit.map_or(until, |limit| limit.min(until)));
        let about = About { id, node, vote_guard, begun: now, is_round, commands };
        self.open.push(Call { about, answer, until, is_over: false, waker: None });
    }

    /// Takes out all calls that have ended.
    pub(super) fn poll_ended(&mut self, cx: &mut Context<'_>, ended: &mut Vec<Ended>) {
        while let Poll::Ready(Some(one)) = self.open.poll_next_unpin(cx) {
            ended.push(one);
        }
    }

    /// Ends late calls, except those that are waited for longer. Returns whether there are any.
    pub(super) fn end_late(
        &mut self,
        now: Timestamp,
        node_timeout: Duration,
        longer: impl Fn(CallId) -> Option<Timestamp>,
    ) -> bool {
        if self.next_limit.is_none_or(|limit| now < limit) {
            return false;
        }
        let (mut next, mut is_any) = (None, false);
        for call in self.open.iter_mut() {
            if call.until <= now
                && let Some(until) = longer(call.about.id)
            {
                // Looked at again within the node timeout: a decided release is not waited for.
                call.until = until.min(now.saturating_add(node_timeout));
            }
            if now < call.until {
                next = Some(next.map_or(call.until, |next: Timestamp| next.min(call.until)));
            } else {
                (call.is_over, is_any) = (true, true);
                // It is polled once more: its answer may have come.
                call.waker.take().into_iter().for_each(Waker::wake);
            }
        }
        // Each look goes through all calls.
        self.next_limit = next.map(|next| next.max(now.saturating_add(TOGETHER)));
        is_any
    }

    /// Nothing drives these calls any more: each has failed, and may have had an effect.
    pub(super) fn abandon(&mut self) -> Vec<Ended> {
        let open = std::mem::take(&mut self.open);
        let failed =
            |call: Call| Ended { about: call.about, answer: Answer::Failed(NodeError::TimedOut) };
        open.into_iter().map(failed).collect()
    }
}

impl Ended {
    /// Returns the answer, and records what it says of its node. A vote fails if its node lost its standing after the
    /// question and before the answer: such a vote may be older than the cause.
    pub(super) fn judge(self, engine: &Engine, now: Timestamp) -> (CallId, Answer<NodeError>) {
        let About { id, node, vote_guard, begun, is_round, commands } = self.about;
        let mut answer = self.answer;
        let errors: &mut dyn Iterator<Item = (&NodeError, Option<VoteGuard>)> = match &answer {
            Answer::One(Err(error)) | Answer::Failed(error) => {
                &mut std::iter::once((error, vote_guard))
            }
            Answer::One(Ok(_)) => &mut std::iter::empty(),
            Answer::Several(replies) => {
                &mut replies.iter().filter_map(|reply| Some((reply.as_ref().err()?, None)))
            }
        };
        errors.for_each(|(error, vote_guard)| engine.node_failed(node, error, vote_guard));
        let lapsed = || vote_guard.is_some_and(|vote_guard| !engine.admission().counts(vote_guard));
        // Errors stay as they are; only an answer becomes one.
        match &mut answer {
            Answer::One(result @ Ok(_)) => {
                if lapsed() {
                    *result = Err(NodeError::VoteLapsed);
                }
            }
            Answer::Several(replies) => {
                // If a transport returns too few answers, the rest is unknown.
                let missing = || {
                    let message = "fewer answers than commands".into();
                    Err(NodeError::Unexpected { message })
                };
                replies.resize_with(commands, missing);
                if lapsed() {
                    let all = replies.iter_mut().filter(|reply| reply.is_ok());
                    all.for_each(|reply| *reply = Err(NodeError::VoteLapsed));
                }
            }
            Answer::One(Err(_)) | Answer::Failed(_) => {}
        }
        if is_round
            && matches!(answer, Answer::One(Ok(_)))
            && let Some(slot) = engine.slot(node)
        {
            let took: Duration = now.saturating_since(begun);
            slot.round_trip.sample(took);
            metrics::round_trip(engine.labelled(slot), took);
        }
        (id, answer)
    }

    /// Whether the node has denied the request, which needs a look at the nodes' clocks.
    pub(super) const fn is_denied(&self) -> bool {
        matches!(self.answer, Answer::One(Ok(Reply::Denied(_))))
    }
}
