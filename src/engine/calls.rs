//! The calls of nodes that are under way, and their time limits.
//!
//! It decides nothing. A call is polled first in the order in which it was added, so that commands are sent in that order
//! (contract N1 of the node). An answer that has come counts, however late it is looked at.

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

/// No more often than this it is looked whose time is up.
const TOGETHER: Duration = Duration::from_millis(2);

/// Those of one engine.
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

/// What is known of a call beside its answer.
#[derive(Clone, Copy)]
struct About {
    id: CallId,
    node: NodeId,
    /// Under which it was asked; `None` of what is no vote.
    vote_guard: Option<VoteGuard>,
    begun: Timestamp,
    /// It is a part of a round, and shows how long one takes.
    is_round: bool,
    /// So many commands are sent.
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

    /// Makes a call, whose time begins now. Where the node is not to be asked, that is its answer.
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
                (matches!(command, Command::Acquire { .. } | Command::Confirm { .. }), 1)
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

    /// All that have ended by now.
    pub(super) fn poll_ended(&mut self, cx: &mut Context<'_>, ended: &mut Vec<Ended>) {
        while let Poll::Ready(Some(one)) = self.open.poll_next_unpin(cx) {
            ended.push(one);
        }
    }

    /// Ends those whose time is up, but for those that are waited for longer. Says whether there are any.
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
                // Once it is decided, it is not waited for any longer.
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
        // All are looked at each time.
        self.next_limit = next.map(|next| next.max(now.saturating_add(TOGETHER)));
        is_any
    }

    /// Nobody makes them any more: each has failed, and may have had an effect.
    pub(super) fn abandon(&mut self) -> Vec<Ended> {
        let open = std::mem::take(&mut self.open);
        let failed =
            |call: Call| Ended { about: call.about, answer: Answer::Failed(NodeError::TimedOut) };
        open.into_iter().map(failed).collect()
    }
}

impl Ended {
    /// What it has come to, and what that says of its node. A vote that was asked for before its node's standing was taken away,
    /// and is answered after it, is a failure: it may be from before whatever that was.
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
        // An error stays what it was; only an answer is turned into one.
        match &mut answer {
            Answer::One(result @ Ok(_)) => {
                if lapsed() {
                    *result = Err(NodeError::VoteLapsed);
                }
            }
            Answer::Several(replies) => {
                // Where a transport returns too few, the rest is unknown.
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

    /// Whether a node has denied something, for which the nodes' clocks are looked at.
    pub(super) const fn is_denied(&self) -> bool {
        matches!(self.answer, Answer::One(Ok(Reply::Denied(_))))
    }
}
