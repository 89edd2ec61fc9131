//! A node of the simulation: a `MemoryNode` behind a connection with delay, loss, and interruptions.
//!
//! It keeps the contract of `Node`: on one connection requests arrive in the order in which they were first
//! polled, and replies come back in order. A bug can be planted in it, to see whether the checker notices.
//!
//! Not modelled: the wire. What the scripts do is compared with the node in memory by the tests of part 5.

mod bug;
mod clock;
mod connection;
mod link;
mod server;
mod watch;

pub(crate) use self::{bug::Bug, connection::SimNode, link::Link, server::SimServer, watch::Watch};
