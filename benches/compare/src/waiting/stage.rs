//! Where a scenario plays: its servers, how long its turns are, and names that nobody has used.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use quorlock_harness::Cluster;

use super::{case::Case, own, process::Worker, servers::Calls, who::Who};

/// For an answer that has to come, on however busy a machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The servers of a scenario.
pub(super) struct Stage {
    pub(super) case: Case,
    pub(super) cluster: Cluster,
    pub(super) quick: bool,
}

impl Stage {
    pub(super) fn new(case: Case, quick: bool) -> Self {
        Self { case, cluster: Cluster::start(5), quick }
    }

    /// A name that nobody has used.
    pub(super) fn resource(&self, who: Who) -> String {
        format!("compare:{}:{}", who.id(), NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The workers of a turn, new ones: nothing of an earlier turn is under way.
    pub(super) fn workers(&self, who: Who) -> Result<Vec<Worker>, String> {
        let layout = self.case.layout(who);
        let urls = self.cluster.urls();
        let rounds = self.case == Case::Waking;
        (0..layout.processes).map(|_| Worker::start(who, layout.clients, &urls, rounds)).collect()
    }

    /// Counts the commands between two moments.
    pub(super) fn calls(&self, from: u64, until: u64) -> (Calls, Calls) {
        std::thread::sleep(own::until(from));
        let before = Calls::of(&self.cluster);
        std::thread::sleep(own::until(until));
        (before, Calls::of(&self.cluster))
    }

    /// Of something that is counted on all servers, the part of one.
    pub(super) fn per_node(&self, count: f64) -> f64 {
        count / f64::from(u32::try_from(self.cluster.len()).unwrap_or(u32::MAX))
    }
}

/// From now, after a time to warm up, for so long.
pub(super) fn window(warming: Duration, long: Duration) -> (u64, u64) {
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or_default();
    let from = own::now() + nanos(warming);
    (from, from + nanos(long))
}
