//! What becomes of nodes that fail, hang, come back and forget, and of another holder.

use quorlock::{AcquireError, Holder, node::NodeState, testing::Fleet};

use super::{MS, QUARANTINE, SECOND, everywhere, paused};

#[test]
fn nodes_vote_from_the_start() {
    everywhere(async |fleet: Fleet| {
        // Without having waited for anything.
        drop(fleet.redlock().try_acquire("r").await.unwrap());
        let redlock = fleet.builder().connect().await.unwrap();
        let ready = |state: &NodeState| *state == NodeState::Ready;
        assert!(redlock.nodes().iter().all(|status| ready(&status.state)));
    });
}

#[test]
fn a_majority_fails_and_is_back() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        let lease = redlock.acquire("kept").await.unwrap();
        fleet.fail(2..5);
        assert!(!redlock.try_acquire("r").await.unwrap_err().is_contended());
        fleet.advance(2 * SECOND).await;
        fleet.restore(2..5);
        fleet.advance(5 * SECOND).await;
        // It was away for less than the lease's validity, and has forgotten nothing.
        lease.check().unwrap();
        assert!(redlock.try_acquire("kept").await.unwrap_err().is_contended());
        drop(redlock.try_acquire("r").await.unwrap());
    });
}

#[test]
fn a_node_that_has_forgotten_votes_after_its_quarantine() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        let before = redlock.acquire("r").await.unwrap().token().ok();
        let kept = redlock.acquire("kept").await.unwrap();
        fleet.restart(0);
        fleet.advance(SECOND).await;
        let state = redlock.nodes()[0].state.clone();
        assert!(matches!(state, NodeState::Quarantined { .. }), "{state:?}");
        // Four vote, and with two of them gone no client can acquire until the fifth does.
        fleet.fail(3..5);
        assert!(!redlock.try_acquire("r").await.unwrap_err().is_contended());
        fleet.restore(3..5);
        fleet.advance(QUARANTINE).await;
        kept.check().unwrap();
        assert_eq!(redlock.nodes()[0].state, NodeState::Ready);
        fleet.fail(3..5);
        let after = redlock.acquire("r").await.unwrap().token().ok();
        assert!(after > before, "{after:?}, {before:?}");
    });
}

#[test]
fn a_majority_that_has_forgotten_votes_after_its_quarantine() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        let lease = redlock.acquire("r").await.unwrap();
        let before = lease.token().ok();
        fleet.restart(..);
        assert!(redlock.try_acquire("s").await.is_err());
        fleet.advance(QUARANTINE).await;
        assert!(lease.check().is_err(), "nobody knows of it any more");
        let after = redlock.acquire("r").await.unwrap().token().ok();
        assert!(after > before, "{after:?}, {before:?}");
    });
}

/// A node that a key was restored to has no counter of the lease: its floor is not the lease's token.
#[test]
fn the_token_that_is_told_of_a_holder_is_its_own_also_where_its_key_was_restored() {
    paused(async {
        let fleet = Fleet::new(3);
        let redlock = fleet.builder().label("web-1").connect().await.unwrap();
        let lease = redlock.acquire("r").await.unwrap();
        // Of another resource, and higher: the floor of a node that forgets is above that.
        drop(redlock.acquire("s").await.unwrap());
        for node in [0, 1] {
            fleet.restart(node);
            tokio::time::sleep(QUARANTINE + 10 * SECOND).await;
        }
        lease.check().unwrap();
        let Holder::Held(by) = redlock.holder("r").await.unwrap() else { panic!("not certain") };
        assert_eq!(by.owner, Some(lease.owner()));
        assert!(by.token.is_none_or(|token| Ok(token) == lease.token()), "{by}, {lease:?}");
        assert_eq!(by.label.unwrap().as_bytes(), b"web-1");
    });
}

/// A quarantine that outlasts the wait says nothing of the others: one that is cut off for a moment votes when it is back.
#[test]
fn a_node_that_is_back_in_a_moment_is_waited_for_while_another_is_in_quarantine() {
    paused(async {
        let fleet = Fleet::new(3);
        let redlock = fleet.redlock();
        drop(redlock.acquire("r").await.unwrap());
        fleet.restart(0);
        tokio::time::sleep(SECOND).await;
        fleet.fail(1);
        let back = async {
            tokio::time::sleep(200 * MS).await;
            fleet.restore(1);
        };
        let (acquired, ()) = tokio::join!(redlock.acquire("r").wait(5 * SECOND), back);
        drop(acquired.unwrap());
        // Where it does not come back, the quarantine is the answer in the end.
        fleet.fail(1);
        let began = tokio::time::Instant::now();
        let error = redlock.acquire("r").wait(5 * SECOND).await.unwrap_err();
        assert!(matches!(error, AcquireError::Quarantined { .. }), "{error}");
        assert!(began.elapsed() > 4 * SECOND, "{:?}", began.elapsed());
    });
}

#[test]
fn a_quarantine_can_be_waited_for() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        fleet.restart(..);
        redlock.ready(MS).await.unwrap_err();
        let (ready, ()) = tokio::join!(redlock.ready(QUARANTINE), fleet.advance(QUARANTINE));
        ready.unwrap();
        drop(redlock.try_acquire("r").await.unwrap());
    });
}

#[test]
fn a_minority_that_hangs_costs_nothing() {
    paused(async {
        let fleet = Fleet::new(5);
        let redlock = fleet.redlock();
        drop(redlock.acquire("r").await.unwrap());
        fleet.stop([1, 3]);
        let began = tokio::time::Instant::now();
        for _ in 0..20 {
            let lease = redlock.acquire("r").await.unwrap();
            lease.check().unwrap();
            lease.release().await.unwrap();
        }
        assert!(began.elapsed() < 20 * MS, "{:?}", began.elapsed());
    });
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        drop(redlock.acquire("before").await.unwrap());
        fleet.stop([1, 3]);
        let lease = redlock.acquire("r").await.unwrap();
        fleet.advance(60 * SECOND).await;
        lease.check().unwrap();
        lease.release().await.unwrap();
        // They execute the commands of meanwhile when they go on, and then nothing is left there.
        fleet.restore(..);
        fleet.advance(5 * SECOND).await;
        assert!(fleet.nodes().iter().all(|node| node.keys().is_empty()));
    });
}

#[test]
fn a_majority_that_hangs_is_an_outage_after_the_node_timeout() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        redlock.acquire("r").await.unwrap().release().await.unwrap();
        fleet.stop(0..3);
        let broken = redlock.try_acquire("r").await.unwrap_err();
        assert!(!broken.is_contended(), "{broken}");
        fleet.restore(0..3);
        fleet.advance(SECOND).await;
        drop(redlock.try_acquire("r").await.unwrap());
    });
}

#[test]
fn a_node_that_failed_while_it_hung_has_executed_nothing_of_what_it_was_asked() {
    paused(async {
        let fleet = Fleet::new(5);
        let redlock = fleet.redlock();
        redlock.acquire("before").await.unwrap().release().await.unwrap();
        fleet.stop(0);
        let lease = redlock.acquire("r").await.unwrap();
        fleet.fail(0);
        fleet.stop(0);
        fleet.restore(0);
        assert!(fleet.nodes()[0].keys().is_empty());
        // It is given the key again, as a node that has lost it.
        fleet.advance(10 * SECOND).await;
        assert_eq!(fleet.nodes()[0].keys(), [b"r"]);
        lease.release().await.unwrap();
    });
}

#[test]
fn somebody_else_holds_as_a_client_would() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        let before = redlock.acquire("r").await.unwrap().token().unwrap();
        let other = fleet.hold("r").await;
        assert!(other.token() > before);
        // It renews its lease, with a minority gone, and also where one comes back without it.
        fleet.fail(0);
        fleet.restart(1);
        fleet.advance(600 * SECOND).await;
        let AcquireError::Contended { .. } = redlock.try_acquire("r").await.unwrap_err() else {
            panic!("it is held")
        };
        assert_eq!(fleet.nodes()[1].keys(), [b"r"]);
        fleet.restore(..);
        let token = other.token();
        drop(other);
        let after = redlock.acquire("r").await.unwrap().token().unwrap();
        assert!(after > token);
    });
}

/// Also where its nodes began from different counters.
#[test]
fn tokens_rise_over_somebody_elses() {
    // At one moment, so that no clock makes them rise.
    paused(async {
        let fleet = Fleet::new(5);
        let redlock = fleet.redlock();
        redlock.acquire("other").await.unwrap().release().await.unwrap();
        fleet.fail(0..2);
        let first = redlock.acquire("r").await.unwrap();
        let mut last = first.token().unwrap();
        first.release().await.unwrap();
        fleet.restore(0..2);
        fleet.fail(3..5);
        let other = fleet.hold("r").await;
        assert!(other.token() > last);
        last = other.token();
        drop(other);
        fleet.restore(3..5);
        fleet.fail(2);
        let next = redlock.acquire("r").await.unwrap().token().unwrap();
        assert!(next > last, "{next:?}, {last:?}");
    });
}

#[test]
fn somebody_else_who_has_crashed_holds_until_the_ttl() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        let other = fleet.hold_for("r", 20 * SECOND).await;
        fleet.advance(19 * SECOND).await;
        assert!(redlock.try_acquire("r").await.unwrap_err().is_contended());
        fleet.advance(2 * SECOND).await;
        let lease = redlock.try_acquire("r").await.unwrap();
        // Its end is not the end of the holder after it.
        drop(other);
        assert!(fleet.redlock().try_acquire("r").await.unwrap_err().is_contended());
        lease.release().await.unwrap();
    });
}

#[test]
fn somebody_else_loses_it_where_a_client_would() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        let _other = fleet.hold("r").await;
        fleet.fail(0..3);
        fleet.advance(QUARANTINE).await;
        fleet.restore(0..3);
        fleet.advance(SECOND).await;
        drop(redlock.try_acquire("r").await.unwrap());
    });
}

#[test]
fn a_lease_that_was_dropped_just_before_is_not_in_the_way() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        for _ in 0..20 {
            drop(redlock.acquire("r").await.unwrap());
            drop(fleet.hold("r").await);
        }
    });
}

#[test]
fn what_cannot_be_is_a_panic_that_says_why() {
    let says = |test: &dyn Fn(&Fleet)| {
        let fleet = Fleet::new(3);
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&fleet)));
        let message = panic.unwrap_err().downcast::<String>().unwrap();
        // No key of that attempt is left.
        assert!(fleet.nodes().iter().all(|node| node.keys().is_empty()));
        *message
    };
    let held = says(&|fleet| {
        let _first = fleet.blocking_hold("r");
        drop(fleet.blocking_hold("r"));
    });
    let (place, votes) = held.split_once(": of ").unwrap();
    assert!(
        place.starts_with(
            "`r` cannot be held by another client, as is asked for at tests/testing/nodes.rs:"
        ),
        "{held}"
    );
    assert_eq!(
        votes,
        "3 nodes, 0 granted it and 3 said that it is held already, and 2 must grant it"
    );
    let down = says(&|fleet| {
        fleet.fail([0, 1]);
        drop(fleet.blocking_hold("r"));
    });
    assert!(down.contains(": of 3 nodes, 1 granted it and 0 said"), "{down}");
    assert_eq!(says(&|fleet| fleet.fail(3)), "there is no node 3, of 3");
    assert!(says(&|_| drop(Fleet::new(2).redlock())).contains("two nodes"));
}
