//! The kinds of leases, as types: exclusive, shared, one permit of many, re-entrant.
//!
//! It decides which settings and methods each kind has. `protocol::Target` decides what a kind does on the nodes.

use std::fmt;

use crate::{
    error::NoToken,
    protocol::{FencingToken, ReadToken},
};

/// The kind of a [`Lease`](crate::Lease), or of the request for one, an [`Acquire`](crate::Acquire). The trait is
/// sealed.
///
/// | kind | request | lease | made by |
/// | --- | --- | --- | --- |
/// | [`Exclusive`] | `Acquire` | `Lease` | [`acquire`](crate::Redlock::acquire), [`acquire_all`](crate::Redlock::acquire_all), [`write`](crate::Redlock::write) |
/// | [`Shared`] | [`Read`](crate::Read) | [`ReadLease`](crate::ReadLease) | [`read`](crate::Redlock::read) |
/// | [`Slot`] | [`PermitAcquire`](crate::PermitAcquire) | [`Permit`](crate::Permit) | [`Semaphore::acquire`](crate::Semaphore::acquire) |
/// | [`Nested`] | [`ReentrantAcquire`](crate::ReentrantAcquire) | [`ReentrantLease`](crate::ReentrantLease) | [`Reentrant::acquire`](crate::Reentrant::acquire) |
///
/// Code that works under any kind takes a `&Lease<impl Kind>`.
pub trait Kind: sealed::Sealed + Sized + 'static {
    /// What [`Lease::token`](crate::Lease::token) returns.
    type Token: sealed::Token + Copy + fmt::Debug + Eq + Send + Sync + 'static;
}

/// A kind whose lease keeps all other clients out, and may do so for longer than it is held.
#[diagnostic::on_unimplemented(
    message = "a lease of the kind `{Self}` keeps nobody out for longer than it is held",
    label = "readers share the resource, so there is nothing to keep others out of",
    note = "ask for it where the resource is written: by `Redlock::write` or `Redlock::acquire`"
)]
pub trait Excludes: Kind {}

/// A kind whose lease may linger in its process after the release.
#[diagnostic::on_unimplemented(
    message = "a lease of the kind `{Self}` cannot linger",
    label = "while it lingers nobody holds it: of a reader it would keep writers out, of a permit it would be one that nobody has",
    note = "`linger` is for plain and re-entrant leases: `Redlock::acquire`, `Reentrant::acquire`"
)]
pub trait Lingers: Excludes {}

pub(crate) mod sealed {
    use crate::protocol::FencingToken;

    #[expect(unnameable_types, reason = "so that nobody else makes a kind")]
    pub trait Sealed {
        /// The name of its lease.
        const LEASE: &str;
    }

    #[expect(unnameable_types, reason = "so that nobody else makes a token")]
    pub trait Token {
        /// The token of a lease that has this fencing token.
        fn of(token: Option<FencingToken>) -> Self;
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $lease:literal: $token:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum $name {}

        impl Kind for $name {
            type Token = $token;
        }

        impl sealed::Sealed for $name {
            const LEASE: &str = $lease;
        }
    )*};
}

/// The token of a lease that excludes others.
type Fence = Result<FencingToken, NoToken>;

kinds! {
    /// One holder at a time, of one resource or of several at once.
    Exclusive "Lease": Fence;
    /// Readers: several hold the resource at a time, each with its own lease, and none beside a writer.
    Shared "ReadLease": ReadToken;
    /// One permit of a [`Semaphore`](crate::Semaphore): one holder at a time of one of its slots.
    Slot "Permit": Fence;
    /// One holder at a time, which may acquire it again through the same [`Reentrant`](crate::Reentrant) handle.
    Nested "ReentrantLease": Fence;
}

impl Excludes for Exclusive {}
impl Excludes for Slot {}
impl Excludes for Nested {}
impl Lingers for Exclusive {}
impl Lingers for Nested {}

/// Classic mode has no tokens.
impl sealed::Token for Fence {
    fn of(token: Option<FencingToken>) -> Self {
        token.ok_or(NoToken)
    }
}

/// Every reader has a token, since classic mode has no readers. The fallback, the least token, covers nothing.
impl sealed::Token for ReadToken {
    fn of(token: Option<FencingToken>) -> Self {
        token.map_or(Self::new(0), Self::from)
    }
}
