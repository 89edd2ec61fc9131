//! Quorum locks on N independent Redis or Valkey masters (the Redlock algorithm).
//!
//! A front page will stand here.
#![cfg_attr(not(feature = "tokio"), no_std)]

extern crate alloc;

pub mod protocol;

#[cfg(feature = "tokio")]
mod acquire;
#[cfg(feature = "tokio")]
mod builder;
#[cfg(feature = "tokio")]
mod config;
#[cfg(feature = "tokio")]
mod driver;
#[cfg(feature = "tokio")]
mod error;
#[cfg(feature = "tokio")]
mod lease;
#[cfg(feature = "tokio")]
pub mod node;
#[cfg(feature = "tokio")]
mod redlock;
#[cfg(feature = "tokio")]
pub mod runtime;
#[cfg(feature = "tokio")]
mod telemetry;

#[cfg(feature = "tokio")]
pub use self::{
    acquire::{Acquire, AcquireFuture},
    builder::Builder,
    config::ConfigError,
    error::{
        AcquireError, CloseError, ConnectError, NodeOutcome, NodeReport, NodeStates, ReleaseError,
        Reports,
    },
    lease::{Lease, Release},
    redlock::Redlock,
};
#[cfg(feature = "redis")]
pub use node::redis::AddressError;
