//! What a leader says of itself, and which nodes have it.
//!
//! It decides which nodes are told when: at once, again where one did not take it, and anew from time to time, since nodes
//! drop what stands beside a counter that nobody raises. It decides too from when on others may lead. It has no text, and
//! tells nobody.

use alloc::{vec, vec::Vec};
use core::time::Duration;

use super::{command::NodeId, loss::LossReason, round::Quorum, time::Timestamp};

/// What one leader says, by its number, and what has become of that on the nodes.
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
    needed: usize,
    number: u64,
    /// Which nodes have what is said now.
    has: Vec<bool>,
    /// What each node was told last, and whether its answer has come.
    asked: Vec<(u64, bool)>,
    /// Up to which number a quorum has taken what was said.
    confirmed: u64,
    /// When the loss of the lease was seen.
    lost_at: Option<Timestamp>,
    /// Its leader has no work any more.
    ended: bool,
}

impl Proclaiming {
    /// One who has just been elected says the first thing.
    pub fn new(quorum: Quorum) -> Self {
        let nodes = quorum.nodes();
        Self {
            needed: quorum.needed(),
            number: 1,
            has: vec![false; nodes],
            asked: vec![(0, true); nodes],
            confirmed: 0,
            lost_at: None,
            ended: false,
        }
    }

    /// Which number it has, what is said now.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Says something else from now on, under the number that is returned.
    pub fn say(&mut self) -> u64 {
        self.number = self.number.saturating_add(1);
        self.has.fill(false);
        self.number
    }

    /// All nodes may be asked again: those that owe an answer have had their time, and what they say later is not to be told
    /// here.
    pub fn handle_time_up(&mut self) {
        self.asked.fill((0, true));
    }

    /// Who is to be told what is said now: whoever lacks it, has not been told it, and owes no answer to what was said
    /// before, so that a node which hangs is asked once in a time-out, however much is said meanwhile.
    pub fn lacking(&self) -> impl Iterator<Item = NodeId> {
        let all = self.has.iter().zip(&self.asked).enumerate();
        let lack =
            all.filter(|(_, (has, (asked, answered)))| !**has && *answered && *asked < self.number);
        lack.map(|(index, _)| NodeId::new(index))
    }

    /// A node is told what has this number, and something newer may be said by now; or it is not, since it cannot be asked.
    pub fn handle_asked(&mut self, node: NodeId, number: u64, is_asked: bool) {
        if let Some(asked) = self.asked.get_mut(node.index()) {
            *asked = (number, !is_asked);
        }
    }

    /// A node has answered, and has taken what it was told, or has not. Says whether it has what is said now.
    pub fn handle_answer(&mut self, node: NodeId, is_taken: bool) -> bool {
        let Some(asked) = self.asked.get_mut(node.index()) else { return false };
        asked.1 = true;
        let is_current = is_taken && asked.0 == self.number;
        if is_current {
            if let Some(has) = self.has.get_mut(node.index()) {
                *has = true;
            }
            if self.told() >= self.needed {
                self.confirmed = self.number;
            }
        }
        is_current
    }

    /// How many nodes have what is said now.
    pub fn told(&self) -> usize {
        self.has.iter().filter(|has| **has).count()
    }

    /// Whether a quorum has taken this, or something newer.
    pub const fn is_confirmed(&self, number: u64) -> bool {
        self.confirmed >= number
    }

    /// For how long nothing is to be told, if nothing else is said. A node that has lost the key gets the record with it,
    /// when the lease is renewed. One that lacks the record alone gets it soon after; and what all have is told again before
    /// they drop it.
    pub fn pause(&self, retention: Duration, ttl: Duration) -> Duration {
        if self.is_told() { retention / 4 } else { ttl / 3 }
    }

    /// The pause is over.
    pub fn handle_pause_over(&mut self) {
        if self.is_told() {
            self.has.fill(false);
        }
    }

    /// When the loss was seen: now, where nobody has looked before.
    pub fn lost_at(&mut self, now: Timestamp) -> Timestamp {
        *self.lost_at.get_or_insert(now)
    }

    /// From when on others may lead, once the term is lost for this reason: from the end of the lease on; and from the loss
    /// on where the keys are gone, or have been given back, whatever is left of the time.
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

    /// Its leader has ended its work.
    pub const fn handle_ended(&mut self) {
        self.ended = true;
    }

    /// Whether its leader still is at work.
    pub const fn is_at_work(&self) -> bool {
        !self.ended
    }

    fn is_told(&self) -> bool {
        self.has.iter().all(|has| *has)
    }
}
