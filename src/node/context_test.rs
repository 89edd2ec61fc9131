//! Claims of servers, and what nodes report of freed keys.

use futures::executor::block_on;

use super::*;
use crate::{
    node::{MemoryNode, Node},
    protocol::{
        ClientId, Command, EpochMark, Granted, Join, LineHint, Owner, Reply, ResourceSet, Slots,
        Stand, Target, Ticket,
    },
    runtime::ByHand,
};

const NODE_TIMEOUT: Duration = Duration::from_millis(100);

fn context(id: usize, clock: &Arc<ByHand>, fleet: &Arc<Fleet>) -> NodeContext {
    let settings = NodeSettings {
        connect_timeout: Duration::from_secs(1),
        node_timeout: NODE_TIMEOUT,
        allow_eviction: false,
        skips_quarantine: false,
        classic: false,
        counter_retention: Duration::from_secs(3600),
        members: Members::new("default", ["a", "b", "c"]),
        key_prefix: Vec::new(),
        client: ClientId::new([u8::try_from(id).unwrap(); 8]),
    };
    let runtime = Arc::clone(clock) as Arc<dyn Runtime>;
    NodeContext::new(NodeId::new(id), runtime, Arc::clone(fleet), Arc::new(settings))
}

#[test]
fn a_claim_keeps_other_nodes_out_until_the_rounds_of_its_connection_are_over() {
    let clock = Arc::new(ByHand::default());
    let fleet = Arc::new(Fleet::default());
    let (one, two) = (context(0, &clock, &fleet), context(1, &clock, &fleet));
    let (a, b) = (Arc::from("a:1"), Arc::from("b:1"));
    let first = one.claim(&a, "server").unwrap();
    assert_eq!(two.claim(&b, "server").unwrap_err(), a);
    // The node itself may claim again at once. The end of its last claim does not end this one.
    drop(first);
    let next = one.claim(&a, "server").unwrap();
    clock.pass(NODE_TIMEOUT);
    assert_eq!(two.claim(&b, "server").unwrap_err(), a);
    drop(next);
    clock.pass(NODE_TIMEOUT - Duration::from_millis(1));
    assert_eq!(two.claim(&b, "server").unwrap_err(), a, "a round may have counted its vote");
    clock.pass(Duration::from_millis(1));
    let moved = two.claim(&b, "server").unwrap();
    assert_eq!(one.claim(&a, "server").unwrap_err(), b);
    assert_eq!(fleet.claims().held.len(), 1, "what is over is forgotten");
    drop(moved);
}

/// The keys that are gone, and on which node.
type Freed = Arc<Lock<Vec<(usize, Resource)>>>;

/// A fleet, what its nodes have reported, and a node in memory in its third place.
fn listening() -> (Arc<Fleet>, Freed, MemoryNode) {
    let (fleet, node) = (Arc::new(Fleet::default()), MemoryNode::new());
    let freed = Freed::default();
    let (heard, looked_at) = (Arc::clone(&freed), node.clone());
    fleet.on_freed(move |id, resource| {
        // This would hang if the listener ran under the node's lock.
        assert!(!looked_at.keys().contains(&resource.as_bytes().to_vec()));
        heard.lock().push((id.index(), resource.clone()));
    });
    node.start(context(2, &Arc::default(), &fleet));
    (fleet, freed, node)
}

fn acquire(node: &MemoryNode, resource: &Resource, owner: Owner) {
    let (resource, mark) = (resource.clone(), EpochMark::default());
    let ttl = Duration::from_secs(60);
    let acquire = Command::Acquire {
        target: resource.into(),
        owner,
        ttl,
        hint: None,
        count: 1,
        first: 0,
        mark,
        note: None,
        stand: None,
    };
    assert_eq!(block_on(node.call(acquire)), Ok(Reply::Granted(Granted::DONE)));
}

fn release(resource: &Resource, owner: Owner) -> Command {
    Command::Release { target: resource.clone().into(), owner, keep: None }
}

#[test]
fn a_node_in_memory_tells_that_a_release_has_deleted_a_key() {
    let (_fleet, freed, node) = listening();
    let (resource, owner) = (Resource::new("r").unwrap(), Owner::from_random([1; 16]));
    acquire(&node, &resource, owner);
    let other = Owner::from_random([2; 16]);
    block_on(node.call(release(&resource, other))).unwrap();
    assert!(freed.lock().is_empty(), "the key is still there");
    block_on(node.call(release(&resource, owner))).unwrap();
    block_on(node.call(release(&resource, owner))).unwrap();
    assert_eq!(*freed.lock(), [(2, resource)], "once, for the one that has deleted it");
}

#[test]
fn a_release_of_several_tells_of_each_that_it_has_deleted_and_of_no_other() {
    let (_fleet, freed, node) = listening();
    let owner = Owner::from_random([1; 16]);
    let names = [b"r", b"s", b"t"].map(|name| Resource::new(name.as_slice()).unwrap());
    for (name, owner) in names.iter().zip([owner, Owner::from_random([2; 16]), owner]) {
        acquire(&node, name, owner);
    }
    let target = Target::from(ResourceSet::new(names.clone()).unwrap());
    let release = |keep| Command::Release { target: target.clone(), owner, keep };
    block_on(node.call(release(Some(Duration::from_secs(60))))).unwrap();
    assert!(freed.lock().is_empty(), "they are kept");
    block_on(node.call(release(None))).unwrap();
    let [first, _, last] = names;
    assert_eq!(*freed.lock(), [(2, first), (2, last)]);
}

#[test]
fn what_a_node_had_not_carried_out_when_it_was_killed_is_lost_with_it() {
    let (_fleet, _freed, node) = listening();
    let target = Target::from(Resource::new("r").unwrap());
    let (owner, ttl, until) = (Owner::from_random([1; 16]), NODE_TIMEOUT, Timestamp::ORIGIN);
    node.pause();
    // Of the commands that set a key, a restore needs nothing read before.
    let set = Command::Restore { target, owner, ttl, until, fenced: false, note: None };
    let mut call = node.call(set);
    let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(call.as_mut().poll(&mut nobody).is_pending());
    node.kill();
    let std::task::Poll::Ready(answer) = call.as_mut().poll(&mut nobody) else {
        panic!("it waits")
    };
    assert!(matches!(answer, Err(crate::node::NodeError::ConnectionLost { .. })), "{answer:?}");
    node.restart();
    assert_eq!(node.keys(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_release_that_was_executed_late_is_told_then() {
    let (_fleet, freed, node) = listening();
    let (resource, owner) = (Resource::new("r").unwrap(), Owner::from_random([1; 16]));
    acquire(&node, &resource, owner);
    node.pause();
    let mut call = node.call(release(&resource, owner));
    let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(call.as_mut().poll(&mut nobody).is_pending());
    assert!(freed.lock().is_empty());
    node.resume();
    assert_eq!(*freed.lock(), [(2, resource)]);
}

#[test]
fn a_listener_that_panics_or_is_missing_costs_the_release_nothing() {
    let deaf = Arc::new(Fleet::default());
    let (_fleet, freed, node) = listening();
    let panicky = Arc::new(Fleet::default());
    panicky.on_freed(|_, _| panic!("a listener"));
    for fleet in [&deaf, &panicky] {
        node.start(context(0, &Arc::default(), fleet));
    }
    let (resource, owner) = (Resource::new("r").unwrap(), Owner::from_random([1; 16]));
    acquire(&node, &resource, owner);
    assert_eq!(block_on(node.call(release(&resource, owner))), Ok(Reply::Granted(Granted::DONE)));
    assert_eq!(freed.lock().len(), 1);
}

/// What one client hears of the line.
type Heard = Arc<Lock<Vec<LineHint>>>;

/// A client of this number, connected to a node, and what it hears.
fn connected(node: &MemoryNode, number: u8) -> (Arc<Fleet>, Heard) {
    let (fleet, heard) = (Arc::new(Fleet::default()), Heard::default());
    let (listener, looked_at) = (Arc::clone(&heard), node.clone());
    fleet.on_line(move |id, resource, hint| {
        // This would hang if the listener ran under the node's lock.
        assert!(looked_at.reachable().is_ok() && resource.as_bytes() == b"r");
        assert_eq!(id.index(), usize::from(number), "by its own number of the node");
        listener.lock().push(hint);
    });
    node.start(context(usize::from(number), &Arc::default(), &fleet));
    (fleet, heard)
}

fn wait_in_line(node: &MemoryNode, number: u8, owner: Owner) -> Reply {
    let mark = block_on(node.join(Join::look(Duration::ZERO))).unwrap().mark();
    let stand = Some(Stand::with(ClientId::new([number; 8]), Ticket::new(u64::from(number))));
    block_on(node.call(Command::Acquire {
        target: Resource::new("r").unwrap().into(),
        owner,
        ttl: Duration::from_secs(60),
        hint: Some(1),
        count: 1,
        first: 0,
        mark,
        note: None,
        stand,
    }))
    .unwrap()
}

#[test]
fn a_node_in_memory_tells_the_first_in_its_line_and_has_the_second_stand_by() {
    let node = MemoryNode::new();
    let (two, heard_by_two) = connected(&node, 2);
    let (_one, heard_by_one) = connected(&node, 1);
    let owner = |number| Owner::from_random([number; 16]);
    assert!(matches!(
        wait_in_line(&node, 0, owner(0)),
        Reply::Granted(Granted { token: Some(_), .. })
    ));
    for number in [2, 1] {
        let reply = wait_in_line(&node, number, owner(number));
        let Reply::Denied(denial) = reply else { panic!("{reply:?}") };
        assert!(denial.at.is_some() && denial.rank == Some(0) && denial.holder.is_some());
    }
    block_on(node.call(release(&Resource::new("r").unwrap(), owner(0)))).unwrap();
    let head = ClientId::new([1; 8]);
    assert_eq!(*heard_by_one.lock(), [LineHint::Next]);
    assert_eq!(*heard_by_two.lock(), [LineHint::StandBy { head }]);
    let Reply::Denied(denial) = wait_in_line(&node, 2, owner(2)) else { panic!("it is second") };
    assert_eq!((denial.behind, denial.rank, denial.holder), (Some(head), Some(1), None));
    assert!(matches!(wait_in_line(&node, 1, owner(1)), Reply::Granted(_)));
    assert_eq!(heard_by_one.lock().last(), Some(&LineHint::Wanted));
    // A client without connections hears nothing, and is forgotten at once.
    let (three, heard_by_three) = connected(&node, 3);
    wait_in_line(&node, 3, owner(3));
    drop(two);
    node.pause();
    let mut call = node.call(release(&Resource::new("r").unwrap(), owner(1)));
    let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(call.as_mut().poll(&mut nobody).is_pending() && heard_by_three.lock().is_empty());
    node.resume();
    assert_eq!(*heard_by_three.lock(), [LineHint::Next], "when it was executed");
    drop(three);
}

#[test]
fn a_fleet_shows_which_servers_its_nodes_have_claimed() {
    let fleet = Arc::new(Fleet::default());
    let one = context(0, &Arc::default(), &fleet);
    let claim = one.claim(&Arc::from("a:1"), "server").unwrap();
    let shown = format!("{fleet:?}");
    assert!(shown.starts_with("Fleet {") && shown.contains(r#"address: "a:1""#), "{shown}");
    drop(claim);
}

/// What two waiters for a slot of a semaphore hear, of which so many are released before the first asks.
fn heard_behind_a_pick(released: &[&str]) -> [Vec<LineHint>; 2] {
    let node = MemoryNode::new();
    let hearing = [1, 2].map(|number| {
        let (fleet, heard) = (Arc::new(Fleet::default()), Heard::default());
        let listener = Arc::clone(&heard);
        fleet.on_line(move |_, _, hint| listener.lock().push(hint));
        node.start(context(number, &Arc::default(), &fleet));
        (fleet, heard)
    });
    let pick = |number: u8| {
        let mark = block_on(node.join(Join::look(Duration::from_secs(1)))).unwrap().mark();
        let stand = Stand::with(ClientId::new([number; 8]), Ticket::new(number.into()));
        block_on(node.call(Command::Acquire {
            target: Slots::new(b"", "s", 2).unwrap().into(),
            owner: Owner::from_random([number; 16]),
            ttl: Duration::from_secs(1),
            hint: Some(1),
            count: 1,
            first: 0,
            mark,
            note: None,
            stand: (number < 3).then_some(stand),
        }))
        .unwrap()
    };
    let held = [3, 4].map(pick);
    assert!(held.iter().all(|reply| matches!(reply, Reply::Granted(_))), "{held:?}");
    let waits = [1, 2].map(pick);
    assert!(waits.iter().all(|reply| matches!(reply, Reply::Denied(_))), "{waits:?}");
    for (slot, number) in released.iter().zip([3, 4]) {
        let slot = Resource::new(*slot).unwrap();
        block_on(node.call(release(&slot, Owner::from_random([number; 16])))).unwrap();
    }
    hearing.iter().for_each(|(_, heard)| heard.lock().clear());
    assert!(matches!(pick(1), Reply::Granted(_)));
    hearing.map(|(_, heard)| heard.lock().clone())
}

/// Otherwise it would hear of it at the next release.
#[test]
fn who_is_next_hears_that_another_slot_is_free_behind_a_pick_and_only_then() {
    let [_, second] = heard_behind_a_pick(&["s/0", "s/1"]);
    assert_eq!(second, [LineHint::Next]);
    let [_, second] = heard_behind_a_pick(&["s/0"]);
    assert_eq!(second, []);
}
