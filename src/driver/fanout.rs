//! Commands on their way to several nodes at once, and the answers as they come back.
//!
//! It decides nothing. Commands are first polled in the order in which they were pushed, so that they are
//! sent in that order (contract N1 of the node).

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures::stream::{FuturesUnordered, Stream};

use super::Driver;
use crate::{
    node::{NodeError, NodeFuture},
    protocol::{Command, NodeId, Reply},
    runtime::Task,
};

/// Unanswered commands, with one time limit for all of them.
pub(super) struct Fanout<T = Reply> {
    calls: FuturesUnordered<Call<T>>,
    /// Answers that came before all commands had been sent.
    answered: VecDeque<Answer<T>>,
    /// Whether a command has been pushed and not been polled yet.
    unsent: bool,
    limit: Task,
}

struct Call<T> {
    node: NodeId,
    answer: NodeFuture<T>,
}

impl<T> Future for Call<T> {
    type Output = Answer<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let node = self.node;
        self.answer.as_mut().poll(cx).map(|result| (node, result))
    }
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
        let at = driver.now().saturating_add(driver.config.node_timeout);
        Self {
            calls: FuturesUnordered::new(),
            answered: VecDeque::new(),
            unsent: false,
            limit: driver.runtime.sleep_until(at),
        }
    }

    pub(super) fn add(&mut self, node: NodeId, answer: NodeFuture<T>) {
        self.calls.push(Call { node, answer });
        self.unsent = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.answered.is_empty()
    }

    pub(super) fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Progress<T>> {
        // Every command is sent before the first answer is looked at: what follows from an answer, such as a
        // release, must not overtake a command that has been decided on before.
        if std::mem::take(&mut self.unsent) {
            while let Poll::Ready(Some(answer)) = Pin::new(&mut self.calls).poll_next(cx) {
                self.answered.push_back(answer);
            }
        }
        if let Some(answer) = self.answered.pop_front() {
            return Poll::Ready(Progress::Answered(answer));
        }
        match Pin::new(&mut self.calls).poll_next(cx) {
            Poll::Ready(Some(answer)) => Poll::Ready(Progress::Answered(answer)),
            Poll::Ready(None) => Poll::Ready(Progress::Done),
            Poll::Pending if self.limit.as_mut().poll(cx).is_ready() => {
                self.calls.clear();
                Poll::Ready(Progress::TimedOut)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    pub(super) async fn progress(&mut self) -> Progress<T> {
        std::future::poll_fn(|cx| self.poll_progress(cx)).await
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
            self.add(node, Box::pin(async move { Ok((number, call.await)) }));
        }
    }
}
