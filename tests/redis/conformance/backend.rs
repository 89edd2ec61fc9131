//! The two kinds of node behind one face.
//!
//! It only forwards: whatever a case sees, it has seen of the node itself.

use std::time::Duration;

use quorlock::node::{MemoryNode, NodeSpec};
use quorlock_harness::Server;

/// What can be asked for past the code under test.
pub(crate) enum Backend {
    Memory(MemoryNode),
    Server(Box<Server>),
}

macro_rules! of_both {
    ($($name:ident($($with:ident: $of:ty),*) $(-> $said:ty)?),+) => {
        impl Backend {
            $(pub(crate) fn $name(&self, $($with: $of),*) $(-> $said)? {
                match self {
                    Self::Memory(node) => node.$name($($with),*),
                    Self::Server(node) => node.$name($($with),*),
                }
            })+
        }
    };
}

of_both!(kill(), restart(), pause(), resume(), get(key: &[u8]) -> Option<Vec<u8>>);

impl Backend {
    pub(crate) fn spec(&self) -> NodeSpec {
        match self {
            Self::Memory(node) => NodeSpec::from(node),
            Self::Server(node) => NodeSpec::from(node.url()),
        }
    }

    pub(crate) fn set(&self, key: &[u8], value: &[u8], ttl_ms: Option<u64>) {
        match self {
            Self::Memory(node) => node.set(key, value, ttl_ms.map(Duration::from_millis)),
            Self::Server(node) => node.set(key, value, ttl_ms),
        }
    }

    /// The locks: without the marker and the counters that a server keeps beside them.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Memory(node) => node.keys(),
            Self::Server(node) => node.locks(),
        }
    }
}
