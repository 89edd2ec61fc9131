//! A resource is taken from the holder that a quorum names, and its counter stands above that holder's token.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::executor::block_on;
use quorlock::{
    FencingToken, Holder, LossReason, Redlock,
    inspect::ForceError,
    node::{MemoryNode, Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeSpec, NodeStatus},
    protocol::{Command, Floor, Join, Marker, Resource, Serves, Sighting},
};
use quorlock_harness::eventually;

use super::{SECOND, SOON, connect, nodes};

/// As every owner looks.
const OWNER: &str = "07070707070747078707070707070707";

#[test]
fn the_old_holder_loses_it_and_every_later_token_is_larger() {
    let nodes = nodes(3);
    let (holder, operator) = (connect(&nodes), connect(&nodes));
    let lease = holder.acquire("r").ttl(2 * SECOND).blocking().unwrap();
    let forced = block_on(operator.force_release("r")).unwrap();
    println!("{forced}");
    assert_eq!((forced.was.owner, forced.released), (Some(lease.owner()), 3));
    let fence = forced.fence.unwrap();
    assert!(fence > lease.token().unwrap());
    assert!(forced.next.is_none());
    // It is given back.
    assert!(matches!(operator.blocking_holder("r"), Ok(Holder::Free)));
    eventually("it is told", SOON, || lease.check().is_err());
    assert_eq!(lease.check().unwrap_err().reason, LossReason::Gone);
    let next = holder.try_acquire("r").blocking().unwrap();
    assert!(next.token().unwrap() > fence);
}

#[test]
fn with_a_minority_down_it_is_taken_and_with_a_majority_down_it_is_not() {
    let nodes = nodes(3);
    let redlock = connect(&nodes);
    let lease = redlock.acquire("r").ttl(10 * SECOND).blocking().unwrap();
    nodes[2].disconnect();
    let operator = connect(&nodes);
    let forced = block_on(operator.force_release("r")).unwrap();
    assert_eq!(forced.released, 2);
    assert!(forced.fence.unwrap() > lease.token().unwrap());
    let _again = operator.acquire("s").blocking().unwrap();
    nodes[1].disconnect();
    let error = block_on(operator.force_release("s")).unwrap_err();
    assert!(matches!(error, ForceError::Unclear { .. }), "{error}");
    assert!(nodes[0].keys().iter().any(|key| key == b"s"));
}

#[test]
fn a_key_whose_end_was_taken_away_is_released_by_its_owner() {
    let nodes = nodes(3);
    nodes.iter().for_each(|node| node.set("r", OWNER, None));
    let forced = block_on(connect(&nodes).force_release("r")).unwrap();
    assert_eq!((forced.was.remaining, forced.released), (None, 3));
    // That holder's token is not known: the fence is larger than all that were granted.
    assert_eq!(forced.was.token, None);
    assert!(forced.fence > Some(FencingToken::new(0)));
}

#[test]
fn a_slot_of_a_semaphore_is_taken_by_its_name() {
    let nodes = nodes(3);
    let redlock = connect(&nodes);
    let permit = redlock.semaphore("api", 1).unwrap().acquire().blocking().unwrap();
    let error = block_on(redlock.force_release("api")).unwrap_err();
    assert!(matches!(error, ForceError::Free), "{error}");
    assert!(error.to_string().contains("api/0"), "{error}");
    let forced = block_on(connect(&nodes).force_release("api/0")).unwrap();
    assert_eq!(forced.was.owner, Some(permit.owner()));
    let next = connect(&nodes).semaphore("api", 1).unwrap().acquire().blocking().unwrap();
    assert!(next.token().unwrap() > forced.fence.unwrap());
}

#[test]
fn readers_and_other_programs_are_left_alone() {
    let nodes = nodes(3);
    let redlock = connect(&nodes);
    let _reader = redlock.read("read").blocking().unwrap();
    nodes.iter().for_each(|node| node.set("foreign", "somebody", Some(60 * SECOND)));
    let before: Vec<_> = nodes.iter().map(MemoryNode::keys).collect();
    let error = block_on(redlock.force_release("read")).unwrap_err();
    assert!(matches!(error, ForceError::Readers { remaining: Some(_) }), "{error}");
    assert!(std::error::Error::source(&error).is_none(), "its text is complete");
    let error = block_on(redlock.force_release("foreign")).unwrap_err();
    assert!(matches!(&error, ForceError::Foreign(by) if *by.value == *b"somebody"), "{error}");
    let error = block_on(redlock.force_release("")).unwrap_err();
    assert!(matches!(error, ForceError::Resource(_)), "{error}");
    assert_eq!(nodes.iter().map(MemoryNode::keys).collect::<Vec<_>>(), before);
}

#[test]
fn where_another_has_it_by_now_nothing_is_taken() {
    let nodes = nodes(3);
    let redlock = connect(&nodes);
    let [first, second] = ["r", "s"].map(|name| redlock.acquire(name).blocking().unwrap());
    let error = block_on(redlock.force_release_from("r", second.owner())).unwrap_err();
    assert!(
        matches!(&error, ForceError::Changed(by) if by.owner == Some(first.owner())),
        "{error}"
    );
    first.check().unwrap();
    let forced = block_on(connect(&nodes).force_release_from("s", second.owner())).unwrap();
    assert_eq!(forced.released, 3);
}

/// The command names an owner, and no lease: the lease that has the owner's grant by then ends.
#[test]
fn a_lease_that_was_handed_on_since_is_ended_too() {
    let nodes = nodes(3);
    let (holder, operator) = (connect(&nodes), connect(&nodes));
    let lease = || holder.acquire("r").ttl(2 * SECOND).linger(SOON).blocking().unwrap();
    let first = lease();
    let seen = first.owner();
    first.blocking_release().unwrap();
    let second = lease();
    assert_eq!(second.owner(), seen, "it was handed on");
    let forced = block_on(operator.force_release_from("r", seen)).unwrap();
    assert_eq!((forced.was.owner, forced.released), (Some(seen), 3));
    assert!(forced.fence.unwrap() > second.token().unwrap());
    eventually("it is told", SOON, || second.check().is_err());
    assert_eq!(second.check().unwrap_err().reason, LossReason::Gone);
}

#[test]
fn in_classic_mode_there_is_no_token_to_tell() {
    let nodes = nodes(3);
    let classic = || block_on(Redlock::builder().nodes(&nodes).classic().connect()).unwrap();
    let holder = classic();
    let lease = holder.acquire("r").ttl(2 * SECOND).blocking().unwrap();
    let forced = block_on(classic().force_release("r")).unwrap();
    assert_eq!((forced.was.owner, forced.fence), (Some(lease.owner()), None));
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
    eventually("it is told", SOON, || lease.check().is_err());
}

/// Four holders on two handles, and an operator that takes it again and again: every token of the former holder is
/// below the fence, and no token is given twice.
#[test]
fn in_a_crowd_each_fence_is_above_all_tokens_of_the_holder_and_no_token_is_given_twice() {
    let nodes = nodes(3);
    let (handles, operator) = ([connect(&nodes), connect(&nodes)], connect(&nodes));
    let (handles, ended) = (&handles, &AtomicBool::new(false));
    let hold = |redlock: &Redlock| {
        let mut had = Vec::new();
        while !ended.load(Ordering::SeqCst) {
            if let Ok(lease) = redlock.acquire("r").ttl(SECOND).wait(SECOND).blocking() {
                had.push((lease.owner(), lease.token().unwrap()));
            }
        }
        had
    };
    let (had, taken) = std::thread::scope(|scope| {
        let holders: Vec<_> =
            (0..4).map(|holder| scope.spawn(move || hold(&handles[holder % 2]))).collect();
        let mut taken = Vec::new();
        while taken.len() < 60 {
            match block_on(operator.force_release("r")) {
                Ok(forced) => taken.push(forced),
                Err(ForceError::Free | ForceError::Unclear { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        ended.store(true, Ordering::SeqCst);
        let had = holders.into_iter().flat_map(|holder| holder.join().unwrap());
        (had.collect::<Vec<_>>(), taken)
    });
    let mut tokens: Vec<FencingToken> = had.iter().map(|(_, token)| *token).collect();
    for forced in &taken {
        let fence = forced.fence.unwrap();
        for (_, token) in had.iter().filter(|(owner, _)| Some(*owner) == forced.was.owner) {
            assert!(*token < fence, "{token} of {forced}");
        }
        // Otherwise the token is that of the next holder, which is counted already.
        tokens.extend(forced.next.is_none().then_some(fence));
    }
    let own = taken.iter().filter(|forced| forced.next.is_none()).count();
    println!("{} leases, taken 60 times, {own} of them with a grant of its own", had.len());
    let all = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), all, "a token was given twice");
}

/// A node that says who holds what, and refuses some commands.
#[derive(Clone, Debug)]
struct Refuses(MemoryNode, fn(&Command) -> bool);

impl Node for Refuses {
    fn start(&self, context: NodeContext) {
        self.0.start(context);
    }

    fn call(&self, command: Command) -> NodeCall {
        if self.1(&command) {
            let error = NodeError::NotConnected { reason: "it was cut off just then".into() };
            return Box::pin(std::future::ready(Err(error)));
        }
        self.0.call(command)
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        self.0.join(join)
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        self.0.admit(epoch, floor, serves)
    }

    fn holder(&self, resource: Resource, fenced: bool) -> NodeFuture<Sighting> {
        self.0.holder(resource, fenced)
    }

    fn status(&self) -> NodeStatus {
        self.0.status()
    }
}

fn refusing(nodes: &[MemoryNode], refused: fn(&Command) -> bool) -> Redlock {
    let node = |node: &MemoryNode| NodeSpec::new(Arc::new(Refuses(node.clone(), refused)));
    block_on(Redlock::builder().nodes(nodes.iter().map(node)).connect()).unwrap()
}

#[test]
fn what_could_be_done_by_halves_is_said() {
    let nodes = nodes(3);
    let holder = connect(&nodes);
    let lease = holder.acquire("r").ttl(10 * SECOND).blocking().unwrap();
    let operator = refusing(&nodes, |command| matches!(command, Command::Release { .. }));
    let error = block_on(operator.force_release("r")).unwrap_err();
    let ForceError::NotReleased { was, gone, needed, nodes: said } = &error else {
        panic!("{error}");
    };
    assert_eq!((was.owner, *gone, *needed, said.len()), (Some(lease.owner()), 0, 2, 3));
    assert!(error.to_string().contains("it was cut off just then"), "{error}");
    lease.check().unwrap();
    assert!(nodes.iter().all(|node| node.keys() == [b"r"]));
    // Released, and nothing larger was won: a store still takes what the old holder sends.
    let operator = refusing(&nodes, |command| matches!(command, Command::Acquire { .. }));
    let error = block_on(operator.force_release("r")).unwrap_err();
    assert!(
        matches!(&error, ForceError::NotRaised { was, .. } if was.owner == Some(lease.owner())),
        "{error}"
    );
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
}
