//! Why a lease ends: by its time, its nodes, its holder or its process.
//!
//! It decides which ends are a loss to a holder, whose work may still have an effect under way. It ends nothing.

use core::fmt;

/// Why a lease is lost, or about to be.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum LossReason {
    /// Its time is up, and it is not renewed.
    NotRenewed,
    /// Its time is up, and its renewal failed: too few nodes answered in time, or this process stood still, so that
    /// nothing was sent or no answer was taken.
    RenewalFailed,
    /// Too many nodes said that the key is gone, or another owner's.
    Gone,
    /// It was held for as long as `max_hold` allows.
    MaxHold,
    /// The worker gave no heartbeat for longer than it promised.
    NoHeartbeat,
    /// Its holder released it.
    Released,
    /// Its holder has left it to expire.
    LeftToExpire,
    /// The process is shutting down.
    ShutDown,
    /// This process was forked from the holder's. The lease is the parent's, and no holder is told of it here.
    Forked,
}

impl LossReason {
    /// Its name in `snake_case`, for a label or a field of a log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotRenewed => "not_renewed",
            Self::RenewalFailed => "renewal_failed",
            Self::Gone => "gone",
            Self::MaxHold => "max_hold",
            Self::NoHeartbeat => "no_heartbeat",
            Self::Released => "released",
            Self::LeftToExpire => "left_to_expire",
            Self::ShutDown => "shut_down",
            Self::Forked => "forked",
        }
    }
}

impl LossReason {
    /// Whether neither the holder nor this process has ended the lease: the holder's work may still have an effect
    /// under way.
    pub const fn is_loss(self) -> bool {
        match self {
            Self::NotRenewed
            | Self::RenewalFailed
            | Self::Gone
            | Self::MaxHold
            | Self::NoHeartbeat => true,
            Self::Released | Self::LeftToExpire | Self::ShutDown | Self::Forked => false,
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotRenewed => "its time is up, and it is not renewed",
            Self::RenewalFailed => {
                "its time is up, since too few nodes answered the renewals, or this process stood still"
            }
            Self::Gone => "too many nodes no longer have its key",
            Self::MaxHold => "it was held for as long as max_hold allows",
            Self::NoHeartbeat => "the worker gave no heartbeat",
            Self::Released => "its holder released it",
            Self::LeftToExpire => "its holder has left it to expire",
            Self::ShutDown => "the process is shutting down",
            Self::Forked => "it belongs to the parent of this forked process",
        })
    }
}
