//! Who is compared, by name, and how each is connected to the servers.

mod floor;
mod pair;
mod quorlock;
mod redlock;
mod rlock;
mod rslock;

use std::str::FromStr;

pub(crate) use self::{
    floor::Fleet,
    pair::{Contender, Outcome, TTL},
    quorlock::{classic, fenced},
};

/// The contenders by name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    FloorCaller,
    FloorThread,
    Quorlock,
    Classic,
    QuorlockCurrent,
    ClassicCurrent,
    Rslock,
    Redlock,
    Rlock,
}

impl Kind {
    pub(crate) const ALL: [Self; 9] = [
        Self::FloorCaller,
        Self::FloorThread,
        Self::Quorlock,
        Self::Classic,
        Self::QuorlockCurrent,
        Self::ClassicCurrent,
        Self::Rslock,
        Self::Redlock,
        Self::Rlock,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::FloorCaller => "floor (caller's runtime)",
            Self::FloorThread => "floor (I/O thread)",
            Self::Quorlock => "quorlock",
            Self::Classic => "quorlock, classic mode",
            Self::QuorlockCurrent => "quorlock (caller's runtime)",
            Self::ClassicCurrent => "classic (caller's runtime)",
            Self::Rslock => "rslock 0.10",
            Self::Redlock => "redlock 2.0",
            Self::Rlock => "rlock 0.2",
        }
    }

    /// The name on the command line and in the keys.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::FloorCaller => "floor-caller",
            Self::FloorThread => "floor-thread",
            Self::Quorlock => "quorlock",
            Self::Classic => "classic",
            Self::QuorlockCurrent => "quorlock-current",
            Self::ClassicCurrent => "classic-current",
            Self::Rslock => "rslock",
            Self::Redlock => "redlock",
            Self::Rlock => "rlock",
        }
    }

    pub(crate) async fn connect(self, urls: &[String]) -> Box<dyn Contender> {
        match self {
            Self::FloorCaller => Box::new(floor::CallerFloor::connect(urls).await),
            Self::FloorThread => Box::new(floor::ThreadFloor::connect(urls).await),
            Self::Quorlock => Box::new(quorlock::Quorlock::connect(quorlock::fenced(urls)).await),
            Self::Classic => Box::new(quorlock::Quorlock::connect(quorlock::classic(urls)).await),
            Self::QuorlockCurrent => {
                Box::new(quorlock::Quorlock::connect(quorlock::here(quorlock::fenced(urls))).await)
            }
            Self::ClassicCurrent => {
                Box::new(quorlock::Quorlock::connect(quorlock::here(quorlock::classic(urls))).await)
            }
            Self::Rslock => Box::new(rslock::Rslock::connect(urls)),
            Self::Redlock => Box::new(redlock::Redlock::connect(urls)),
            Self::Rlock => Box::new(rlock::Rlock::connect(urls).await),
        }
    }
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|kind| kind.id() == name).ok_or(())
    }
}
