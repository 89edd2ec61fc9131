//! Plain values: a node's record of its admission, what a look at it asks for, and where its counters go on.
//!
//! They decide nothing. `standing` and `floor` decide what a marker means for a vote; `admitting` what a claim means
//! for a fleet.

use core::time::Duration;

use crate::{command::EpochMark, members::Serves};

/// The state of the claim of the asker's list on a node. A node that another list claims answers no look.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Claim {
    /// A client with this list means to use the node. The claim ends some seconds after the last look that said so, or
    /// when that client gives it up.
    Meant,
    /// The node is kept for this list, as a node of the list is about to be let in. This claim does not end by itself.
    Held,
    /// The node was let in for this list, or keeps no claims.
    #[default]
    Made,
}

/// What a node's marker says.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Marker {
    /// Whether the node has been admitted under its present identity.
    pub ready: bool,
    /// The longest ttl of the fleet that the node had been told before this look.
    pub max_ttl: Duration,
    /// No counter ever issued by the node is above this.
    pub high_water: u64,
    /// New counters of the node begin above this.
    pub floor: u64,
    /// A number that changes whenever the node is marked as joining, or admitted.
    pub epoch: u64,
    /// How often the node has been sealed in this epoch.
    pub seal: u64,
    /// Whether a joining node has lost nothing: its clock jumped. It votes no more, so that its `high_water` is final
    /// for its votes before.
    pub kept: bool,
    /// Whether a majority had forgotten while the node was joining in this epoch: then no node can say how high its
    /// counters were.
    pub orphaned: bool,
    /// How long a joining node has been joining in this epoch at least, as clients told it; zero where none did.
    pub waited: Duration,
    /// The claim of the asker's list on the node.
    pub claim: Claim,
    /// Whom the node serves. `None` where it keeps no list.
    pub serves: Option<Serves>,
    /// Whether a client with the list behind the change has asked a moment ago for the change to end.
    pub asked: bool,
}

impl Marker {
    /// A marker with these values, and a floor and an epoch of zero.
    pub const fn new(ready: bool, max_ttl: Duration, high_water: u64) -> Self {
        let (floor, epoch, seal, waited, claim) = (0, 0, 0, Duration::ZERO, Claim::Made);
        let (kept, orphaned, asked, serves) = (false, false, false, None);
        Self {
            ready,
            max_ttl,
            high_water,
            floor,
            epoch,
            seal,
            kept,
            orphaned,
            waited,
            claim,
            serves,
            asked,
        }
    }

    /// The same with this claim.
    #[must_use]
    pub const fn claimed(self, claim: Claim) -> Self {
        Self { claim, ..self }
    }

    /// The same, of a node that serves so, and whether it was asked to end the change.
    #[must_use]
    pub const fn serving(self, serves: Serves, asked: bool) -> Self {
        Self { serves: Some(serves), asked, ..self }
    }

    /// The same with this epoch.
    #[must_use]
    pub const fn in_epoch(self, epoch: u64) -> Self {
        Self { epoch, ..self }
    }

    /// The same, sealed this often.
    #[must_use]
    pub const fn sealed(self, seal: u64) -> Self {
        Self { seal, ..self }
    }

    /// The same, of a joining node that has lost nothing, or that may have.
    #[must_use]
    pub const fn kept(self, kept: bool) -> Self {
        Self { kept, ..self }
    }

    /// The same, of a node that was joining while a majority had forgotten, or had not.
    #[must_use]
    pub const fn orphaned(self, orphaned: bool) -> Self {
        Self { orphaned, ..self }
    }

    /// The same, of a node that has been joining in its epoch for this long: the longest time that a client told it.
    #[must_use]
    pub const fn waited(self, waited: Duration) -> Self {
        Self { waited, ..self }
    }

    /// Whether the node can say how high the counters of others may be.
    pub(super) const fn knows(&self) -> bool {
        self.ready || self.kept
    }

    /// The epoch and the seal, for rounds that begin now.
    pub const fn mark(&self) -> EpochMark {
        EpochMark::new(self.epoch, self.seal)
    }

    /// The same with this floor; `high_water` is not below it.
    #[must_use]
    pub const fn above(self, floor: u64) -> Self {
        let high_water = if floor > self.high_water { floor } else { self.high_water };
        Self { floor, high_water, ..self }
    }
}

/// Where the counters of an admitted node go on.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Floor {
    /// No counter known to the other nodes is above this.
    pub known: u64,
    /// Where a majority has forgotten, the largest token that the admitting client's wall clock allows, in
    /// microseconds; otherwise zero. The node cuts it to two minutes ahead of its own clock.
    pub wall_us: u64,
}

impl Floor {
    /// A floor with these values.
    pub const fn new(known: u64, wall_us: u64) -> Self {
        Self { known, wall_us }
    }
}

/// The purpose of a look that does more than read the marker.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Errand {
    /// The asker no longer uses the node: a `Meant` claim of its list ends, and this look claims nothing.
    Withdraw,
    /// The asker only looks: this look claims nothing, and leaves the claims of others with its list.
    MeanNothing,
    /// The node is taken from its list, and joins again for the asker's. An operator orders this.
    TakeOver,
    /// The node notes from now on the longest ttl that any client tells it, so that `LowerMaxTtl` with this number may
    /// follow. A ready node is sealed, so that each client tells its ttl before it gets a vote again.
    WatchMaxTtl(u32),
    /// The node's longest ttl becomes the longest that a client told it since `WatchMaxTtl` with this number. If
    /// another number has begun since, nothing is lowered.
    LowerMaxTtl(u32),
    /// The node is taken from its list if its record is of an earlier generation than the asker's, and joins again.
    TakeEarlier,
    /// A node that serves the list before the change serves clients with both lists alone from now on.
    Seal,
    /// A node of the list behind the change serves that list from now on, with counters above this number.
    Open(u64),
}

/// What a look at a node's marker asks for, besides reading it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Join {
    /// The longest ttl of the asker. The node keeps the longest that it was told.
    pub max_ttl: Duration,
    /// The epoch of a node that must join again although it is ready: its clock jumped, or its data went back.
    pub force: Option<u64>,
    /// Whether the node that must join again is known to have lost data; then it must also if it is joining. Otherwise
    /// it has kept its data.
    pub lost: bool,
    /// An epoch that begins now must be later than this one, which the client has seen.
    pub after: u64,
    /// Whether a node that is joining in the epoch of `waited` is told that a majority has forgotten. In another epoch
    /// it ignores that: it may be the only one that has forgotten there.
    pub orphaned: bool,
    /// Whether a ready node is sealed, so that no vote of a round that began before counts any more. The counters that
    /// it then tells are final for those rounds. A node of no fleet yet is held for the asker's list.
    pub seal: bool,
    /// How long the node has been joining in this epoch at least, if the client has watched it. The node keeps the
    /// longest time that it was told, for its present epoch only, and at most the time that has passed by its own
    /// clock. So a client whose clock has just jumped sees that in the answer.
    pub waited: Option<(u64, Duration)>,
    /// The further purpose of the look.
    pub errand: Option<Errand>,
    /// The generation of the asker's list, as far as it knows; zero if it knows none.
    pub generation: u32,
    /// Whether a node has served the asker in that generation, or has told that it serves it.
    pub proven: bool,
}

impl Join {
    /// A look that changes nothing on a ready node.
    pub const fn look(max_ttl: Duration) -> Self {
        let (force, after, waited, errand, generation) = (None, 0, None, None, 0);
        let (lost, orphaned, seal, proven) = (false, false, false, false);
        Self { max_ttl, force, lost, after, orphaned, seal, waited, errand, generation, proven }
    }

    /// The same, and a node that is ready in this epoch has to join again.
    #[must_use]
    pub const fn force(self, force: Option<u64>) -> Self {
        Self { force, ..self }
    }

    /// The same, and an epoch that begins now is later than this one.
    #[must_use]
    pub const fn after(self, epoch: u64) -> Self {
        Self { after: if epoch > self.after { epoch } else { self.after }, ..self }
    }

    /// The same, to a node that the client has seen joining in that epoch for this long at least.
    #[must_use]
    pub const fn waited(self, waited: Option<(u64, Duration)>) -> Self {
        Self { waited, ..self }
    }

    /// The same, and a node that is made to join again has lost data.
    #[must_use]
    pub const fn lost(self) -> Self {
        Self { lost: true, ..self }
    }

    /// The same, and a joining node is told that a majority has forgotten.
    #[must_use]
    pub const fn orphaned(self) -> Self {
        Self { orphaned: true, ..self }
    }

    /// The same with this errand.
    #[must_use]
    pub const fn errand(self, errand: Errand) -> Self {
        Self { errand: Some(errand), ..self }
    }

    /// The same, of a client whose list has this generation, which a node has proven or not.
    #[must_use]
    pub const fn generation(self, generation: u32, proven: bool) -> Self {
        Self { generation, proven, ..self }
    }

    /// The same, and a ready node is sealed.
    #[must_use]
    pub const fn seal(self) -> Self {
        Self { seal: true, ..self }
    }
}
