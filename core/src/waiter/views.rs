//! A waiter's view of each node: its answer in the last round, and its hints since.
//!
//! It counts, and decides nothing by the time.

use alloc::{boxed::Box, vec, vec::Vec};
use core::cmp::Reverse;

use crate::{
    command::{Denial, NodeId},
    line::{ClientId, LineHint},
    node_set::NodeSet,
    round::Quorum,
    time::Timestamp,
};

/// A node's answer in a round, as far as it concerns a line.
#[derive(Clone, Copy, Debug)]
pub enum LineAnswer<'a> {
    /// It has granted. The client no longer has a place in its line.
    Granted,
    /// It has denied.
    Denied(&'a Denial),
    /// It has not answered, and wakes nobody.
    Failed,
}

/// What is known of one node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct NodeView {
    /// Whether it has a line, once it has shown that.
    has_line: Option<bool>,
    /// Its last hint since the last round began.
    hint: Option<LineHint>,
    answer: Answer,
}

/// A node's answer in the last round.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
enum Answer {
    #[default]
    None,
    Granted,
    /// The key is free, and this client is the first.
    Behind(ClientId),
    Held {
        holder: Option<Box<[u8]>>,
        /// When the key ends.
        until: Option<Timestamp>,
    },
    Failed,
}

impl Answer {
    const fn is_free(&self) -> bool {
        matches!(self, Self::Granted | Self::Behind(_))
    }
}

/// All nodes, as one client sees them.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Views {
    client: ClientId,
    quorum: Quorum,
    nodes: Vec<NodeView>,
    /// Whether no request waits with the client's other place in the lines.
    is_left_behind: bool,
}

impl Views {
    pub(super) fn new(client: ClientId, quorum: Quorum) -> Self {
        let nodes = vec![NodeView::default(); quorum.nodes()];
        Self { client, quorum, nodes, is_left_behind: false }
    }

    pub(super) const fn quorum(&self) -> Quorum {
        self.quorum
    }

    pub(super) const fn handle_other_place(&mut self, is_left_behind: bool) {
        self.is_left_behind = is_left_behind;
    }

    /// Forgets earlier answers and hints.
    pub(super) fn begin_round(&mut self) {
        for node in &mut self.nodes {
            node.hint = None;
            node.answer = Answer::None;
        }
    }

    pub(super) fn note(&mut self, node: NodeId, answer: LineAnswer<'_>, now: Timestamp) {
        let Some(view) = self.nodes.get_mut(node.index()) else { return };
        view.answer = match answer {
            LineAnswer::Granted => Answer::Granted,
            LineAnswer::Failed => Answer::Failed,
            LineAnswer::Denied(denial) => {
                view.has_line = Some(denial.at.is_some());
                let is_in_the_way = |head| head != self.client || self.is_left_behind;
                match denial.behind.filter(|head| is_in_the_way(*head)) {
                    Some(head) => Answer::Behind(head),
                    None => Answer::Held {
                        holder: denial.holder.clone(),
                        until: denial.remaining.map(|left| now.saturating_add(left)),
                    },
                }
            }
        };
    }

    /// Takes a node's hint. Returns false if it is not for a waiter.
    pub(super) fn tell(&mut self, node: NodeId, hint: LineHint) -> bool {
        let hint = match hint {
            LineHint::StandBy { head } if head == self.client => LineHint::Next,
            hint @ (LineHint::Next | LineHint::StandBy { .. }) => hint,
            LineHint::Wanted | LineHint::Alone | LineHint::KeepsOut { .. } => return false,
        };
        let view = self.nodes.get_mut(node.index());
        view.map(|view| view.hint = Some(hint)).is_some()
    }

    /// Forgets a node's hint, which is in doubt.
    pub(super) fn forget_hint(&mut self, node: NodeId) {
        if let Some(view) = self.nodes.get_mut(node.index()) {
            view.hint = None;
        }
    }

    /// Whether the client stands in the line of a node, by the node's last answer.
    pub(super) fn stands_at(&self, node: NodeId) -> bool {
        let answer = self.nodes.get(node.index()).map(|node| &node.answer);
        matches!(answer, Some(Answer::Held { .. } | Answer::Behind(_)))
    }

    /// Whether a quorum has told that the client is the first before a free key.
    pub(super) fn wake(&self) -> bool {
        self.quorum.is_met_by(self.told(|hint| hint == LineHint::Next))
    }

    /// Whether any node has told so.
    pub(super) fn is_next_somewhere(&self) -> bool {
        !self.told(|hint| hint == LineHint::Next).is_empty()
    }

    /// `Some` if a quorum has told that the key is free, so that the client may stand by; within, the first that most
    /// of the nodes name which name another client.
    pub(super) fn stand_by(&self) -> Option<Option<ClientId>> {
        let heads = self.nodes.iter().filter_map(|node| match node.hint {
            Some(LineHint::StandBy { head }) => Some(head),
            _ => None,
        });
        self.quorum.is_met_by(self.told(|_| true)).then(|| most_named(heads))
    }

    /// The first before a free key, as most nodes name it in their answers.
    pub(super) fn first_by_answers(&self) -> Option<ClientId> {
        let heads = self.nodes.iter().filter_map(|node| match node.answer {
            Answer::Behind(head) => Some(head),
            _ => None,
        });
        // A key that a node calls held may just have been granted.
        let is_held_nowhere = self.that(|answer| matches!(answer, Answer::Held { .. })).is_empty();
        let is_free = is_held_nowhere || self.quorum.is_met_by(self.that(Answer::is_free));
        most_named(heads).filter(|_| is_free)
    }

    /// Whether one holder has the key on a quorum, or on every node that has answered.
    pub(super) fn are_held(&self) -> bool {
        let mut holders = self.holders().map(|(_, holder)| holder);
        let Some(one) = holders.next() else { return false };
        self.is_held_by_one() || self.is_free_nowhere() && holders.all(|holder| holder == one)
    }

    /// Whether one holder has the key on a quorum, and no node is free: pending acquires will be denied as well.
    pub(super) fn is_in_nobodys_way(&self) -> bool {
        self.is_held_by_one() && self.is_free_nowhere()
    }

    fn holders(&self) -> impl Iterator<Item = (NodeId, &Option<Box<[u8]>>)> + Clone {
        self.views().filter_map(|(node, view)| match &view.answer {
            Answer::Held { holder, .. } => Some((node, holder)),
            _ => None,
        })
    }

    fn is_held_by_one(&self) -> bool {
        let holders = self.holders();
        let with = |one| holders.clone().filter(move |(_, holder)| *holder == one);
        let nodes = |one| with(one).map(|(node, _)| node).collect();
        self.holders().any(|(_, one)| self.quorum.is_met_by(nodes(one)))
    }

    fn is_free_nowhere(&self) -> bool {
        self.that(Answer::is_free).is_empty()
    }

    /// When the keys in the way will have ended on a quorum, if known.
    pub(super) fn free_at(&self, now: Timestamp) -> Option<Timestamp> {
        let ends = self.views().filter_map(|(node, view)| match view.answer {
            Answer::Granted | Answer::Behind(_) => Some((now, node)),
            Answer::Held { until, .. } => Some((until?, node)),
            Answer::None | Answer::Failed => None,
        });
        let mut ends: Vec<(Timestamp, NodeId)> = ends.collect();
        ends.sort_unstable();
        // A node that has not answered yet is taken for as late as the last of the others.
        let last = ends.last().map(|(at, _)| *at)?;
        let unknown = self.that(|answer| *answer == Answer::None);
        ends.extend(unknown.iter().map(|node| (last, node)));
        self.quorum.met_at(NodeSet::NONE, &ends)
    }

    /// Whether a quorum of nodes may send hints.
    pub(super) fn have_lines(&self) -> bool {
        let tells = |view: &NodeView| view.has_line != Some(false) && view.answer != Answer::Failed;
        self.quorum.is_met_by(self.with(tells))
    }

    fn that(&self, what: impl Fn(&Answer) -> bool) -> NodeSet {
        self.with(|view| what(&view.answer))
    }

    fn told(&self, what: impl Fn(LineHint) -> bool) -> NodeSet {
        self.with(|view| view.hint.is_some_and(&what))
    }

    fn with(&self, what: impl Fn(&NodeView) -> bool) -> NodeSet {
        self.views().filter(|(_, view)| what(view)).map(|(node, _)| node).collect()
    }

    fn views(&self) -> impl Iterator<Item = (NodeId, &NodeView)> + Clone {
        self.nodes.iter().enumerate().map(|(index, view)| (NodeId::new(index), view))
    }
}

/// The client that is named most often; of several the smallest, so that clients with the same view agree.
fn most_named(clients: impl Iterator<Item = ClientId>) -> Option<ClientId> {
    let mut clients: Vec<ClientId> = clients.collect();
    clients.sort_unstable();
    let runs = clients.chunk_by(|a, b| a == b);
    let longest = runs.max_by_key(|run| (run.len(), Reverse(run.first().copied())));
    longest.and_then(|run| run.first().copied())
}

/// The median; of two in the middle, the lower.
pub(super) fn median(mut numbers: Vec<u64>) -> Option<u64> {
    numbers.sort_unstable();
    let middle = numbers.len().checked_sub(1)? / 2;
    numbers.get(middle).copied()
}
