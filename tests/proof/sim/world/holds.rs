//! What a client holds: alone, or together with other readers.

use std::time::Duration;

use quorlock::{ExtendError, Lease, LeaseLost, ReadLease, Release, protocol::FencingToken};

pub(super) enum Holds {
    Alone(Lease),
    Shared(ReadLease),
}

impl Holds {
    pub(super) fn owner(&self) -> String {
        match self {
            Self::Alone(lease) => lease.owner().to_string(),
            Self::Shared(lease) => lease.owner().to_string(),
        }
    }

    pub(super) fn token(&self) -> Option<u64> {
        match self {
            Self::Alone(lease) => lease.token().ok().map(FencingToken::get),
            Self::Shared(lease) => Some(lease.token().get()),
        }
    }

    pub(super) fn check(&self) -> Result<Duration, LeaseLost> {
        match self {
            Self::Alone(lease) => lease.check(),
            Self::Shared(lease) => lease.check(),
        }
    }

    pub(super) async fn lost(&self) -> LeaseLost {
        match self {
            Self::Alone(lease) => lease.lost().await,
            Self::Shared(lease) => lease.lost().await,
        }
    }

    pub(super) async fn extend(&self) -> Result<Duration, ExtendError> {
        match self {
            Self::Alone(lease) => lease.extend().await,
            Self::Shared(lease) => lease.extend().await,
        }
    }

    pub(super) fn heartbeat(&self) {
        match self {
            Self::Alone(lease) => lease.heartbeat(),
            Self::Shared(lease) => lease.heartbeat(),
        }
    }

    pub(super) fn release(self) -> Release {
        match self {
            Self::Alone(lease) => lease.release(),
            Self::Shared(lease) => lease.release(),
        }
    }
}
