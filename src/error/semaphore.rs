//! Why there is no semaphore: what was asked for, or of whom.

use thiserror::Error;

use super::Unsupported;
use crate::protocol::SlotsError;

/// Why there is no such semaphore. Nothing has been sent.
#[derive(Clone, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum SemaphoreError {
    /// No permits, too many of them, or a name that cannot be one. The field says what is accepted.
    #[error("{0}")]
    Slots(SlotsError),
    /// These nodes pick no slots. The field says why.
    #[error("{0}")]
    Unsupported(Unsupported),
}

debug_is_text! { enum SemaphoreError {
    Slots(error),
    Unsupported(error),
} }

impl From<SlotsError> for SemaphoreError {
    fn from(error: SlotsError) -> Self {
        Self::Slots(error)
    }
}

impl From<Unsupported> for SemaphoreError {
    fn from(error: Unsupported) -> Self {
        Self::Unsupported(error)
    }
}
