//! Goal: the guard `counter <= token` in `confirm.lua` is what keeps fencing tokens unique.
//!
//! Method: the two schedules that a model checker found (`protocol::fencing` tells of them) are replayed step by
//! step against the real scripts on three real servers. Without the guard, which is cut out of the script's text,
//! two holders get one token; with it they do not.

use super::{
    scripts::{Ask, Node},
    texts::CONFIRM,
};

/// The guard, as it stands in the script.
const GUARD: &str = " or counter > token";

fn without_the_guard() -> String {
    let unguarded = CONFIRM.replace(GUARD, "");
    assert_eq!(unguarded.len() + GUARD.len(), CONFIRM.len(), "the guard was there, once");
    unguarded
}

/// Three nodes with the counters 1, 0 and 1, with which both schedules begin.
fn nodes() -> [Node; 3] {
    [1, 0, 1].map(|counter| {
        let node = Node::admitted();
        node.set_counter(counter);
        node
    })
}

/// The token that a client is granted: `votes` of three nodes were for it.
fn grant(token: u64, votes: &[bool]) -> Option<u64> {
    (votes.iter().filter(|vote| **vote).count() >= 2).then_some(token)
}

/// A client counts a confirm at a node whose answer to the acquire it never heard.
fn unheard_reply(confirm: &str) -> (Option<u64>, Option<u64>) {
    let [n0, n1, n2] = nodes();
    let a0 = n0.granted(Ask::of("a"));
    n0.expire();
    let _unheard = n0.granted(Ask::of("b"));
    let b1 = n1.granted(Ask::of("b"));
    n1.expire();
    let a1 = n1.granted(Ask::of("a"));
    let token = a0.max(a1);
    let a = grant(token, &[a0 == token, a1 == token]);
    let b2 = n2.granted(Ask::of("b"));
    let token = b1.max(b2);
    // Its key on n1 is gone by now; on n0, where it never heard an answer, it still stands.
    let votes = [
        n0.confirmed(confirm, "b", token),
        n1.confirmed(confirm, "b", token),
        b2 == token || n2.confirmed(confirm, "b", token),
    ];
    (a, grant(token, &votes))
}

/// A connection breaks, and the client library sends the acquire once more.
fn resent_acquire(confirm: &str) -> (Option<u64>, Option<u64>) {
    let [n0, n1, n2] = nodes();
    let a0 = n0.granted(Ask::of("a"));
    let a1 = n1.granted(Ask::of("a"));
    let a_token = a0.max(a1);
    assert!(a1 < a_token, "A has to ask n1 to confirm, and that command is under way");
    n1.expire();
    let b1 = n1.granted(Ask::of("b"));
    n1.expire();
    let _resent = n1.granted(Ask::of("a"));
    let a = grant(a_token, &[a0 == a_token, n1.confirmed(confirm, "a", a_token)]);
    let b2 = n2.granted(Ask::of("b"));
    let token = b1.max(b2);
    (a, grant(token, &[b1 == token, b2 == token]))
}

#[test]
fn without_the_guard_an_unheard_reply_gives_two_holders_one_token() {
    assert_eq!(unheard_reply(&without_the_guard()), (Some(2), Some(2)));
}

#[test]
fn with_the_guard_an_unheard_reply_gives_the_token_once() {
    assert_eq!(unheard_reply(CONFIRM), (Some(2), None));
}

#[test]
fn without_the_guard_a_resent_acquire_gives_two_holders_one_token() {
    assert_eq!(resent_acquire(&without_the_guard()), (Some(2), Some(2)));
}

#[test]
fn with_the_guard_a_resent_acquire_gives_the_token_once() {
    assert_eq!(resent_acquire(CONFIRM), (None, Some(2)));
}

#[test]
fn a_confirm_raises_the_counter_and_is_refused_to_anybody_but_the_holder() {
    let node = Node::admitted();
    assert_eq!(node.granted(Ask::of("a")), 1);
    assert!(!node.confirmed(CONFIRM, "b", 7));
    assert_eq!(node.counter(), Some(1));
    assert!(node.confirmed(CONFIRM, "a", 7));
    assert_eq!(node.counter(), Some(7));
    assert!(node.confirmed(CONFIRM, "a", 7), "the same vote twice");
    assert!(!node.confirmed(CONFIRM, "a", 6));
    assert_eq!(node.counter(), Some(7));
    node.expire();
    assert!(!node.confirmed(CONFIRM, "a", 8), "its key is gone");
    assert_eq!(node.granted(Ask::of("b")), 8, "and the next one counts on from there");
}
