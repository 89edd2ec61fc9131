//! What is asked of one node, and what one node answers. Plain values, no behaviour.

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

/// What a round knows of a node when it begins: votes count only while the node is still in it.
///
/// The epoch changes when the node may have forgotten, and when it is admitted again. The seal changes when the
/// node has told how high its counters are, so that another node can be admitted: a vote that began before and
/// arrives later would raise a counter behind the back of that admission (`admission` says why that matters).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EpochMark {
    /// The epoch of the node's marker.
    pub epoch: u64,
    /// How often it has been sealed in this epoch.
    pub seal: u64,
}

impl EpochMark {
    /// This epoch, sealed so often.
    pub const fn new(epoch: u64, seal: u64) -> Self {
        Self { epoch, seal }
    }

    /// Whether it is of an earlier epoch than that, which was seen of the same process. No node begins an epoch of 2^53 or
    /// more: what others have written into a marker makes no epoch look older.
    pub const fn is_before(self, seen: u64) -> bool {
        self.epoch < seen && seen < 1 << 53
    }
}

/// One command to one node. Each is executed at most once: nothing below the core may send it again.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Command {
    /// Set the keys of `target` to `owner` for `ttl`, unless one of them exists in whatever form. Of any slot of a semaphore,
    /// set the key of the first that is free, as an acquire of that slot alone would; the answer names it
    /// ([`Granted::slot`]). Where none is free, it is a denial, by the key that ends soonest.
    Acquire {
        /// What is to be held: all of its keys, or any slot.
        target: Target,
        /// The value.
        owner: Owner,
        /// The lifetime; [`wire_millis`](super::validity::wire_millis) says what goes on the wire.
        ttl: Duration,
        /// Where there is one, the node raises the resource's counter by `count`, or to this where that is more, and
        /// answers with it. Without one it counts nothing. For any slot there always is one.
        hint: Option<u64>,
        /// How many tokens are asked for, 1 at least: those up to the counter that is answered. A node that raises its
        /// counter by less breaks the order of tokens; one that takes no notice of this says so, by
        /// `Node::counts_ranges`, and is asked for one.
        count: u64,
        /// Of any slot, the number of that which is looked at first: they are in the order that begins with it.
        first: u8,
        /// What the round knew of the node when it began. With a hint, a node that is not in it any more refuses.
        mark: EpochMark,
        /// What a node that counts keeps beside the counter, for people to read.
        note: Option<Note>,
        /// What is said of a place in the line. Without it the client knows of no line, stands in none, and overtakes
        /// nobody either. A node that has no line leaves it alone.
        stand: Option<Stand>,
    },
    /// Raise the counters of `target` to `token`, if each key's value is `owner` and no counter is above the token.
    Confirm {
        /// What is to be held: all of its keys.
        target: Target,
        /// The value that it must have.
        owner: Owner,
        /// The token that a quorum is to agree on.
        token: FencingToken,
        /// As in the acquire that it follows, whatever has been learnt of the node since.
        mark: EpochMark,
    },
    /// Let the keys of `target` live for `ttl` from now at least, where their value is `owner`. None is ever made anew, and none
    /// ends sooner by it: it may be executed behind a later one. It is granted only where all of them are the owner's.
    Extend {
        /// What is to be held: all of its keys.
        target: Target,
        /// The value that it must have.
        owner: Owner,
        /// The lifetime.
        ttl: Duration,
        /// Whether only a node that has been admitted may answer, as for every lease with a fencing token.
        fenced: bool,
    },
    /// Set the keys of `target` to `owner` for `ttl` on a node that has lost them; one that exists, in whatever form, is
    /// left as it is. It is sent for a lease that is held, and is no vote.
    Restore {
        /// What is to be held: all of its keys.
        target: Target,
        /// The value.
        owner: Owner,
        /// The lifetime.
        ttl: Duration,
        /// Up to when the lease is known to hold: a node that can tell does nothing after this.
        until: Timestamp,
        /// Whether only a node that has been admitted may do it, as for every lease with a fencing token.
        fenced: bool,
        /// As in the acquire that it follows.
        note: Option<Note>,
    },
    /// Delete the keys of `target` whose value is `owner`; or let them live for `keep` from now, and no longer. It is granted
    /// where that was done to all of them.
    Release {
        /// What is to be held: all of its keys.
        target: Target,
        /// The value that it must have.
        owner: Owner,
        /// Where there is one, the key is not deleted: it stands in everybody's way for so long.
        keep: Option<Duration>,
    },
    /// Keep `note`, with the record of a leader, beside the counter, if the key's value is `owner`, and nothing later of that
    /// owner stands there. It is sent for a round that is won, and is no vote.
    Proclaim {
        /// What to do it on: one resource.
        target: Target,
        /// The value that it must have.
        owner: Owner,
        /// What the leader says.
        note: Note,
    },
    /// Give up a place in the line for `resource`. It is no vote, and a node without a line has nothing to do.
    Leave {
        /// The key.
        resource: Resource,
        /// Who stood in the line.
        client: ClientId,
        /// With this ticket: a place that was taken since stays.
        ticket: Ticket,
    },
}

impl Command {
    /// What it is about, but for a place in a line.
    pub const fn target(&self) -> Option<&Target> {
        match self {
            Self::Acquire { target, .. }
            | Self::Confirm { target, .. }
            | Self::Extend { target, .. }
            | Self::Restore { target, .. }
            | Self::Proclaim { target, .. }
            | Self::Release { target, .. } => Some(target),
            Self::Leave { .. } => None,
        }
    }
}

/// What one node answered. Where it gave no usable answer, there is a [`Failure`] in its place.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Reply {
    /// The command took effect.
    Granted(Granted),
    /// The command certainly had no effect and never will: the key belongs to someone else, or (for
    /// anything but an acquire) to nobody. Of several keys that are extended, restored or released, at least one does.
    Denied(Denial),
}

/// What a node says of what it has done.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Granted {
    /// The counter of what was acquired, or confirmed. An acquire with a hint is answered with it; without one, it is no
    /// vote.
    pub token: Option<FencingToken>,
    /// The number of the slot that was taken, where the choice was left to the node.
    pub slot: Option<u8>,
}

impl Granted {
    /// Done, with nothing to tell beside.
    pub const DONE: Self = Self { token: None, slot: None };

    /// Done, and the counter is at this.
    pub const fn at(token: FencingToken) -> Self {
        Self { token: Some(token), ..Self::DONE }
    }

    /// The same, of the slot with this number.
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
    /// What it says of the node.
    pub cause: Cause,
}

/// What a failure says of the node, as far as it matters for what to do next.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Cause {
    /// It is down, refused, or not understood: waiting does not mend it.
    Broken,
    /// It was too slow: it may have too much to do.
    Slow,
    /// It is in quarantine, which ends by itself.
    Quarantined {
        /// After this time.
        remaining: Duration,
    },
    /// Its state has changed since it was looked at: it may well vote in the next round.
    Outdated,
}

impl Failure {
    /// No answer came in time.
    pub const TIMED_OUT: Self = Self { sent: true, cause: Cause::Slow };
    /// There is no connection, so that nothing was sent.
    pub const NOT_SENT: Self = Self { sent: false, cause: Cause::Broken };

    /// A failure that may have had an effect, or certainly had none.
    pub const fn new(sent: bool, cause: Cause) -> Self {
        Self { sent, cause }
    }
}

/// Who holds a key, as far as the node could tell.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Denial {
    /// The value of the key: the owner of a quorlock lease, or whatever another program wrote. `None`
    /// where the key is gone again, or is not a string.
    pub holder: Option<Box<[u8]>>,
    /// How long the key still lives. `None` where it never expires, or is gone again.
    pub remaining: Option<Duration>,
    /// Whether the node said that there is no such key at all, to an extension or a release.
    pub gone: bool,
    /// The key is free, and this client is the first in the line for it.
    pub behind: Option<ClientId>,
    /// The node's clock, in microseconds, where it has a line.
    pub at: Option<u64>,
    /// How many stand in the line before the client that asked, where that one stands there too.
    pub rank: Option<u32>,
    /// Of several resources that were asked for: which of them this says, by its place in the target. It is the one that is
    /// in the way for longest.
    pub which: Option<u8>,
    /// What the holder calls itself, where the node keeps that beside the counter.
    pub label: Option<Label>,
}

impl Denial {
    /// A denial by `holder` for `remaining`.
    pub const fn new(holder: Option<Box<[u8]>>, remaining: Option<Duration>) -> Self {
        let (behind, at, rank, which, label) = (None, None, None, None, None);
        Self { holder, remaining, gone: false, behind, at, rank, which, label }
    }

    /// The same, of a holder that calls itself so.
    #[must_use]
    pub fn labelled(mut self, label: Option<Label>) -> Self {
        self.label = label;
        self
    }

    /// The same, of the resource at this place of several that were asked for.
    #[must_use]
    pub const fn of(mut self, which: u8) -> Self {
        self.which = Some(which);
        self
    }

    /// A denial because there is no such key any more.
    pub const fn gone() -> Self {
        let mut denial = Self::new(None, None);
        denial.gone = true;
        denial
    }

    /// A denial because `head` is the first in the line for a key that is free.
    pub const fn behind(head: ClientId) -> Self {
        let mut denial = Self::new(None, None);
        denial.behind = Some(head);
        denial
    }

    /// The same by a node that has a line, whose clock shows `at`: so many stand there before the client that asked.
    #[must_use]
    pub const fn in_line(mut self, at: u64, rank: Option<u32>) -> Self {
        (self.at, self.rank) = (Some(at), rank);
        self
    }
}
