//! Commands to one node, and its answers. Plain values, no behaviour.

use alloc::boxed::Box;
use core::{fmt, time::Duration};

use super::{
    fencing::FencingToken,
    line::{ClientId, Stand, Ticket},
    note::{Label, Note},
    owner::Owner,
    resource::Resource,
    target::Target,
    time::Timestamp,
};

/// One of the configured nodes, by its place in the configuration, counted from zero.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeId(usize);

impl NodeId {
    /// The node at `index` of the configuration.
    pub const fn new(index: usize) -> Self {
        Self(index)
    }

    /// The place in the configuration.
    pub const fn index(self) -> usize {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// A node's epoch and seal as a round knew them at its beginning: votes count only while the node is still in both.
///
/// The epoch changes when the node may have forgotten, and when it is admitted again. The seal changes when the node
/// has told how high its counters are, so that another node can be admitted. A vote of an earlier round that arrives
/// later would raise a counter behind the back of that admission (`admission` says why that matters).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EpochMark {
    /// The epoch of the node's marker.
    pub epoch: u64,
    /// How often the node was sealed in this epoch.
    pub seal: u64,
}

impl EpochMark {
    /// This epoch, sealed this often.
    pub const fn new(epoch: u64, seal: u64) -> Self {
        Self { epoch, seal }
    }

    /// Whether its epoch is before `seen`, an epoch of the same process. No node begins an epoch of 2^53 or more: a
    /// foreign number in a marker makes no epoch look older.
    pub const fn is_before(self, seen: u64) -> bool {
        self.epoch < seen && seen < 1 << 53
    }
}

/// One command to one node. Each is executed at most once: nothing below the core may send it again.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Command {
    /// Set the keys of `target` to `owner` for `ttl`, unless one of them exists in whatever form. For any slot of a
    /// semaphore, set the key of the first free slot, as an acquire of that slot alone would; the answer names it
    /// ([`Granted::slot`]). Where no slot is free, the node denies by the key that ends soonest.
    Acquire {
        /// What to hold: all of its keys, or any slot.
        target: Target,
        /// The value.
        owner: Owner,
        /// The lifetime; [`wire_millis`](super::validity::wire_millis) says what goes on the wire.
        ttl: Duration,
        /// With a hint, the node raises the resource's counter by `count`, or to the hint where that is more, and
        /// answers with it. Without one it counts nothing. An acquire of any slot always has one.
        hint: Option<u64>,
        /// How many tokens are requested, at least 1: the last ones up to the answered counter. A node that raises its
        /// counter by less breaks the order of tokens. A node that ignores this says so by `Node::counts_ranges`, and
        /// is asked for one.
        count: u64,
        /// For any slot, the number of the slot that the node tries first; the order continues from it.
        first: u8,
        /// The node's epoch and seal when the round began. With a hint, a node that has left either refuses.
        mark: EpochMark,
        /// The note for people that a counting node keeps beside the counter.
        note: Option<Note>,
        /// The client's stand in the line. Without it the client knows no line, has no place in one, and overtakes no
        /// waiter either. A node without a line ignores it.
        stand: Option<Stand>,
    },
    /// Give the keys of `target` from one owner to another, for `ttl`, if each of them is the first owner's; and raise the
    /// counters as an acquire for one token does. It is the vote of an acquire with another condition. No line is looked
    /// at, since the keys are not free.
    Adopt {
        /// What to hold: all of its keys. Never any slot, and nothing that is shared.
        target: Target,
        /// The value that they must have.
        from: Owner,
        /// The value that they get.
        owner: Owner,
        /// The lifetime.
        ttl: Duration,
        /// The least counter.
        hint: u64,
        /// As in an acquire.
        mark: EpochMark,
        /// As in an acquire.
        note: Option<Note>,
    },
    /// Undo an adopt: give the keys of `target` whose value is `owner` back to the owner before, up to the end that they
    /// had. It is granted where this was done to all of them.
    HandBack {
        /// What was to be held: all of its keys.
        target: Target,
        /// The value that it must have.
        owner: Owner,
        /// The value that it had.
        to: Owner,
    },
    /// Raise the counters of `target` to `token`, if each key's value is `owner` and no counter is above the token.
    Confirm {
        /// What is to be held: all of its keys.
        target: Target,
        /// The value that it must have.
        owner: Owner,
        /// The token that a quorum is to agree on.
        token: FencingToken,
        /// As in the acquire that it follows, whatever the client has learnt of the node since.
        mark: EpochMark,
    },
    /// Let the keys of `target` whose value is `owner` live for `ttl` from now at least. It creates no key and shortens
    /// none, as it may be executed behind a later one. It is granted only where all keys are the owner's.
    Extend {
        /// What is to be held: all of its keys.
        target: Target,
        /// The value that it must have.
        owner: Owner,
        /// The lifetime.
        ttl: Duration,
        /// Whether only an admitted node may answer, as for every lease with a fencing token.
        fenced: bool,
    },
    /// Set the keys of `target` to `owner` for `ttl` on a node that has lost them. A key that exists, in whatever form,
    /// stays as it is. It is sent for a held lease, and is no vote.
    Restore {
        /// What is to be held: all of its keys.
        target: Target,
        /// The value.
        owner: Owner,
        /// The lifetime.
        ttl: Duration,
        /// The time up to which the lease is known to hold: a node that can tell does nothing after it.
        until: Timestamp,
        /// Whether only an admitted node may do it, as for every lease with a fencing token.
        fenced: bool,
        /// As in the acquire that it follows.
        note: Option<Note>,
    },
    /// Delete the keys of `target` whose value is `owner`, or let them live for `keep` from now and no longer. It is
    /// granted where this was done to all of them.
    Release {
        /// What is to be held: all of its keys.
        target: Target,
        /// The value that it must have.
        owner: Owner,
        /// With a duration, the key is not deleted, and keeps every client out for that time.
        keep: Option<Duration>,
    },
    /// Keep `note`, with the record of a leader, beside the counter, if the key's value is `owner` and no later record
    /// of that owner is there. It is sent for a round that is won, and is no vote.
    Proclaim {
        /// The election: one resource.
        target: Target,
        /// The value that it must have.
        owner: Owner,
        /// The leader's note.
        note: Note,
    },
    /// Give up a place in the line for `resource`. It is no vote, and a node without a line does nothing.
    Leave {
        /// The key.
        resource: Resource,
        /// The client that stood in the line.
        client: ClientId,
        /// The ticket of the place: a place taken since stays.
        ticket: Ticket,
    },
}

impl Command {
    /// What undoes a vote for `owner`: of an adopt, the keys go back to the owner before.
    pub(crate) const fn undo(target: Target, owner: Owner, from: Option<Owner>) -> Self {
        match from {
            Some(to) => Self::HandBack { target, owner, to },
            None => Self::Release { target, owner, keep: None },
        }
    }

    /// The target; `None` for a place in a line.
    pub const fn target(&self) -> Option<&Target> {
        match self {
            Self::Acquire { target, .. }
            | Self::Adopt { target, .. }
            | Self::HandBack { target, .. }
            | Self::Confirm { target, .. }
            | Self::Extend { target, .. }
            | Self::Restore { target, .. }
            | Self::Proclaim { target, .. }
            | Self::Release { target, .. } => Some(target),
            Self::Leave { .. } => None,
        }
    }

    /// Whether it asks for a vote, and so may set keys: an acquire or an adopt.
    pub const fn is_asking(&self) -> bool {
        matches!(self, Self::Acquire { .. } | Self::Adopt { .. })
    }
}

/// One node's answer. Without a usable answer there is a [`Failure`] instead.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Reply {
    /// The command took effect.
    Granted(Granted),
    /// The command certainly had no effect and never will: the key belongs to another owner, or (for anything but an
    /// acquire) to none. Of several keys that are extended, restored or released, at least one does.
    Denied(Denial),
}

/// A node's answer to a command that took effect.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Granted {
    /// The counter of the acquired or confirmed target. A grant without it, to an acquire with a hint, is no vote.
    pub token: Option<FencingToken>,
    /// The number of the slot taken, where the node chose it.
    pub slot: Option<u8>,
}

impl Granted {
    /// Done, without a counter or a slot.
    pub const DONE: Self = Self { token: None, slot: None };

    /// Done, and the counter is at this.
    pub const fn at(token: FencingToken) -> Self {
        Self { token: Some(token), ..Self::DONE }
    }

    /// The same with this slot.
    #[must_use]
    pub const fn in_slot(mut self, slot: u8) -> Self {
        self.slot = Some(slot);
        self
    }
}

impl From<Option<FencingToken>> for Granted {
    fn from(token: Option<FencingToken>) -> Self {
        Self { token, ..Self::DONE }
    }
}

/// A node gave no usable answer. That is no denial: a command that timed out may still be executed later.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Failure {
    /// Whether the command may have reached the node, and so may take effect, now or later.
    pub sent: bool,
    /// The state of the node that it suggests.
    pub cause: Cause,
}

/// What a failure says of the node, for the decision what to do next.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Cause {
    /// The node is down, refused, or was not understood: waiting does not mend it.
    Broken,
    /// The node was too slow: it may be overloaded.
    Slow,
    /// The node is in quarantine, which ends by itself.
    Quarantined {
        /// The time left.
        remaining: Duration,
    },
    /// The node's state has changed since its last look: it may well vote in the next round.
    Outdated,
}

impl Failure {
    /// No answer came in time.
    pub const TIMED_OUT: Self = Self { sent: true, cause: Cause::Slow };
    /// Nothing was sent, as there is no connection.
    pub const NOT_SENT: Self = Self { sent: false, cause: Cause::Broken };

    /// A failure that may have had an effect, or certainly had none.
    pub const fn new(sent: bool, cause: Cause) -> Self {
        Self { sent, cause }
    }
}

/// The holder of a key, as far as the node can tell.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Denial {
    /// The value of the key: the owner of a quorlock lease, or a value of another program. `None` where the key is gone
    /// again, or is not a string.
    pub holder: Option<Box<[u8]>>,
    /// How long the key still lives. `None` where it never expires, or is gone again.
    pub remaining: Option<Duration>,
    /// Whether the node answered an extension or a release that the key does not exist.
    pub gone: bool,
    /// Where the key is free, the client that is first in the line for it.
    pub behind: Option<ClientId>,
    /// The node's clock, in microseconds, where it has a line.
    pub at: Option<u64>,
    /// How many waiters the line has before the client that asked, where that client is in it too.
    pub rank: Option<u32>,
    /// Of several requested resources, the place in the target of the one that this denial is about. It is in the way
    /// for longest.
    pub which: Option<u8>,
    /// The holder's label, where the node keeps it beside the counter.
    pub label: Option<Label>,
}

impl Denial {
    /// A denial by `holder` for `remaining`.
    pub const fn new(holder: Option<Box<[u8]>>, remaining: Option<Duration>) -> Self {
        let (behind, at, rank, which, label) = (None, None, None, None, None);
        Self { holder, remaining, gone: false, behind, at, rank, which, label }
    }

    /// The same, of a holder with this label.
    #[must_use]
    pub fn labelled(mut self, label: Option<Label>) -> Self {
        self.label = label;
        self
    }

    /// The same, of the resource at this place in the target.
    #[must_use]
    pub const fn of(mut self, which: u8) -> Self {
        self.which = Some(which);
        self
    }

    /// A denial because the key no longer exists.
    pub const fn gone() -> Self {
        let mut denial = Self::new(None, None);
        denial.gone = true;
        denial
    }

    /// A denial because `head` is first in the line for a free key.
    pub const fn behind(head: ClientId) -> Self {
        let mut denial = Self::new(None, None);
        denial.behind = Some(head);
        denial
    }

    /// The same by a node with a line, whose clock shows `at`: `rank` waiters stand before the client that asked.
    #[must_use]
    pub const fn in_line(mut self, at: u64, rank: Option<u32>) -> Self {
        (self.at, self.rank) = (Some(at), rank);
        self
    }
}
