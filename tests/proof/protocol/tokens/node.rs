//! A node of a schedule: the production's `NodeStore` at a time that stands still, and in which order it has voted.

use quorlock_core::{Floor, NodeStore};
use rand::{Rng, rngs::StdRng};

use quorlock_core::Target;

use super::{
    super::*,
    Kind,
    attempt::{Attempt, names},
    flaw::Flaw,
};

/// No hint is cut.
const WALL: u64 = u64::MAX / 4;

pub(super) struct Node {
    store: NodeStore,
    flaw: Flaw,
    /// Whether it has the flaw that one of them has.
    is_first: bool,
    kind: Kind,
    /// Whose votes it has given, in this order.
    pub(super) votes: Vec<Owner>,
}

fn counting(counter: u64) -> NodeStore {
    let mut store = NodeStore::in_life(0);
    assert!(store.admit(0, Floor::new(counter, 0), 0), "it was joining");
    store
}

/// In which state all of them are.
pub(super) const MARK: EpochMark = EpochMark::new(1, 0);

impl Node {
    pub(super) fn new(index: usize, kind: Kind, flaw: Flaw, rng: &mut StdRng) -> Self {
        let store = counting(0);
        let mut node = Self { store, flaw, is_first: index == 0, kind, votes: Vec::new() };
        // Counters that differ, by leases that are over.
        for name in names(kind) {
            let (hint, owner) = (rng.random_range(0..8), Owner::from_random([0xff; 16]));
            let target = Target::from(name);
            let acquire = Command::Acquire {
                target: target.clone(),
                owner,
                ttl: TTL,
                hint: Some(hint),
                count: 1,
                first: 0,
                mark: MARK,
                note: None,
                stand: None,
            };
            if hint > 1 {
                node.done(acquire).unwrap();
                node.done(Command::Release { target, owner, keep: None }).unwrap();
            }
        }
        node
    }

    fn done(&mut self, command: Command) -> Answered {
        let (reply, _) = self.store.execute(command, start(), WALL, &|_| true);
        Ok(reply.expect("it votes, and no counter is at its end"))
    }

    /// Executes a command; one of a round that is open, and hears of it, may be a vote.
    pub(super) fn execute(&mut self, command: &Command, may_vote: bool) -> Answered {
        let reply = self.with_flaw(command.clone());
        if let Command::Acquire { owner, .. } | Command::Confirm { owner, .. } = command
            && may_vote
            && matches!(reply, Ok(Reply::Granted(_)))
        {
            self.votes.retain(|other| other != owner);
            self.votes.push(*owner);
        }
        reply
    }

    /// Of readers and writers it is the confirm of a reader that has the flaw.
    fn is_meant(&self, target: &Target) -> bool {
        self.kind != Kind::Readers || target.is_shared()
    }

    fn with_flaw(&mut self, mut command: Command) -> Answered {
        match (&mut command, self.flaw) {
            (Command::Acquire { count, .. }, Flaw::OneCountsByOne) if self.is_first => *count = 1,
            (Command::Confirm { target, .. }, Flaw::ConfirmsFirst) => {
                *target = target.resource().clone().into();
            }
            (Command::Confirm { target, token, .. }, Flaw::Maximum) if self.is_meant(target) => {
                return Ok(Reply::Granted(Granted::at(*token)));
            }
            (Command::Confirm { target, owner, token, .. }, Flaw::Blind)
                if self.is_meant(target) =>
            {
                // Up to the end of this command it stands there: beside the readers that do, or in the place of somebody.
                let (target, owner, token) = (target.clone(), *owner, *token);
                let before = self.store.keys(start()).clone();
                let stands = self.store.holds(target.resource(), owner, start());
                if !target.is_shared() {
                    self.store.keys(start()).clear();
                }
                let (until, fenced, note) = (start(), true, None);
                let restore = Command::Restore {
                    target: target.clone(),
                    owner,
                    ttl: TTL,
                    until,
                    fenced,
                    note,
                };
                self.done(restore).unwrap();
                self.done(command).unwrap();
                if !target.is_shared() {
                    *self.store.keys(start()) = before;
                } else if !stands {
                    self.done(Command::Release { target, owner, keep: None }).unwrap();
                }
                return Ok(Reply::Granted(Granted::at(token)));
            }
            _ => {}
        }
        self.done(command)
    }

    /// Whether all that an attempt has won stands here.
    pub(super) fn has(&self, attempt: &Attempt) -> bool {
        let spec = attempt.round.spec();
        let mut resources = spec.target.resources().iter();
        resources.all(|resource| self.store.holds(resource, spec.owner, start()))
    }

    /// A key, or the entry of a reader, expires.
    pub(super) fn vanish(&mut self, rng: &mut StdRng) {
        if self.flaw == Flaw::Forgets {
            self.store = counting(0);
            return;
        }
        let names = names(self.kind);
        let name = &names[rng.random_range(0..names.len())];
        let held = (0..6).map(attempt_owner).find(|owner| self.store.holds(name, *owner, start()));
        match held.filter(|_| self.kind == Kind::Readers && rng.random_bool(0.7)) {
            Some(owner) => {
                let target = Target::Downgraded(name.clone());
                self.done(Command::Release { target, owner, keep: None }).unwrap();
            }
            // With all readers, whose entries are left behind.
            None => drop(self.store.keys(start()).remove(name.as_bytes())),
        }
    }
}

/// The owner of an attempt.
pub(super) fn attempt_owner(number: usize) -> Owner {
    Owner::from_random([u8::try_from(number).expect("a few") + 100; 16])
}
