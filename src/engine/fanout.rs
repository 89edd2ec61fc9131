//! Commands on their way to several nodes at once, and the answers as they come back.
//!
//! It decides nothing. Commands are first polled in the order in which they were pushed, so that they are
//! sent in that order (contract N1 of the node). What a failure says of a node's standing is noted as it comes
//! in: by the time that somebody takes the answer, others may have judged the node. A vote that was asked for before
//! its node's standing was taken away, and is answered after it, is turned into a failure: it may be from before
//! whatever that was.

use std::{
    collections::VecDeque,
    task::{Context, Poll},
};

use futures::FutureExt;

use super::{Engine, shield::Answering};
use crate::{
    node::NodeError,
    protocol::{Command, NodeId, Reply, Timestamp, VoteGuard},
    runtime::Task,
};

/// Unanswered commands, with one time limit for all of them.
pub(super) struct Fanout<T = Reply> {
    /// In the order in which they were pushed. They are few: all are looked at when any of them may have ended.
    calls: Vec<Call<T>>,
    /// Answers that have come and have not been told.
    answered: VecDeque<Answer<T>>,
    limit: Timestamp,
    /// From when an answer is waited for.
    timer: Option<Task>,
}

struct Call<T> {
    node: NodeId,
    answer: Answering<T>,
    /// Under which it was asked; `None` of what is no vote.
    vote_guard: Option<VoteGuard>,
}

/// What one node answered.
pub(super) type Answer<T> = (NodeId, Result<T, NodeError>);

/// What happened next.
pub(super) enum Progress<T = Reply> {
    /// A node answered.
    Answered(Answer<T>),
    /// The time limit has passed; the unanswered commands have been dropped.
    TimedOut,
    /// Every command has been answered.
    Done,
}

impl Fanout {
    pub(super) fn push(&mut self, engine: &Engine, node: NodeId, command: Command) {
        let Some(slot) = engine.slot(node) else { return };
        // That a key is gone is true whatever becomes of the node.
        let vote_guard =
            (!matches!(command, Command::Release { .. })).then(|| engine.vote_guard(node));
        self.calls.push(Call { node, answer: slot.node.call(command), vote_guard });
    }
}

impl<T> Fanout<T> {
    /// A fan-out whose commands must be answered within the node timeout from now.
    pub(super) fn new(engine: &Engine) -> Self {
        Self::begun_at(engine, engine.now())
    }

    /// The same, from a time that has just been read.
    pub(super) fn begun_at(engine: &Engine, now: Timestamp) -> Self {
        Self::until(engine, now.saturating_add(engine.config.node_timeout))
    }

    /// A fan-out whose commands must be answered by then.
    pub(super) fn until(engine: &Engine, limit: Timestamp) -> Self {
        Self {
            calls: Vec::with_capacity(engine.nodes.len()),
            answered: VecDeque::with_capacity(engine.nodes.len()),
            limit,
            timer: None,
        }
    }

    /// Adds a command whose answer is a vote.
    pub(super) fn add_vote(
        &mut self,
        engine: &Engine,
        node: NodeId,
        answer: impl Into<Answering<T>>,
    ) {
        let vote_guard = Some(engine.vote_guard(node));
        self.calls.push(Call { node, answer: answer.into(), vote_guard });
    }

    /// Adds a command whose answer is none.
    pub(super) fn add(&mut self, node: NodeId, answer: impl Into<Answering<T>>) {
        self.calls.push(Call { node, answer: answer.into(), vote_guard: None });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.answered.is_empty()
    }

    pub(super) fn poll_progress(
        &mut self,
        engine: &Engine,
        cx: &mut Context<'_>,
    ) -> Poll<Progress<T>> {
        if let Some(answer) = self.answered.pop_front() {
            return Poll::Ready(Progress::Answered(answer));
        }
        // Every command is sent before the first answer is told: what follows from an answer, such as a release,
        // must not overtake a command that has been decided on before.
        let answered = &mut self.answered;
        self.calls.retain_mut(|call| match call.answer.poll_unpin(cx) {
            Poll::Ready(result) => {
                let node = call.node;
                if let Err(error) = &result {
                    engine.node_failed(node, error, call.vote_guard);
                }
                let lapsed = call
                    .vote_guard
                    .is_some_and(|vote_guard| !engine.admission().counts(vote_guard));
                // An error stays what it was; only an answer is turned into one.
                let result = if lapsed { result.and(Err(NodeError::VoteLapsed)) } else { result };
                answered.push_back((node, result));
                false
            }
            Poll::Pending => true,
        });
        match self.answered.pop_front() {
            Some(answer) => Poll::Ready(Progress::Answered(answer)),
            None if self.calls.is_empty() => Poll::Ready(Progress::Done),
            // After the answers: those that have come count, however late this task was run.
            None if self.poll_timer(engine, cx).is_ready() => {
                self.calls.clear();
                Poll::Ready(Progress::TimedOut)
            }
            None => Poll::Pending,
        }
    }

    fn poll_timer(&mut self, engine: &Engine, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| engine.runtime.sleep_until(self.limit));
        timer.poll_unpin(cx)
    }

    pub(super) async fn progress(&mut self, engine: &Engine) -> Progress<T> {
        std::future::poll_fn(|cx| self.poll_progress(engine, cx)).await
    }
}
