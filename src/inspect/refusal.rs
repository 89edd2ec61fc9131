//! The findings of nodes that were refused, or could not be asked.
//!
//! It decides nothing: the text of a refusal names its remedy already, and is told as it is.

use super::{Finding, Ill, Severity};
use crate::node::{NodeError, Refusal};

/// The finding of a refused node. Its text says the cause, a semicolon, and what to do.
pub(super) fn refused(refusal: &Refusal) -> Finding {
    let ill = match refusal {
        Refusal::SameServer { .. } => Ill::SameServer,
        Refusal::Replica => Ill::Replica,
        Refusal::MayEvict { .. } => Ill::MayEvict,
        Refusal::MissingRight { .. } => Ill::MissingRight,
        Refusal::WrongCredentials { .. } | Refusal::PasswordMissing { .. } => Ill::WrongCredentials,
        Refusal::TooOld { .. } => Ill::TooOld,
        Refusal::Cluster => Ill::Cluster,
        Refusal::OtherMembers { .. } | Refusal::MembersChanged { .. } => Ill::OtherMembers,
        _ => Ill::Refused,
    };
    Finding::new(
        Severity::Error,
        ill,
        format!("it does not take part; {refusal}"),
        "it is checked again by itself once that is done",
    )
}

/// What is found of a node whose server could not be asked.
pub(super) fn not_asked(error: &NodeError) -> Finding {
    match error {
        NodeError::Refused(refusal) => refused(refusal),
        NodeError::Rejected { .. } => Finding::new(
            Severity::Note,
            Ill::NotReached,
            format!("its server cannot be inspected: {error}"),
            "a custom node may implement `examine`",
        ),
        error => Finding::new(
            Severity::Error,
            Ill::NotReached,
            format!("it could not be asked: {error}"),
            "check that the server runs, that its address is right, and the network between it and this machine",
        ),
    }
}
