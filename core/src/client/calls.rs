//! Commands on their way to the nodes: in which order they go out, and what each answer belongs to.
//!
//! It decides the order: what is decided first is sent first, to each node (N1). So no acquire overtakes the release before it.
//! Of places that are given up by the thousand a part waits, but for a round of the same (`undo`).
//! It sends nothing twice, and never withdraws what has been handed out.
//!
//! A driver sends what [`Client::poll_transmit`] yields, in that order, and answers each call once: by what the node has said,
//! or by an error where it has said nothing within the node timeout from when it was sent.

use alloc::vec::Vec;
use core::time::Duration;

use super::{AskId, Asks, AttemptId, Client, Leaving, ReleaseId, RenewalId, RestoreId};
use crate::{
    command::{Command, Denial, Failure, NodeId, Reply},
    time::Timestamp,
    waiter::LineAnswer,
};

/// An error of a node, as a driver keeps it.
pub trait Fails: Clone {
    /// What it says of the command and of the node.
    fn failure(&self) -> Failure;
    /// Whether it says that the time for an answer is up.
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

/// When something happens, and what a driver has measured by then.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment<'a> {
    /// The time.
    pub now: Timestamp,
    /// The same by a clock that may only err by running behind.
    pub steady: Timestamp,
    /// For how long hand-overs may go on while others wait: [`turn`](crate::turn_of).
    pub turn: Duration,
    /// How long a round takes, where that is known.
    pub round_trip: Option<Duration>,
    /// The clock of each node, where it is known. It is looked at where a node has denied something.
    pub clocks: &'a [Option<u64>],
}

/// One call of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CallId(pub(super) Purpose);

/// What it is for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum Purpose {
    /// An acquire or a confirm of a round.
    Acquire(AttemptId, NodeId),
    Release(ReleaseId, NodeId),
    /// A release that is sent again, by its place among those that are sent together.
    Again(NodeId, usize),
    Extend(RenewalId, NodeId),
    Restore(RestoreId, NodeId),
    /// Nobody waits for its answer.
    Leave(NodeId),
}

/// What is sent in one call.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Sending {
    /// One command.
    One(Command),
    /// Several extensions, in one message.
    Several(Vec<Command>),
}

/// A call that is to be made.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Transmit {
    /// By which its answer is told.
    pub call: CallId,
    /// Which node is called.
    pub node: NodeId,
    /// What is sent.
    pub sending: Sending,
    /// When its time is up: a node timeout after it is sent where nothing is said.
    pub until: Option<Timestamp>,
}

/// What a call has come to.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Answer<E> {
    /// Of one command.
    One(Result<Reply, E>),
    /// Of several, one for each.
    Several(Vec<Result<Reply, E>>),
    /// All of them have failed.
    Failed(E),
}

/// What a node has said to a command.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub enum Said<E> {
    /// It was not asked.
    #[default]
    NotAsked,
    /// It has not answered yet.
    Unanswered,
    /// It did what it was asked.
    Granted,
    /// It did the same, with a counter that no clock explains, so that this is no vote.
    Implausible,
    /// It did not, and had its reason.
    Denied(Denial),
    /// It gave no usable answer.
    Failed(E),
}

/// What a node has answered, as it is decided by.
pub(super) fn replied<E: Fails>(result: &Result<Reply, E>) -> Result<Reply, Failure> {
    match result {
        Ok(reply) => Ok(reply.clone()),
        Err(error) => Err(error.failure()),
    }
}

impl<E> Said<E> {
    /// What an answer amounts to.
    pub fn of(result: Result<Reply, E>) -> Self {
        match result {
            Ok(Reply::Granted(_)) => Self::Granted,
            Ok(Reply::Denied(denial)) => Self::Denied(denial),
            Err(error) => Self::Failed(error),
        }
    }

    /// The same, as far as a line is concerned.
    pub(super) const fn of_line(&self) -> Option<LineAnswer<'_>> {
        match self {
            Self::Granted | Self::Implausible => Some(LineAnswer::Granted),
            Self::Denied(denial) => Some(LineAnswer::Denied(denial)),
            Self::Failed(_) => Some(LineAnswer::Failed),
            Self::Unanswered | Self::NotAsked => None,
        }
    }
}

/// What is sent next.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Outgoing {
    /// What this round asks for, as far as it does by then.
    Attempt(AttemptId),
    Call(Transmit),
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// The next call to be made.
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

    /// These calls have not been made, and are to be made before all others.
    pub fn put_back(&mut self, transmits: impl DoubleEndedIterator<Item = Transmit>) {
        for transmit in transmits.rev() {
            self.outbox.push_front(Outgoing::Call(transmit));
        }
    }

    /// Takes what calls have come to. All that came together is taken in before anything follows from any of it.
    ///
    /// Of requests whose round was lost, `log` is told.
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
                // Nothing but extensions is sent together.
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

    /// The time for an answer is up. Up to when it is waited for all the same: until it is decided whether a lease is
    /// released, there is no hurry.
    pub fn waits_longer(&self, call: CallId) -> Option<Timestamp> {
        match call.0 {
            Purpose::Release(id, _) => {
                self.releasing.get(id.0)?.waits_until(self.settings.node_timeout)
            }
            _ => None,
        }
    }

    /// How much is under way that is to be done before a client may go: rounds, releases, and what makes up for them.
    pub fn under_way(&self) -> usize {
        let again = self.again.iter().filter(|again| again.attended).count();
        let leaving = self.leaving.iter().map(Leaving::len).sum();
        let open = [self.attempts.len(), self.releasing.len(), self.restores.len(), leaving];
        // What has been decided and not carried out may be the end of any of them.
        let decided = [again, self.events.len(), self.begins.len()];
        open.into_iter().chain(decided).fold(0, usize::saturating_add)
    }
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// Whether there is anything to be sent, or a round to be begun.
    pub fn has_transmits(&self) -> bool {
        !self.outbox.is_empty() || !self.begins.is_empty()
    }

    /// How many calls there are to be made at most, by what is decided now.
    pub fn transmits(&self) -> usize {
        // A round asks each node once, up to when it is answered.
        self.outbox.len().saturating_mul(self.settings.quorum.nodes())
    }

    /// Leaves it to the driver's task to begin the round of this one: by what is known of the nodes right before they are asked.
    pub fn begin_later(&mut self, id: AskId) {
        self.begins.push_back(id);
        let wakeup = self.look();
        self.wake(wakeup);
    }

    /// Whose round the driver's task is to begin next.
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

/// What a log is told of a request.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// Its round was lost, which was the one with this owner. So many nodes had granted it.
    Lost(&'a crate::LostRound, crate::Owner, usize),
    /// It waits on. So many clients stand before this one in the lines on the nodes.
    Waits(Option<u32>),
}
