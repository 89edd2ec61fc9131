//! What a grant says of itself, and what of that its renewals and its hand-overs follow.

use std::time::Duration;

use quorlock_core::{
    Cohort, Drift, FencingToken, LeaseAction, Leases, Lifecycle, LossReason, OthersWait,
    RenewalPolicy, Situation, TokenRange,
};

use super::{
    at,
    leases::{Asked, MS, TTL, next, now, taken},
};

/// A grant of this ttl with these renewals, whose holder has it.
fn renewed(ttl: Duration, renewal: RenewalPolicy, tokens: Option<TokenRange>) -> Leases {
    let drift = Drift::default();
    let deadline = at(0).saturating_add(ttl - drift.of(ttl));
    let lifecycle = Lifecycle::new(at(0), deadline, ttl, drift, renewal);
    let (cohort, token) = Cohort::begin(tokens, at(0));
    let linger = 300 * MS;
    let mut leases = Leases::new(lifecycle, cohort, token, (linger, Duration::ZERO, false), None);
    leases.handle_taken(0);
    leases
}

/// When it is lost, where nobody extends it.
fn lost_at(leases: &Leases) -> u64 {
    let lost = |ms: &u64| {
        let mut leases = leases.clone();
        matches!(leases.handle_timeout(at(*ms)).tell, Some(LeaseAction::Lose(_)))
    };
    (0..20_000).find(lost).unwrap()
}

#[test]
fn a_grant_says_what_it_is_and_how_far_it_has_got() {
    let lock_delay = 3_000 * MS;
    let mut leases = taken(Asked { lock_delay, ..Asked::default() });
    assert_eq!(leases.key_life(), TTL + lock_delay);
    assert!(leases.is_fenced() && !leases.has_ended() && !leases.is_downgraded());
    for count in 1..4 {
        assert_eq!(leases.count(), count);
        leases.hand_on(&next(lock_delay), now(1)).unwrap();
    }
    assert_eq!(leases.downgrade(3), Some(4));
    assert!(leases.is_downgraded());
    assert!(leases.end(4, None).is_some() && leases.has_ended());
    assert!(!renewed(TTL, RenewalPolicy::default(), None).is_fenced());
}

#[test]
fn it_is_renewed_sooner_where_a_node_is_back_once() {
    let mut leases = taken(Asked::default());
    let before = leases.poll_timeout();
    assert!(leases.handle_node_back(0, at(1)));
    let soon = leases.poll_timeout();
    assert!(soon < before, "{soon:?}");
    assert!(!leases.handle_node_back(0, at(1)));
    assert_eq!(leases.poll_timeout(), soon);
}

#[test]
fn the_holder_of_now_keeps_it_by_its_heartbeats_and_nobody_else_does() {
    let renewal = RenewalPolicy { heartbeat_within: Some(2_000 * MS), ..RenewalPolicy::default() };
    let extends = |number: Option<u64>| {
        let mut leases = renewed(TTL, renewal, None);
        number.into_iter().for_each(|number| leases.handle_heartbeat(number, at(1_900)));
        leases.handle_timeout(at(3_500)).extend
    };
    assert!(!extends(None), "nobody has been heard for two seconds");
    assert!(extends(Some(0)));
    assert!(!extends(Some(7)), "that is not its lease");
}

/// A hundredth of the ttl, so that the loss is told before the validity ends, with two and fifty milliseconds as the bounds.
#[test]
fn a_loss_is_told_a_hundredth_of_the_ttl_before_the_validity_ends() {
    let renewal = RenewalPolicy { renew: false, ..RenewalPolicy::default() };
    let lead = |ttl: u32| {
        let leases = renewed(ttl * MS, renewal, None);
        u64::from(ttl) - u64::from(ttl) / 100 - 2 - lost_at(&leases)
    };
    assert_eq!([100, 1_000, 2_000, 4_900, 10_000].map(lead), [2, 10, 20, 49, 50]);
}

#[test]
fn while_it_is_not_known_whether_others_wait_a_turn_is_as_long_as_it_may_linger() {
    let leases = renewed(TTL, RenewalPolicy::default(), None);
    let turn = |others, turn: u32| {
        let seen = Situation { others, turn: turn * MS, now: at(5), steady: at(6) };
        let situation = leases.situation(seen);
        assert_eq!((situation.others, situation.now, situation.steady), (others, at(5), at(6)));
        situation.turn
    };
    assert_eq!(turn(OthersWait::Unknown, 10), 300 * MS);
    assert_eq!(turn(OthersWait::Unknown, 400), 400 * MS);
    assert_eq!(turn(OthersWait::Nobody, 10), 10 * MS);
    assert_eq!(turn(OthersWait::Somebody, 10), 10 * MS);
}

#[test]
fn it_is_handed_on_from_the_moment_on_at_which_others_need_not_be_kept_out() {
    let mut leases = taken(Asked::default());
    leases.hold(0, at(1_000));
    assert!(leases.clone().hand_on(&next(Duration::ZERO), now(999)).is_err());
    assert!(leases.hand_on(&next(Duration::ZERO), now(1_000)).is_ok());
}

/// What is set too late for it is released, and where nothing is to be kept, at once.
#[test]
fn what_was_lost_at_work_without_a_lock_delay_keeps_nobody_out() {
    let hold = |lock_delay| {
        let mut leases = taken(Asked { lock_delay, ..Asked::default() });
        leases.begin_work(0).unwrap();
        assert!(matches!(leases.handle_check(at(20_000)), Some(LeaseAction::Lose(_))));
        assert_eq!(leases.left(Some(0), at(20_000)), Err(LossReason::RenewalFailed));
        leases.hold_of_late(at(20_000), at(20_000))
    };
    assert_eq!(hold(Duration::ZERO), None);
    assert_eq!(hold(5 * MS), Some(at(20_005)));
}

#[test]
fn what_is_kept_is_renewed_where_the_lease_before_was() {
    let tokens = || Some(TokenRange::ending_at(FencingToken::new(64), 64));
    let renews = |renew| {
        let renewal = RenewalPolicy { renew, ..RenewalPolicy::default() };
        let mut leases = renewed(TTL, renewal, tokens());
        assert!(leases.keep(now(5), None));
        leases.lifecycle().renews()
    };
    assert_eq!([true, false].map(renews), [true, false]);
}
