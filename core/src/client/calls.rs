//! Commands on their way to the nodes: their order, and what each answer belongs to.
//!
//! It decides the order: each node is sent commands in the order of the decisions (N1). So no acquire overtakes the
//! release before it. When thousands of places are given up, some wait, but a round for the same resource sends them
//! first (`undo`). It sends nothing twice, and never withdraws a call that it has handed out.
//!
//! The driver sends the calls of [`Client::poll_transmit`] in that order. It answers each once: with the node's reply,
//! or with an error if none came within the node timeout after the send.

use alloc::vec::Vec;
use core::time::Duration;

use super::{AskId, Asks, AttemptId, Client, Leaving, ReleaseId, RenewalId, RestoreId};
use crate::{
    command::{Command, Denial, Failure, NodeId, Reply},
    time::Timestamp,
    waiter::LineAnswer,
};

/// A node's error, as the driver keeps it.
pub trait Fails: Clone {
    /// What it means for the command and the node.
    fn failure(&self) -> Failure;
    /// Whether the time for an answer ran out.
    fn is_late(&self) -> bool;
}

impl Fails for Failure {
    fn failure(&self) -> Failure {
        *self
    }

    fn is_late(&self) -> bool {
        *self == Self::TIMED_OUT
    }
}

/// The time of an input, and what the driver has measured by then.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment<'a> {
    /// The time.
    pub now: Timestamp,
    /// The same by the steady clock, which errs only by running behind.
    pub steady: Timestamp,
    /// How long hand-overs may go on while others wait: [`turn`](crate::turn_of).
    pub turn: Duration,
    /// How long a round takes, if known.
    pub round_trip: Option<Duration>,
    /// Each node's clock, if known; used where a node has denied something.
    pub clocks: &'a [Option<u64>],
}

/// One call to a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CallId(pub(super) Purpose);

/// Its purpose.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum Purpose {
    /// An acquire or a confirm of a round.
    Acquire(AttemptId, NodeId),
    Release(ReleaseId, NodeId),
    /// A release that is sent again, by its index in its batch.
    Again(NodeId, usize),
    Extend(RenewalId, NodeId),
    Restore(RestoreId, NodeId),
    /// Nobody waits for its answer.
    Leave(NodeId),
}

/// The commands of one call.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Sending {
    /// One command.
    One(Command),
    /// Several extensions, in one message.
    Several(Vec<Command>),
}

/// A call to make.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Transmit {
    /// The id under which it is answered.
    pub call: CallId,
    /// The node to call.
    pub node: NodeId,
    /// What is sent.
    pub sending: Sending,
    /// Its deadline; `None`: a node timeout after it is sent.
    pub until: Option<Timestamp>,
}

/// The result of a call.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Answer<E> {
    /// Of one command.
    One(Result<Reply, E>),
    /// Of several, one for each.
    Several(Vec<Result<Reply, E>>),
    /// All of them have failed.
    Failed(E),
}

/// A node's answer to a command.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub enum Said<E> {
    /// It was not asked.
    #[default]
    NotAsked,
    /// It has not answered yet.
    Unanswered,
    /// It did what it was asked.
    Granted,
    /// It did so, with a counter that no clock explains: no vote.
    Implausible,
    /// It refused, for this reason.
    Denied(Denial),
    /// It gave no usable answer.
    Failed(E),
}

/// A node's answer, in the form that decisions use.
pub(super) fn replied<E: Fails>(result: &Result<Reply, E>) -> Result<Reply, Failure> {
    match result {
        Ok(reply) => Ok(reply.clone()),
        Err(error) => Err(error.failure()),
    }
}

impl<E> Said<E> {
    /// Classifies an answer.
    pub fn of(result: Result<Reply, E>) -> Self {
        match result {
            Ok(Reply::Granted(_)) => Self::Granted,
            Ok(Reply::Denied(denial)) => Self::Denied(denial),
            Err(error) => Self::Failed(error),
        }
    }

    /// The same, for a line.
    pub(super) const fn of_line(&self) -> Option<LineAnswer<'_>> {
        match self {
            Self::Granted | Self::Implausible => Some(LineAnswer::Granted),
            Self::Denied(denial) => Some(LineAnswer::Denied(denial)),
            Self::Failed(_) => Some(LineAnswer::Failed),
            Self::Unanswered | Self::NotAsked => None,
        }
    }
}

/// The next thing to send.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Outgoing {
    /// The commands that this round still has by then.
    Attempt(AttemptId),
    Call(Transmit),
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// The next call to make.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        loop {
            match self.outbox.front()? {
                Outgoing::Attempt(id) => {
                    if let Some(transmit) = self.poll_attempt(*id) {
                        return Some(transmit);
                    }
                    self.outbox.pop_front();
                }
                Outgoing::Call(_) => {
                    if let Some(Outgoing::Call(transmit)) = self.outbox.pop_front() {
                        return Some(transmit);
                    }
                }
            }
        }
    }

    /// These calls were not made; they go before all others.
    pub fn put_back(&mut self, transmits: impl DoubleEndedIterator<Item = Transmit>) {
        for transmit in transmits.rev() {
            self.outbox.push_front(Outgoing::Call(transmit));
        }
    }

    /// Takes the results of calls. Acquire rounds go on only after all of them are recorded.
    ///
    /// `log` learns of each request whose round was lost.
    pub fn handle_answers(
        &mut self,
        answers: impl IntoIterator<Item = (CallId, Answer<E>)>,
        at: &Moment<'_>,
        log: &mut dyn FnMut(&mut W, Told<'_>),
    ) {
        self.turn = at.turn;
        let mut told = Vec::new();
        for (call, answer) in answers {
            match (call.0, answer) {
                (Purpose::Extend(id, node), answer) => {
                    self.handle_extend_answer(id, node, answer, at);
                }
                (purpose, Answer::One(result)) => {
                    told.extend(self.handle_answer(purpose, result, at));
                }
                (purpose, Answer::Failed(error)) => {
                    told.extend(self.handle_answer(purpose, Err(error), at));
                }
                // Only extensions are sent together.
                (_, Answer::Several(_)) => {}
            }
        }
        told.into_iter().for_each(|id| self.follow(id, at, log));
        self.let_in(at);
    }

    fn handle_answer(
        &mut self,
        purpose: Purpose,
        result: Result<Reply, E>,
        at: &Moment<'_>,
    ) -> Option<AttemptId> {
        match purpose {
            Purpose::Acquire(id, node) => return self.handle_attempt_answer(id, node, result, at),
            Purpose::Release(id, node) => self.handle_release_answer(id, node, result, at),
            Purpose::Again(node, number) => self.handle_again_answer(node, number, result, at),
            Purpose::Restore(id, node) => self.handle_restore_answer(id, node, result, at),
            Purpose::Leave(node) => self.handle_left(node),
            Purpose::Extend(..) => {}
        }
        None
    }

    /// Until when to wait beyond an answer's time limit: while a release is undecided, there is no hurry.
    pub fn waits_longer(&self, call: CallId) -> Option<Timestamp> {
        match call.0 {
            Purpose::Release(id, _) => {
                self.releasing.get(id.0)?.waits_until(self.settings.node_timeout)
            }
            _ => None,
        }
    }

    /// How much must be done before a client may go: rounds, releases, and their clean-up.
    pub fn under_way(&self) -> usize {
        let again = self.again.iter().filter(|again| again.attended).count();
        let leaving = self.leaving.iter().map(Leaving::len).sum();
        let open = [self.attempts.len(), self.releasing.len(), self.restores.len(), leaving];
        // A decision not carried out yet may be the end of any of them.
        let decided = [again, self.events.len(), self.begins.len()];
        open.into_iter().chain(decided).fold(0, usize::saturating_add)
    }
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// Whether there is a command to send or a round to begin.
    pub fn has_transmits(&self) -> bool {
        !self.outbox.is_empty() || !self.begins.is_empty()
    }

    /// How many calls there are to make at most, as decided now.
    pub fn transmits(&self) -> usize {
        // A round asks each node once until that is answered.
        self.outbox.len().saturating_mul(self.settings.quorum.nodes())
    }

    /// Leaves the begin of its round to the driver's task, which knows the nodes' state right before they are asked.
    pub fn begin_later(&mut self, id: AskId) {
        self.begins.push_back(id);
        let wakeup = self.look();
        self.wake(wakeup);
    }

    /// The request whose round the driver's task begins next.
    pub fn poll_begin(&mut self) -> Option<AskId> {
        self.begins.pop_front()
    }

    pub(super) fn send(&mut self, call: Purpose, node: NodeId, command: Command) {
        self.send_all(call, node, Sending::One(command));
    }

    pub(super) fn send_all(&mut self, call: Purpose, node: NodeId, sending: Sending) {
        let transmit = Transmit { call: CallId(call), node, sending, until: None };
        self.send_next(Outgoing::Call(transmit));
    }

    pub(super) fn send_next(&mut self, outgoing: Outgoing) {
        self.outbox.push_back(outgoing);
        let wakeup = self.look();
        self.wake(wakeup);
    }
}

/// What the log learns of a request.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// Its round, with this owner, was lost; this many nodes had granted it.
    Lost(&'a crate::LostRound, crate::Owner, usize),
    /// It waits on; this many clients stand before this one in the nodes' lines.
    Waits(Option<u32>),
}
