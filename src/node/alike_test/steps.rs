//! What can happen to a node. A step names everything by small numbers, so that any part of a sequence is a sequence
//! too, and a failing one can be shortened.

use std::{collections::BTreeSet, time::Duration};

use super::names::name;

/// How many clients there are, each with a connection of its own; and how many in a crowd.
pub(super) const FEW: usize = 4;
pub(super) const MANY: usize = 24;
/// This client is in classic mode: single keys alone. Drawn sequences have it alone or not at all.
pub(super) const CLASSIC: usize = 4;
pub(super) const OWNERS: u8 = 6;

/// Whether a client does not hear what is said to its name in lines, as if it had lost its connection just now. So many
/// of a crowd are deaf that a script may look at deaf ones only.
pub(super) const fn is_deaf(client: usize) -> bool {
    client % 4 == 3 || client >= MANY / 3
}

/// What a command is about, by the numbers of names.
#[derive(Clone, Debug)]
pub(super) enum On {
    One(u8),
    Set(Vec<u8>),
    Shared(u8),
    Downgraded(u8),
    /// A semaphore, and one of its slots.
    Slot(u8, u8),
    AnyOf(u8),
}

impl On {
    /// The names that it covers, each once, by their bytes.
    pub(super) fn names(&self) -> impl Iterator<Item = Vec<u8>> {
        let all: BTreeSet<Vec<u8>> = match self {
            Self::One(one) | Self::Shared(one) | Self::Downgraded(one) => [name(*one)].into(),
            Self::Set(all) => all.iter().map(|one| name(*one)).collect(),
            Self::Slot(of, _) | Self::AnyOf(of) => [format!("s{of}").into()].into(),
        };
        all.into_iter()
    }
}

/// A number that is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Near {
    /// This one.
    At(u64),
    /// So much after the clock, in us.
    Ahead(i64),
    /// So much above the last token that was granted.
    Last(i64),
}

/// What is said of a place in the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// How many us ago the client came, if it stands there.
    pub(super) since: Option<u64>,
    pub(super) skip: Option<u8>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Pass(Duration),
    /// The nodes' clocks are set back. It is not drawn: an expired key may come back then, unless it was asked for
    /// meanwhile.
    SetBack(Duration),
    Acquire {
        on: On,
        owner: u8,
        ttl: u64,
        hint: Near,
        count: u64,
        note: Option<u8>,
        place: Option<Place>,
    },
    Pick {
        semaphore: u8,
        first: u8,
        owner: u8,
        ttl: u64,
        hint: Near,
        note: Option<u8>,
        place: Option<Place>,
    },
    /// Of one resource or a set.
    Adopt {
        on: On,
        from: u8,
        owner: u8,
        ttl: u64,
        hint: Near,
        note: Option<u8>,
    },
    HandBack {
        on: On,
        owner: u8,
        to: u8,
    },
    Confirm {
        on: On,
        owner: u8,
        token: Near,
    },
    /// Confirms what this owner was granted last, as the second step of its round.
    ConfirmLast {
        owner: u8,
    },
    Extend {
        on: On,
        owner: u8,
        ttl: u64,
    },
    ExtendMany(Vec<(On, u8, u64)>),
    Restore {
        on: On,
        owner: u8,
        ttl: u64,
        note: Option<u8>,
    },
    Proclaim {
        on: On,
        owner: u8,
        record: u8,
        note: bool,
    },
    Release {
        on: On,
        owner: u8,
        keep: Option<u64>,
    },
    Leave {
        line: u8,
        of_slots: bool,
        name: u8,
        since: u64,
    },
    Holder {
        on: u8,
        fenced: bool,
    },
    /// Asks what is done of a resource, or has that kept: up to this moment, by whom, for how many ms.
    Completed {
        on: u8,
        done: Option<(u64, u8, u64)>,
    },
    /// Another program sets a key, or deletes it.
    Set {
        on: u8,
        value: u8,
        ttl: Option<u64>,
    },
    Del {
        on: u8,
    },
    /// A look at the marker; the other clients look too, or go on with what they know.
    Join {
        max_ttl: u64,
        force: bool,
        lost: bool,
        orphaned: bool,
        seal: bool,
        after: bool,
        waited: Option<u64>,
        all: bool,
    },
    /// The node is admitted above every known counter, and above this number.
    Admit {
        above: Near,
        wall: bool,
        stale: bool,
    },
    /// The node has lost everything.
    Forget,
}

/// A step, and which client takes it.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) client: usize,
    pub(super) step: Step,
    /// What both nodes have to answer and to tell, where that is said.
    pub(super) says: &'static str,
}
