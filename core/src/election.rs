//! Who leads, from what the nodes say of the key of an election and of the record beside it.
//!
//! It decides what an observer may report. It must never report a term whose key, with its record, stands on fewer than a
//! quorum of all nodes, nor a smaller term than it has reported: such a leader was one before.
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
//! *Why a reported term was won:* by E1 the record says so. An owner serves one round (P6), and by E4 one lease, so that the
//! records beside the keys of one owner are of one term. Whether it leads still nobody can say: whoever takes orders compares
//! terms.
//!
//! E2 is tested in `election_test.rs`, the others by name in `tests/leases/election.rs`, and all of them, under faults, in
//! `tests/proof/sim` and `tests/chaos`.

use alloc::vec::Vec;
use core::time::Duration;

use super::{
    fencing::FencingToken,
    holder::{Finding, Sighting},
    note::{LeaderText, Note, Record},
    owner::Owner,
    round::Quorum,
};

/// One that leads, as a quorum of nodes says.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Leader {
    /// Its term, which is the fencing token of its lease: what it sends carries it, so that whoever takes orders can
    /// refuse those of an earlier one.
    pub term: FencingToken,
    /// What it says of itself.
    pub text: LeaderText,
    /// The owner of its lease.
    pub owner: Owner,
    /// Since when it leads, by its own wall clock.
    pub since: Duration,
    /// What it says of itself is counted in its term: what has a larger number was said later.
    pub number: u64,
}

/// What the nodes together say of an election.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Look {
    /// A quorum has no key: there was a moment, while they were asked, at which nobody led.
    Nobody,
    /// A quorum has the key of this one, with its record.
    Leads(Leader),
    /// Neither: somebody is about to lead, or was; or it is not known.
    Between,
}

impl Look {
    /// Counts the nodes that have answered. Whoever has not, or may not vote, is left out, and counts as unknown.
    pub fn of<'a>(
        quorum: Quorum,
        seen: impl IntoIterator<Item = &'a Sighting, IntoIter: Clone>,
    ) -> Self {
        let seen = seen.into_iter();
        let held = match Finding::of(quorum, seen.clone()) {
            Finding::Free => return Self::Nobody,
            Finding::Unclear => return Self::Between,
            Finding::Held(held) => held,
        };
        let Some(owner) = held.owner() else { return Self::Between };
        let beside = seen.filter_map(|seen| match seen {
            Sighting::Held(key) if key.value == held.value => {
                let note = key.note.as_ref()?;
                Some((note, note.record()?))
            }
            _ => None,
        });
        let records: Vec<(&Note, &Record)> = beside.collect();
        // A text that is about to change stands on some of them: the term is what a quorum must have.
        let has_quorum = |term: FencingToken| {
            let count = records.iter().filter(|(_, record)| record.term == term).count();
            count >= quorum.needed()
        };
        let newest = records
            .iter()
            .filter(|(_, record)| has_quorum(record.term))
            .max_by_key(|(_, record)| (record.term, record.number));
        newest.map_or(Self::Between, |(note, record)| {
            let Record { term, number, text } = (*record).clone();
            Self::Leads(Leader { term, text, owner, since: note.since(), number })
        })
    }
}

/// What one observer has reported.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Observation {
    latest: Option<Leader>,
}

impl Observation {
    /// What may be reported of a look. One that was answered later than another may have been asked earlier, and a node may
    /// have come back with what it had: a smaller term than before is none. A newer text is told as soon as one node has it,
    /// and stays what was said last where that node does not answer the next time.
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

    /// The largest term that was reported.
    pub fn latest(&self) -> Option<FencingToken> {
        self.latest.as_ref().map(|latest| latest.term)
    }
}

#[cfg(test)]
#[path = "election_test.rs"]
mod tests;
