//! The leader of an election, from what the nodes say of its key and of the record beside it.
//!
//! It decides what an observer may report. It must never report a term whose key, with its record, stands on fewer than
//! a quorum of all nodes. It must never report a smaller term than before: that leader is an earlier one.
//!
//! # Invariants
//!
//! - **E1** A record is written only for a round that is won, beside its own key. It is never a vote, and no counter moves.
//! - **E2** An observer reports a term only where a quorum says so, and never a smaller one than before.
//! - **E3** The work of a leader is polled only until its lease ends by the clock, or its keys are known to be gone, and
//!   nothing is released before that work has ended or was dropped.
//! - **E4** Terms are the tokens of the leases, unique and rising, and each has an owner of its own: an election's grant is
//!   not handed on. A campaign that is dropped leaves nothing.
//!
//! *Why a reported term was won:* by E1 the record says so. An owner serves one round (P6), and by E4 one lease, so
//! that the records beside the keys of one owner are of one term. No observer can say whether it still leads: the
//! receiver of its orders compares terms.
//!
//! E2 is tested in `election_test.rs`, the others by name in `tests/leases/election.rs`, and all of them, under faults, in
//! `tests/proof/sim` and `tests/chaos`.

use alloc::vec::Vec;
use core::time::Duration;

use super::{
    command::NodeId,
    fencing::FencingToken,
    holder::{Finding, Sighting},
    note::{LeaderText, Note, Record},
    owner::Owner,
    round::Quorum,
};

/// The leader, as a quorum of nodes says.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Leader {
    /// Its term, which is the fencing token of its lease. Its orders carry the term, so that the receiver can refuse
    /// those of an earlier leader.
    pub term: FencingToken,
    /// Its text about itself.
    pub text: LeaderText,
    /// The owner of its lease.
    pub owner: Owner,
    /// Since when it leads, by its own wall clock.
    pub since: Duration,
    /// The number of the text in its term: a text with a larger number is later.
    pub number: u64,
}

/// What the nodes say together of an election.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Look {
    /// A quorum has no key: at some moment while the nodes were asked, nobody led.
    Nobody,
    /// A quorum has this leader's key, with its record.
    Leads(Leader),
    /// Neither: a leader is about to begin, or has just ended; or the state is unknown.
    Between,
}

impl Look {
    /// Counts the nodes that answered. The caller leaves out the others and those that may not vote: they count as
    /// unknown.
    pub fn of<'a>(
        quorum: Quorum,
        seen: impl IntoIterator<Item = (NodeId, &'a Sighting), IntoIter: Clone>,
    ) -> Self {
        let seen = seen.into_iter();
        let held = match Finding::of(quorum, seen.clone()) {
            Finding::Free => return Self::Nobody,
            Finding::Unclear => return Self::Between,
            Finding::Held(held) => held,
        };
        let Some(owner) = held.owner() else { return Self::Between };
        let beside = seen.filter_map(|(node, seen)| match seen {
            Sighting::Held(key) if key.value == held.value => {
                let note = key.note.as_ref()?;
                Some((node, note, note.record()?))
            }
            _ => None,
        });
        let records: Vec<(NodeId, &Note, &Record)> = beside.collect();
        // A new text may stand on some of them only: a quorum must have the term.
        let has_quorum = |term: FencingToken| {
            let with = records.iter().filter(|(.., record)| record.term == term);
            quorum.is_met_by(with.map(|(node, ..)| *node).collect())
        };
        let newest = records
            .iter()
            .filter(|(.., record)| has_quorum(record.term))
            .max_by_key(|(.., record)| (record.term, record.number));
        newest.map_or(Self::Between, |(_, note, record)| {
            let Record { term, number, text } = (*record).clone();
            Self::Leads(Leader { term, text, owner, since: note.since(), number })
        })
    }
}

/// The latest report of one observer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Observation {
    latest: Option<Leader>,
}

impl Observation {
    /// What may be reported of a look. A later answer may be to an earlier question, and a node may come back with old
    /// data: a smaller term than before is not reported. A newer text is reported as soon as one node has it, and stays
    /// when that node does not answer the next time.
    pub fn handle_look(&mut self, look: Look) -> Look {
        if let Look::Leads(leader) = &look {
            let seen = (leader.term, leader.number);
            match &self.latest {
                Some(latest) if leader.term < latest.term => return Look::Between,
                Some(latest) if seen < (latest.term, latest.number) => {
                    return Look::Leads(latest.clone());
                }
                _ => self.latest = Some(leader.clone()),
            }
        }
        look
    }

    /// The largest term reported.
    pub fn latest(&self) -> Option<FencingToken> {
        self.latest.as_ref().map(|latest| latest.term)
    }
}

#[cfg(test)]
#[path = "election_test.rs"]
mod tests;
