//! The judge of elections: who acted when, and what observers saw; one invariant a file, each with its source.
//!
//! It knows nothing of how the history came about, and each of them is itself tried on histories written by hand.

mod alone;
#[cfg(test)]
mod by_hand;
mod elected;
mod in_order;
mod not_over;
mod terms;

use std::collections::BTreeMap;

use quorlock_core::Timestamp;

/// Work of a leader: from when to when it acted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Act {
    pub(super) client: usize,
    pub(super) term: u64,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

/// A leader as it was seen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Report {
    pub(super) observer: usize,
    pub(super) term: u64,
    pub(super) text: String,
    /// When the nodes were asked, at the earliest.
    pub(super) asked: Timestamp,
    pub(super) at: Timestamp,
}

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Which terms were won, by whom, and when that was known.
    pub(super) won: BTreeMap<u64, (usize, Timestamp)>,
    pub(super) acts: Vec<Act>,
    pub(super) reports: Vec<Report>,
}

impl History {
    /// What was done, in order of time. What ended as it began did nothing.
    fn acts_in_order(&self) -> Vec<&Act> {
        let mut acts: Vec<&Act> = self.acts.iter().filter(|act| act.from < act.until).collect();
        acts.sort_by_key(|act| (act.from, act.until));
        acts
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Violation {
    /// Two acted at once.
    Overlap(Act, Act),
    /// The second acted behind the first, with the smaller term.
    TermFell(Act, Act),
    /// Nobody had won it, or says so.
    NobodyWon(Report),
    /// The observer had seen a larger one.
    ReportFell(Box<Report>, Box<Report>),
    /// Another had been elected behind it before anybody was asked.
    WasOver(Report, u64),
}

/// All that must be true of a history.
pub(super) fn check(history: &History) -> Result<(), Violation> {
    alone::check(history)?;
    terms::check(history)?;
    elected::check(history)?;
    not_over::check(history)?;
    in_order::check(history)
}
