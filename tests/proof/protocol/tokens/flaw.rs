//! What is wrong, on purpose, with the nodes or with those who use them.
//!
//! Goal: schedules that find nothing would have found these. Flaws inside of a node are woven into it by `tests/proof/planted`.

use super::Kind;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Flaw {
    None,
    /// A confirm is granted and leaves the counter as it is: "`INCR` on each node, the maximum over a majority".
    Maximum,
    /// A confirm does not look who has the key.
    Blind,
    /// The counters are forgotten when a key expires.
    Forgets,
    /// One node raises its counter by one, where the others raise theirs by the count.
    OneCountsByOne,
    /// A holder takes one token more than it has asked for.
    OneTooMany,
    /// A lease takes what is left of the range of a grant before.
    OldRange,
    /// The key of a round is restored before the round is won.
    RestoresEarly,
    /// And that counts as a vote.
    RestoreVotes,
    /// A confirm of a set is one of its first resource.
    ConfirmsFirst,
    /// A reader counts a node whose counter is above its token.
    CountsAbove,
}

impl Flaw {
    pub(super) fn restores_early(self) -> bool {
        matches!(self, Self::RestoresEarly | Self::RestoreVotes)
    }
}

/// Each, and the kind by whose schedules it is found.
pub(super) const ALL: [(Kind, Flaw); 16] = [
    (Kind::One, Flaw::Maximum),
    (Kind::One, Flaw::Blind),
    (Kind::One, Flaw::Forgets),
    (Kind::One, Flaw::OneCountsByOne),
    (Kind::One, Flaw::OneTooMany),
    (Kind::One, Flaw::OldRange),
    (Kind::One, Flaw::RestoresEarly),
    (Kind::One, Flaw::RestoreVotes),
    (Kind::Sets, Flaw::Maximum),
    (Kind::Sets, Flaw::ConfirmsFirst),
    (Kind::Sets, Flaw::RestoresEarly),
    (Kind::Readers, Flaw::Maximum),
    (Kind::Readers, Flaw::Blind),
    (Kind::Readers, Flaw::CountsAbove),
    (Kind::Slots, Flaw::Maximum),
    (Kind::Slots, Flaw::RestoreVotes),
];
