//! The contenders by name, and how each is connected to the servers.

mod floor;
mod kinds;
mod node;
mod pair;
mod quorlock;
mod redlock;
mod rlock;
mod rslock;

use std::str::FromStr;

pub(crate) use self::{
    floor::Fleet,
    kinds::three,
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
    Set,
    Permit,
    Read,
    NodeRedlock,
    NodeRedlockSet,
    RedisSemaphore,
}

impl Kind {
    pub(crate) const ALL: [Self; 15] = [
        Self::FloorCaller,
        Self::FloorThread,
        Self::Quorlock,
        Self::Classic,
        Self::QuorlockCurrent,
        Self::ClassicCurrent,
        Self::Rslock,
        Self::Redlock,
        Self::Rlock,
        Self::Set,
        Self::Permit,
        Self::Read,
        Self::NodeRedlock,
        Self::NodeRedlockSet,
        Self::RedisSemaphore,
    ];

    /// Whether it is one of the kinds beside a plain lease, or stands beside those.
    pub(crate) const fn is_of_kinds(self) -> bool {
        matches!(
            self,
            Self::Set
                | Self::Permit
                | Self::Read
                | Self::NodeRedlock
                | Self::NodeRedlockSet
                | Self::RedisSemaphore
        )
    }

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
            Self::Set => "quorlock, a set of three",
            Self::Permit => "quorlock, a permit of ten",
            Self::Read => "quorlock, a read lease",
            Self::NodeRedlock => "node-redlock 5",
            Self::NodeRedlockSet => "node-redlock 5, three keys",
            Self::RedisSemaphore => "redis-semaphore 5, one of ten",
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
            Self::Set => "set",
            Self::Permit => "permit",
            Self::Read => "read",
            Self::NodeRedlock => "node-redlock",
            Self::NodeRedlockSet => "node-redlock-set",
            Self::RedisSemaphore => "redis-semaphore",
        }
    }

    /// Connects it. The error says why it cannot be had here.
    pub(crate) async fn connect(self, urls: &[String]) -> Result<Box<dyn Contender>, String> {
        let node = async |library: &'static str, kind: &'static str, several| {
            let urls = urls.to_vec();
            let start = move || node::Node::start(library, kind, several, &urls);
            let started = tokio::task::spawn_blocking(start).await;
            started.unwrap_or_else(|panic| Err(panic.to_string()))
        };
        let contender: Box<dyn Contender> = match self {
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
            Self::Set => Box::new(kinds::Kinds::connect(urls, kinds::Wanted::Three).await),
            Self::Permit => Box::new(kinds::Kinds::connect(urls, kinds::Wanted::Permit).await),
            Self::Read => Box::new(kinds::Kinds::connect(urls, kinds::Wanted::Read).await),
            Self::NodeRedlock => Box::new(node("node-redlock", "redlock", false).await?),
            Self::NodeRedlockSet => Box::new(node("node-redlock", "redlock", true).await?),
            Self::RedisSemaphore => Box::new(node("redis-semaphore", "semaphore", false).await?),
        };
        Ok(contender)
    }
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|kind| kind.id() == name).ok_or(())
    }
}
