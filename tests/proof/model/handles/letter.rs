//! What is on its way between a process and a node.
//!
//! Goal: a message in a few bytes, of which a command is made again where a node executes it. Method: what it is about is
//! `Covers`, of whom its sender's number; times are in ticks.

use core::time::Duration;

use super::{TICK, kind::Covers};
use crate::{
    model::{
        node::owner,
        terms::holder::{life, small},
    },
    protocol::{Command, EpochMark, FencingToken},
};

/// A command on its way, as far as a node looks at it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Letter {
    Acquire {
        covers: Covers,
        first: u8,
        hint: u16,
        count: u16,
        life: u8,
        mark: EpochMark,
    },
    Confirm {
        covers: Covers,
        token: u16,
        mark: EpochMark,
    },
    /// With its number: an answer belongs to one extension.
    Extend {
        covers: Covers,
        life: u8,
        number: u8,
    },
    Release {
        covers: Covers,
    },
}

impl Letter {
    /// What is to be sent; the number is that of an extension.
    pub(super) fn of(command: &Command, number: u8) -> Option<Self> {
        Some(match command {
            Command::Acquire { target, hint, count, first, ttl, mark, .. } => Self::Acquire {
                covers: Covers::of(target),
                first: *first,
                hint: small(hint.expect("a hint")),
                count: small(*count),
                life: life(*ttl),
                mark: *mark,
            },
            Command::Confirm { target, token, mark, .. } => {
                let covers = Covers::of(target);
                Self::Confirm { covers, token: small(token.get()), mark: *mark }
            }
            Command::Extend { target, ttl, .. } => {
                Self::Extend { covers: Covers::of(target), life: life(*ttl), number }
            }
            Command::Release { target, .. } => Self::Release { covers: Covers::of(target) },
            _ => return None,
        })
    }

    /// The command of this owner.
    pub(super) fn command(self, number: u8) -> Command {
        let owner = owner(number);
        let ttl = |ticks: u8| Duration::from_millis(u64::from(ticks) * TICK);
        match self {
            Self::Acquire { covers, first, hint, count, life, mark } => Command::Acquire {
                target: covers.target(),
                owner,
                ttl: ttl(life),
                hint: Some(u64::from(hint)),
                count: u64::from(count),
                first,
                mark,
                note: None,
                stand: None,
            },
            Self::Confirm { covers, token, mark } => {
                let token = FencingToken::new(u64::from(token));
                Command::Confirm { target: covers.target(), owner, token, mark }
            }
            Self::Extend { covers, life, .. } => {
                Command::Extend { target: covers.target(), owner, ttl: ttl(life), fenced: true }
            }
            Self::Release { covers } => {
                Command::Release { target: covers.target(), owner, keep: None }
            }
        }
    }
}
