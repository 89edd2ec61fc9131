//! A lease of whatever kind, as one type.
//!
//! It decides nothing: the lease does.

use std::time::Duration;

use quorlock::{
    DoneError, DueLease, ExtendError, Leadership, Lease, LeaseSignal, LossReason, Permit,
    ReadLease, ReleaseError,
};

/// A lease of any kind.
pub(crate) enum Holds {
    Lease(Lease),
    /// For work that is to be done once in a period.
    Due(DueLease),
    Permit(Permit),
    Reader(ReadLease),
    Leader(Leadership),
}

impl Holds {
    pub(crate) fn signal(&self) -> LeaseSignal {
        match self {
            Self::Lease(lease) => lease.signal(),
            Self::Due(lease) => lease.signal(),
            Self::Permit(permit) => permit.signal(),
            Self::Reader(lease) => lease.signal(),
            Self::Leader(leadership) => leadership.signal(),
        }
    }

    pub(crate) fn owner(&self) -> String {
        match self {
            Self::Lease(lease) => lease.owner(),
            Self::Due(lease) => lease.owner(),
            Self::Permit(permit) => permit.owner(),
            Self::Reader(lease) => lease.owner(),
            Self::Leader(leadership) => leadership.owner(),
        }
        .to_string()
    }

    /// In classic mode there is none.
    pub(crate) fn token(&self) -> Option<String> {
        match self {
            Self::Reader(lease) => Some(lease.token().to_string()),
            _ => self.signal().token().ok().map(|token| token.get().to_string()),
        }
    }

    pub(crate) fn slot(&self) -> Option<u8> {
        match self {
            Self::Permit(permit) => Some(permit.slot()),
            _ => None,
        }
    }

    /// Resolves when the lease is about to be lost.
    pub(crate) async fn ending(&self) -> LossReason {
        match self {
            Self::Lease(lease) => lease.ending().await,
            Self::Due(lease) => lease.ending().await,
            Self::Permit(permit) => permit.ending().await,
            Self::Reader(lease) => lease.ending().await,
            Self::Leader(leadership) => leadership.ending().await,
        }
    }

    pub(crate) async fn extend(&self) -> Result<Duration, ExtendError> {
        match self {
            Self::Lease(lease) => lease.extend().await,
            Self::Due(lease) => lease.extend().await,
            Self::Permit(permit) => permit.extend().await,
            Self::Reader(lease) => lease.extend().await,
            Self::Leader(leadership) => leadership.extend().await,
        }
    }

    /// Says that the work is done, where it is to be done once in a period.
    pub(crate) async fn done(&self) -> Result<(), DoneError> {
        match self {
            Self::Due(lease) => lease.done().await,
            _ => Ok(()),
        }
    }

    pub(crate) async fn release(self) -> Result<(), ReleaseError> {
        match self {
            Self::Lease(lease) => lease.release().await,
            Self::Due(lease) => lease.release().await,
            Self::Permit(permit) => permit.release().await,
            Self::Reader(lease) => lease.release().await,
            Self::Leader(leadership) => leadership.resign().await,
        }
    }
}
