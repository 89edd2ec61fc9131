//! Why nobody was elected here, or what was said was not heard.
//!
//! One error for each verb; none has a source, since its text is complete.

use std::time::Duration;

use thiserror::Error;

use crate::{
    error::{AcquireError, LeaseLost},
    protocol::LeaderText,
    text::counted,
};

/// Why a campaign has ended without a leadership. Nothing of it stays on the nodes.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum CampaignError {
    /// The text is too long to be kept on every node. Nothing was sent. Say where more is to be found.
    #[error(
        "the text of a candidate has {bytes} bytes, at most {max} are allowed; nothing was sent; say where more is to \
         be found",
        max = LeaderText::MAX_BYTES
    )]
    TextTooLong {
        /// How long it is.
        bytes: usize,
    },
    /// The leader needs longer to stop than half of what its lease promises. Nothing was sent. Ask for less, or for a longer
    /// ttl.
    #[error(
        "stop_within of {stop_within:?} is more than half of what a ttl of {ttl:?} promises; nothing was sent; ask \
         for at most {max:?}, or for a longer ttl"
    )]
    StopWithin {
        /// What was asked for.
        stop_within: Duration,
        /// The ttl.
        ttl: Duration,
        /// The longest that is accepted with it.
        max: Duration,
    },
    /// The lease was not acquired. In classic mode there are no elections: [`AcquireError::Unsupported`].
    #[error("not elected: {0}")]
    Acquire(AcquireError),
}

debug_is_text! { enum CampaignError {
    TextTooLong { bytes },
    StopWithin { stop_within, ttl, max },
    Acquire(error),
} }

/// Why observers may not see what a leader says.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum ProclaimError {
    /// The text is too long to be kept on every node. What was said before stays. Say where more is to be found.
    #[error(
        "the text of a leader has {bytes} bytes, at most {max} are allowed; nothing was sent; say where more is to be \
         found",
        max = LeaderText::MAX_BYTES
    )]
    TextTooLong {
        /// How long it is.
        bytes: usize,
    },
    /// The term is over. Stop the work.
    #[error("nothing more is proclaimed: {0}")]
    Lost(LeaseLost),
    /// Too few nodes have taken it in time. It goes on in the background, while the term lasts; nothing needs to be done.
    #[error(
        "accepted by {told} so far, of {} needed; it goes on in the background; nothing needs to be done",
        counted(*needed, "node")
    )]
    Unconfirmed {
        /// How many nodes have it.
        told: usize,
        /// How many are needed so that observers see it.
        needed: usize,
    },
    /// The blocking form was called on the very thread that has to answer it. It goes on in the background.
    #[error(
        "blocking here would stop the thread that has to answer it; it goes on in the background; await it instead, or block \
         another thread"
    )]
    WouldDeadlock,
}

debug_is_text! { enum ProclaimError {
    TextTooLong { bytes },
    Lost(error),
    Unconfirmed { told, needed },
    WouldDeadlock,
} }
