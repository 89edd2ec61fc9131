//! By how much clocks are off, and whose clock it is that is off.
//!
//! It decides that where most of the nodes agree with each other and not with this process, this process is wrong.

use std::time::Duration;

use super::Inspection;
use crate::node::ClockOffset;

/// A clock that is off by this much is told.
pub(super) const OFFSET: Duration = Duration::from_secs(1);

/// Whether most clocks agree with each other, and not with ours. By how much, and of how many nodes.
pub(super) fn own_clock_off(inspection: &Inspection) -> Option<(i128, usize)> {
    let mut offsets: Vec<i128> = inspection
        .nodes
        .iter()
        .filter_map(|node| node.clock())
        .map(|clock| signed(clock.offset))
        .collect();
    offsets.sort_unstable();
    let middle = *offsets.get(offsets.len() / 2)?;
    let (limit, away) = (micros(OFFSET), middle.unsigned_abs());
    let agree = offsets.iter().filter(|offset| offset.abs_diff(middle) < limit.unsigned_abs());
    let agree = agree.count();
    // One other clock does not say which of the two is wrong.
    (away >= limit.unsigned_abs() && agree > 1 && agree * 2 > offsets.len())
        .then_some((middle, agree))
}

/// Ahead is positive.
pub(super) fn signed(offset: ClockOffset) -> i128 {
    match offset {
        ClockOffset::Ahead(off) => micros(off),
        ClockOffset::Behind(off) => -micros(off),
    }
}

fn micros(time: Duration) -> i128 {
    i128::try_from(time.as_micros()).unwrap_or(i128::MAX / 4)
}
