//! The two kinds of node behind one face, for the conformance suite.
//!
//! It only forwards: whatever a case sees, it has seen of the node itself.

use std::time::Duration;

use quorlock::node::{MemoryNode, NodeSpec};
use quorlock_harness::Server;

/// What both kinds of node can be asked for, past the code under test.
pub(crate) trait Backend {
    fn spec(&self) -> NodeSpec;
    fn set(&self, key: &[u8], value: &[u8], ttl_ms: Option<u64>);
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
    /// The locks: without the marker and the counters that a server keeps beside them.
    fn keys(&self) -> Vec<Vec<u8>>;
    fn kill(&self);
    fn restart(&self);
    fn pause(&self);
    fn resume(&self);
}

macro_rules! backend {
    ($type:ty, $spec:expr, $ttl:expr, $keys:expr) => {
        impl Backend for $type {
            fn spec(&self) -> NodeSpec {
                $spec(self)
            }
            fn set(&self, key: &[u8], value: &[u8], ttl_ms: Option<u64>) {
                <$type>::set(self, key, value, ttl_ms.map($ttl));
            }
            fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
                <$type>::get(self, key)
            }
            fn keys(&self) -> Vec<Vec<u8>> {
                $keys(self)
            }
            fn kill(&self) {
                <$type>::kill(self);
            }
            fn restart(&self) {
                <$type>::restart(self);
            }
            fn pause(&self) {
                <$type>::pause(self);
            }
            fn resume(&self) {
                <$type>::resume(self);
            }
        }
    };
}

backend!(MemoryNode, NodeSpec::from, Duration::from_millis, MemoryNode::keys);
backend!(
    Server,
    |server: &Server| NodeSpec::from(server.url()),
    std::convert::identity,
    Server::locks
);
