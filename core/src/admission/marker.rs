//! What stands on a node about its admission, what a look at it asks for, and where its counters go on. Plain values.
//!
//! They decide nothing. What a marker means for a vote, `standing` and `floor` say; what a claim means for a fleet,
//! `admitting`.

use core::time::Duration;

use crate::command::EpochMark;

/// How far the claim of the asker's own list on a node has come. A node that another list claims answers no look.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Claim {
    /// A client with this list means to use the node. That ends some seconds after the last look that said so, or when that
    /// client gives it up.
    Meant,
    /// It is kept for this list, since a node of the list is about to be let in. That does not end by itself.
    Held,
    /// The node was let in for this list, or keeps none.
    #[default]
    Made,
}

/// What a node's marker says.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Marker {
    /// Whether the node has been admitted under its present identity.
    pub ready: bool,
    /// The longest ttl of the fleet, as the node had been told before it was asked.
    pub max_ttl: Duration,
    /// No counter ever issued by the node is above this.
    pub high_water: u64,
    /// Counters that the node begins are above this.
    pub floor: u64,
    /// A number that changes whenever the node is marked as joining, or admitted.
    pub epoch: u64,
    /// How often the node has been sealed in this epoch.
    pub seal: u64,
    /// Whether a node that is joining has lost nothing: its clock jumped. It votes no more, so that its `high_water` is the
    /// last word on what it voted for before.
    pub kept: bool,
    /// Whether a majority had forgotten while the node was joining in this epoch: then nobody can say how high its
    /// counters were.
    pub orphaned: bool,
    /// How long a node that is joining has been doing so in this epoch at the least, as clients have told it; zero where
    /// none has.
    pub waited: Duration,
    /// How far the claim of the asker's list on it has come.
    pub claim: Claim,
}

impl Marker {
    /// A marker that says this, with a floor and an epoch of zero.
    pub const fn new(ready: bool, max_ttl: Duration, high_water: u64) -> Self {
        let (floor, epoch, seal, waited, claim) = (0, 0, 0, Duration::ZERO, Claim::Made);
        let (kept, orphaned) = (false, false);
        Self { ready, max_ttl, high_water, floor, epoch, seal, kept, orphaned, waited, claim }
    }

    /// The same, of a node on which the claim has come so far.
    #[must_use]
    pub const fn claimed(self, claim: Claim) -> Self {
        Self { claim, ..self }
    }

    /// The same with this epoch.
    #[must_use]
    pub const fn in_epoch(self, epoch: u64) -> Self {
        Self { epoch, ..self }
    }

    /// The same, sealed so often.
    #[must_use]
    pub const fn sealed(self, seal: u64) -> Self {
        Self { seal, ..self }
    }

    /// The same, of a node that is joining and has lost nothing, or of one that may have.
    #[must_use]
    pub const fn kept(self, kept: bool) -> Self {
        Self { kept, ..self }
    }

    /// The same, of a node that was joining while a majority had forgotten, or not.
    #[must_use]
    pub const fn orphaned(self, orphaned: bool) -> Self {
        Self { orphaned, ..self }
    }

    /// The same, of a node that has been joining in its epoch for so long, as the longest that a client has told it.
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

/// Where the counters of a node that is admitted go on.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Floor {
    /// No counter that the other nodes know of is above this.
    pub known: u64,
    /// Where a majority has forgotten, above all that a token may have been by the wall clock of whoever admits,
    /// in microseconds; otherwise zero. The node cuts it to two minutes ahead of its own.
    pub wall_us: u64,
}

impl Floor {
    /// Above what the others know of, and above what a wall clock tells.
    pub const fn new(known: u64, wall_us: u64) -> Self {
        Self { known, wall_us }
    }
}

/// What a look is sent for, where it is not only for reading the marker.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Errand {
    /// The asker uses the node no more: what its list has meant, and does not hold, is over, and this look means nothing.
    Withdraw,
    /// The asker only looks: this look means nothing, and leaves what others with its list mean.
    MeanNothing,
    /// The node is taken from the list that it belongs to, and joins again for this one. An operator says so.
    TakeOver,
    /// The node notes from now on the longest ttl that any client tells it, so that `LowerMaxTtl` with this number may follow.
    /// One that is ready is sealed, so that each client tells its own before it gets a vote again.
    WatchMaxTtl(u32),
    /// The longest ttl of the node becomes the longest that a client has told it since `WatchMaxTtl` with this number. Where
    /// another number has begun since, nothing is lowered.
    LowerMaxTtl(u32),
}

/// What a look at a node's marker asks for beside reading it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Join {
    /// The longest ttl of the asker. The node keeps the largest that it was told.
    pub max_ttl: Duration,
    /// The epoch of a node that must join again although it is ready: its clock jumped, or its data went back.
    pub force: Option<u64>,
    /// Whether the node that must join again is known to have lost data, and must do so also if it is joining. Otherwise
    /// it has kept what it has.
    pub lost: bool,
    /// An epoch that begins now is later than this one, which the client has seen.
    pub after: u64,
    /// Whether a node that is joining, in the epoch of `waited`, is told that a majority has forgotten. In another epoch it
    /// takes no notice of that: there it may be the only one that has.
    pub orphaned: bool,
    /// Whether a node that is ready is sealed, so that no vote of a round that began before counts any more. What
    /// it then says of its counters is final for those rounds. One that is of no fleet yet is held for the asker's list.
    pub seal: bool,
    /// For how long at the least the node has been joining in this epoch, if the client has seen it do so. The node keeps the
    /// longest that it was told, for its present epoch only, and no longer than has passed by its own clock: a client whose
    /// clock has just jumped sees that in the answer.
    pub waited: Option<(u64, Duration)>,
    /// What it is sent for beside that.
    pub errand: Option<Errand>,
}

impl Join {
    /// A look that changes nothing of a node that is ready.
    pub const fn look(max_ttl: Duration) -> Self {
        let (force, after, waited, errand) = (None, 0, None, None);
        Self { max_ttl, force, lost: false, after, orphaned: false, seal: false, waited, errand }
    }

    /// The same, and one that is ready in this epoch has to join again.
    #[must_use]
    pub const fn force(self, force: Option<u64>) -> Self {
        Self { force, ..self }
    }

    /// The same, and an epoch that begins now is later than this one.
    #[must_use]
    pub const fn after(self, epoch: u64) -> Self {
        Self { after: if epoch > self.after { epoch } else { self.after }, ..self }
    }

    /// The same, to a node of which the client knows that it has been joining in that epoch for so long at the least.
    #[must_use]
    pub const fn waited(self, waited: Option<(u64, Duration)>) -> Self {
        Self { waited, ..self }
    }

    /// The same, and one that is made to join again has lost data.
    #[must_use]
    pub const fn lost(self) -> Self {
        Self { lost: true, ..self }
    }

    /// The same, and one that is joining is told that a majority has forgotten.
    #[must_use]
    pub const fn orphaned(self) -> Self {
        Self { orphaned: true, ..self }
    }

    /// The same, sent for this.
    #[must_use]
    pub const fn errand(self, errand: Errand) -> Self {
        Self { errand: Some(errand), ..self }
    }

    /// The same, and one that is ready is sealed.
    #[must_use]
    pub const fn seal(self) -> Self {
        Self { seal: true, ..self }
    }
}
