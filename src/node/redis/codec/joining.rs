//! A look at a node's marker, and its admission, as scripts, and what is answered to them.
//!
//! It decides what a marker in an answer says, and that a node which is another fleet's, or a replica, must not vote.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

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
    protocol::{Belongs, Errand, Floor, Members, Serves, validity},
};

/// The process and the database behind a connection.
#[derive(Clone, Debug)]
pub(in crate::node::redis) struct Process {
    pub(in crate::node::redis) run_id: String,
    /// The number of the database. Two that are swapped keep their keys, and so their markers. Behind Sentinels the failover
    /// follows it since which the process is the master.
    pub(in crate::node::redis) database: String,
    /// The fleet that the node is configured for, in the first generation.
    pub(in crate::node::redis) members: Members,
    /// The generation with which it was looked at last.
    pub(in crate::node::redis) generation: Arc<AtomicU32>,
    /// How long the node keeps a counter that is not used.
    pub(in crate::node::redis) counter_retention: Duration,
}

impl Process {
    /// The members in this generation, or in the last one that was looked with.
    fn members_at(&self, generation: u32) -> Members {
        let generation = match generation {
            0 => self.generation.load(Ordering::Acquire),
            _ => {
                self.generation.store(generation, Ordering::Release);
                generation
            }
        };
        if generation <= 1 { self.members.clone() } else { self.members.at(generation) }
    }
}

/// What a look has shown.
#[derive(Debug)]
pub(in crate::node::redis) enum Looked {
    /// A marker of this fleet.
    Marker(CachedMarker),
    /// It belongs to these members, for so long; or a client means to use it with them.
    OtherMembers { other: Members, age: Option<Duration>, belongs: Belongs },
    /// No marker, since the server is a replica.
    Replica,
}

/// Reads the marker, and marks an unadmitted node. The nonce tells epochs apart. After `latest`, by the node's clock,
/// no errand is done; zero means no limit.
pub(in crate::node::redis) fn look(
    process: &Process,
    join: Join,
    nonce: u32,
    latest: u64,
) -> Script<'_> {
    let asked = [(join.seal, 's'), (join.lost, 'l'), (join.orphaned, 'o'), (join.proven, 'e')];
    let errand = join.errand.map(|errand| match errand {
        Errand::Withdraw => "w".to_owned(),
        Errand::MeanNothing => "n".to_owned(),
        Errand::TakeOver => "t".to_owned(),
        Errand::WatchMaxTtl(number) => format!("x{number}"),
        Errand::LowerMaxTtl(number) => format!("d{number}"),
        Errand::TakeEarlier => "y".to_owned(),
        Errand::Seal => "c".to_owned(),
        Errand::Open(floor) => format!("p{floor}"),
    });
    let letters = asked.into_iter().filter(|(asked, _)| *asked).map(|(_, letter)| letter);
    // No epoch is zero: zero says nothing.
    let (waited_in, waited) = join.waited.unwrap_or_default();
    let args = List::Many(vec![
        Arg::Bytes(process.run_id.as_bytes()),
        Arg::Text(process.database.clone()),
        Arg::Text(process.members_at(join.generation).text().to_owned()),
        Arg::Number(validity::wire_millis(join.max_ttl)),
        // No epoch is zero, so that zero forces nothing.
        Arg::Number(join.force.unwrap_or(0)),
        Arg::Text(letters.collect::<String>() + errand.as_deref().unwrap_or_default()),
        Arg::Number(u64::from(nonce)),
        Arg::Number(validity::wire_millis(process.counter_retention)),
        Arg::Number(join.after),
        Arg::Number(waited_in),
        Arg::Number(validity::whole_millis(waited)),
        Arg::Number(latest),
    ]);
    Script { source: &script::JOIN, keys: List::Three(OWN), lines: &[], args }
}

pub(in crate::node::redis) fn looked(answer: &Answer) -> Result<Looked, NodeError> {
    match answer.told() {
        [Value::Int(ready @ (0 | 1)), _, marker @ ..] => CachedMarker::read(*ready == 1, marker)
            .map(Looked::Marker)
            .ok_or_else(|| unexpected("a marker of another form")),
        [Value::Int(-5), _, Value::BulkString(members), Value::BulkString(age)] => {
            let belongs = match age.as_slice() {
                b"-1" => Belongs::Claim,
                b"-2" => Belongs::Announced,
                _ => Belongs::Record,
            };
            let age = std::str::from_utf8(age).ok().and_then(|age| age.parse().ok());
            let other = Members::from_text(&String::from_utf8_lossy(members));
            Ok(Looked::OtherMembers { other, age: age.map(Duration::from_secs), belongs })
        }
        [Value::Int(-6), _] => Ok(Looked::Replica),
        _ => Err(refusal(answer)),
    }
}

/// Lets a node vote that has been joining since this epoch.
pub(in crate::node::redis) fn admit<'a>(
    process: &'a Process,
    identity: &'a [u8],
    epoch: u64,
    floor: Floor,
    serves: Serves,
) -> Script<'a> {
    let members = process.members_at(0);
    let args = List::Many(vec![
        Arg::Bytes(identity),
        Arg::Number(epoch),
        Arg::Number(floor.known),
        Arg::Number(floor.wall_us),
        Arg::Text(members.text().to_owned()),
        Arg::Text(members.serving(serves).text().to_owned()),
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
