//! Commands on their way to several nodes at once, and the answers as they come back.
//!
//! It decides nothing. Commands are first polled in the order in which they were pushed, so that they are
//! sent in that order (contract N1 of the node). What a failure says of a node's standing is noted as it comes
//! in: by the time that somebody takes the answer, others may have judged the node.

use std::{
    collections::VecDeque,
    task::{Context, Poll},
};

use futures::FutureExt;

use super::{Driver, shield::Answering};
use crate::{
    node::{NodeError, NodeFuture},
    protocol::{Command, NodeId, Reply, Timestamp},
    runtime::Task,
};

/// Unanswered commands, with one time limit for all of them.
pub(super) struct Fanout<T = Reply> {
    /// In the order in which they were pushed. They are few: all are looked at when any of them may have ended.
    calls: Vec<(NodeId, Answering<T>)>,
    /// Answers that have come and have not been told.
    answered: VecDeque<Answer<T>>,
    limit: Task,
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
    pub(super) fn push(&mut self, driver: &Driver, node: NodeId, command: Command) {
        if let Some(member) = driver.member(node) {
            self.add(node, member.node.call(command));
        }
    }
}

impl<T> Fanout<T> {
    /// A fan-out whose commands must be answered within the node timeout from now.
    pub(super) fn new(driver: &Driver) -> Self {
        Self::begun_at(driver, driver.now())
    }

    /// The same, from a time that has just been read.
    pub(super) fn begun_at(driver: &Driver, now: Timestamp) -> Self {
        Self {
            calls: Vec::with_capacity(driver.nodes.len()),
            answered: VecDeque::new(),
            limit: driver.runtime.sleep_until(now.saturating_add(driver.config.node_timeout)),
        }
    }

    pub(super) fn add(&mut self, node: NodeId, answer: impl Into<Answering<T>>) {
        self.calls.push((node, answer.into()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.answered.is_empty()
    }

    pub(super) fn poll_progress(
        &mut self,
        driver: &Driver,
        cx: &mut Context<'_>,
    ) -> Poll<Progress<T>> {
        // Every command is sent before the first answer is told: what follows from an answer, such as a release,
        // must not overtake a command that has been decided on before.
        let answered = &mut self.answered;
        self.calls.retain_mut(|(node, call)| match call.poll_unpin(cx) {
            Poll::Ready(result) => {
                if let Err(error) = &result {
                    driver.node_failed(*node, error);
                }
                answered.push_back((*node, result));
                false
            }
            Poll::Pending => true,
        });
        match self.answered.pop_front() {
            Some(answer) => Poll::Ready(Progress::Answered(answer)),
            None if self.calls.is_empty() => Poll::Ready(Progress::Done),
            None if self.limit.as_mut().poll(cx).is_ready() => {
                self.calls.clear();
                Poll::Ready(Progress::TimedOut)
            }
            None => Poll::Pending,
        }
    }

    pub(super) async fn progress(&mut self, driver: &Driver) -> Progress<T> {
        std::future::poll_fn(|cx| self.poll_progress(driver, cx)).await
    }
}

/// The answer to one of several commands to a node, with its number.
pub(super) type Numbered = (usize, Result<Reply, NodeError>);

impl Fanout<Numbered> {
    pub(super) fn push_numbered(
        &mut self,
        driver: &Driver,
        node: NodeId,
        number: usize,
        command: Command,
    ) {
        if let Some(member) = driver.member(node) {
            let call = member.node.call(command);
            let numbered: NodeFuture<Numbered> = Box::pin(async move { Ok((number, call.await)) });
            self.add(node, numbered);
        }
    }
}
