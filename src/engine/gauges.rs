//! Shows a metrics recorder the state of the nodes, on each change and every ten seconds.
//!
//! It decides nothing, asks no node anything, holds no lock while it calls the recorder, and keeps no engine alive.

use std::{
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::future::select;

use super::Engine;
use crate::{
    node::{ClockOffset, NodeState, NodeStatus},
    protocol::{Lane, NodeId},
    telemetry::metrics::{self, Labelled},
};

/// How often to look at the nodes without a change: quarantines end, clocks drift, lines grow.
const INTERVAL: Duration = Duration::from_secs(10);

/// Updates the gauges until the engine is gone, and then shows that it sees no node any more.
pub(super) async fn attend(engine: Weak<Engine>) {
    let Some((fleet, name, addresses)) = engine.upgrade().map(|engine| {
        let addresses: Vec<_> = engine.addresses().map(Arc::clone).collect();
        (Arc::clone(&engine.fleet), engine.config.fleet.clone(), addresses)
    }) else {
        return;
    };
    loop {
        // Registered before the nodes are looked at, so that no change in between is missed.
        let mut changed = pin!(fleet.changed.notified());
        changed.as_mut().enable();
        let Some(engine) = engine.upgrade() else { break };
        show(&engine);
        let sleep = engine.sleep_until(engine.now().saturating_add(INTERVAL));
        drop(engine);
        select(changed, sleep).await;
    }
    for address in &addresses {
        metrics::node(Labelled { fleet: &name, address }, "", 0, None);
    }
    metrics::quorum(&name, 0, 1, 0);
}

fn show(engine: &Engine) {
    let fleet = &engine.config.fleet;
    let statuses = engine.statuses();
    for (index, (slot, status)) in engine.nodes.iter().zip(&statuses).enumerate() {
        // Read before the call of the recorder, which is user code.
        let unconfirmed = engine.client.lock().unconfirmed(NodeId::new(index));
        let clock = status.clock.map(seconds);
        metrics::node(engine.labelled(slot), state(status), unconfirmed, clock);
    }
    let voting = statuses.iter().filter(|status| status.state == NodeState::Ready).count();
    // Read before the call of the recorder, which is user code.
    let waiting = engine.client.lock().crowd(Lane::Acquires);
    metrics::quorum(fleet, voting, engine.quorum.needed(), waiting);
}

const fn state(status: &NodeStatus) -> &'static str {
    match status.state {
        NodeState::Connecting => "connecting",
        NodeState::Ready => "ready",
        NodeState::Quarantined { .. } => "quarantined",
        NodeState::Down { .. } => "down",
        NodeState::Refused(_) => "refused",
    }
}

const fn seconds(offset: ClockOffset) -> f64 {
    match offset {
        ClockOffset::Ahead(by) => by.as_secs_f64(),
        ClockOffset::Behind(by) => -by.as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_is_behind_is_told_with_a_minus() {
        let by = Duration::from_millis(1500);
        assert_eq!([ClockOffset::Ahead(by), ClockOffset::Behind(by)].map(seconds), [1.5, -1.5]);
    }
}
