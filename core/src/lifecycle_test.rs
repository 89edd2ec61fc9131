//! The lifecycle, driven by hand: what is due at which time.

use alloc::format;

use super::*;

const TTL: Duration = Duration::from_secs(9);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(millis))
}

/// A lease of 9 s without drift, granted at zero: it ends at 9 s and is lost at 8.95 s.
fn lease(renewal: RenewalPolicy) -> Lifecycle {
    let drift = Drift::new(0, Duration::ZERO);
    Lifecycle::new(at(0), at(9_000), TTL, drift, renewal)
}

fn not_renewed() -> RenewalPolicy {
    RenewalPolicy { renew: false, ..RenewalPolicy::default() }
}

#[test]
fn a_renewed_lease_is_extended_at_a_third_of_its_ttl() {
    let mut lease = lease(RenewalPolicy::default());
    assert_eq!(lease.poll_timeout(), Some(at(3_000)));
    assert_eq!(lease.handle_timeout(at(2_999)), None);
    assert_eq!(lease.handle_timeout(at(3_000)), Some(LeaseAction::Extend));
    assert_eq!(lease.handle_timeout(at(3_000)), None);
    assert_eq!(lease.handle_extension(ExtendOutcome::Extended(at(12_000)), at(3_001)), None);
    assert_eq!(lease.deadline(), at(12_000));
    assert_eq!(lease.poll_timeout(), Some(at(6_000)));
}

#[test]
fn asking_whether_it_holds_takes_no_renewal_off_the_list() {
    let mut lease = lease(RenewalPolicy::default());
    assert_eq!(lease.handle_check(at(4_000)), None);
    assert_eq!(lease.handle_timeout(at(4_000)), Some(LeaseAction::Extend));
    assert_eq!(lease.handle_check(at(8_950)), Some(LeaseAction::Lose(LossReason::RenewalFailed)));
    assert_eq!(lease.handle_check(at(8_950)), None);
}

#[test]
fn a_failing_renewal_is_retried_warned_of_and_lost_before_the_deadline() {
    let mut lease = lease(RenewalPolicy::default());
    assert_eq!(lease.handle_timeout(at(3_000)), Some(LeaseAction::Extend));
    assert_eq!(lease.handle_extension(ExtendOutcome::InDoubt, at(3_100)), None);
    assert_eq!(lease.poll_timeout(), Some(at(3_550)));
    assert_eq!(lease.handle_timeout(at(3_550)), Some(LeaseAction::Extend));
    assert_eq!(lease.handle_extension(ExtendOutcome::InDoubt, at(3_600)), None);
    let again = lease.poll_timeout().unwrap();
    assert!(at(3_600) < again && again < at(4_600), "and not once only: {again:?}");
    assert_eq!(lease.handle_timeout(again), Some(LeaseAction::Extend));
    assert_eq!(lease.handle_timeout(at(5_999)), None, "not yet");
    assert_eq!(lease.handle_timeout(at(6_000)), Some(LeaseAction::Warn(LossReason::RenewalFailed)));
    assert_eq!(lease.handle_timeout(at(6_000)), None);
    assert_eq!(lease.handle_timeout(at(8_950)), Some(LeaseAction::Lose(LossReason::RenewalFailed)));
    assert_eq!(lease.poll_timeout(), None);
    assert_eq!(lease.handle_timeout(at(9_000)), None);
}

#[test]
fn a_renewal_that_comes_back_late_extends_nothing() {
    let mut lost = lease(RenewalPolicy::default());
    assert_eq!(lost.handle_timeout(at(3_000)), Some(LeaseAction::Extend));
    let late = ExtendOutcome::Extended(at(12_000));
    assert_eq!(
        lost.handle_extension(late, at(8_960)),
        Some(LeaseAction::Lose(LossReason::RenewalFailed)),
        "the process was stopped while the answer was under way"
    );
    assert_eq!((lost.deadline(), lost.lost()), (at(9_000), Some(LossReason::RenewalFailed)));
    assert_eq!(lost.handle_extension(late, at(8_961)), None);
}

#[test]
fn a_key_that_is_gone_loses_the_lease_at_once() {
    let mut lease = lease(RenewalPolicy::default());
    assert_eq!(lease.handle_timeout(at(3_000)), Some(LeaseAction::Extend));
    assert_eq!(
        lease.handle_extension(ExtendOutcome::Lost, at(3_001)),
        Some(LeaseAction::Lose(LossReason::Gone))
    );
}

#[test]
fn a_lease_that_is_not_renewed_is_warned_of_and_ends() {
    let mut lease = lease(not_renewed());
    assert_eq!(lease.poll_timeout(), Some(at(6_000)));
    assert_eq!(lease.handle_timeout(at(6_000)), Some(LeaseAction::Warn(LossReason::NotRenewed)));
    assert_eq!(lease.poll_timeout(), Some(at(8_950)));
    assert_eq!(lease.handle_timeout(at(8_949)), None, "it is held until then");
    assert_eq!(lease.handle_timeout(at(8_950)), Some(LeaseAction::Lose(LossReason::NotRenewed)));
}

#[test]
fn the_holder_may_extend_a_lease_that_is_not_renewed() {
    let mut lease = lease(not_renewed());
    assert_eq!(lease.handle_extension(ExtendOutcome::Extended(at(12_000)), at(3_000)), None);
    assert_eq!(lease.poll_timeout(), Some(at(9_000)));
    assert_eq!(lease.handle_extension(ExtendOutcome::InDoubt, at(4_000)), None);
    assert_eq!(lease.deadline(), at(12_000), "the old validity still runs");
}

#[test]
fn max_hold_and_a_lack_of_progress_stop_the_renewal() {
    let hold = RenewalPolicy { max_hold: Some(Duration::from_secs(2)), ..RenewalPolicy::default() };
    let mut held = lease(hold);
    assert_eq!(held.handle_timeout(at(3_000)), None);
    assert_eq!(held.handle_timeout(at(8_950)), Some(LeaseAction::Lose(LossReason::MaxHold)));

    let watched = RenewalPolicy {
        heartbeat_within: Some(Duration::from_secs(2)),
        ..RenewalPolicy::default()
    };
    let mut busy = lease(watched);
    busy.handle_heartbeat(at(2_500));
    assert_eq!(busy.handle_timeout(at(3_000)), Some(LeaseAction::Extend));
    let mut hung = lease(watched);
    assert_eq!(hung.handle_timeout(at(3_000)), None);
    let mut revived = hung.clone();
    revived.handle_heartbeat(at(3_200));
    assert_eq!(revived.handle_timeout(at(3_450)), Some(LeaseAction::Extend));
    assert_eq!(hung.handle_timeout(at(8_950)), Some(LeaseAction::Lose(LossReason::NoHeartbeat)));
}

#[test]
fn an_extension_never_shortens_what_was_promised() {
    let mut lease = lease(not_renewed());
    assert_eq!(lease.handle_extension(ExtendOutcome::Extended(at(5_000)), at(1_000)), None);
    assert_eq!(lease.deadline(), at(9_000));
}

#[test]
fn every_accepted_lease_is_extended_warned_of_and_lost_in_this_order() {
    let day = 86_400_000;
    let ttls = [10, 11, 20, 40, 41, 100, 500, 1_000, 1_400, 2_000, 2_100, 10_000, 30_000, day];
    let fixed = [0, 1, 2, 5, 10, 50, 100, 500, 990, 999, 1_000];
    let mut leases = 0;
    for ttl in ttls.map(Duration::from_millis) {
        for drift in (1..=500).flat_map(|share| fixed.map(|fixed| (share, fixed))) {
            let drift = Drift::new(drift.0, Duration::from_millis(drift.1));
            let promised = ttl.saturating_sub(drift.of(ttl));
            // Below ten nanoseconds the thirds are the same, and no round can be won.
            if promised < Duration::from_nanos(10) {
                continue;
            }
            leases += 1;
            let deadline = validity::deadline(at(0), ttl, drift);
            let mut lease = Lifecycle::new(at(0), deadline, ttl, drift, RenewalPolicy::default());
            let what = format!("ttl {ttl:?}, drift {drift:?}");
            let mut step = |expected: LeaseAction| {
                let time = lease.poll_timeout().expect(&what);
                assert_eq!(lease.handle_timeout(time), Some(expected), "{what}");
                assert_eq!(lease.handle_timeout(time), None, "{what}");
                time
            };
            let extend = step(LeaseAction::Extend);
            let warn = step(LeaseAction::Warn(LossReason::RenewalFailed));
            let lose = step(LeaseAction::Lose(LossReason::RenewalFailed));
            assert!(extend < warn && warn < lose && lose < deadline, "{what}");
        }
    }
    assert!(leases > 40_000, "{leases}");
}

#[test]
fn a_short_lease_in_doubt_is_tried_again_after_a_pause() {
    for ttl in [10, 20, 40, 80, 200].map(Duration::from_millis) {
        let drift = Drift::default();
        let deadline = validity::deadline(at(0), ttl, drift);
        let mut lease = Lifecycle::new(at(0), deadline, ttl, drift, RenewalPolicy::default());
        let now = lease.poll_timeout().unwrap();
        assert_eq!(lease.handle_timeout(now), Some(LeaseAction::Extend));
        assert_eq!(lease.handle_extension(ExtendOutcome::InDoubt, now), None);
        let pause = lease.poll_timeout().unwrap().saturating_since(now);
        let warned = lease.warn_at().saturating_since(now);
        assert!(pause >= Duration::from_millis(4).min(warned), "{ttl:?}: {pause:?}");
    }
}

#[test]
fn only_a_renewal_may_be_taken_along_before_its_time() {
    let mut lease = lease(RenewalPolicy::default());
    assert_eq!(lease.slack(), Duration::from_millis(300));
    assert_eq!(lease.handle_timeout(at(3_000)), Some(LeaseAction::Extend));
    assert_eq!(lease.slack(), Duration::ZERO, "the warning is next");
    assert_eq!(lease.handle_extension(ExtendOutcome::InDoubt, at(3_100)), None);
    assert_eq!(lease.slack(), Duration::ZERO, "a retry has its pause");
    assert_eq!(lease.handle_extension(ExtendOutcome::Extended(at(12_000)), at(3_200)), None);
    assert_eq!(lease.slack(), Duration::from_millis(300));
    assert_eq!(self::lease(not_renewed()).slack(), Duration::ZERO);
    let watched = RenewalPolicy {
        heartbeat_within: Some(Duration::from_secs(2)),
        ..RenewalPolicy::default()
    };
    assert_eq!(self::lease(watched).slack(), Duration::ZERO, "a heartbeat may still come");
}

#[test]
fn a_holder_extends_its_lease_up_to_max_hold() {
    let hold = RenewalPolicy { max_hold: Some(Duration::from_secs(2)), ..not_renewed() };
    let held = lease(hold);
    assert!(held.may_be_extended(at(1_999)));
    assert!(!held.may_be_extended(at(2_000)));
    assert!(lease(not_renewed()).may_be_extended(at(8_000)));
    let hung = RenewalPolicy {
        heartbeat_within: Some(Duration::from_secs(2)),
        ..RenewalPolicy::default()
    };
    assert!(lease(hung).may_be_extended(at(8_000)), "to extend is a heartbeat");
}

#[test]
fn a_lease_that_is_ended_keeps_the_first_reason_and_asks_for_nothing_more() {
    let mut ended = lease(RenewalPolicy::default());
    ended.handle_ended(LossReason::ShutDown);
    assert_eq!((ended.lost(), ended.poll_timeout()), (Some(LossReason::ShutDown), None));
    assert_eq!(ended.handle_timeout(at(3_000)), None);
    assert_eq!(ended.handle_extension(ExtendOutcome::Extended(at(12_000)), at(3_000)), None);
    assert_eq!((ended.deadline(), ended.handle_check(at(9_000))), (at(9_000), None));

    let mut lost = lease(not_renewed());
    assert_eq!(lost.handle_timeout(at(8_950)), Some(LeaseAction::Lose(LossReason::NotRenewed)));
    lost.handle_ended(LossReason::ShutDown);
    assert_eq!(lost.lost(), Some(LossReason::NotRenewed));
}

#[test]
fn every_reason_has_a_name_and_a_text_of_its_own() {
    let reasons = [
        LossReason::NotRenewed,
        LossReason::RenewalFailed,
        LossReason::Gone,
        LossReason::MaxHold,
        LossReason::NoHeartbeat,
        LossReason::Released,
        LossReason::LeftToExpire,
        LossReason::ShutDown,
        LossReason::Forked,
    ];
    for (index, one) in reasons.iter().enumerate() {
        assert!(one.name().chars().all(|char| char.is_ascii_lowercase() || char == '_'), "{one:?}");
        for other in reasons.iter().skip(index + 1) {
            assert!(one.name() != other.name() && format!("{one}") != format!("{other}"));
        }
    }
}

#[test]
fn a_node_that_is_back_brings_the_next_renewal_forward_and_no_nearer_than_a_tenth_to_the_last() {
    let mut lease = lease(RenewalPolicy::default());
    assert!(lease.handle_node_back(0, at(300)));
    assert_eq!(lease.poll_timeout(), Some(at(900)));
    // A node that comes and goes changes nothing.
    assert!(!lease.handle_node_back(255, at(400)) && !lease.handle_node_back(0, at(500)));
    assert_eq!(lease.handle_timeout(at(900)), Some(LeaseAction::Extend));
    // Another node comes back while this extension is under way, which may not have gone there.
    assert!(!lease.handle_node_back(255, at(900)));
    assert_eq!(lease.handle_extension(ExtendOutcome::Extended(at(9_900)), at(901)), None);
    assert_eq!(lease.poll_timeout(), Some(at(900 + 900 + 450)));
    assert_eq!(lease.handle_timeout(at(2_250)), Some(LeaseAction::Extend));
    assert_eq!(lease.handle_extension(ExtendOutcome::Extended(at(11_250)), at(2_251)), None);
    assert_eq!(lease.poll_timeout(), Some(at(5_250)), "and then as before");
    assert!(lease.handle_node_back(0, at(4_000)));
    assert_eq!(lease.poll_timeout(), Some(at(4_000)), "at once where the last is long past");
}

#[test]
fn a_node_that_is_back_delays_no_retry_and_renews_nothing_that_is_not_to_be() {
    let mut failing = lease(RenewalPolicy::default());
    assert_eq!(failing.handle_timeout(at(3_000)), Some(LeaseAction::Extend));
    assert!(!failing.handle_node_back(0, at(3_050)));
    assert_eq!(failing.handle_extension(ExtendOutcome::InDoubt, at(3_100)), None);
    assert!(!failing.handle_node_back(255, at(3_200)));
    assert_eq!(failing.poll_timeout(), Some(at(3_550)));
    let mut lease = lease(not_renewed());
    assert!(!lease.handle_node_back(0, at(300)));
    assert_eq!(lease.poll_timeout(), Some(at(6_000)));
}

/// The holder's own extension is not asked for here; it too may have been sent before the node was back.
#[test]
fn an_extension_that_was_under_way_does_not_put_off_the_renewal_for_a_node_that_is_back() {
    let mut lease = lease(RenewalPolicy::default());
    assert!(lease.handle_node_back(0, at(300)));
    assert!(!lease.handle_node_back(255, at(305)), "the sooner one counts");
    assert_eq!(lease.handle_extension(ExtendOutcome::Extended(at(9_250)), at(310)), None);
    assert_eq!(lease.poll_timeout(), Some(at(250 + 900)));
    assert_eq!(lease.handle_timeout(at(1_150)), Some(LeaseAction::Extend));
    assert_eq!(lease.handle_extension(ExtendOutcome::Extended(at(10_150)), at(1_151)), None);
    assert_eq!(lease.poll_timeout(), Some(at(4_150)), "once");
}

#[test]
fn a_node_that_is_back_is_no_panic_however_long_a_lease_is() {
    let (ttl, drift) = (Duration::MAX, Drift::new(0, Duration::ZERO));
    let mut lease = Lifecycle::new(at(0), at(9_000), ttl, drift, RenewalPolicy::default());
    for random in [0, 255] {
        lease.handle_node_back(random, at(300));
        assert!(lease.poll_timeout().is_some());
    }
}

#[test]
fn the_next_holder_has_limits_and_a_plan_of_its_own() {
    let limited =
        RenewalPolicy { max_hold: Some(Duration::from_secs(5)), ..RenewalPolicy::default() };
    // The same terms with a planned renewal change nothing, not even a renewal planned sooner.
    let mut same = lease(limited);
    assert!(same.handle_node_back(0, at(500)));
    assert_eq!(same.poll_timeout(), Some(at(900)));
    assert!(!same.handle_term(TTL, limited, at(600)));
    assert_eq!(same.poll_timeout(), Some(at(900)));
    // An extension under way goes on.
    assert_eq!(same.handle_timeout(at(900)), Some(LeaseAction::Extend));
    assert!(!same.handle_term(TTL, limited, at(901)));
    assert_eq!(same.poll_timeout(), Some(at(6_000)));

    // A longer ttl plans the next renewal by that.
    let mut longer = lease(limited);
    assert!(longer.handle_term(2 * TTL, limited, at(1_000)));
    assert_eq!((longer.ttl(), longer.poll_timeout()), (2 * TTL, Some(at(1_000))));
    assert!(longer.renews());

    // The last holder's limit was over, and the next one's begins.
    let mut over = lease(limited);
    assert_eq!(over.handle_timeout(at(3_000)), Some(LeaseAction::Extend));
    assert_eq!(over.handle_extension(ExtendOutcome::Extended(at(12_000)), at(3_001)), None);
    assert_eq!(over.handle_timeout(at(6_000)), None);
    assert!(!over.may_be_extended(at(6_000)));
    assert!(over.handle_term(TTL, limited, at(9_000)));
    assert!(over.may_be_extended(at(9_000)));
    // Planned for when the warning is due, it has no slack.
    assert_eq!((over.poll_timeout(), over.slack()), (Some(at(9_000)), Duration::ZERO));

    let mut last = lease(limited);
    assert!(last.handle_term(TTL, not_renewed(), at(1_000)));
    assert_eq!(last.poll_timeout(), Some(at(6_000)), "a warning, and no renewal");
    assert!(!last.renews());
}

#[test]
fn what_fails_is_not_tried_again_sooner_for_a_node_that_is_back() {
    let mut failing = lease(RenewalPolicy::default());
    assert_eq!(failing.handle_timeout(at(3_000)), Some(LeaseAction::Extend));
    assert_eq!(failing.handle_extension(ExtendOutcome::InDoubt, at(3_100)), None);
    assert!(!failing.handle_node_back(0, at(3_200)));
    assert_eq!(failing.poll_timeout(), Some(at(3_550)));
}

#[test]
fn a_node_that_is_back_matters_to_no_lease_that_is_not_renewed_then() {
    let mut lease = lease(not_renewed());
    assert!(!lease.handle_node_back(0, at(300)));
    assert!(lease.handle_term(TTL, RenewalPolicy::default(), at(400)));
    assert_eq!(lease.poll_timeout(), Some(at(3_000)), "a third, as ever");
}

#[test]
fn it_is_told_in_time_that_work_has_to_stop() {
    let patient = RenewalPolicy { stop_within: Duration::from_secs(8), ..RenewalPolicy::default() };
    let mut lease = lease(patient);
    // At most half of what is promised; the work itself ends as late as without it.
    assert_eq!(lease.stop_by(), at(8_950));
    assert_eq!(
        lease.handle_timeout(at(4_499)).map(|action| matches!(action, LeaseAction::Lose(_))),
        Some(false)
    );
    let mut due = core::iter::from_fn(|| lease.handle_timeout(at(4_500)));
    assert!(due.any(|action| matches!(action, LeaseAction::Lose(_))));

    // For a short lease, a tenth of what is promised.
    let short = Lifecycle::new(
        at(0),
        at(10),
        Duration::from_millis(10),
        Drift::new(0, Duration::ZERO),
        RenewalPolicy::default(),
    );
    assert_eq!(short.stop_by(), at(9));
}

#[test]
fn it_is_sound_until_a_warning_is_due_and_its_limit_is_no_reason_where_nothing_renews_it() {
    let sound = lease(RenewalPolicy::default());
    assert!(sound.is_sound(Timestamp::from_origin(Duration::from_nanos(5_999_999_999))));
    assert!(!sound.is_sound(at(6_000)));
    let limit = RenewalPolicy { max_hold: Some(Duration::from_secs(1)), ..not_renewed() };
    let mut lease = lease(limit);
    assert_eq!(lease.handle_check(at(8_950)), Some(LeaseAction::Lose(LossReason::NotRenewed)));
}

/// It ends by itself, and its holder is told as any other.
#[test]
fn the_next_holder_waits_for_the_extension_that_is_under_way_also_where_it_asks_for_more() {
    let mut lease = lease(RenewalPolicy::default());
    assert_eq!(lease.handle_timeout(at(3_000)), Some(LeaseAction::Extend));
    assert!(lease.handle_term(2 * TTL, RenewalPolicy::default(), at(3_001)));
    while let Some(action) = lease.handle_timeout(at(3_001)) {
        assert_ne!(action, LeaseAction::Extend, "there is one");
    }
    assert_eq!(lease.handle_extension(ExtendOutcome::Extended(at(21_000)), at(3_002)), None);
    assert_eq!(lease.poll_timeout(), Some(at(9_000)), "a third of what is promised now");
}
