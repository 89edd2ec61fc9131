//! One fan-out that extends or ends a won round's lease, and the count of its replies.
//!
//! It decides whether a quorum of all configured nodes did it. It undoes nothing and sends nothing twice: a failed
//! extension takes nothing away, and the footprint handles what a failed release leaves behind.

use alloc::{collections::VecDeque, vec, vec::Vec};
use core::time::Duration;

use super::{
    RoundLoss,
    quorum::{Quorum, Verdict},
};
use crate::{
    command::{Command, Failure, NodeId, Reply},
    node_set::NodeSet,
    owner::Owner,
    target::Target,
    time::Timestamp,
    validity::{self, Drift},
};

/// What an extension asks for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ExtendSpec {
    /// What is held.
    pub target: Target,
    /// The value that its key must have.
    pub owner: Owner,
    /// The lifetime from now.
    pub ttl: Duration,
    /// How much longer the nodes keep the key.
    pub lock_delay: Duration,
    /// The allowance for clock rates.
    pub drift: Drift,
    /// Whether only admitted nodes may answer, as for every lease with a fencing token.
    pub fenced: bool,
}

impl ExtendSpec {
    /// An extension with the default drift that any node may answer.
    pub fn new(target: impl Into<Target>, owner: Owner, ttl: Duration) -> Self {
        let lock_delay = Duration::ZERO;
        let (target, drift) = (target.into(), Drift::default());
        Self { target, owner, ttl, lock_delay, drift, fenced: false }
    }
}

/// The state of one node in the count.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Count {
    NotAsked,
    Waiting,
    Granted,
    Denied,
    Failed,
}

/// One fan-out of extensions or releases.
///
/// Inputs are the `handle_*` calls. After the constructor, drain [`poll_command`](Tally::poll_command) and send its
/// commands in order to the node named; nothing follows later.
///
/// ```
/// use core::time::Duration;
/// use quorlock_core::{
///     ExtendSpec, Granted, NodeId, Owner, Quorum, Reply, Resource, Tally, Timestamp, Verdict,
/// };
///
/// let owner = Owner::from_random([7; 16]);
/// let spec = ExtendSpec::new(Resource::new("r")?, owner, Duration::from_secs(10));
/// let mut tally = Tally::extend(Quorum::of(3), spec, Timestamp::ORIGIN);
/// while let Some((_node, _command)) = tally.poll_command() {} // send them
///
/// let later = Timestamp::ORIGIN.saturating_add(Duration::from_millis(1));
/// tally.handle_reply(NodeId::new(2), Ok(Reply::Granted(Granted::DONE)), later);
/// tally.handle_reply(NodeId::new(0), Ok(Reply::Granted(Granted::DONE)), later);
/// assert_eq!(tally.verdict(), Verdict::Won);
/// # Ok::<(), quorlock_core::ResourceError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Tally {
    quorum: Quorum,
    /// Until when an extension may be relied on; `None` for a release, which promises nothing.
    deadline: Option<Timestamp>,
    counts: Vec<Count>,
    verdict: Verdict,
    loss: Option<RoundLoss>,
    /// The command, until it is handed out for all of these.
    command: Option<Command>,
    nodes: VecDeque<NodeId>,
}

impl Tally {
    /// Begins to extend a lease at `now`, read before the first command is sent. All configured nodes are asked and
    /// make up the quorum. A lost extension undoes nothing, because the validity promised before still runs.
    pub fn extend(quorum: Quorum, spec: ExtendSpec, now: Timestamp) -> Self {
        let ExtendSpec { target, owner, ttl, lock_delay, drift, fenced } = spec;
        let mut tally = Self::new(quorum, Some(validity::deadline(now, ttl, drift)));
        let ttl = validity::key_life(ttl, lock_delay);
        let command = Command::Extend { target, owner, ttl, fenced };
        tally.ask((0..quorum.nodes()).map(NodeId::new), command);
        tally.settle(now);
        tally
    }

    /// Begins to release, on the nodes `held`, what an acquire round may have set.
    ///
    /// The quorum is of all nodes: a node not named counts as having nothing to delete.
    pub fn release(
        quorum: Quorum,
        target: impl Into<Target>,
        owner: Owner,
        held: impl IntoIterator<Item = NodeId>,
    ) -> Self {
        Self::release_keeping(quorum, target, owner, None, held)
    }

    /// The same for a lease whose key stays for `keep` from now on, if given.
    pub fn release_keeping(
        quorum: Quorum,
        target: impl Into<Target>,
        owner: Owner,
        keep: Option<Duration>,
        held: impl IntoIterator<Item = NodeId>,
    ) -> Self {
        let (target, mut tally) = (target.into(), Self::new(quorum, None));
        tally.ask(held, Command::Release { target, owner, keep });
        tally.settle(Timestamp::ORIGIN);
        tally
    }

    fn new(quorum: Quorum, deadline: Option<Timestamp>) -> Self {
        Self {
            quorum,
            deadline,
            counts: vec![Count::NotAsked; quorum.nodes()],
            verdict: Verdict::Pending,
            loss: None,
            command: None,
            nodes: VecDeque::with_capacity(quorum.nodes()),
        }
    }

    fn ask(&mut self, nodes: impl IntoIterator<Item = NodeId>, command: Command) {
        for node in nodes {
            if let Some(count @ Count::NotAsked) = self.counts.get_mut(node.index()) {
                *count = Count::Waiting;
                self.nodes.push_back(node);
            }
        }
        self.command = Some(command).filter(|_| !self.nodes.is_empty());
    }

    /// The next command to send, if there is one.
    pub fn poll_command(&mut self) -> Option<(NodeId, Command)> {
        let node = self.nodes.pop_front()?;
        let is_last = self.nodes.is_empty();
        let command = if is_last { self.command.take() } else { self.command.clone() };
        Some((node, command?))
    }

    /// Takes the answer of `node`, which arrived at `now`. Each command is answered once; a second answer, or one of a
    /// node that was not asked, changes nothing.
    pub fn handle_reply(&mut self, node: NodeId, reply: Result<Reply, Failure>, now: Timestamp) {
        let Some(count @ Count::Waiting) = self.counts.get_mut(node.index()) else { return };
        *count = match reply {
            Ok(Reply::Granted(_)) => Count::Granted,
            Ok(Reply::Denied(_)) => Count::Denied,
            Err(_) => Count::Failed,
        };
        self.settle(now);
    }

    /// The time limit for one command to one node has passed: every node without a reply has failed.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        for index in 0..self.counts.len() {
            self.handle_reply(NodeId::new(index), Err(Failure::TIMED_OUT), now);
        }
    }

    /// The verdict so far.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Why it was lost; `None` while it is not.
    pub const fn loss(&self) -> Option<RoundLoss> {
        self.loss
    }

    /// Until when a won extension may be relied on; the origin for a release.
    pub fn deadline(&self) -> Timestamp {
        self.deadline.unwrap_or(Timestamp::ORIGIN)
    }

    /// The nodes that did it.
    pub fn granted(&self) -> NodeSet {
        self.count(&[Count::Granted])
    }

    fn count(&self, of: &[Count]) -> NodeSet {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| of.contains(count));
        counts.map(|(index, _)| NodeId::new(index)).collect()
    }

    fn settle(&mut self, now: Timestamp) {
        if self.verdict != Verdict::Pending {
            return;
        }
        let granted = self.granted();
        // Of all configured nodes: a release that asks two of five can confirm no more than two.
        let against = self.count(&[Count::NotAsked, Count::Denied, Count::Failed]);
        self.verdict = self.quorum.verdict(granted, against);
        let late = self.deadline.is_some_and(|deadline| validity::left(deadline, now).is_zero());
        match self.verdict {
            Verdict::Pending => {}
            // A quorum answered after the deadline it would give: others may have had the resource meanwhile.
            Verdict::Won if late => {
                self.verdict = Verdict::Lost;
                self.loss = Some(RoundLoss::TooLate);
            }
            Verdict::Won => {}
            Verdict::Lost => {
                // Nodes that were never asked say nothing of whether the key was there.
                let possible = self.count(&[Count::Granted, Count::Waiting, Count::Failed]);
                let unknown = self.quorum.is_met_by(possible);
                self.loss = Some(if unknown { RoundLoss::NoQuorum } else { RoundLoss::Contended });
            }
        }
    }
}
