//! A look at a node's marker, and its admission, as scripts, and what is answered to them.
//!
//! It decides what a marker in an answer says, and that a node which is another fleet's, or a replica, must not vote.

use std::{sync::Arc, time::Duration};

use redis::Value;

use super::{
    super::{
        marker::CachedMarker,
        script::{self, Arg, List, OWN, Script},
    },
    Answer, refusal, unexpected,
};
use crate::{
    node::{Join, NodeError},
    protocol::{Floor, validity},
};

/// What stands behind a connection.
#[derive(Clone, Debug)]
pub(in crate::node::redis) struct Process {
    pub(in crate::node::redis) run_id: String,
    /// The number of the database. Two that are swapped keep their keys, and so their markers.
    pub(in crate::node::redis) database: i64,
    /// The fleet that the node is configured for.
    pub(in crate::node::redis) fleet: Arc<str>,
    /// How long the node keeps a counter that is not used.
    pub(in crate::node::redis) counter_retention: Duration,
}

/// What a look has shown.
#[derive(Debug)]
pub(in crate::node::redis) enum Looked {
    /// A marker of this fleet.
    Marker(CachedMarker),
    /// That of the fleet of this name.
    OtherFleet(Arc<str>),
    /// None, since the server is a replica.
    Replica,
}

/// Reads the marker, and marks a node that was not admitted. The nonce tells eras apart.
pub(in crate::node::redis) fn look(process: &Process, join: Join, nonce: u32) -> Script<'_> {
    let asked = [(join.seal, 's'), (join.lost, 'l'), (join.orphaned, 'o')];
    let letters = asked.into_iter().filter(|(asked, _)| *asked).map(|(_, letter)| letter);
    // No era is zero here either.
    let (waited_in, waited) = join.waited.unwrap_or_default();
    let args = List::Many(vec![
        Arg::Bytes(process.run_id.as_bytes()),
        Arg::Text(process.database.to_string()),
        Arg::Bytes(process.fleet.as_bytes()),
        Arg::Number(validity::wire_millis(join.max_ttl)),
        // No era is zero, so that zero forces nothing.
        Arg::Number(join.force.unwrap_or(0)),
        Arg::Text(letters.collect()),
        Arg::Number(u64::from(nonce)),
        Arg::Number(validity::wire_millis(process.counter_retention)),
        Arg::Number(join.after),
        Arg::Number(waited_in),
        Arg::Number(validity::whole_millis(waited)),
    ]);
    Script { source: &script::JOIN, keys: List::Three(OWN), lines: &[], args }
}

pub(in crate::node::redis) fn looked(answer: &Answer) -> Result<Looked, NodeError> {
    match answer.told() {
        [Value::Int(ready @ (0 | 1)), _, marker @ ..] => CachedMarker::read(*ready == 1, marker)
            .map(Looked::Marker)
            .ok_or_else(|| unexpected("a marker of another form")),
        [Value::Int(-5), _, Value::BulkString(fleet)] => {
            Ok(Looked::OtherFleet(Arc::from(String::from_utf8_lossy(fleet))))
        }
        [Value::Int(-6), _] => Ok(Looked::Replica),
        _ => Err(refusal(answer)),
    }
}

/// Lets a node vote that is joining since this era.
pub(in crate::node::redis) fn admit(identity: &[u8], era: u64, floor: Floor) -> Script<'_> {
    let args = List::Many(vec![
        Arg::Bytes(identity),
        Arg::Number(era),
        Arg::Number(floor.known),
        Arg::Number(floor.wall_us),
    ]);
    Script { source: &script::ADMIT, keys: List::Three(OWN), lines: &[], args }
}

/// Whether the node was joining, and may vote now.
pub(in crate::node::redis) fn admitted(answer: &Answer) -> Result<bool, NodeError> {
    match answer.told() {
        [Value::Int(answer @ (0 | 1)), _] => Ok(*answer == 1),
        _ => Err(refusal(answer)),
    }
}

#[cfg(test)]
#[path = "joining_test.rs"]
mod tests;
