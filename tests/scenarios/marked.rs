//! Goal: what others have written into markers costs no node more than a quarantine.
//!
//! Method: real servers, and a field of their markers that is overwritten.

use std::time::SystemTime;

use quorlock_harness::eventually;

use super::{MARKER, SECOND, SOON, admitted, ready, settings};

/// Others have written a high-water mark an hour ahead to a majority of the markers.
#[test]
fn a_node_whose_high_water_mark_others_have_written_is_admitted_by_itself() {
    let cluster = admitted(3, SECOND);
    let client = ready(settings(&cluster, SECOND));
    let hour = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() + 3600 * SECOND;
    for node in 0..2 {
        cluster[node].run(&["HSET", MARKER, "high_water", &hour.as_micros().to_string()]);
    }
    // Past the next look at the nodes.
    std::thread::sleep(11 * SECOND);
    eventually("it is admitted by itself", SOON, || client.try_acquire("r").blocking().is_ok());
}
