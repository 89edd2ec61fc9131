//! A round of a schedule, the grant that it may become, and what it has heard.
//!
//! Method: `engine/round.rs` in a few lines. What was heard before the verdict says of which nodes it has a vote.

use std::collections::VecDeque;

use quorlock_core::{Cohort, ResourceSet, Slots, Target, TokenRange, Verdict};
use rand::{Rng, rngs::StdRng};

use super::{
    super::*,
    Kind,
    flaw::Flaw,
    node::{MARK, Node, attempt_owner},
};

pub(super) struct Attempt {
    pub(super) round: Round,
    pub(super) began: usize,
    pub(super) won: Option<(usize, TokenRange)>,
    /// Its leases, once the first has begun.
    pub(super) cohort: Option<Cohort>,
    /// Commands under way to each node, and whether their reply comes back; and replies under way.
    pub(super) there: Vec<VecDeque<(Command, bool)>>,
    pub(super) back: Vec<VecDeque<Option<Answered>>>,
    /// The nodes that have granted it, with their slots and counters, in this order; and those that have confirmed it.
    granted: Vec<(usize, Option<u8>, u64)>,
    confirmed: Vec<usize>,
}

/// The resources that there are.
pub(super) fn names(kind: Kind) -> Vec<Resource> {
    let names: &[&str] = match kind {
        Kind::One | Kind::Readers => &["r"],
        Kind::Sets => &["a", "b", "c"],
        Kind::Slots => &["s/0", "s/1"],
    };
    names.iter().map(|name| Resource::new(*name).unwrap()).collect()
}

fn target(kind: Kind, rng: &mut StdRng) -> Target {
    let names = names(kind);
    match kind {
        Kind::One => names[0].clone().into(),
        Kind::Readers if rng.random_bool(0.5) => Target::Shared(names[0].clone()),
        Kind::Readers => names[0].clone().into(),
        Kind::Sets => {
            let keys = rng.random_range(1..8);
            let some = names.into_iter().enumerate().filter(|(at, _)| keys & 1 << at != 0);
            ResourceSet::new(some.map(|(_, name)| name)).unwrap().into()
        }
        Kind::Slots => Slots::new(b"", "s", 2).unwrap().into(),
    }
}

impl Attempt {
    pub(super) fn begin(
        number: usize,
        began: usize,
        kind: Kind,
        nodes: usize,
        rng: &mut StdRng,
    ) -> Self {
        let mut spec = RoundSpec::new(target(kind, rng), attempt_owner(number), TTL);
        spec.count = if kind == Kind::One { [1, 2, 3, 8][rng.random_range(0..4)] } else { 1 };
        (spec.hint, spec.first) = (Some(rng.random_range(0..12)), rng.random_range(0..2));
        spec.marks = vec![MARK; nodes].into();
        let round = Round::acquire(Quorum::of(nodes), spec, start());
        let (there, back) = (vec![VecDeque::new(); nodes], vec![VecDeque::new(); nodes]);
        let (granted, confirmed) = (Vec::new(), Vec::new());
        let (won, cohort) = (None, None);
        let mut attempt = Self { round, began, won, cohort, there, back, granted, confirmed };
        attempt.send();
        attempt
    }

    pub(super) fn send(&mut self) {
        for (node, command) in drain(&mut self.round) {
            let is_answered = !matches!(command, Command::Release { .. });
            self.there[node.index()].push_back((command, is_answered));
        }
    }

    pub(super) fn send_to_all(&mut self, command: &Command) {
        self.there.iter_mut().for_each(|there| there.push_back((command.clone(), false)));
    }

    pub(super) fn reads(&self) -> bool {
        self.round.spec().target.is_shared()
    }

    pub(super) fn release(&self) -> Command {
        let RoundSpec { target, owner, .. } = self.round.spec().clone();
        let target = match target {
            // It may have gone on as a reader.
            Target::One(resource) => Target::Downgraded(resource),
            target => target,
        };
        Command::Release { target, owner, keep: None }
    }

    /// A writer goes on as a reader.
    pub(super) fn downgrade(&self) -> Command {
        let RoundSpec { target, owner, ttl, .. } = self.round.spec().clone();
        Command::Extend {
            target: Target::Downgraded(target.resource().clone()),
            owner,
            ttl,
            fenced: true,
        }
    }

    /// A restore of what was won, or of what it goes for; of a writer also as of a reader that it became.
    pub(super) fn restore(&self, downgraded: bool) -> Option<Command> {
        let RoundSpec { target, owner, ttl, .. } = self.round.spec().clone();
        let target = match target {
            Target::AnyOf(slots) => Target::Slot(slots.slot(self.granted.first()?.1?)?),
            Target::One(resource) if downgraded && resource.as_bytes() == b"r" => {
                Target::Downgraded(resource)
            }
            target => target,
        };
        Some(Command::Restore { target, owner, ttl, until: start(), fenced: true, note: None })
    }

    /// What a reply to a command is taken for: one to a restore is heard only where that counts as a vote.
    pub(super) fn counted(&self, command: &Command, reply: Answered) -> Answered {
        let Command::Restore { .. } = command else { return reply };
        let slot = self.granted.first().and_then(|(_, slot, _)| *slot);
        let of_slot = self.granted.iter().filter(|(_, other, _)| *other == slot);
        let Some(largest) = of_slot.map(|(.., counter)| *counter).max() else { return denied() };
        reply.map(|reply| match reply {
            Reply::Granted(_) => {
                let granted = Granted::at(FencingToken::new(largest));
                Reply::Granted(slot.map_or(granted, |slot| granted.in_slot(slot)))
            }
            denied @ Reply::Denied(_) => denied,
        })
    }

    pub(super) fn hear(&mut self, at_node: usize, mut reply: Answered, flaw: Flaw) {
        let is_open = self.round.verdict() == Verdict::Pending;
        if let Ok(Reply::Granted(Granted { token: Some(token), slot, .. })) = &mut reply
            && is_open
        {
            if self.granted.iter().any(|(node, ..)| *node == at_node) {
                self.confirmed.push(at_node);
            } else {
                let quorum = Quorum::of(self.there.len()).needed();
                if flaw == Flaw::CountsAbove && self.reads() && self.granted.len() >= quorum {
                    let chosen = self.granted[..quorum].iter().map(|(.., counter)| *counter).max();
                    *token = FencingToken::new(token.get().min(chosen.unwrap()));
                }
                self.granted.push((at_node, *slot, token.get()));
            }
        }
        self.round.handle_reply(node(at_node), reply, at(1));
        self.send();
    }

    pub(super) fn has_confirmed(&self) -> bool {
        !self.confirmed.is_empty()
    }

    pub(super) fn win(&mut self, step: usize, flaw: Flaw) {
        let tokens = self.round.tokens().expect("tokens for a win with a hint");
        let one_too_many = u64::from(flaw == Flaw::OneTooMany);
        self.won = Some((step, TokenRange::ending_at(tokens.last(), tokens.left() + one_too_many)));
    }

    /// The slot that was won is filled in where another one was taken, as `engine/round/undo.rs` does. Returns on how many nodes.
    pub(super) fn fill_in(&mut self) -> usize {
        let at: Vec<usize> =
            (0..self.there.len()).filter(|at| self.round.is_filled_in(node(*at))).collect();
        for at in &at {
            let RoundSpec { target, owner, ttl, .. } = self.round.spec().clone();
            let until = start();
            let restore = Command::Restore { target, owner, ttl, until, fenced: true, note: None };
            self.there[*at].push_back((restore, false));
        }
        at.len()
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (&self.round.spec().target, &other.round.spec().target);
        a.resources().iter().any(|resource| b.covers(resource)) && !(self.reads() && other.reads())
    }

    fn ends(&self) -> [u64; 2] {
        let tokens = self.won.as_ref().map(|(_, tokens)| [tokens.first(), tokens.last()]);
        tokens.expect("it is won").map(FencingToken::get)
    }

    /// Whether its tokens do not follow those of the other.
    fn does_not_follow(&self, other: &Self) -> bool {
        let (before, own) = (other.ends()[1], self.ends()[0]);
        if self.reads() { own < before } else { own <= before }
    }

    /// The same, where it began when the other had been won; or where both write, and have one in common.
    pub(super) fn is_wrong_behind(&self, other: &Self) -> bool {
        let follows = other.won.as_ref().is_some_and(|(won, _)| *won < self.began);
        let write = !self.reads() && !other.reads();
        follows && self.does_not_follow(other)
            || write && self.does_not_follow(other) && other.does_not_follow(self)
    }

    fn has_vote_of(&self, node: usize) -> bool {
        let slot = self.round.slot();
        self.granted.contains(&(node, slot, self.ends()[1])) || self.confirmed.contains(&node)
    }

    /// The same, where a node has voted for the other and then for this one.
    pub(super) fn is_wrong_beside(&self, other: &Self, nodes: &[Node]) -> bool {
        nodes.iter().enumerate().any(|(node, of)| {
            let place =
                |it: &Self| of.votes.iter().position(|owner| *owner == it.round.spec().owner);
            let both = self.has_vote_of(node) && other.has_vote_of(node);
            both && place(other) < place(self) && self.does_not_follow(other)
        })
    }

    pub(super) fn tell(&self) -> String {
        let kind = if self.reads() { "a reader" } else { "a writer" };
        format!("{kind} that began at {} and won {:?}", self.began, self.won)
    }
}
