//! One node: who has the key, how far the counter has come, and in which era it votes.
//!
//! Goal: what a node does with each command, in a few bytes. Method: the rules of `fencing.rs` and `reading.rs` and of the
//! scripts, written down once more. Owners are known by the number of their attempt.
//!
//! Not modelled here: time (`vanish` is the end of a key), lines, notes, values of others.

use crate::{
    model::visitor::Station,
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
    },
    Confirm {
        token: u16,
        mark: (u8, u8),
    },
    Extend,
    Restore,
    /// Where it was sent again, whether something was astray then.
    Release {
        again: Option<bool>,
        late: bool,
        several: bool,
    },
}

impl Letter {
    /// What a round or a tally wants sent.
    pub(crate) fn of(command: &Command) -> Self {
        let small = |number: u64| u16::try_from(number).expect("a small number");
        let tiny = |number: u64| u8::try_from(number).expect("a small number");
        let known = |mark: &Mark| (tiny(mark.era), tiny(mark.seal));
        match command {
            Command::Acquire { hint, count, mark, .. } => Self::Acquire {
                hint: small(hint.expect("a hint")),
                count: small(*count),
                mark: known(mark),
            },
            Command::Confirm { token, mark, .. } => {
                Self::Confirm { token: small(token.get()), mark: known(mark) }
            }
            Command::Extend { .. } => Self::Extend,
            Command::Restore { .. } => Self::Restore,
            other => panic!("nothing else is sent: {other:?}"),
        }
    }

    pub(crate) fn tell(self) -> String {
        match self {
            Self::Acquire { .. } => "an acquire".into(),
            Self::Confirm { token, .. } => format!("a confirm of {token}"),
            Self::Extend => "an extension".into(),
            Self::Restore => "a restore".into(),
            Self::Release { .. } => "a release".into(),
        }
    }

    /// Whether it sets the key where that is free.
    pub(crate) const fn sets(self) -> bool {
        matches!(self, Self::Acquire { .. } | Self::Restore)
    }
}

/// What a node answers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Said {
    Granted(Option<u16>),
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
            Self::Denied => Ok(Reply::Denied(Denial::new(None, None))),
            Self::Refused => Err(Failure::new(false, Cause::Outdated)),
            Self::Unknown => Err(Failure::TIMED_OUT),
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Node {
    pub(crate) holder: Holder,
    pub(crate) counter: u16,
    /// Whether it votes; one that has forgotten does not.
    pub(crate) station: Station,
}

impl Node {
    pub(crate) const fn new(counter: u16) -> Self {
        Self { holder: Holder::Nobody, counter, station: Station::new() }
    }

    /// Whether this owner has the key, alone or with others.
    pub(crate) const fn is_of(&self, owner: u8) -> bool {
        match self.holder {
            Holder::Nobody => false,
            Holder::Writer(writer) => writer == owner,
            Holder::Readers(readers) => readers & 1 << owner != 0,
        }
    }

    /// The key, or the entry, of this owner is gone.
    pub(crate) const fn vanish(&mut self, owner: u8) {
        self.holder = match self.holder {
            Holder::Writer(writer) if writer == owner => Holder::Nobody,
            Holder::Readers(readers) if readers & !(1 << owner) == 0 => Holder::Nobody,
            Holder::Readers(readers) => Holder::Readers(readers & !(1 << owner)),
            other => other,
        }
    }

    /// It has forgotten everything, and votes no more until it is let in.
    pub(crate) const fn forget(&mut self) {
        (self.holder, self.counter) = (Holder::Nobody, 0);
        self.station.forget();
    }

    pub(crate) fn execute(&mut self, owner: u8, reads: bool, letter: Letter) -> Said {
        match letter {
            Letter::Acquire { mark, .. } | Letter::Confirm { mark, .. }
                if !self.station.ready || mark != (self.station.era, self.station.seal) =>
            {
                Said::Refused
            }
            Letter::Extend | Letter::Restore if !self.station.ready => Said::Refused,
            Letter::Acquire { hint, count, .. } => match (self.holder, reads) {
                (Holder::Nobody, false) => {
                    self.holder = Holder::Writer(owner);
                    self.counter = hint.max(self.counter + count);
                    Said::Granted(Some(self.counter))
                }
                (Holder::Nobody, true) => {
                    self.holder = Holder::Readers(1 << owner);
                    Said::Granted(Some(self.counter))
                }
                (Holder::Readers(readers), true) => {
                    self.holder = Holder::Readers(readers | 1 << owner);
                    Said::Granted(Some(self.counter))
                }
                _ => Said::Denied,
            },
            Letter::Confirm { token, .. } if self.is_of(owner) => match self.holder {
                Holder::Readers(_) => {
                    self.counter = self.counter.max(token);
                    Said::Granted(Some(token))
                }
                _ if self.counter <= token => {
                    self.counter = token;
                    Said::Granted(Some(token))
                }
                _ => Said::Denied,
            },
            Letter::Extend if self.is_of(owner) => Said::Granted(None),
            Letter::Restore => match (self.holder, reads) {
                (Holder::Nobody, false) => {
                    self.holder = Holder::Writer(owner);
                    Said::Granted(None)
                }
                (Holder::Nobody, true) => {
                    self.holder = Holder::Readers(1 << owner);
                    Said::Granted(None)
                }
                (Holder::Readers(readers), true) => {
                    self.holder = Holder::Readers(readers | 1 << owner);
                    Said::Granted(None)
                }
                _ => Said::Denied,
            },
            Letter::Release { .. } if self.is_of(owner) => {
                self.vanish(owner);
                Said::Granted(None)
            }
            Letter::Confirm { .. } | Letter::Extend | Letter::Release { .. } => Said::Denied,
        }
    }
}
