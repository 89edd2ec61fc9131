//! What is on its way between an attempt and a node.
//!
//! Goal: a message in a few bytes, of which a command is made again where a node executes it.

use super::{
    asking::{self, keys_of},
    attempt::{LATE, TTL},
};
use crate::{
    model::node::owner,
    protocol::{Command, EpochMark, FencingToken},
};

/// A command on its way, as far as a node looks at it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Letter {
    Acquire {
        hint: u16,
        count: u16,
        mark: EpochMark,
        keys: u8,
    },
    Pick {
        first: u8,
        hint: u16,
        mark: EpochMark,
    },
    Confirm {
        token: u16,
        mark: EpochMark,
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
        match command {
            Command::Acquire { target, hint, count, first, mark, .. } => {
                let (hint, mark) = (small(hint.expect("a hint")), *mark);
                if target.is_any() {
                    return Self::Pick { first: *first, hint, mark };
                }
                Self::Acquire { hint, count: small(*count), mark, keys: keys_of(target) }
            }
            Command::Confirm { target, token, mark, .. } => {
                Self::Confirm { token: small(token.get()), mark: *mark, keys: keys_of(target) }
            }
            Command::Extend { target, .. } => Self::Extend { keys: keys_of(target) },
            Command::Restore { target, .. } => Self::Restore { keys: keys_of(target) },
            other => panic!("nothing else is sent: {other:?}"),
        }
    }

    /// The command of this owner, as a reader or not.
    pub(crate) fn command(self, number: u8, reads: bool) -> Command {
        let (owner, ttl) = (owner(number), TTL);
        let target = |keys| asking::target(keys, reads);
        let acquire = |target, first, hint: u16, count: u16, mark| Command::Acquire {
            target,
            owner,
            ttl,
            hint: Some(u64::from(hint)),
            count: u64::from(count),
            first,
            mark,
            note: None,
            stand: None,
        };
        match self {
            Self::Acquire { hint, count, mark, keys } => {
                acquire(target(keys), 0, hint, count, mark)
            }
            Self::Pick { first, hint, mark } => acquire(asking::slots(), first, hint, 1, mark),
            Self::Confirm { token, mark, keys } => {
                let token = FencingToken::new(u64::from(token));
                Command::Confirm { target: target(keys), owner, token, mark }
            }
            Self::Extend { keys } => {
                Command::Extend { target: target(keys), owner, ttl, fenced: true }
            }
            Self::Restore { keys } => {
                let target = target(keys);
                Command::Restore { target, owner, ttl, until: LATE, fenced: true, note: None }
            }
            Self::Release { keys, .. } => {
                Command::Release { target: target(keys), owner, keep: None }
            }
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
