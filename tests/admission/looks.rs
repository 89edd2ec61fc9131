//! Goal: all nodes are looked at now and then, and what keeps one from being looked at is shown.

use std::sync::Arc;

use quorlock::{
    node::{NodeError, NodeState, Refusal},
    runtime::Runtime as _,
};

use super::{MS, SECOND, slow::in_virtual_time};

/// Something else to see to every few seconds does not put it off.
#[test]
fn all_nodes_are_looked_at_every_ten_seconds_whatever_else_happens() {
    let (runtime, slow, redlock) = in_virtual_time(3);
    for every in [3 * SECOND, 7 * SECOND, 9 * SECOND + 900 * MS, 60 * SECOND] {
        let (mut woken, mut looked, mut looks) = (runtime.now(), runtime.now(), 0);
        let until = runtime.now().saturating_add(60 * SECOND);
        while runtime.now() < until {
            runtime.pass(100 * MS);
            let now = runtime.now();
            if now.saturating_since(woken) >= every {
                woken = now;
                slow[0].context.get().unwrap().changed();
            }
            if slow[2].plan().looks > looks {
                looks = slow[2].plan().looks;
                looked = now;
            }
            let since = now.saturating_since(looked);
            assert!(
                since <= 10 * SECOND + 200 * MS,
                "{since:?} without a look, woken every {every:?}"
            );
        }
    }
    drop(redlock);
    runtime.shut_down();
}

/// How a node is shown that was ready before, and whose marker cannot be read any more for this reason.
fn shown(error: NodeError) -> NodeState {
    let (runtime, slow, redlock) = in_virtual_time(3);
    slow[0].plan().unreadable = Some(error);
    slow[0].memory.restart();
    runtime.pass(SECOND);
    let state = redlock.nodes()[0].state.clone();
    slow[0].plan().unreadable = None;
    runtime.pass(10 * SECOND);
    assert!(redlock.nodes().iter().all(|node| node.state == NodeState::Ready), "after {state:?}");
    runtime.shut_down();
    state
}

#[test]
fn whatever_keeps_a_marker_from_being_read_and_does_not_pass_by_itself_is_shown() {
    let text = || Arc::<str>::from("scripted");
    let lasting = [
        NodeError::Rejected { sent: true, code: text(), message: text() },
        NodeError::Unexpected { message: text() },
        NodeError::Panicked { sent: true, message: text() },
        NodeError::CounterExhausted,
    ];
    for error in lasting {
        let state = shown(error.clone());
        let NodeState::Down { reason } = &state else { panic!("{error}: {state:?}") };
        assert!(reason.contains(&error.to_string()), "{error}: {reason}");
    }
    let refusal = || Refusal::Unidentified;
    assert_eq!(shown(NodeError::Refused(refusal())), NodeState::Refused(refusal()));
    // What passes is nothing to be told of.
    for error in [NodeError::TimedOut, NodeError::Overloaded, NodeError::NotAdmitted] {
        assert_eq!(shown(error.clone()), NodeState::Connecting, "{error}");
    }
}
