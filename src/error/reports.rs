//! What each node said in a round, and how that reads in one line.
//!
//! It decides nothing. It must never say of a node what the node has not said: one that was not waited for is not
//! accused, and a key that is gone is not held.

use std::{fmt, sync::Arc};

use crate::{
    node::NodeError,
    protocol::{self, Denial, Label, NodeId, Owner},
    text::{self, Said},
};

/// What one node said in a round.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NodeOutcome {
    /// It did what it was asked. In a failed acquire it is being undone.
    Granted,
    /// The resource is held by another client there, or (in a release) is not ours any more.
    Denied(Denial),
    /// It gave no usable answer.
    Failed(NodeError),
    /// It had not answered yet when the round ended, because its answer was not needed any more. That is no fault of
    /// the node.
    Unanswered,
    /// It was not asked: in a release, because it certainly had nothing of ours; in an acquire, because there was no
    /// quorum without the nodes that failed, or this process was busy with the resource itself.
    NotAsked,
}

impl NodeOutcome {
    /// What a node has said.
    pub(crate) fn of(said: &protocol::Said<NodeError>) -> Self {
        use protocol::Said;
        match said {
            Said::Granted => Self::Granted,
            Said::Implausible => Self::Failed(NodeError::CounterImplausible),
            Said::Denied(denial) => Self::Denied(denial.clone()),
            Said::Failed(error) => Self::Failed(error.clone()),
            Said::Unanswered => Self::Unanswered,
            Said::NotAsked => Self::NotAsked,
        }
    }

    /// How it reads; `granted` is what the node has done where it did what it was asked.
    fn said(&self, granted: &str) -> Said {
        match self {
            Self::Granted => Said::plain(granted),
            Self::Denied(denial) => denied(denial),
            Self::Failed(error) => error.said(),
            Self::Unanswered => Said::plain("no answer yet"),
            Self::NotAsked => Said::plain("not asked"),
        }
    }
}

fn denied(denial: &Denial) -> Said {
    if denial.gone {
        return Said::plain("its key is gone");
    }
    if denial.behind.is_some() {
        return Said::plain("free but reserved for waiting clients");
    }
    match (&denial.holder, denial.remaining) {
        (Some(holder), remaining) => {
            let label =
                denial.label.as_ref().map_or_else(String::new, |label| format!("`{label}`, "));
            let holder = format!("held by {label}`{}`", holder.escape_ascii());
            match remaining {
                Some(remaining) => Said::lasting(format_args!("{holder} for"), remaining),
                None => Said::plain(format_args!("{holder}, no expiry known")),
            }
        }
        (None, Some(remaining)) => Said::lasting("held by another client for", remaining),
        (None, None) => Said::plain("held by another client"),
    }
}

/// One node's part in a failed round.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct NodeReport {
    /// Its place in the configuration.
    pub node: NodeId,
    /// Its address, without credentials.
    pub address: Arc<str>,
    /// What it said.
    pub outcome: NodeOutcome,
}

impl NodeReport {
    /// A report, as a test makes one.
    pub fn new(node: NodeId, address: impl Into<Arc<str>>, outcome: NodeOutcome) -> Self {
        Self { node, address: address.into(), outcome }
    }
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_reports(f, std::slice::from_ref(self), "granted")
    }
}

/// The reports of all nodes of a round, printed in one line. Nodes that said the same are named together.
///
/// The default has no report, and a list of reports can be collected into one: for tests.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reports {
    nodes: Box<[NodeReport]>,
    /// Whose lease is in the way, where that is one of this process.
    held_here: Option<Owner>,
}

impl Reports {
    /// One report per configured node, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &NodeReport> {
        self.nodes.iter()
    }

    /// The reports of the nodes that failed.
    pub fn failures(&self) -> impl Iterator<Item = (&NodeReport, &NodeError)> {
        self.nodes.iter().filter_map(|report| match &report.outcome {
            NodeOutcome::Failed(error) => Some((report, error)),
            _ => None,
        })
    }

    /// The reports of the nodes on which another client holds the resource; of a release, also of those on which its
    /// key is gone.
    pub fn denials(&self) -> impl Iterator<Item = (&NodeReport, &Denial)> {
        self.nodes.iter().filter_map(|report| match &report.outcome {
            NodeOutcome::Denied(denial) => Some((report, denial)),
            _ => None,
        })
    }

    /// The holder that most of the denying nodes name, as it stands in their keys.
    pub(crate) fn holder(&self) -> Option<String> {
        if let Some(owner) = self.held_here {
            return Some(owner.to_string());
        }
        let named = || self.denials().filter_map(|(_, denial)| denial.holder.as_deref());
        let votes = |holder: &&[u8]| named().filter(|other| other == holder).count();
        named().max_by_key(votes).map(|holder| holder.escape_ascii().to_string())
    }

    /// The label of the holder that most of the nodes name, where they know it: see
    /// [`Builder::label`](crate::Builder::label).
    #[must_use]
    pub fn label(&self) -> Option<&Label> {
        let named = || self.denials().filter_map(|(_, denial)| denial.label.as_ref());
        let votes = |label: &&Label| named().filter(|other| other == label).count();
        named().max_by_key(votes)
    }

    /// The owner of the lease in the way, where that is one of the same [`Redlock`](crate::Redlock). No node was asked
    /// then: that would have told nothing else.
    #[must_use]
    pub const fn held_here(&self) -> Option<Owner> {
        self.held_here
    }

    /// The same reports, of a resource that this process holds itself.
    pub(crate) fn of_lease_here(mut self, owner: Owner) -> Self {
        self.held_here = Some(owner);
        self
    }

    /// Whether no holder is in the way: the nodes that denied found the resource free, and reserve it for the clients that
    /// wait in line. Waiting stands in that line; trying again and again does not.
    #[must_use]
    pub fn are_for_those_who_wait(&self) -> bool {
        let mut denials = self.denials().map(|(_, denial)| denial.behind.is_some()).peekable();
        denials.peek().is_some() && denials.all(|is_behind| is_behind)
    }

    /// The end of a message: what each node said, if there is any.
    pub(super) const fn after(&self, separator: &'static str) -> After<'_> {
        After { reports: &self.nodes, separator, granted: "granted" }
    }

    /// The same of a question.
    pub(super) const fn after_look(&self, separator: &'static str) -> After<'_> {
        After { reports: &self.nodes, separator, granted: "answered" }
    }

    /// The same of an extension.
    pub(super) const fn after_extension(&self, separator: &'static str) -> After<'_> {
        After { reports: &self.nodes, separator, granted: "extended" }
    }

    /// The same of a release.
    pub(super) const fn after_release(&self, separator: &'static str) -> After<'_> {
        After { reports: &self.nodes, separator, granted: "released" }
    }
}

impl FromIterator<NodeReport> for Reports {
    fn from_iter<I: IntoIterator<Item = NodeReport>>(reports: I) -> Self {
        Self { nodes: reports.into_iter().collect(), held_here: None }
    }
}

impl fmt::Display for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_reports(f, &self.nodes, "granted")
    }
}

/// Reports behind a text.
#[derive(Default)]
pub(super) struct After<'a> {
    reports: &'a [NodeReport],
    separator: &'static str,
    granted: &'static str,
}

impl fmt::Display for After<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reports.is_empty() {
            return Ok(());
        }
        f.write_str(self.separator)?;
        write_reports(f, self.reports, self.granted)
    }
}

fn write_reports(f: &mut fmt::Formatter<'_>, reports: &[NodeReport], granted: &str) -> fmt::Result {
    let said = |report: &NodeReport| report.outcome.said(granted);
    text::write_said(
        f,
        reports.iter().map(|report| (report.node.index(), &report.address, said(report))),
    )
}
