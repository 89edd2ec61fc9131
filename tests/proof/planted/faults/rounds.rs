//! Faults of rounds: who counts as having granted, which token is chosen, and what a lost round leaves.

use super::{Fault, edit};

#[rustfmt::skip]
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        number: 1,
        name: "a quorum is one node less than a majority",
        edits: &[
            edit("round/quorum.rs", "list.len() / 2 + 1", "list.len() / 2"),
        ],
        configuration: "exclusive",
        property: "at most one holds",
    },
    Fault {
        number: 2,
        name: "a grant counts whatever its counter is: no confirmation",
        edits: &[
            edit("round/vote.rs", "vote == Vote::Granted(token) || vote == Vote::Confirmed", "matches!(vote, Vote::Granted(_) | Vote::Confirming | Vote::Confirmed) || vote == Vote::Granted(token)"),
        ],
        configuration: "exclusive_ranges",
        property: "tokens are unique",
    },
    Fault {
        number: 4,
        name: "a node that did not answer counts as one that has granted",
        edits: &[
            edit("round/acquire.rs", "(_, Err(failure)) => Vote::Failed(failure)", "(_, Err(failure)) if failure.sent && $is => Vote::Confirmed,\n            (_, Err(failure)) => Vote::Failed(failure)"),
        ],
        configuration: "exclusive_cuts",
        property: "at most one holds",
    },
    Fault {
        number: 5,
        name: "a confirm whose answer was not heard counts",
        edits: &[
            edit("round/acquire.rs", "Vote::Failed(Failure { sent: true, ..failure })", "{ let _ = failure; Vote::Confirmed }"),
        ],
        configuration: "exclusive_cuts",
        property: "tokens are unique",
    },
    Fault {
        number: 6,
        name: "answers are counted, not nodes: one that is heard twice counts twice",
        edits: &[
            edit("round/acquire.rs", "!(before.is_open() || before == Vote::NotAsked && could_not_be_asked)", "!(self.votes.iter().any(|(_, vote)| vote.is_open()) || before == Vote::NotAsked && could_not_be_asked)"),
            edit("round/vote.rs", "if let Some(place) = self.votes.get_mut(node.index()) {", "let again = $is && matches!(vote, Vote::Granted(_)) && !self.votes.get(node.index()).is_some_and(|slot| slot.is_open());\n        let open = if again { self.votes.iter().position(|slot| slot.is_open()) } else { None };\n        if let Some(place) = self.votes.get_mut(open.unwrap_or(node.index())) {"),
        ],
        configuration: "exclusive_echoes",
        property: "at most one holds",
    },
    Fault {
        number: 7,
        name: "the token is chosen anew with every grant",
        edits: &[
            edit("round/acquire.rs", "self.token.or_else(|| self.votes.largest())", "self.votes.largest()"),
        ],
        configuration: "exclusive_vanish",
        property: "tokens are unique",
    },
    Fault {
        number: 8,
        name: "a node above the token is waited for, and never counts",
        edits: &[
            edit("round/acquire.rs", "self.votes.set(node, Vote::Outvoted),\n            }\n        }\n    }", "if !$is { self.votes.set(node, Vote::Outvoted) },\n            }\n        }\n    }"),
        ],
        configuration: "exclusive_cuts",
        property: "whatever happens",
    },
    Fault {
        number: 9,
        name: "a win is not judged by the time of the answer that won",
        edits: &[
            edit("round/acquire.rs", "!self.enough_left(now)", "false"),
        ],
        configuration: "exclusive_undo",
        property: "no lease is won after",
    },
    Fault {
        number: 10,
        name: "a round that was given up goes on",
        edits: &[
            edit("round/acquire.rs", "self.lose(RoundLoss::Abandoned);", "{}"),
        ],
        configuration: "exclusive_undo",
        property: "a round that nobody waits for",
    },
    Fault {
        number: 18,
        name: "a round that is lost releases nothing",
        edits: &[
            edit("round/acquire.rs", "footprint.handle_lost();", "{}"),
        ],
        configuration: "exclusive_undo",
        property: "what was set is deleted",
    },
    Fault {
        number: 19,
        name: "a denial counts as a grant",
        edits: &[
            edit("round/acquire.rs", "Vote::Denied(denial.remaining)", "{ let _ = denial; Vote::Confirmed }"),
        ],
        configuration: "exclusive",
        property: "at most one holds",
    },
    Fault {
        number: 21,
        name: "the verdict is judged again with every answer",
        edits: &[
            edit("round/acquire.rs", "self.verdict == Verdict::Pending {\n            self.settle(now);", "(self.verdict == Verdict::Pending || $is) {\n            self.settle(now);"),
        ],
        configuration: "exclusive_undo",
        property: "a verdict never changes",
    },
    Fault {
        number: 22,
        name: "rounds say nothing of what they know of a node",
        edits: &[
            edit("round/spec.rs", "self.marks.get(node.index()).copied().unwrap_or_default()", "EpochMark::default()"),
        ],
        configuration: "exclusive",
        property: "somebody can always win",
    },
    Fault {
        number: 41,
        name: "of a set only the first resource is asked for",
        edits: &[
            edit("round/acquire.rs", "let (target, owner, note) = (target.clone(), *owner, note.clone());", "let (target, owner, note) = (if $is { target.resource().clone().into() } else { target.clone() }, *owner, note.clone());"),
        ],
        configuration: "sets",
        property: "of a set, a node has all",
    },
    Fault {
        number: 42,
        name: "of a set only the first resource is confirmed",
        edits: &[
            edit("round/acquire.rs", "let target = self.counted();", "let target = if $is { self.spec.target.resource().clone().into() } else { self.counted() };"),
        ],
        configuration: "sets",
        property: "tokens are unique",
    },
    Fault {
        number: 43,
        name: "a node on which a part of a set is taken counts as one that has granted",
        edits: &[
            edit("round/acquire.rs", "Vote::Denied(denial.remaining)", "{ let _ = denial; Vote::Confirmed }"),
        ],
        configuration: "sets",
        property: "no two hold sets",
    },
];
