//! What a worker holds, of whatever kind it is: how long it is promised for, whose it is, and how it is let go of. It judges
//! nothing.

use std::time::Duration;

use quorlock::{Leadership, Lease, LeaseLost, ReadLease, Release, protocol::FencingToken};

use super::record::now;

/// What a worker holds.
pub(crate) enum Holds {
    Alone(Lease),
    Shared(ReadLease),
    Leads(Leadership),
    /// The planted bug: it is held no longer, and said to be held until then.
    Unheld {
        owner: String,
        token: Option<u64>,
        until: Duration,
    },
}

impl Holds {
    pub(crate) fn validity(&self) -> Duration {
        match self {
            Self::Alone(lease) => lease.validity(),
            Self::Leads(leads) => leads.validity(),
            Self::Shared(lease) => lease.validity(),
            Self::Unheld { until, .. } => until.saturating_sub(now()),
        }
    }

    pub(crate) fn check(&self) -> Result<Duration, LeaseLost> {
        match self {
            Self::Alone(lease) => lease.check(),
            Self::Leads(leads) => leads.check(),
            Self::Shared(lease) => lease.check(),
            Self::Unheld { .. } => Ok(self.validity()),
        }
    }

    pub(crate) fn owner(&self) -> String {
        match self {
            Self::Alone(lease) => lease.owner().to_string(),
            Self::Leads(leads) => leads.owner().to_string(),
            Self::Shared(lease) => lease.owner().to_string(),
            Self::Unheld { owner, .. } => owner.clone(),
        }
    }

    pub(crate) fn token(&self) -> Option<u64> {
        match self {
            Self::Alone(lease) => lease.token().ok().map(FencingToken::get),
            Self::Leads(leads) => Some(leads.term().get()),
            Self::Shared(lease) => Some(lease.token().get()),
            Self::Unheld { token, .. } => *token,
        }
    }

    pub(crate) fn reads(&self) -> bool {
        matches!(self, Self::Shared(_) | Self::Unheld { .. })
    }

    /// `None` where nothing is held that could be released.
    pub(crate) fn release(self) -> Option<Release> {
        match self {
            Self::Alone(lease) => Some(lease.release()),
            Self::Leads(leads) => Some(leads.resign()),
            Self::Shared(lease) => Some(lease.release()),
            Self::Unheld { .. } => None,
        }
    }
}
