//! What is found of how fast one node answers, and of how its clock runs.
//!
//! It decides from facts alone, beside those of the other nodes.

use std::time::Duration;

use super::{
    Severity,
    offset::{OFFSET, own_clock_off, signed},
    seen::{Found, Seen, found},
};
use crate::text::rounded;

/// By this much it makes tokens go wrong: no hint takes them further ahead of a node's clock.
const FAR_OFF: Duration = Duration::from_secs(60);
/// In millionths: no clock that is seen to by NTP gains or loses more.
const DRIFTS: f64 = 1000.0;
/// Beside nodes that answer much faster, a node is slow from this on.
const SLOW: Duration = Duration::from_millis(25);
/// This many times as slow as the others.
const SLOWER: u32 = 10;

pub(super) fn slow(Seen { inspection, node, server }: &Seen<'_>) -> Option<Found> {
    let limit = inspection.settings.node_timeout;
    if server.unanswered > 0 {
        let cause = format!("{} of its replies missed the connect timeout", server.unanswered);
        return found(Severity::Error, cause);
    }
    let trips = node.round_trips()?;
    // A process that is woken late reads replies late, and a server on the same machine answers late: neither is the node's.
    let own = inspection.woken_late() * 2;
    let [quarter, median] = [trips.quarter, trips.median].map(|trip| trip.saturating_sub(own));
    let shown = rounded(trips.median);
    if median >= limit {
        let cause = format!(
            "its replies take {shown:?}, longer than node_timeout ({limit:?}), so its votes come too late"
        );
        return found(Severity::Error, cause);
    }
    let others = inspection.nodes.iter().filter(|other| other.node != node.node);
    let mut others: Vec<Duration> =
        others.filter_map(|other| Some(other.round_trips()?.median)).collect();
    others.sort_unstable();
    let typical = others.get(others.len() / 2).copied();
    // A few looks that met something else say nothing: three of four are as slow.
    let much_slower = typical.is_some_and(|typical| median >= typical * SLOWER) && quarter >= SLOW;
    if median * 2 < limit && !much_slower {
        return None;
    }
    let beside = match typical {
        Some(typical) if much_slower => format!("those of other nodes {:?}", rounded(typical)),
        _ => format!("node_timeout is {limit:?}"),
    };
    found(Severity::Warning, format!("its replies take {shown:?}, and {beside}"))
}

pub(super) fn clock_off(Seen { inspection, node, .. }: &Seen<'_>) -> Option<Found> {
    let clock = node.clock()?;
    // Where most agree with each other and not with us, each is compared with them.
    let ours = own_clock_off(inspection).map_or(0, |(ours, _)| ours);
    let off = signed(clock.offset) - ours;
    let off_by = Duration::from_micros(u64::try_from(off.unsigned_abs()).unwrap_or(u64::MAX));
    if off_by < OFFSET + clock.uncertainty {
        return None;
    }
    let severity = if off_by >= FAR_OFF { Severity::Error } else { Severity::Warning };
    let sense = if off > 0 { "ahead" } else { "behind" };
    let cause = format!(
        "its clock is {:.3} s {sense}; leases are not affected; tokens that begin anew after the loss of a majority \
         may be smaller than before",
        off_by.as_secs_f64()
    );
    found(severity, cause)
}

pub(super) fn clock_drifts(Seen { inspection, node, .. }: &Seen<'_>) -> Option<Found> {
    let Some(sure) = node.clock()?.rate?.sure() else {
        let cause = "its clock jumped during the inspection, or runs unevenly; its keys may expire early or late";
        return found(Severity::Error, cause);
    };
    if sure.abs() < DRIFTS {
        return None;
    }
    let allowed = f64::from(inspection.settings.drift_per_mille) * 1000.0;
    let severity = if sure.abs() >= allowed { Severity::Error } else { Severity::Warning };
    let (verb, follows) = if sure > 0.0 { ("gains", "early") } else { ("loses", "late") };
    let cause = format!(
        "its clock {verb} {:.1} ms each second, so keys expire {follows} there; leases allow for {:.1} ms",
        sure.abs() / 1000.0,
        allowed / 1000.0
    );
    found(severity, cause)
}
