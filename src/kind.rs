//! The kinds of leases, as types: what holds a resource alone, what shares it, and what is one permit of many.
//!
//! It decides which settings and questions each kind has. What a kind does on the nodes, `protocol::Target` decides.

use std::fmt;

use crate::{
    error::NoToken,
    protocol::{FencingToken, ReadToken},
};

/// What a [`Lease`](crate::Lease) is of, and what an [`Acquire`](crate::Acquire) asks for. It is sealed.
///
/// | kind | request | lease | made by |
/// | --- | --- | --- | --- |
/// | [`Exclusive`] | `Acquire` | `Lease` | [`acquire`](crate::Redlock::acquire), [`acquire_all`](crate::Redlock::acquire_all), [`write`](crate::Redlock::write) |
/// | [`Shared`] | [`Read`](crate::Read) | [`ReadLease`](crate::ReadLease) | [`read`](crate::Redlock::read) |
/// | [`Slot`] | [`PermitAcquire`](crate::PermitAcquire) | [`Permit`](crate::Permit) | [`Semaphore::acquire`](crate::Semaphore::acquire) |
/// | [`Nested`] | [`ReentrantAcquire`](crate::ReentrantAcquire) | [`ReentrantLease`](crate::ReentrantLease) | [`Reentrant::acquire`](crate::Reentrant::acquire) |
///
/// What works under any of them takes a `&Lease<impl Kind>`.
pub trait Kind: sealed::Sealed + Sized + 'static {
    /// What [`Lease::token`](crate::Lease::token) tells.
    type Token: fmt::Debug;

    /// What a lease of it is called.
    #[doc(hidden)]
    const LEASE: &str;

    #[doc(hidden)]
    fn token(token: Option<FencingToken>) -> Self::Token;
}

/// A kind whose lease keeps everybody else out: it may do so for longer than it is held.
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

mod sealed {
    #[expect(unnameable_types, reason = "so that nobody else makes a kind")]
    pub trait Sealed {}
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $lease:literal: $token:ty, $of:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum $name {}

        impl sealed::Sealed for $name {}

        impl Kind for $name {
            type Token = $token;
            const LEASE: &str = $lease;

            fn token(token: Option<FencingToken>) -> $token {
                $of(token)
            }
        }
    )*};
}

/// What a lease that excludes others tells.
type Fence = Result<FencingToken, NoToken>;

kinds! {
    /// One holder at a time, of one resource or of several at once.
    Exclusive "Lease": Fence, fence;
    /// Readers, of whom each has a lease of its own and none is held beside a writer's.
    Shared "ReadLease": ReadToken, read;
    /// One permit of a [`Semaphore`](crate::Semaphore): one holder at a time of one of its slots.
    Slot "Permit": Fence, fence;
    /// One holder at a time, which may acquire it again by the same [`Reentrant`](crate::Reentrant) handle.
    Nested "ReentrantLease": Fence, fence;
}

impl Excludes for Exclusive {}
impl Excludes for Slot {}
impl Excludes for Nested {}
impl Lingers for Exclusive {}
impl Lingers for Nested {}

/// Classic mode has none.
fn fence(token: Option<FencingToken>) -> Fence {
    token.ok_or(NoToken)
}

/// No reader is without one: classic mode has no readers. The least covers nothing.
fn read(token: Option<FencingToken>) -> ReadToken {
    token.map_or(ReadToken::new(0), ReadToken::from)
}
