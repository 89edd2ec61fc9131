//! A state of leases on three nodes: its parts, and what several steps do to them.
//!
//! Goal and method: `mod.rs`.

use super::{
    Budget, Prober, Said, TokenRange,
    attempt::{Attempt, BEGUN, LATE, NODES, Outbox, Stage, Wire},
    letter::Letter,
};
use crate::model::{node::Node, pool::Part};

#[derive(Clone)]
pub(crate) struct State {
    pub(super) nodes: [Part<Node>; NODES],
    pub(super) attempts: Vec<Option<Part<Attempt>>>,
    pub(super) wires: Vec<Part<[Wire; NODES]>>,
    pub(super) budget: Part<Budget>,
    pub(super) prober: Part<Prober>,
}

impl State {
    pub(super) fn attempt(&self, number: usize) -> Option<&Attempt> {
        self.attempts[number].as_deref()
    }

    pub(super) fn edit(&mut self, number: usize) -> &mut Attempt {
        self.attempts[number].as_mut().expect("it has begun").edit()
    }

    pub(super) fn is_in(&self, number: usize, stage: Stage) -> bool {
        self.attempt(number).is_some_and(|attempt| attempt.stage == stage)
    }

    pub(super) fn tokens(&self, number: usize) -> Option<TokenRange> {
        self.attempt(number)?.tokens.clone()
    }

    pub(super) fn send(&mut self, number: usize, sent: Outbox) {
        if !sent.is_empty() {
            let wires = self.wires[number].edit();
            sent.into_iter().for_each(|(at, letter)| wires[at].there.push(letter));
        }
    }

    pub(super) fn strays(&self, number: usize, at: usize) -> bool {
        self.wires[number][at].stray.iter().any(|letter| letter.sets())
    }

    pub(super) fn hear(&mut self, number: usize, at: usize, heard: (Letter, Said), late: bool) {
        let now = if late { LATE } else { BEGUN };
        let sent = self.edit(number).hear(at, heard, now);
        self.send(number, sent);
    }

    /// Everything that is under way between the two goes astray.
    pub(super) fn cut(&mut self, number: usize, at: usize) {
        let wire = &mut self.wires[number].edit()[at];
        let there = std::mem::take(&mut wire.there);
        let open: Vec<Letter> =
            wire.back.drain(..).map(|(letter, _)| letter).chain(there.iter().copied()).collect();
        // A release that goes astray can delete no more than the one that is sent again.
        wire.stray.extend(there.into_iter().filter(|it| !matches!(it, Letter::Release { .. })));
        for letter in open {
            self.hear(number, at, (letter, Said::Unknown), false);
        }
    }

    pub(super) fn is_broken_off(&self, number: usize, at: usize) -> bool {
        let wire = &self.wires[number][at];
        wire.there.is_empty() && wire.back.is_empty()
    }

    /// Nothing is under way, nobody holds anything, and nothing is left to be released.
    pub(super) fn is_at_rest(&self) -> bool {
        // What is astray may never arrive. Where it arrives, and leaves something, that is a state at rest of its own.
        let idle = |wire: &Wire| wire.there.is_empty() && wire.back.is_empty();
        self.wires.iter().all(|wires| wires.iter().all(idle))
            && self
                .attempts
                .iter()
                .flatten()
                .all(|attempt| attempt.stage == Stage::Ended && !attempt.is_waiting_to_release())
    }

    /// A key of an attempt that is asked for or held is not there any more.
    pub(super) fn note_broken(&mut self, at: usize) {
        for number in 0..self.attempts.len() {
            if self.nodes[at].is_of(number as u8)
                && (self.is_in(number, Stage::Asking) || self.is_in(number, Stage::Held))
            {
                self.edit(number).broken = true;
            }
        }
    }
}
