//! One node: who has the key, how far the counter has come, and in which era it votes.
//!
//! Goal: what a node does with each command, in a few bytes. Method: the rules of `fencing.rs` and `reading.rs` and of the
//! scripts, written down once more. Owners are known by the number of their attempt.
//!
//! Not modelled here: time (`vanish` is the end of a key), lines, notes, values of others.

use crate::{
    model::{
        leases::asking::{KEYS, SLOTS, keys_of},
        visitor::Station,
    },
    protocol::{Cause, Command, Denial, Failure, FencingToken, Granted, Mark, Reply},
};

/// Who has the key: one who writes, or those of a set who read.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Holder {
    Nobody,
    Writer(u8),
    /// By the bits of their numbers; never nobody.
    Readers(u8),
}

/// A command on its way, as far as a node looks at it. A mark is an era and a seal.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Letter {
    Acquire {
        hint: u16,
        count: u16,
        mark: (u8, u8),
        keys: u8,
    },
    Pick {
        first: u8,
        hint: u16,
        mark: (u8, u8),
    },
    Confirm {
        token: u16,
        mark: (u8, u8),
        keys: u8,
    },
    Extend {
        keys: u8,
    },
    Restore {
        keys: u8,
    },
    /// Of what was won, or of what was picked beside it. Where it was sent again, whether something was astray then.
    Release {
        beside: bool,
        again: Option<bool>,
        late: bool,
        several: bool,
        keys: u8,
    },
}

impl Letter {
    /// What a round or a tally wants sent.
    pub(crate) fn of(command: &Command) -> Self {
        let small = |number: u64| u16::try_from(number).expect("a small number");
        let tiny = |number: u64| u8::try_from(number).expect("a small number");
        let known = |mark: &Mark| (tiny(mark.era), tiny(mark.seal));
        match command {
            Command::Acquire { target, hint, count, first, mark, .. } => {
                let (hint, mark) = (small(hint.expect("a hint")), known(mark));
                if target.is_any() {
                    return Self::Pick { first: *first, hint, mark };
                }
                Self::Acquire { hint, count: small(*count), mark, keys: keys_of(target) }
            }
            Command::Confirm { target, token, mark, .. } => Self::Confirm {
                token: small(token.get()),
                mark: known(mark),
                keys: keys_of(target),
            },
            Command::Extend { target, .. } => Self::Extend { keys: keys_of(target) },
            Command::Restore { target, .. } => Self::Restore { keys: keys_of(target) },
            other => panic!("nothing else is sent: {other:?}"),
        }
    }

    pub(crate) fn tell(self) -> String {
        match self {
            Self::Acquire { .. } => "an acquire".into(),
            Self::Pick { .. } => "an acquire of any slot".into(),
            Self::Confirm { token, .. } => format!("a confirm of {token}"),
            Self::Extend { .. } => "an extension".into(),
            Self::Restore { .. } => "a restore".into(),
            Self::Release { .. } => "a release".into(),
        }
    }

    /// Whether it sets the key where that is free.
    pub(crate) const fn sets(self) -> bool {
        matches!(self, Self::Acquire { .. } | Self::Pick { .. } | Self::Restore { .. })
    }
}

/// What a node answers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Said {
    Granted(Option<u16>),
    /// A slot, with its counter.
    Picked(u8, u16),
    Denied,
    /// It is not in the state that was asked for, and has done nothing.
    Refused,
    /// There is no answer, and none will come.
    Unknown,
}

impl Said {
    pub(crate) fn tell(self) -> String {
        match self {
            Self::Granted(Some(counter)) => format!("granted, the counter is {counter}"),
            Self::Granted(None) => "done".into(),
            Self::Picked(slot, counter) => format!("slot {slot}, the counter is {counter}"),
            Self::Denied => "denied".into(),
            Self::Refused => "refused, it is not in that state".into(),
            Self::Unknown => "nothing".into(),
        }
    }

    pub(crate) fn reply(self) -> Result<Reply, Failure> {
        match self {
            Self::Granted(counter) => {
                let token = counter.map(|counter| FencingToken::new(u64::from(counter)));
                Ok(Reply::Granted(Granted::from(token)))
            }
            Self::Picked(slot, counter) => {
                let token = FencingToken::new(u64::from(counter));
                Ok(Reply::Granted(Granted::at(token).in_slot(slot)))
            }
            Self::Denied => Ok(Reply::Denied(Denial::new(None, None))),
            Self::Refused => Err(Failure::new(false, Cause::Outdated)),
            Self::Unknown => Err(Failure::TIMED_OUT),
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Node {
    /// Of each resource.
    pub(crate) holders: [Holder; KEYS],
    /// Zero where there is none.
    pub(crate) counters: [u16; KEYS],
    /// Whether it votes; one that has forgotten does not.
    pub(crate) station: Station,
}

fn each(keys: u8) -> impl Iterator<Item = usize> {
    (0..KEYS).filter(move |key| keys & 1 << key != 0)
}

impl Node {
    /// With this counter of every resource.
    pub(crate) const fn new(counter: u16) -> Self {
        let (holders, counters) = ([Holder::Nobody; KEYS], [counter; KEYS]);
        Self { holders, counters, station: Station::new() }
    }

    fn has(&self, key: usize, owner: u8) -> bool {
        match self.holders[key] {
            Holder::Nobody => false,
            Holder::Writer(writer) => writer == owner,
            Holder::Readers(readers) => readers & 1 << owner != 0,
        }
    }

    /// The keys that this owner has, alone or with others, by their bits.
    pub(crate) fn keys_of(&self, owner: u8) -> u8 {
        (0..KEYS).filter(|key| self.has(*key, owner)).fold(0, |keys, key| keys | 1 << key)
    }

    /// Whether this owner has a key.
    pub(crate) fn is_of(&self, owner: u8) -> bool {
        self.keys_of(owner) != 0
    }

    const fn drop_key(&mut self, key: usize, owner: u8) {
        self.holders[key] = match self.holders[key] {
            Holder::Writer(writer) if writer == owner => Holder::Nobody,
            Holder::Readers(readers) if readers & !(1 << owner) == 0 => Holder::Nobody,
            Holder::Readers(readers) => Holder::Readers(readers & !(1 << owner)),
            other => other,
        }
    }

    /// The first key, or entry, of this owner is gone.
    pub(crate) fn vanish(&mut self, owner: u8) {
        if let Some(key) = each(self.keys_of(owner)).next() {
            self.drop_key(key, owner);
        }
    }

    pub(crate) fn highest(&self) -> u16 {
        self.counters.into_iter().max().unwrap_or(0)
    }

    /// It has forgotten everything, and votes no more until it is let in.
    pub(crate) const fn forget(&mut self) {
        (self.holders, self.counters) = ([Holder::Nobody; KEYS], [0; KEYS]);
        self.station.forget();
    }

    /// The keys of a set are set together, and their counters become one number.
    fn set(&mut self, owner: u8, keys: u8, hint: u16, count: u16) -> u16 {
        let highest = each(keys).map(|key| self.counters[key]).max().unwrap_or(0);
        let counter = hint.max(highest.max(self.station.floor) + count);
        for key in each(keys) {
            (self.holders[key], self.counters[key]) = (Holder::Writer(owner), counter);
        }
        counter
    }

    fn read(&mut self, owner: u8) -> bool {
        self.holders[0] = match self.holders[0] {
            Holder::Nobody => Holder::Readers(1 << owner),
            Holder::Readers(readers) => Holder::Readers(readers | 1 << owner),
            Holder::Writer(_) => return false,
        };
        true
    }

    pub(crate) fn execute(&mut self, owner: u8, reads: bool, letter: Letter) -> Said {
        let is_free = |node: &Self, key: usize| node.holders[key] == Holder::Nobody;
        match letter {
            Letter::Acquire { mark, .. }
            | Letter::Pick { mark, .. }
            | Letter::Confirm { mark, .. }
                if !self.station.ready || mark != (self.station.era, self.station.seal) =>
            {
                Said::Refused
            }
            Letter::Extend { .. } | Letter::Restore { .. } if !self.station.ready => Said::Refused,
            Letter::Acquire { hint, .. } if reads => {
                if !self.read(owner) {
                    return Said::Denied;
                }
                if self.counters[0] == 0 {
                    // From nothing as a writer would.
                    self.counters[0] = hint.max(self.station.floor);
                }
                Said::Granted(Some(self.counters[0]))
            }
            Letter::Acquire { hint, count, keys, .. } => {
                if each(keys).all(|key| is_free(self, key)) {
                    Said::Granted(Some(self.set(owner, keys, hint, count)))
                } else {
                    Said::Denied
                }
            }
            Letter::Pick { first, hint, .. } => {
                let mut slots = (0..SLOTS).map(|at| (at + usize::from(first)) % SLOTS);
                match slots.find(|slot| is_free(self, *slot)) {
                    Some(slot) => Said::Picked(slot as u8, self.set(owner, 1 << slot, hint, 1)),
                    None => Said::Denied,
                }
            }
            Letter::Confirm { token, .. } if reads => {
                if !self.has(0, owner) || self.counters[0] == 0 {
                    return Said::Denied;
                }
                self.counters[0] = self.counters[0].max(token);
                Said::Granted(Some(token))
            }
            Letter::Confirm { token, keys, .. } => {
                let behind = |key: usize| (1..=token).contains(&self.counters[key]);
                if !each(keys).all(|key| self.has(key, owner) && behind(key)) {
                    return Said::Denied;
                }
                each(keys).for_each(|key| self.counters[key] = token);
                Said::Granted(Some(token))
            }
            Letter::Extend { keys } => {
                if each(keys).all(|key| self.has(key, owner)) {
                    Said::Granted(None)
                } else {
                    Said::Denied
                }
            }
            Letter::Restore { .. } if reads => {
                // An entry that stands there stays as it is.
                let is_there = self.has(0, owner);
                if !is_there && self.read(owner) { Said::Granted(None) } else { Said::Denied }
            }
            Letter::Restore { keys } => {
                let may = |key: usize| is_free(self, key) || self.has(key, owner);
                let missing: Vec<usize> = each(keys).filter(|key| is_free(self, *key)).collect();
                if missing.is_empty() || !each(keys).all(may) {
                    return Said::Denied;
                }
                missing.into_iter().for_each(|key| self.holders[key] = Holder::Writer(owner));
                Said::Granted(None)
            }
            Letter::Release { keys, .. } => {
                let own = keys & self.keys_of(owner);
                each(own).for_each(|key| self.drop_key(key, owner));
                if own == keys { Said::Granted(None) } else { Said::Denied }
            }
        }
    }
}
