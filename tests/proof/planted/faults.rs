//! Faults of the production's decisions, by what stands there and what stands there instead.
//!
//! Goal: a list that cannot rot. Method: the build script looks for each text, which must be there exactly once, and weaves
//! the other one in beside it, in a copy (`weave.rs`). Nothing of that is in the production's code.
//!
//! Each is found by the search of the configuration that is named, as a state in which the property that is named does not
//! hold.

/// One fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) number: u16,
    pub(crate) name: &'static str,
    pub(crate) edits: &'static [Edit],
    /// By which configuration it is found.
    pub(crate) configuration: &'static str,
    /// The beginning of the property that does not hold then.
    pub(crate) property: &'static str,
}

/// What is changed for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edit {
    /// In `src/protocol`.
    pub(crate) file: &'static str,
    /// An expression, or whole statements; anything where the other text says `$is` by itself.
    pub(crate) original: &'static str,
    pub(crate) broken: &'static str,
}

const fn edit(file: &'static str, original: &'static str, broken: &'static str) -> Edit {
    Edit { file, original, broken }
}

/// All of them, by their numbers.
#[rustfmt::skip]
pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        number: 1,
        name: "a quorum is one node less than a majority",
        edits: &[
            edit("round/quorum.rs", "self.nodes / 2 + 1", "self.nodes / 2"),
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
        number: 3,
        name: "a grant that comes after the round was lost is not released",
        edits: &[
            edit("footprint.rs", "is_lost && place.acquire != Trace::Nothing", "false"),
        ],
        configuration: "exclusive_undo",
        property: "what was set is deleted",
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
            edit("round/vote.rs", "if let Some(slot) = self.0.get_mut(node.index()) {", "let again = $is && matches!(vote, Vote::Granted(_)) && !self.0.get(node.index()).is_some_and(|slot| slot.is_open());\n        let open = if again { self.0.iter().position(|slot| slot.is_open()) } else { None };\n        if let Some(slot) = self.0.get_mut(open.unwrap_or(node.index())) {"),
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
        number: 11,
        name: "no answer to an acquire is taken for no effect",
        edits: &[
            edit("footprint.rs", "Err(Failure { sent: true, .. }) => Trace::MayLandLate", "Err(Failure { sent: true, .. }) if $is => Trace::Nothing,\n            Err(Failure { sent: true, .. }) => Trace::MayLandLate"),
        ],
        configuration: "exclusive_undo",
        property: "what was set is deleted",
    },
    Fault {
        number: 12,
        name: "a restore is not noted",
        edits: &[
            edit("footprint.rs", "(place.restored, place.restoring) = (true, true);", "place.restoring = true;"),
        ],
        configuration: "exclusive_restores",
        property: "what was set is deleted",
    },
    Fault {
        number: 13,
        name: "a restore is sent after the grant",
        edits: &[
            edit("footprint.rs", "phase == Phase::Open && !place.restoring", "!place.restoring"),
        ],
        configuration: "exclusive_restores",
        property: "a key is restored only",
    },
    Fault {
        number: 14,
        name: "a release is never said to be too early",
        edits: &[
            edit("footprint.rs", "place.may_land_late(self.phase)", "false"),
        ],
        configuration: "exclusive_undo",
        property: "what was set is deleted",
    },
    Fault {
        number: 15,
        name: "no answer to a restore is taken for no effect",
        edits: &[
            edit("footprint.rs", "place.restore_may_land_late |= unknown;", "{}"),
        ],
        configuration: "exclusive_restores",
        property: "what was set is deleted",
    },
    Fault {
        number: 16,
        name: "the end of the validity releases at once, as does an extension that is refused",
        edits: &[
            edit("footprint.rs", "self.phase = Phase::Over;", "self.end(Phase::GivenBack);"),
        ],
        configuration: "exclusive_undo",
        property: "nothing is released before",
    },
    Fault {
        number: 17,
        name: "a release that finds nothing is the last word",
        edits: &[
            edit("footprint.rs", "self.taken_until.filter(|until| sent < *until)?", "None::<Timestamp>?"),
        ],
        configuration: "exclusive_undo",
        property: "what was set is deleted",
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
        number: 20,
        name: "the first token of a range is that before it",
        edits: &[
            edit("fencing.rs", "last.0.saturating_sub(left.saturating_sub(1))", "last.0.saturating_sub(left)"),
        ],
        configuration: "exclusive_ranges",
        property: "tokens are unique",
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
            edit("round/spec.rs", "self.marks.get(node.index()).copied().unwrap_or_default()", "Mark::default()"),
        ],
        configuration: "exclusive",
        property: "somebody can always win",
    },
    Fault {
        number: 23,
        name: "a lease is said to be lost only when its ttl is over",
        edits: &[
            edit("lifecycle.rs", "    fn lose_at(&self) -> Timestamp {\n        self.before_deadline(self.lead())", "    fn lose_at(&self) -> Timestamp {\n        if $is { return self.deadline.saturating_add(self.drift.of(self.ttl)); }\n        self.before_deadline(self.lead())"),
        ],
        configuration: "timed",
        property: "at most one client",
    },
    Fault {
        number: 24,
        name: "deadlines count with no drift",
        edits: &[
            edit("validity.rs", "ttl.saturating_sub(drift.of(ttl))", "{ let _ = drift; ttl }"),
        ],
        configuration: "timed",
        property: "at most one client",
    },
    Fault {
        number: 25,
        name: "the lock-delay is not told to the nodes",
        edits: &[
            edit("validity.rs", "ttl.saturating_add(lock_delay)", "{ let _ = lock_delay; ttl }"),
        ],
        configuration: "timed_steps",
        property: "at most one client",
    },
    Fault {
        number: 26,
        name: "the deadline of a round counts from its end",
        edits: &[
            edit("round/acquire.rs", "Verdict::Won => self.verdict = Verdict::Won,", "Verdict::Won => {\n                if $is { self.deadline = validity::deadline(now, self.spec.ttl, self.spec.drift); }\n                self.verdict = Verdict::Won;\n            }"),
        ],
        configuration: "timed",
        property: "at most one client",
    },
    Fault {
        number: 27,
        name: "the deadline of an extension counts from its end",
        edits: &[
            edit("round/tally.rs", "            Verdict::Won => {}", "            Verdict::Won if $is => self.deadline = Some(now.saturating_add(Duration::from_millis(3_000))),\n            Verdict::Won => {}"),
        ],
        configuration: "renewals_late",
        property: "at most one client",
    },
    Fault {
        number: 28,
        name: "an extension is confirmed by one node",
        edits: &[
            edit("round/tally.rs", "self.verdict = self.quorum.verdict(granted, against);", "self.verdict = if granted > 0 { Verdict::Won } else { self.quorum.verdict(granted, against) };"),
        ],
        configuration: "renewals",
        property: "at most one client",
    },
    Fault {
        number: 29,
        name: "an extension that comes back late revives a lease that is lost",
        edits: &[
            edit("lifecycle.rs", "        self.extending = false;\n        if self.lost.is_some() {", "        self.extending = false;\n        if $is { self.lost = None; }\n        if self.lost.is_some() {"),
            edit("lifecycle.rs", "        if now >= self.lose_at() {\n            return self.handle_timeout(now);", "        if !$is && now >= self.lose_at() {\n            return self.handle_timeout(now);"),
        ],
        configuration: "renewals_late",
        property: "a lease that is lost stays lost",
    },
    Fault {
        number: 30,
        name: "a lease that is about to be lost is handed on",
        edits: &[
            edit("handover.rs", "!lifecycle.is_sound(now)", "false"),
        ],
        configuration: "hand_overs",
        property: "a lease that is handed on has half",
    },
    Fault {
        number: 31,
        name: "every lease of a grant has the same token",
        edits: &[
            edit("fencing.rs", "        self.left = left;\n        Some(FencingToken", "        if !$is { self.left = left; }\n        Some(FencingToken"),
        ],
        configuration: "hand_overs",
        property: "tokens are unique",
    },
    Fault {
        number: 32,
        name: "the quarantine leaves nothing for clocks that run at other rates",
        edits: &[
            edit("admission/mod.rs", "self.longest.saturating_add(self.longest / 10).saturating_add(self.longest_round)", "self.longest.saturating_add(self.longest_round)"),
        ],
        configuration: "admission_time",
        property: "at most one client",
    },
    Fault {
        number: 33,
        name: "a node is let in before its quarantine is over",
        edits: &[
            edit("admission/agenda.rs", "self.remaining(*node, now) == Some(Duration::ZERO)", "self.remaining(*node, now).is_some()"),
            edit("admission/admitting.rs", "admission.remaining(self.node, now).is_some_and(|left| left.is_zero())", "true"),
        ],
        configuration: "admission_time",
        property: "at most one client",
    },
    Fault {
        number: 34,
        name: "the others are not sealed before they are believed",
        edits: &[
            edit("admission/admitting.rs", "look_at(others, Join::look(admission.longest()).seal())", "look_at(others, Join::look(admission.longest()))"),
        ],
        configuration: "admission_silent",
        property: "tokens are unique",
    },
    Fault {
        number: 35,
        name: "a node that is let in does not go on above the others",
        edits: &[
            edit("admission/floor.rs", "return Ok(Floor::new(high, 0));", "return Ok(Floor::new(0, 0));"),
        ],
        configuration: "admission_silent",
        property: "tokens are unique",
    },
    Fault {
        number: 36,
        name: "one other node is enough to say how high the counters are",
        edits: &[
            edit("admission/floor.rs", "markers().filter(Marker::knows).count() >= self.quorum.needed()", "markers().filter(Marker::knows).count() >= 1"),
        ],
        configuration: "admission_silent",
        property: "tokens are unique",
    },
    Fault {
        number: 37,
        name: "grants of different slots are added up",
        edits: &[
            edit("pick.rs", "Ok(Reply::Granted(granted)) if granted.slot != Some(own) => {", "Ok(Reply::Granted(granted)) if !$is && granted.slot != Some(own) => {"),
        ],
        configuration: "permits_two",
        property: "never more permits",
    },
    Fault {
        number: 38,
        name: "a slot that was picked and not won is not released",
        edits: &[
            edit("pick.rs", "Some(Ok(Reply::Granted(Granted::DONE)))", "continue"),
        ],
        configuration: "permits_two",
        property: "what was set is deleted",
    },
    Fault {
        number: 39,
        name: "only the first slot is released where nobody knows which one was picked",
        edits: &[
            edit("pick.rs", "Target::AnyOf(others.unwrap_or_else(all))", "self.slots.slot(0).map_or_else(|| Target::AnyOf(all()), Target::Slot)"),
        ],
        configuration: "permits_cuts",
        property: "what was set is deleted",
    },
    Fault {
        number: 40,
        name: "a slot that is picked after another one was won is taken for that one",
        edits: &[
            edit("pick.rs", "Ok(Reply::Granted(granted)) if granted.slot == won => Ok(Reply::Denied(Denial::default())),", "Ok(Reply::Granted(granted)) if $is || granted.slot == won => Ok(Reply::Denied(Denial::default())),"),
        ],
        configuration: "permits_two",
        property: "what was set is deleted",
    },
    Fault {
        number: 41,
        name: "of a set only the first resource is asked for",
        edits: &[
            edit("round/acquire.rs", "let acquire = Command::Acquire {\n            target: target.clone(),", "let acquire = Command::Acquire {\n            target: if $is { target.resource().clone().into() } else { target.clone() },"),
        ],
        configuration: "sets",
        property: "of a set, a node has all",
    },
    Fault {
        number: 42,
        name: "of a set only the first resource is confirmed",
        edits: &[
            edit("round/acquire.rs", "let (target, owner) = (target.clone(), *owner);", "let (target, owner) = (if $is { target.resource().clone().into() } else { target.clone() }, *owner);"),
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
    Fault {
        number: 44,
        name: "nobody names the first in line as one who did not come",
        edits: &[
            edit("waiter.rs", "late.map(|first| first.client).filter(|_| self.ticket.is_some())", "{ let _ = late; None::<ClientId> }"),
        ],
        configuration: "lines_hang",
        property: "whoever waits gets it",
    },
    Fault {
        number: 45,
        name: "a free key is for whoever asks first, whoever stands in line",
        edits: &[
            edit("line/book.rs", "        let first = if !is_free || is_first(self) {", "        let first = if $is || !is_free || is_first(self) {"),
        ],
        configuration: "lines",
        property: "where nothing goes wrong, nobody overtakes",
    },
    Fault {
        number: 46,
        name: "who is granted the resource stays in the line",
        edits: &[
            edit("line/book.rs", "self.remove(Waiting::to(reads, client));", "{ let _ = (reads, client); }"),
        ],
        configuration: "lines",
        property: "who waits no more",
    },
    Fault {
        number: 47,
        name: "who waits no more stays in the line",
        edits: &[
            edit("line/book.rs", "self.scores.get(&place) == Some(&score(ticket))", "false"),
        ],
        configuration: "lines_hang",
        property: "who waits no more",
    },
    Fault {
        number: 48,
        name: "who waits asks only when the key ends, whatever is told or lost",
        edits: &[
            edit("waiter/plan.rs", "        self.limit = self.limit.min(self.poll);\n        self.heed(now);", "        if !$is { self.limit = self.limit.min(self.poll); }\n        self.heed(now);"),
        ],
        configuration: "lines",
        property: "whoever waits asks again",
    },
];
