#![cfg_attr(doc, doc = include_str!("guide/links.md"))]
#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! - the crate root: `Redlock`, its `Builder`, the request `Acquire`, the `Lease`, the errors
//! - `protocol`: the decisions, pure and buildable alone
//! - `node`: how one command reaches one node; `MemoryNode` for unit tests
//! - `runtime`: time, tasks and randomness
//! - `inspect`, with the feature of that name: whether a fleet is fit, for operators
//! - `testing`, with the feature of that name: a fleet in memory for tests of your own code
#![cfg_attr(not(feature = "tokio"), no_std)]
// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
/// The decisions of this crate: quorlock-core, with the macro for `Debug` of errors.
#[cfg_attr(feature = "tokio", macro_use(debug_is_text))]
pub extern crate quorlock_core as protocol;

#[cfg(any(doc, all(doctest, feature = "redis")))]
pub mod guide;

#[cfg(feature = "tokio")]
mod acquire;
#[cfg(feature = "tokio")]
mod builder;
#[cfg(feature = "tokio")]
mod config;
#[cfg(feature = "tokio")]
mod election;
#[cfg(feature = "tokio")]
mod engine;
#[cfg(feature = "tokio")]
mod error;
#[cfg(feature = "tokio")]
mod fence;
#[cfg(feature = "tokio")]
mod holder;
#[cfg(feature = "inspect")]
pub mod inspect;
#[cfg(feature = "tokio")]
mod kind;
#[cfg(feature = "tokio")]
mod lease;
#[cfg(feature = "tokio")]
mod lock;
#[cfg(feature = "tokio")]
pub mod node;
#[cfg(feature = "tokio")]
mod once;
#[cfg(feature = "tokio")]
mod redlock;
#[cfg(feature = "tokio")]
mod reentrant;
#[cfg(feature = "tokio")]
pub mod runtime;
#[cfg(feature = "tokio")]
mod semaphore;
#[cfg(feature = "tokio")]
mod settings;
#[cfg(feature = "tokio")]
mod shield;
#[cfg(feature = "tokio")]
mod suggest;
#[cfg(feature = "tokio")]
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "tokio")]
mod text;

#[cfg(feature = "tokio")]
pub use self::{
    acquire::{Acquire, AcquireFuture, PlaceInLine, Ran},
    builder::Builder,
    config::ConfigError,
    election::{
        CampaignError, Election, ElectionHealth, Leadership, Observed, Observer, ProclaimError,
    },
    error::{
        Ability, AcquireError, CloseError, Closed, ConnectError, DoneError, ExtendError, LeaseLost,
        NoToken, NodeOutcome, NodeReport, NodeStates, NotAdopted, OnceError, ReleaseError, Reports,
        RunError, Shutdown, Unsupported, WouldDeadlock,
    },
    fence::{FenceGate, StaleToken},
    holder::{HeldBy, Holder, HolderError, NodeSighting},
    kind::{Excludes, Exclusive, Kind, Lingers, Nested, Shared, Slot},
    lease::{DetachError, DowngradeError, Lease, LeaseSignal, Release},
    once::{AlreadyDone, DueLease, Once, OncePer},
    redlock::{NotReady, Redlock},
    reentrant::Reentrant,
    semaphore::Semaphore,
    settings::{Settings, SettingsError, WrongVariable},
};

/// A request to read a resource together with others: [`Redlock::read`].
#[cfg(feature = "tokio")]
pub type Read = Acquire<Shared>;
/// A reader's lease. A clone holds the same lease.
#[cfg(feature = "tokio")]
pub type ReadLease = Lease<Shared>;
/// A request for a permit: [`Semaphore::acquire`].
#[cfg(feature = "tokio")]
pub type PermitAcquire = Acquire<Slot>;
/// A permit of a semaphore.
#[cfg(feature = "tokio")]
pub type Permit = Lease<Slot>;
/// A request for a lease that the handle may hold already: [`Reentrant::acquire`].
#[cfg(feature = "tokio")]
pub type ReentrantAcquire = Acquire<Nested>;
/// The lease of a re-entrant handle, acquired once or several times.
#[cfg(feature = "tokio")]
pub type ReentrantLease = Lease<Nested>;
#[cfg(feature = "redis")]
pub use node::redis::{AddressError, Credentials, UrlPart, WrongAddress};
pub use protocol::{
    DetachedLease, DetachedLeaseError, FencingToken, InvalidOwner, InvalidToken, Leader,
    LeaderText, LossReason, Owner, ReadToken, Record, Resource, ResourceError,
};
