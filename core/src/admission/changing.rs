//! A change from one list of nodes to the next, by a client with both lists.
//!
//! Clients with the old list alone are done with before the first with the new list alone begins. This takes four steps;
//! any client with both lists takes them, several may do so at once, and each step may be repeated:
//!
//! 1. *Seal* a majority of the old list: a sealed node gives votes and extensions to clients with both lists alone.
//! 2. *Look again* at these and find a majority of it still sealed, each in the same epoch: so all were sealed at one
//!    moment. A node that forgot before may have been admitted unsealed, by a client that had looked at the others before
//!    they were sealed. A client that looks behind that moment sees a seal.
//! 3. *Wait* for as long as a quarantine: whatever a client with the old list alone had begun is over.
//! 4. *Open* the nodes of the new list, with counters above those that step 2 read: no token of such a client is above.
//!
//! A node that is open proves that all this is done. So whoever reads one opens the others at once.
//!
//! It decides when each step is taken. It never opens a node before the wait, nor without having read an open one.
//!
//! # Invariants
//!
//! - **F1** A node of the new list is opened only where an open one was read, or a quarantine after a majority of the old
//!   list was sealed at one moment: two looks, one sent behind the other's answers, found the same epochs sealed.
//! - **F2** The counters of a node that is opened go on above every counter that a majority of the old list told behind its
//!   seals, or above those of a node that was open.
//! - **F3** A node that has forgotten gets a record that is no wider than those of the others allow: the old list's only
//!   where a majority of it is unsealed, the new list's only where an open node was read.

use alloc::vec::Vec;

use super::{
    Admission, AdmissionNews, Errand, Marker, NodeRecord, Standing,
    step::{ProbeStep, look_at},
};
use crate::{
    command::NodeId,
    members::{Relation, Serves},
    node_set::NodeSet,
    time::Timestamp,
};

/// How far this client has come.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Change {
    /// Whether an operator has asked this client to end the change.
    wanted: bool,
    /// The nodes that were found sealed first, each in this epoch.
    found: Vec<(NodeId, u64)>,
    /// Since when a majority of the old list is known to be sealed, and the largest counter that it told.
    sealed: Option<(Timestamp, u64)>,
}

/// The step of one probe.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Changing {
    Begun,
    Sealing,
    Verifying,
    Ending,
}

impl Admission {
    /// Ends the change of this client's two lists, though no client with the new list alone asks for it.
    pub const fn end_change(&mut self) {
        self.change.wanted = true;
    }

    /// Whether this client has two lists, and a node of the new one does not serve clients with that alone.
    pub fn is_changing(&self) -> bool {
        let [before, after] = self.quorum.lists();
        let open = self.marked(|marker| marker.ready && marker.serves == Some(Serves::After));
        before != after && !after.without(open).is_empty()
    }

    /// The nodes that vote for this client and serve so.
    fn serving(&self, serves: impl Fn(Option<Serves>) -> bool) -> NodeSet {
        let is_ready = |node: &NodeId| self.standing(*node) == Standing::Ready;
        let those = self.marked(|marker| serves(marker.serves));
        those.iter().filter(is_ready).collect()
    }

    /// The nodes whose record says this.
    fn related(&self, is: impl Fn(Relation) -> bool) -> Vec<NodeId> {
        let is = |record: &NodeRecord| record.relation.is_some_and(&is);
        let nodes = self.nodes.iter().enumerate().filter(|(_, record)| is(record));
        nodes.map(|(index, _)| NodeId::new(index)).collect()
    }

    /// What this client does first for the change, if anything: which nodes it looks at, for which errand.
    fn begin_change(&mut self, now: Timestamp) -> Option<(Changing, Vec<NodeId>, Errand)> {
        let [before, after] = self.quorum.lists();
        // A node that serves this client proves its generation.
        if self.serving(|_| true).is_empty() && self.change.sealed.is_none() {
            return None;
        }
        let earlier = self.related(|relation| relation == Relation::Earlier);
        if !earlier.is_empty() {
            return Some((Changing::Ending, earlier, Errand::TakeEarlier));
        }
        let open = self.serving(|serves| serves == Some(Serves::After));
        let closed: Vec<NodeId> = if before == after {
            self.related(|relation| matches!(relation, Relation::Into(_)))
        } else {
            self.serving(|serves| serves != Some(Serves::After)).and(after).iter().collect()
        };
        if closed.is_empty() {
            return None;
        }
        if !open.is_empty() {
            return Some((Changing::Ending, closed, Errand::Open(self.largest(open))));
        }
        // Where the new list cannot vote, the old one goes on.
        if !self.quorum.is_met_after_by(self.serving(|_| true)) {
            return None;
        }
        if let Some((since, floor)) = self.change.sealed {
            if now.saturating_since(since) < self.quarantine() {
                return None;
            }
            self.news.push_back(AdmissionNews::Opened);
            return Some((Changing::Ending, closed, Errand::Open(floor)));
        }
        let is_asked = self.change.wanted || !self.marked(|marker| marker.asked).is_empty();
        let nodes = self.serving(|_| true).and(before).iter().collect();
        is_asked.then_some((Changing::Sealing, nodes, Errand::Seal))
    }

    /// The largest counter that the last markers of these nodes tell.
    fn largest(&self, nodes: NodeSet) -> u64 {
        let marks = nodes.iter().filter_map(|node| self.record(node)?.marker);
        marks.map(|marker| marker.high_water).max().unwrap_or_default()
    }

    /// Whom a node that has forgotten may serve, by the markers of the others.
    pub(super) fn record_for(&self, node: NodeId, others: &[(NodeId, Marker)]) -> Serves {
        let [before, after] = self.quorum.lists();
        let knows = others.iter().filter(|(_, marker)| marker.knows()).map(|(node, _)| *node);
        let knows_before = self.quorum.is_met_before_by(knows.collect());
        if before == after
            || has(others, |_, marker| marker.serves == Some(Serves::After)) && after.contains(node)
        {
            Serves::After
        } else if self.sees_seal(others) || !before.contains(node) || !knows_before {
            Serves::Both
        } else {
            Serves::Before
        }
    }

    /// Whether a marker says that the old list may be done with.
    pub(super) fn sees_seal(&self, markers: &[(NodeId, Marker)]) -> bool {
        let [before, after] = self.quorum.lists();
        let is_seal = |node: NodeId, marker: &Marker| match marker.serves {
            None | Some(Serves::Before) => false,
            Some(Serves::Both) => before.contains(node),
            Some(Serves::After) => true,
        };
        before != after && has(markers, is_seal)
    }
}

fn has(markers: &[(NodeId, Marker)], is: impl Fn(NodeId, &Marker) -> bool) -> bool {
    markers.iter().any(|(node, marker)| marker.knows() && is(*node, marker))
}

impl Changing {
    /// The next step after these markers; `None` at the end.
    pub(super) fn poll(
        &mut self,
        admission: &mut Admission,
        heard: &[(NodeId, Marker)],
        now: Timestamp,
    ) -> Option<ProbeStep> {
        let look = admission.look();
        let [before, _] = admission.quorum.lists();
        match self {
            Self::Begun => {
                let (next, nodes, errand) = admission.begin_change(now)?;
                *self = next;
                Some(look_at(nodes, look.errand(errand)))
            }
            Self::Sealing => {
                let sealed = sealed(before, heard).map(|(node, marker)| (node, marker.epoch));
                let sealed: Vec<(NodeId, u64)> = sealed.collect();
                let nodes: Vec<NodeId> = sealed.iter().map(|(node, _)| *node).collect();
                admission.change.found = sealed;
                *self = Self::Verifying;
                Some(look_at(nodes, look))
            }
            Self::Verifying => {
                // In the same epoch it has forgotten nothing: it was sealed all the time between both looks.
                let found = core::mem::take(&mut admission.change.found);
                let still = sealed(before, heard)
                    .filter(|(node, marker)| found.contains(&(*node, marker.epoch)));
                let floor = still.clone().map(|(_, marker)| marker.high_water).max();
                if admission.quorum.is_met_before_by(still.map(|(node, _)| node).collect()) {
                    admission.change.sealed = floor.map(|floor| (now, floor));
                    let wait = admission.quarantine();
                    admission.news.push_back(AdmissionNews::Sealed { wait });
                }
                None
            }
            Self::Ending => None,
        }
    }
}

/// The nodes of the old list that give no vote to clients with that list alone, by these markers.
fn sealed(
    before: NodeSet,
    heard: &[(NodeId, Marker)],
) -> impl Iterator<Item = (NodeId, Marker)> + Clone {
    let is_sealed = move |(node, marker): &(NodeId, Marker)| {
        marker.ready
            && marker.serves.is_some_and(|serves| serves != Serves::Before)
            && before.contains(*node)
    };
    heard.iter().copied().filter(is_sealed)
}
