//! The keeper's queue behind a whole driver, on nodes in memory.

use futures::executor::block_on;

use super::*;
use crate::{
    config::Config,
    driver::{Patience, Plan},
    lease::Lease,
    node::{MemoryNode, Node},
    protocol::{Resource, Upkeep},
    runtime::TokioRuntime,
};

const TTL: Duration = Duration::from_secs(3600);

fn driver() -> Arc<Driver> {
    let nodes = (0..3).map(|_| Arc::new(MemoryNode::new()) as Arc<dyn Node>).collect();
    let config = Config { ttl: TTL, max_ttl: TTL, ..Config::default() };
    let driver = Driver::start(config, nodes, Arc::new(TokioRuntime::dedicated().unwrap()));
    block_on(driver.connected(driver.now().saturating_add(Duration::from_secs(10))));
    driver
}

fn acquire(driver: &Arc<Driver>, resource: &str) -> Lease {
    let plan = Plan {
        resource: Resource::new(resource.as_bytes()).unwrap(),
        ttl: TTL,
        min_validity: Duration::ZERO,
        patience: Patience::For(Duration::from_secs(10)),
        upkeep: Upkeep::default(),
    };
    block_on(driver.acquire(plan)).unwrap()
}

#[test]
fn a_lease_that_was_let_go_leaves_nothing_in_the_queue() {
    let driver = driver();
    let kept = acquire(&driver, "kept");
    for n in 0..500 {
        let lease = acquire(&driver, &format!("r{n}"));
        assert_eq!(driver.keeper.queue.len(), 2);
        drop(lease);
        assert_eq!(driver.keeper.queue.len(), 1, "after {n} leases");
    }
    for _ in 0..50 {
        block_on(kept.extend()).unwrap();
        assert_eq!(
            driver.keeper.queue.len(),
            1,
            "it has one entry, however often its time changes"
        );
    }
    block_on(kept.release()).unwrap();
    assert_eq!(driver.keeper.queue.len(), 0);
}
