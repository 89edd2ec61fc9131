//! Faults of a server that is there and does not do what it should: it sleeps, is full, or misses its replicas.

use std::time::Duration;

use quorlock_harness::Server;

use super::setting;

/// The connection that asks for the sleep waits for its end, for two seconds at most.
const LONGEST_SLEEP: Duration = Duration::from_millis(1500);

pub(super) fn debug_sleep(server: &Server, time: Duration) -> bool {
    let time = time.min(LONGEST_SLEEP);
    server.run(&["DEBUG", "SLEEP", &time.as_secs_f64().to_string()]);
    true
}

pub(super) fn max_memory(server: &Server, time: Duration) -> bool {
    setting(server, "maxmemory", ["1", "0"], time, "OOM")
}

pub(super) fn min_replicas(server: &Server, time: Duration) -> bool {
    setting(server, "min-replicas-to-write", ["1", "0"], time, "NOREPLICAS")
}
