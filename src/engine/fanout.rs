//! Commands on their way to several nodes at once, and the answers as they come back.
//!
//! It decides nothing. Commands are first polled in the order in which they were pushed, so that they are sent in that
//! order (contract N1 of the node). A failure's effect on a node's standing is recorded at once: before the answer is
//! taken, others may have judged the node. A vote fails if its node lost its standing after the question and before the
//! answer: such a vote may be older than the cause.

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
    /// In the order in which they were pushed. They are few: each poll looks at all of them.
    calls: Vec<Call<T>>,
    /// Answers that have come and have not been returned.
    answered: VecDeque<Answer<T>>,
    limit: Timestamp,
    /// Made when the first wait begins.
    timer: Option<Task>,
}

struct Call<T> {
    node: NodeId,
    answer: Answering<T>,
    /// The guard under which a vote was asked; `None` for other commands.
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
        // A deletion stays true whatever becomes of the node.
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

    /// Like `new`, from a time that has just been read.
    pub(super) fn begun_at(engine: &Engine, now: Timestamp) -> Self {
        Self::until(engine, now.saturating_add(engine.config.node_timeout))
    }

    /// A fan-out whose commands must be answered by `limit`.
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

    /// Adds a command whose answer is no vote.
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
        // Every command is sent before the first answer is returned: a command that follows from an answer, such as a
        // release, must not overtake one decided before.
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
                // Errors stay as they are; only an answer becomes one.
                let result = if lapsed { result.and(Err(NodeError::VoteLapsed)) } else { result };
                answered.push_back((node, result));
                false
            }
            Poll::Pending => true,
        });
        match self.answered.pop_front() {
            Some(answer) => Poll::Ready(Progress::Answered(answer)),
            None if self.calls.is_empty() => Poll::Ready(Progress::Done),
            // Checked after the answers: those that have come count, however late this task was run.
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
