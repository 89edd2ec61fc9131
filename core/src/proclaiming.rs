//! A leader's records, and which nodes have the current one.
//!
//! It decides when each node is told: at once, again where it did not take the record, and anew from time to time, as
//! nodes drop a record beside a counter that is not raised. It also decides from when on others may lead. It has no
//! text, and tells nobody.

use alloc::{vec, vec::Vec};
use core::time::Duration;

use super::{command::NodeId, loss::LossReason, node_set::NodeSet, round::Quorum, time::Timestamp};

/// One leader's records, by number, and their state on the nodes.
///
/// ```
/// use quorlock_core::{NodeId, Proclaiming, Quorum};
///
/// let mut says = Proclaiming::new(Quorum::of(3));
/// let all: Vec<NodeId> = says.lacking().collect();
/// assert_eq!(all.len(), 3);
/// for node in &all[..2] {
///     says.handle_asked(*node, 1, true);
///     says.handle_answer(*node, true);
/// }
/// assert!(says.is_confirmed(1));
/// assert_eq!(says.lacking().collect::<Vec<_>>(), [all[2]]);
/// // Something else is said.
/// assert_eq!(says.say(), 2);
/// assert_eq!(says.lacking().count(), 3);
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Proclaiming {
    quorum: Quorum,
    number: u64,
    /// The nodes that have the current record.
    has: NodeSet,
    /// The number that each node was last told, and whether its answer has come.
    asked: Vec<(u64, bool)>,
    /// The largest number that a quorum has taken.
    confirmed: u64,
    /// When the loss of the lease was seen.
    lost_at: Option<Timestamp>,
    /// Whether the leader has ended its work.
    ended: bool,
}

impl Proclaiming {
    /// The first record of a newly elected leader.
    pub fn new(quorum: Quorum) -> Self {
        let nodes = quorum.nodes();
        Self {
            quorum,
            number: 1,
            has: NodeSet::NONE,
            asked: vec![(0, true); nodes],
            confirmed: 0,
            lost_at: None,
            ended: false,
        }
    }

    /// The number of the current record.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Begins a new record, and returns its number.
    pub fn say(&mut self) -> u64 {
        self.number = self.number.saturating_add(1);
        self.has = NodeSet::NONE;
        self.number
    }

    /// Allows all nodes to be asked again: nodes that owe an answer have had their time. The caller hands in no later
    /// answer of theirs.
    pub fn handle_time_up(&mut self) {
        self.asked.fill((0, true));
    }

    /// The nodes to tell the current record: each lacks it, has not been told it, and owes no answer to an earlier one.
    /// So a node that hangs is asked once in a time-out, however many records begin meanwhile.
    pub fn lacking(&self) -> impl Iterator<Item = NodeId> {
        let all = self.asked.iter().enumerate().map(|(index, asked)| (NodeId::new(index), asked));
        let lack = all.filter(|(node, (asked, answered))| {
            !self.has.contains(*node) && *answered && *asked < self.number
        });
        lack.map(|(node, _)| node)
    }

    /// A node is told the record with this number, which may be outdated by now; or it is not, as it cannot be asked.
    pub fn handle_asked(&mut self, node: NodeId, number: u64, is_asked: bool) {
        if let Some(asked) = self.asked.get_mut(node.index()) {
            *asked = (number, !is_asked);
        }
    }

    /// A node has answered, and has taken the record that it was told, or has not. Returns whether it took the current
    /// one.
    pub fn handle_answer(&mut self, node: NodeId, is_taken: bool) -> bool {
        let Some(asked) = self.asked.get_mut(node.index()) else { return false };
        asked.1 = true;
        let is_current = is_taken && asked.0 == self.number;
        if is_current {
            self.has.insert(node);
            if self.quorum.is_met_by(self.has) {
                self.confirmed = self.number;
            }
        }
        is_current
    }

    /// How many nodes have the current record.
    pub const fn told(&self) -> usize {
        self.has.len()
    }

    /// Whether a quorum has taken this record, or a newer one.
    pub const fn is_confirmed(&self, number: u64) -> bool {
        self.confirmed >= number
    }

    /// How long nothing is to be told, if no new record begins. A node that has lost the key gets the record with it,
    /// at a renewal of the lease. A node that lacks only the record gets it soon after. A record that all nodes have is
    /// told again before they drop it.
    pub fn pause(&self, retention: Duration, ttl: Duration) -> Duration {
        if self.is_told() { retention / 4 } else { ttl / 3 }
    }

    /// The pause is over: a record that all nodes have is told again.
    pub fn handle_pause_over(&mut self) {
        if self.is_told() {
            self.has = NodeSet::NONE;
        }
    }

    /// When the loss was first seen: `now` at the first call.
    pub fn lost_at(&mut self, now: Timestamp) -> Timestamp {
        *self.lost_at.get_or_insert(now)
    }

    /// From when on others may lead, once the term is lost for this reason: from the end of the lease. If the keys are
    /// gone or were given back, it is from the loss, if that is earlier.
    pub fn over_at(
        &mut self,
        reason: LossReason,
        is_given_back: bool,
        deadline: Timestamp,
        now: Timestamp,
    ) -> Timestamp {
        if reason == LossReason::Gone || is_given_back {
            self.lost_at(now).min(deadline)
        } else {
            deadline
        }
    }

    /// The leader has ended its work.
    pub const fn handle_ended(&mut self) {
        self.ended = true;
    }

    /// Whether the leader is still at work.
    pub const fn is_at_work(&self) -> bool {
        !self.ended
    }

    const fn is_told(&self) -> bool {
        self.has.len() == self.quorum.nodes()
    }
}
