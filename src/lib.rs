#![cfg_attr(doc, doc = include_str!("guide/links.md"))]
#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! - the crate root: `Redlock`, its `Builder`, the request `Acquire`, the `Lease`, the errors
//! - `protocol`: the decisions, pure and buildable alone
//! - `node`: how one command reaches one node; `MemoryNode` for unit tests
//! - `runtime`: time, tasks and randomness
#![cfg_attr(not(feature = "tokio"), no_std)]
// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

#[cfg(any(doc, all(doctest, feature = "redis")))]
pub mod guide;

pub mod protocol;

#[cfg(feature = "tokio")]
mod acquire;
#[cfg(feature = "tokio")]
mod builder;
#[cfg(feature = "tokio")]
mod config;
#[cfg(feature = "tokio")]
mod engine;
#[cfg(feature = "tokio")]
mod error;
#[cfg(feature = "tokio")]
mod fence;
#[cfg(feature = "tokio")]
mod lease;
#[cfg(feature = "tokio")]
mod lock;
#[cfg(feature = "tokio")]
pub mod node;
#[cfg(feature = "tokio")]
mod redlock;
#[cfg(feature = "tokio")]
mod reentrant;
#[cfg(feature = "tokio")]
pub mod runtime;
#[cfg(feature = "tokio")]
mod shield;
#[cfg(feature = "tokio")]
mod telemetry;

#[cfg(feature = "tokio")]
pub use self::{
    acquire::{Acquire, AcquireFuture},
    builder::Builder,
    config::ConfigError,
    error::{
        AcquireError, CloseError, ConnectError, ExtendError, LeaseLost, NodeOutcome, NodeReport,
        NodeStates, ReleaseError, Reports, RunError,
    },
    fence::{FenceGate, StaleToken},
    lease::{Lease, LeaseSignal, Release},
    redlock::Redlock,
    reentrant::{Reentrant, ReentrantLease},
};
#[cfg(feature = "redis")]
pub use node::redis::AddressError;
