//! A node of the simulation: a `MemoryNode` behind a connection with delay, loss, and interruptions.
//!
//! It keeps the contract of `Node`: on one connection requests arrive in the order in which they were first
//! polled, and replies come back in order. A bug can be planted in it, to see whether the checker notices.

mod bug;
mod connection;
mod server;

pub(crate) use self::{bug::Bug, connection::SimNode, server::SimServer};
