//! What has to hold of leases on three nodes, in plain words, and how often it was put to the test.
//!
//! Goal: the sentences of `docs/safety.md` that rest on no clock. Method: each is looked for in every new state; that
//! somebody can win again once nothing goes wrong any more is tried out from some of them.

use super::{Attempt, Leases, NODES, Stage, State, Want, steps::Step};
use crate::{
    model::{
        node::Node,
        pool::Part,
        search::{Sometimes, Space},
    },
    protocol::{FencingToken, TokenRange, Verdict},
};

/// The properties of this world.
pub(crate) const ONE: &str =
    "at most one holds, or several read, while no key of theirs has vanished";
pub(crate) const PERMITS: &str = "never more permits are held than there are, and each by one";
pub(crate) const SETS: &str = "no two hold sets that share a resource";
pub(crate) const WHOLE: &str = "of a set, a node has all or none";
pub(crate) const TOKENS: &str = "tokens are unique, and rise in the order of grants";
pub(crate) const RELEASED: &str =
    "what was set is deleted in the end, also where a grant came late";
pub(crate) const KEEPS: &str =
    "nothing is released before the grant is over, as when an extension fails";
pub(crate) const SETTLED: &str = "a verdict never changes";
pub(crate) const IN_TIME: &str = "no lease is won after the end of what it would promise";
pub(crate) const LASTS: &str = "a key is restored only while its grant lasts";
pub(crate) const WANTED: &str = "a round that nobody waits for any more is not won";
pub(crate) const AGAIN: &str = "somebody can always win, once nothing goes wrong any more";
pub(crate) const ENDS: &str = "whatever happens, something leads on until all is at rest";

/// Whether the tokens of two grants go together; `later` says that the second began when the first had been won.
fn are_ordered(
    (first, first_reads): (&TokenRange, bool),
    (second, second_reads): (&TokenRange, bool),
    later: bool,
) -> bool {
    let (low, high): (FencingToken, FencingToken) = (first.last(), second.first());
    match (first_reads, second_reads) {
        (false, false) => low < high || !later && second.last() < first.first(),
        // A reader may see what was written before it; a writer behind a reader is not seen by that.
        (_, true) => !later || low <= high,
        (true, false) => !later || low < high,
    }
}

impl Leases {
    pub(super) fn violated(&self, state: &State, stuck: bool) -> Option<&'static str> {
        let count = self.setup.asks.len();
        let reads = |number: usize| self.setup.asks[number].reads;
        for a in 0..count {
            let Some(one) = state.attempt(a) else { continue };
            if one.hasty {
                return Some(KEEPS);
            }
            if one.is_late {
                return Some(IN_TIME);
            }
            if one.is_stale {
                return Some(LASTS);
            }
            if one.is_unwanted && one.verdict != Verdict::Lost {
                return Some(WANTED);
            }
            if one.turned {
                return Some(SETTLED);
            }
            if one.verdict == Verdict::Won && state.tokens(a).is_none() {
                return Some(TOKENS);
            }
            for b in 0..count {
                let Some(other) = state.attempt(b).filter(|_| a != b) else { continue };
                let both_held = one.stage == Stage::Held && other.stage == Stage::Held;
                // What shares no resource has nothing to do with each other.
                if one.keys & other.keys == 0 {
                    continue;
                }
                let exclude = !(one.broken || other.broken || reads(a) && reads(b));
                if both_held && exclude {
                    return Some(match self.setup.asks[a].want {
                        Want::One => ONE,
                        Want::Set(_) => SETS,
                        Want::Any(_) => PERMITS,
                    });
                }
                if let (Some(of_a), Some(of_b)) = (state.tokens(a), state.tokens(b))
                    && !are_ordered((&of_a, reads(a)), (&of_b, reads(b)), other.after & 1 << a != 0)
                {
                    return Some(TOKENS);
                }
            }
        }
        if self.setup.tokens_only {
            return None;
        }
        if self.has_part_of_a_set(state) {
            return Some(WHOLE);
        }
        // An acquire that has arrived twice may be denied and set the key all the same: that key ends by itself.
        if state.is_at_rest() && state.budget.doubles == self.setup.budget.doubles {
            let is_left = |node: &Part<Node>| {
                (0..count)
                    .any(|number| state.attempts[number].is_some() && node.is_of(number as u8))
            };
            if state.nodes.iter().any(is_left) {
                return Some(RELEASED);
            }
        } else if stuck && !state.is_at_rest() {
            return Some(ENDS);
        }
        None
    }

    /// Where no key has vanished, which is one of several then.
    fn has_part_of_a_set(&self, state: &State) -> bool {
        if state.budget.vanish != self.setup.budget.vanish {
            return false;
        }
        let asks = self.setup.asks.iter().enumerate();
        let sets = asks.filter_map(|(number, ask)| match ask.want {
            Want::Set(keys) => Some((number as u8, keys)),
            _ => None,
        });
        let is_part = |(number, keys)| {
            state.nodes.iter().any(|node| ![0, keys].contains(&node.keys_of(number)))
        };
        sets.into_iter().any(is_part)
    }

    pub(super) fn count(&self, state: &State, sometimes: &mut Sometimes) {
        let count = self.setup.asks.len();
        let won = (0..count).filter(|number| state.tokens(*number).is_some()).count();
        let held = (0..count).filter(|number| state.is_in(*number, Stage::Held)).count();
        let any = |is: fn(&Attempt) -> bool| state.attempts.iter().flatten().any(|part| is(part));
        sometimes.note("two have won", won >= 2);
        sometimes.note("somebody holds", held >= 1);
        sometimes.note("two hold at once", held >= 2);
        let waits = |number: &usize| state.is_in(*number, Stage::Asking);
        sometimes.note(
            "somebody asks beside two who hold",
            held >= 2 && (0..count).any(|at| waits(&at)),
        );
        sometimes.note("something is left to release", any(Attempt::is_waiting_to_release));
        sometimes.note("an extension was confirmed", any(Attempt::is_extended));
        sometimes.note("a round was lost", any(|it| it.verdict == Verdict::Lost));
        let again = |node: &Part<Node>| node.was_let_in();
        sometimes.note("a node was let in again", state.nodes.iter().any(again));
        sometimes.note("all is at rest", state.is_at_rest());
    }

    /// From here on nothing goes wrong: all comes to rest, and a quorum of nodes that vote has nobody's key.
    pub(super) fn healed(&mut self, state: &State) -> Result<bool, &'static str> {
        if self.setup.tokens_only {
            return Ok(false);
        }
        let mut state = state.clone();
        let had_doubles = state.budget.doubles != self.setup.budget.doubles;
        *state.budget.edit() = Default::default();
        let mut possible = Vec::new();
        for _ in 0..1_000 {
            possible.clear();
            self.possible(&state, &mut possible);
            // What is astray comes first, so that a release that waits for it is not sent for ever.
            possible.sort_by_key(|step| match step {
                Step::Land(..) => 0,
                Step::Lose(..) | Step::Execute(..) | Step::Hear(..) | Step::GiveBack(_) => 1,
                Step::ReleaseAgain(..) => 2,
                _ => 3,
            });
            let Some(next) = possible
                .iter()
                .filter(|step| !matches!(step, Step::Begin(_)))
                .find_map(|step| self.step(&state, *step))
            else {
                break;
            };
            state = next;
        }
        // The key of an acquire that has arrived twice ends by itself, and until then nobody may win.
        if had_doubles {
            return Ok(false);
        }
        let ready = state.nodes.iter().filter(|node| node.votes()).count();
        let (mut fresh, sent) = self.fresh(&state);
        for (at, letter) in sent {
            let said = self.execute(&mut state, at, 7, letter);
            for (at, letter) in fresh.hear(at, (letter, said), super::BEGUN) {
                let said = self.execute(&mut state, at, 7, letter);
                fresh.hear(at, (letter, said), super::BEGUN);
            }
        }
        if 2 * ready > NODES && fresh.verdict != Verdict::Won {
            return Err(AGAIN);
        }
        Ok(2 * ready > NODES)
    }
}
