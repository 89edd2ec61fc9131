//! What a rule looks at, and what it finds.
//!
//! It decides nothing.

use super::{Inspection, NodeFacts, Severity};
use crate::node::ServerFacts;

/// A node whose server has answered, among the others.
pub(super) struct Seen<'a> {
    pub(super) inspection: &'a Inspection,
    pub(super) node: &'a NodeFacts,
    pub(super) server: &'a ServerFacts,
}

/// How bad it is, what was seen, and what completes the remedy.
pub(super) struct Found(pub(super) Severity, pub(super) String, pub(super) String);

pub(super) fn found(severity: Severity, cause: impl Into<String>) -> Option<Found> {
    Some(Found(severity, cause.into(), String::new()))
}
