//! What may happen to the nodes and to the grant, how often, and what may be wrong with the footprint.
//!
//! Goal: the list of events that `footprint_world.rs` carries out, and of the flaws that its search must find.

/// One thing that happens, at a node and to one of what is there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Tick,
    Win,
    /// The round is lost, or its caller is gone.
    Lose,
    /// The round is lost, and there is time to hear what else is answered.
    LoseAndHear,
    /// There is no more.
    HearNoLonger,
    /// The lease is lost.
    Over,
    /// It is released, or dropped.
    End,
    Acquire(usize),
    AcquireNotSent(usize),
    Restore(usize),
    RestoreNotSent(usize),
    Extend(usize),
    Release(usize),
    ReleaseNotSent(usize),
    ReleaseAgain(usize, usize),
    Execute(usize),
    /// The script is unknown there: the command is sent again, behind the others.
    SendScript(usize),
    ExecuteStray(usize, usize),
    Answer(usize, usize),
    Timeout(usize, usize),
    Break(usize),
    Forget(usize),
    Other(usize),
}

/// What is wrong with the footprint, on purpose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Flaw {
    None,
    /// An answer to the acquire that comes after the end is not heard.
    DeafAfterTheEnd,
    /// An acquire without an answer is taken for one that was not sent.
    TimeoutIsNothing,
    /// A node is called clear because its acquire has timed out.
    TimeoutIsClear,
    /// A restore is sent without being noted.
    RestoreNotNoted,
    /// A restore without an answer is taken for one that was not sent.
    RestoreTimeoutIsNothing,
    /// A restore is sent to a node to which one is under way, and noted as one.
    TwoRestores,
    /// A restore is sent after the end.
    RestoreAfterTheEnd,
    /// No order says that the key may be set after the release.
    NeverLate,
    /// A release that finds nothing is sent again once, and no more.
    CheckedOnce,
    /// A release that deletes the key is the last word, whatever else may set it: `several` is not looked at.
    DeletedIsTheEnd,
    /// A release is given up when the ttl has passed since it failed.
    GivenUpAtTheTtl,
    /// It is followed for a minute longer, whatever an extension has done.
    ExtensionForgotten,
    /// A node that has not answered is released on while the grant lasts.
    ReleasesWhatIsHeld,
}

impl Flaw {
    pub(crate) const ALL: [Self; 13] = [
        Self::DeafAfterTheEnd,
        Self::TimeoutIsNothing,
        Self::TimeoutIsClear,
        Self::RestoreNotNoted,
        Self::RestoreTimeoutIsNothing,
        Self::TwoRestores,
        Self::RestoreAfterTheEnd,
        Self::NeverLate,
        Self::CheckedOnce,
        Self::DeletedIsTheEnd,
        Self::GivenUpAtTheTtl,
        Self::ExtensionForgotten,
        Self::ReleasesWhatIsHeld,
    ];
}

/// How much may happen, in one exploration.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Budget {
    /// Commands that are not sent, answers that do not come in time, connections that break.
    pub(crate) faults: u8,
    /// Commands whose script the node does not know.
    pub(crate) unknown: u8,
    pub(crate) restores: u8,
    pub(crate) extensions: u8,
    /// Times that a node forgets its keys.
    pub(crate) forgets: u8,
    /// Times that somebody else takes the key.
    pub(crate) others: u8,
    /// Ticks before the grant ends.
    pub(crate) ticks: u8,
}

impl Budget {
    const fn new([faults, unknown, restores, extensions, forgets, others, ticks]: [u8; 7]) -> Self {
        Self { faults, unknown, restores, extensions, forgets, others, ticks }
    }

    /// Each small enough to be explored to its end.
    pub(crate) const ALL: [Self; 6] = [
        Self::new([2, 1, 0, 0, 1, 1, 0]),
        Self::new([2, 0, 0, 1, 0, 0, 0]),
        Self::new([2, 0, 1, 0, 0, 0, 0]),
        Self::new([1, 0, 1, 0, 1, 1, 0]),
        Self::new([1, 1, 1, 0, 0, 0, 0]),
        Self::new([1, 0, 2, 0, 0, 0, 0]),
    ];

    /// For what is explored at random.
    pub(crate) const MUCH: Self = Self::new([9, 3, 4, 3, 3, 2, 3]);
}
