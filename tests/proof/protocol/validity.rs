//! The arithmetic of validity: ttl - elapsed - drift, with every rounding against the holder.
//!
//! Goal: no input, however extreme, gives a holder more than that, wraps, or panics. Method: properties
//! over durations up to the largest, beside an oracle in 128-bit nanoseconds that cannot overflow.

use proptest::prelude::*;
use quorlock_core::validity::{deadline, kept_for, left, wire_millis};

use super::*;
use quorlock_core::Drift;

/// Durations of every size, and the edges.
fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => (0..=100_000_000_000u64).prop_map(Duration::from_nanos),
        2 => any::<u64>().prop_map(Duration::from_nanos),
        2 => (any::<u64>(), 0..1_000_000_000u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos)),
        1 => prop_oneof![
            Just(Duration::ZERO),
            Just(Duration::from_nanos(1)),
            Just(Duration::MAX),
            Just(Duration::MAX - Duration::from_nanos(1)),
        ],
    ]
}

fn timestamps() -> impl Strategy<Value = Timestamp> {
    durations().prop_map(Timestamp::from_origin)
}

fn drifts() -> impl Strategy<Value = Drift> {
    (any::<u32>(), durations()).prop_map(|(per_mille, fixed)| Drift::new(per_mille, fixed))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ttl_for_a_promise_keeps_it_and_is_the_shortest_but_for_nanoseconds(
        promised in 0..=1_000_000_000_000_000u64, per_mille in 0..=Drift::MAX_PER_MILLE, fixed in 0..=2_000_000_000u64,
    ) {
        let promised = Duration::from_nanos(promised);
        let drift = Drift::new(per_mille, Duration::from_nanos(fixed));
        let ttl = drift.ttl_for(promised);
        prop_assert!(ttl - drift.of(ttl) >= promised);
        let shorter = ttl.saturating_sub(Duration::from_nanos(4));
        prop_assert!(ttl.is_zero() || shorter.saturating_sub(drift.of(shorter)) < promised || promised.is_zero());
    }

    #[test]
    fn no_ttl_is_too_short_for_a_promise_of_any_size(promised in durations(), drift in drifts()) {
        let ttl = drift.ttl_for(promised);
        prop_assert!(ttl.saturating_sub(drift.of(ttl)) >= promised || ttl >= Duration::from_nanos(u64::MAX));
    }

    /// So a key that is kept never outlives the longest ttl, by which nodes are kept from voting.
    #[test]
    fn a_key_is_kept_for_no_longer_than_the_ttl_that_was_asked_for_its_sake(
        promised in 0..=1_000_000_000_000_000u64, per_mille in 0..=Drift::MAX_PER_MILLE, fixed in 0..=2_000_000_000u64,
    ) {
        let promised = Duration::from_nanos(promised);
        let drift = Drift::new(per_mille, Duration::from_nanos(fixed));
        prop_assert!(kept_for(promised, drift) <= drift.ttl_for(promised));
    }

    #[test]
    fn a_node_whose_clock_is_fast_by_the_drift_keeps_a_key_for_what_is_left(
        left in 0..=1_000_000_000_000_000u64, per_mille in 0..=Drift::MAX_PER_MILLE,
    ) {
        let (left, drift) = (Duration::from_nanos(left), Drift::new(per_mille, Duration::ZERO));
        let kept = kept_for(left, drift);
        // A clock that is ahead by a share of p shows what was kept after 1 / (1 + p) of it.
        let passed = kept.as_nanos() * 1000 / (1000 + u128::from(per_mille));
        prop_assert!(passed >= left.as_nanos());
    }

    #[test]
    fn never_more_than_ttl_minus_elapsed_minus_drift(
        started in timestamps(), now in timestamps(), ttl in durations(), drift in drifts(),
    ) {
        let validity = left(deadline(started, ttl, drift), now).as_nanos();
        let elapsed = now.saturating_since(started).as_nanos();
        let exact = ttl.as_nanos().saturating_sub(drift.of(ttl).as_nanos());
        if now >= started {
            prop_assert!(validity <= exact.saturating_sub(elapsed));
        }
        // A clock that reads less than at the start gives nothing away but the wait until then.
        prop_assert!(validity <= exact + started.saturating_since(now).as_nanos());
    }

    #[test]
    fn exactly_that_wherever_nothing_saturates(
        started in 0..u64::MAX / 4, elapsed in 0..u64::MAX / 4, ttl in 0..u64::MAX / 4,
        per_mille in 0..=500u32, fixed in 0..10_000_000u64,
    ) {
        let nanos = Duration::from_nanos;
        let drift = Drift::new(per_mille, nanos(fixed));
        let started = Timestamp::from_origin(nanos(started));
        let now = started.saturating_add(nanos(elapsed));
        let expected = nanos(ttl).saturating_sub(drift.of(nanos(ttl))).saturating_sub(nanos(elapsed));
        prop_assert_eq!(left(deadline(started, nanos(ttl), drift), now), expected);
    }

    #[test]
    fn it_only_shrinks_with_time_and_with_drift(
        started in timestamps(), now in timestamps(), later in durations(), ttl in durations(),
        (less, more) in (0..=500u32, 0..=500u32), fixed in durations(),
    ) {
        let (less, more) = (less.min(more), less.max(more));
        let small = deadline(started, ttl, Drift::new(less, fixed));
        let large = deadline(started, ttl, Drift::new(more, fixed));
        prop_assert!(large <= small);
        prop_assert!(left(small, now.saturating_add(later)) <= left(small, now));
    }

    #[test]
    fn a_longer_ttl_never_gives_less_validity_and_never_less_drift(
        started in timestamps(), (a, b) in (durations(), durations()), drift in drifts(),
    ) {
        let (short, long) = (a.min(b), a.max(b));
        prop_assert!(drift.of(short) <= drift.of(long));
        prop_assert!(wire_millis(short) <= wire_millis(long));
        // A share beyond 584 years saturates, to the longest drift there is: less validity, never more.
        if u64::try_from(long.as_nanos()).is_ok() {
            // The drift is rounded up, so a longer ttl may lose the nanosecond that it gained.
            let slack = Duration::from_nanos(1);
            let (short, long) = (deadline(started, short, drift), deadline(started, long, drift));
            prop_assert!(short <= long.saturating_add(slack));
        }
    }

    #[test]
    fn drift_is_rounded_up(ttl in any::<u64>(), per_mille in 0..=500u32, fixed in 0..1_000_000_000u64) {
        let drift = Drift::new(per_mille, Duration::from_nanos(fixed));
        let share = drift.of(Duration::from_nanos(ttl)).as_nanos() - u128::from(fixed);
        let thousandths = u128::from(ttl) * u128::from(per_mille);
        prop_assert!(share * 1000 >= thousandths, "rounded down");
        prop_assert!(share * 1000 < thousandths + 1000, "more than rounded up");
    }

    #[test]
    fn a_drift_beyond_the_maximum_is_cut(per_mille in 501u32.., fixed in durations(), ttl in durations()) {
        let most = Drift::new(Drift::MAX_PER_MILLE, fixed);
        prop_assert_eq!(Drift::new(per_mille, fixed), most);
        prop_assert!(most.of(ttl) >= fixed);
    }

    #[test]
    fn the_lifetime_on_the_wire_is_rounded_up_and_never_zero(ttl in durations()) {
        let wire = wire_millis(ttl);
        prop_assert!(wire >= 1);
        // Beyond u64 milliseconds, 584 million years, there is nothing left to round to.
        if wire < u64::MAX {
            prop_assert!(Duration::from_millis(wire) >= ttl);
            prop_assert!(wire == 1 || Duration::from_millis(wire - 1) < ttl);
        }
    }
}

#[test]
fn the_drift_of_the_reference_implementations() {
    let drift = Drift::default();
    for (ttl_ms, drift_us) in [(0, 2_000), (10, 2_100), (1_000, 12_000), (30_000, 302_000)] {
        assert_eq!(drift.of(Duration::from_millis(ttl_ms)), Duration::from_micros(drift_us));
    }
}

#[test]
fn a_ttl_that_the_drift_eats_up_leaves_nothing_at_any_time() {
    for ttl in [Duration::ZERO, Duration::from_millis(2), Duration::from_nanos(1)] {
        let end = deadline(start(), ttl, Drift::default());
        assert_eq!(end, start());
        assert_eq!(left(end, start()), Duration::ZERO);
        let mut spec = RoundSpec::new(resource(), owner(), ttl);
        spec.min_validity = Duration::ZERO;
        let mut round = Round::acquire(Quorum::of(1), spec, start());
        round.handle_reply(node(0), GRANTED, start());
        assert_eq!(round.verdict(), quorlock_core::Verdict::Lost);
    }
}

#[test]
fn the_edges_of_wire_millis() {
    let cases = [
        (Duration::ZERO, 1),
        (Duration::from_nanos(1), 1),
        (Duration::from_millis(1), 1),
        (Duration::from_nanos(1_000_001), 2),
        (Duration::from_secs(86_400), 86_400_000),
        (Duration::MAX, u64::MAX),
    ];
    for (ttl, wire) in cases {
        assert_eq!(wire_millis(ttl), wire, "{ttl:?}");
    }
}
