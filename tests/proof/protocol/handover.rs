//! A grant that is handed on: H1 to H6, each by name, and random cohorts.
//!
//! Goal: no lease begins under a grant that may not hold, with a token that is not its own, or for longer than others may
//! be kept waiting. Method: one cohort at the moments at which the decision turns.

use quorlock_core::{
    Cohort, Drift, ExtendOutcome, FencingToken, GivenBack, LeaseAction, Lifecycle, LossReason,
    MOST_IN_A_ROW, NotHandedOn, Offer, OthersWait, RenewalPolicy, Stay, TokenRange, Wanted,
    keeps_back, turn_of,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

const MS: Duration = Duration::from_millis(1);
const TURN: Duration = Duration::from_millis(10);
const WANTED: Wanted =
    Wanted { ttl: TTL, lock_delay: Duration::ZERO, min_validity: Duration::ZERO, alone: false };

/// Of a grant that was won at the start.
fn lifecycle() -> Lifecycle {
    let deadline = start().saturating_add(TTL - Drift::default().of(TTL));
    Lifecycle::new(start(), deadline, TTL, Drift::default(), RenewalPolicy::default())
}

const fn offer(lifecycle: &Lifecycle, now: Timestamp) -> Offer<'_> {
    let lock_delay = Duration::ZERO;
    let (is_kept, alone, others) = (false, false, OthersWait::Unknown);
    Offer { lifecycle, lock_delay, is_kept, alone, others, turn: TURN, now }
}

fn tokens(last: u64, count: u64) -> Option<TokenRange> {
    Some(TokenRange::ending_at(FencingToken::new(last), count))
}

const fn token(number: u64) -> Option<FencingToken> {
    Some(FencingToken::new(number))
}

#[test]
fn h1_tokens_are_those_of_the_range_in_order_and_each_is_used_once() {
    let lifecycle = lifecycle();
    let (mut cohort, first) = Cohort::begin(tokens(103, 4), start());
    assert_eq!(first, token(100));
    for number in 101..=103 {
        assert_eq!(cohort.next(&offer(&lifecycle, at(1)), WANTED), Ok(token(number)));
    }
    assert_eq!(cohort.next(&offer(&lifecycle, at(1)), WANTED), Err(NotHandedOn::Tokens));
    assert_eq!(cohort.leases(), 4);
    // Of one token nothing is left.
    let (mut cohort, first) = Cohort::begin(tokens(7, 1), start());
    assert_eq!(first, token(7));
    assert_eq!(cohort.next(&offer(&lifecycle, at(1)), WANTED), Err(NotHandedOn::Tokens));
    // In classic mode there are none.
    let (mut cohort, first) = Cohort::begin(None, start());
    assert_eq!((first, cohort.next(&offer(&lifecycle, at(1)), WANTED)), (None, Ok(None)));
}

#[test]
fn h1_another_lease_may_follow_while_there_is_a_token_and_it_is_not_one_too_many() {
    let lifecycle = lifecycle();
    let (many, most) = (2 * MOST_IN_A_ROW, MOST_IN_A_ROW);
    for (tokens, leases) in [
        (None, most),
        (tokens(1, 1), 1),
        (tokens(3, 3), 3),
        (tokens(most, most), most),
        (tokens(many, many), most),
    ] {
        let (mut cohort, _) = Cohort::begin(tokens, start());
        while cohort.has_next() {
            assert!(cohort.next(&offer(&lifecycle, at(1)), WANTED).is_ok());
        }
        assert_eq!(cohort.leases(), leases);
        assert!(cohort.next(&offer(&lifecycle, at(1)), WANTED).is_err());
    }
}

#[test]
fn h2_a_grant_that_is_lost_or_about_to_be_is_not_handed_on() {
    let next = |lifecycle: &Lifecycle, now| {
        let (mut cohort, _) = Cohort::begin(None, now);
        cohort.next(&offer(lifecycle, now), WANTED)
    };
    let ending = Err(NotHandedOn::Ending);
    let mut over = lifecycle();
    over.handle_ended(LossReason::ShutDown);
    assert_eq!(next(&over, at(1)), ending);
    // Its renewal is in doubt.
    let mut doubtful = lifecycle();
    assert_eq!(doubtful.handle_timeout(at(3_400)), Some(LeaseAction::Extend));
    assert_eq!(next(&doubtful, at(3_400)), Ok(None), "it is under way");
    doubtful.handle_extension(ExtendOutcome::InDoubt, at(3_500));
    assert_eq!(next(&doubtful, at(3_500)), ending);
    doubtful.handle_extension(ExtendOutcome::Extended(at(13_000)), at(3_600));
    assert_eq!(next(&doubtful, at(3_600)), Ok(None), "and now it is not");
    // The warning is due, whether or not it has been told.
    assert_eq!(next(&lifecycle(), at(6_700)), ending);
    // Half of 9898 ms must be left.
    assert_eq!(next(&lifecycle(), at(4_949)), Ok(None));
    assert_eq!(next(&lifecycle(), at(4_950)), Err(NotHandedOn::TooLittleLeft));
    // And what was asked for at least.
    let least = |left, now| {
        let (mut cohort, _) = Cohort::begin(None, now);
        cohort.next(&offer(&lifecycle(), now), Wanted { min_validity: left, ..WANTED })
    };
    assert_eq!(least(9_000 * MS, at(898)), Ok(None));
    assert_eq!(least(9_000 * MS, at(899)), Err(NotHandedOn::TooLittleLeft));
    // Half of a longer ttl, too.
    let longer = |ttl| {
        let (mut cohort, _) = Cohort::begin(None, start());
        cohort.next(&offer(&lifecycle(), start()), Wanted { ttl, ..WANTED })
    };
    assert_eq!(longer(2 * TTL - 200 * MS), Ok(None));
    assert_eq!(longer(2 * TTL + 10 * MS), Err(NotHandedOn::TooLittleLeft));
}

#[test]
fn h3_keys_that_stand_for_another_lock_delay_serve_nobody() {
    let (mut cohort, _) = Cohort::begin(None, start());
    let lifecycle = lifecycle();
    let mut next = |of_grant, lock_delay| {
        let offer = Offer { lock_delay: of_grant, ..offer(&lifecycle, at(1)) };
        cohort.next(&offer, Wanted { lock_delay, ..WANTED })
    };
    assert_eq!(next(TTL, Duration::ZERO), Err(NotHandedOn::LockDelay));
    assert_eq!(next(TTL, TTL + MS), Err(NotHandedOn::LockDelay));
    assert_eq!(next(TTL, TTL), Ok(None));
}

#[test]
fn a_grant_of_its_own_is_neither_handed_on_nor_taken_over() {
    let (mut cohort, _) = Cohort::begin(None, start());
    let lifecycle = lifecycle();
    let mut next = |of_grant, of_next| {
        let offer = Offer { alone: of_grant, ..offer(&lifecycle, at(1)) };
        cohort.next(&offer, Wanted { alone: of_next, ..WANTED })
    };
    assert_eq!(next(true, false), Err(NotHandedOn::Alone));
    assert_eq!(next(false, true), Err(NotHandedOn::Alone));
    assert_eq!(next(false, false), Ok(None));
}

#[test]
fn h3_keys_that_live_for_longer_than_was_asked_for_serve_nobody() {
    let (mut cohort, _) = Cohort::begin(None, start());
    let wanted = Wanted { ttl: TTL - MS, ..WANTED };
    assert_eq!(cohort.next(&offer(&lifecycle(), at(1)), wanted), Err(NotHandedOn::Shorter));
    assert_eq!(cohort.next(&offer(&lifecycle(), at(1)), WANTED), Ok(None));
}

#[test]
fn h4_while_others_wait_or_may_the_row_ends_after_a_turn_and_after_64_leases_in_any_case() {
    let lifecycle = lifecycle();
    let next = |cohort: &mut Cohort, others, now| {
        cohort.next(&Offer { others, ..offer(&lifecycle, now) }, WANTED)
    };
    for others in [OthersWait::Unknown, OthersWait::Somebody] {
        let (mut cohort, _) = Cohort::begin(tokens(1_000, 64), start());
        assert!(next(&mut cohort, others, at(9)).is_ok());
        assert_eq!(next(&mut cohort, others, at(10)), Err(NotHandedOn::Turn));
        assert!(next(&mut cohort, OthersWait::Nobody, at(10)).is_ok(), "nobody is kept waiting");
        assert!(next(&mut cohort, OthersWait::Nobody, at(4_900)).is_ok());
        assert_eq!(next(&mut cohort, OthersWait::Nobody, at(5_000)), Err(NotHandedOn::Turn));
    }
    for others in [OthersWait::Unknown, OthersWait::Nobody, OthersWait::Somebody] {
        for tokens in [None, tokens(1_000, 64), tokens(1_000, 100)] {
            let (mut cohort, _) = Cohort::begin(tokens, start());
            let handed_on = std::iter::from_fn(|| next(&mut cohort, others, at(1)).ok()).count();
            assert_eq!(handed_on as u64, MOST_IN_A_ROW - 1);
            assert_eq!(next(&mut cohort, others, at(1)), Err(NotHandedOn::Turn));
        }
    }
    assert_eq!([None, Some(MS / 10), Some(2 * MS)].map(turn_of), [TURN, TURN, 40 * MS]);
}

/// One grant after the other, each with so many leases of this length: when others are left a moment, and how long.
fn moments(others: OthersWait, leases: u64, held: Duration, grants: u32) -> Vec<(u64, Duration)> {
    let (mut stay, mut now, mut moments) = (Stay::default(), start(), Vec::new());
    for _ in 0..grants {
        stay.handle_won(now);
        now = now.saturating_add(held * u32::try_from(leases).unwrap());
        if let Some(moment) = stay.handle_given_back(GivenBack { leases, others, turn: TURN, now })
        {
            moments.push((now.saturating_since(start()).as_millis() as u64, moment));
            now = now.saturating_add(moment);
        }
    }
    moments
}

#[test]
fn h4_those_of_whom_the_nodes_know_nothing_are_left_the_moments_that_hand_overs_took_from_them() {
    use OthersWait::{Nobody, Somebody, Unknown};
    // Where it is not known whether they wait, a part of the turn.
    assert_eq!(moments(Unknown, 5, 2 * MS, 1), [(10, 10 * MS / 8)]);
    // One moment for each hand-over, of which there was one.
    assert_eq!(moments(Unknown, 2, 8 * MS, 1), [(16, MS / 2)]);
    // None has been taken from them where each lease had a round.
    assert_eq!(moments(Unknown, 1, 30 * MS, 100), []);
    assert_eq!(moments(Nobody, 1, 30 * MS, 300), []);
    // Many short leases are no turn before it has lasted for as long.
    let short = moments(Unknown, 64, MS / 50, 8);
    assert_eq!(short, [(10, 10_240 * MS / 8_000)], "the eighth of 1.28 ms each");
    // Waiters in the lines on the nodes are next there.
    assert_eq!(moments(Somebody, 64, 2 * MS, 10), []);
    // Where nobody is known to wait: not for each hundredth hand-over, and a little.
    assert_eq!(moments(Nobody, 64, 2 * MS, 3), [(256, 256 * MS / 80)]);
    assert_eq!(moments(Nobody, 64, 30 * MS, 3), [(3_840, 48 * MS)]);
    // However short the cohorts are: not before so many leases as follow the first ones of two full cohorts.
    assert_eq!(moments(Nobody, 33, 10 * MS, 4), [(1_320, 1_320 * MS / 80)]);
    assert_eq!(moments(Nobody, 2, 3 * MS, 126), [(756, 756 * MS / 80)]);
    assert_eq!(moments(Nobody, 64, 70 * MS, 2), [(8_960, 50 * MS)], "the longest");
    // With long leases as soon, and as long, as those would have had it.
    assert_eq!(moments(Nobody, 5, 1_000 * MS, 1), [(5_000, 2 * MS)]);
    let all: Duration = moments(Nobody, 64, 2 * MS, 1_000).iter().map(|(_, moment)| *moment).sum();
    let share = all.as_secs_f64() / (128.0 + all.as_secs_f64());
    assert!((0.01..0.0125).contains(&share), "{share}");
}

#[test]
fn h4_once_others_have_had_it_a_stay_begins_anew() {
    let after = |has_left: bool| {
        let mut stay = Stay::default();
        let given_back = |stay: &mut Stay, ms| {
            let others = OthersWait::Nobody;
            stay.handle_given_back(GivenBack { leases: 64, others, turn: TURN, now: at(ms) })
        };
        stay.handle_won(start());
        assert_eq!(given_back(&mut stay, 200), None);
        if has_left {
            stay.handle_left();
        }
        stay.handle_won(at(200));
        given_back(&mut stay, 400)
    };
    assert_eq!((after(false), after(true)), (Some(5 * MS), None));
    // Where another client stands in line, it is left to that one.
    let mut stay = Stay::default();
    stay.handle_won(start());
    let others = OthersWait::Somebody;
    let given_back = GivenBack { leases: 500, others, turn: TURN, now: at(900) };
    assert_eq!(stay.handle_given_back(given_back), None);
    assert_eq!(stay, Stay::default());
}

#[test]
fn h6_a_set_that_waits_keeps_others_back_now_and_then_and_soon_for_as_long_as_they_hold_it() {
    assert_eq!(keeps_back(TURN - Duration::from_nanos(1), TURN), None, "they have a turn first");
    assert_eq!(keeps_back(TURN, TURN), Some(TURN / 4));
    assert_eq!(keeps_back(TURN * 3 / 2, TURN), None);
    assert_eq!(keeps_back(TURN, Duration::ZERO), None);
    assert_eq!(keeps_back(TURN * (1 << 20), TURN), Some(1000 * MS), "a second at the most");
    assert_eq!(keeps_back(Duration::MAX, MS), None);
    for hold in [MS, 20 * MS, 300 * MS, 1000 * MS] {
        let (mut kept, mut served) = (Duration::ZERO, None);
        let mut waited = Duration::ZERO;
        while served.is_none() && waited < 20 * hold + 20 * TURN {
            match keeps_back(waited, TURN) {
                // All that is held at this moment ends meanwhile, and nothing of it begins.
                Some(left) if left >= hold => served = Some(waited + hold),
                Some(_) => kept += MS / 4,
                None => {}
            }
            assert!(kept <= waited * 2 / 5 + MS, "{kept:?} of {waited:?}");
            waited += MS / 4;
        }
        let bound = (TURN + hold).max(9 * hold);
        assert!(served.is_some_and(|served| served <= bound), "{hold:?}: {served:?}, {bound:?}");
    }
}

#[test]
fn h5_what_keeps_others_out_keeps_out_those_of_this_process() {
    let lifecycle = lifecycle();
    let (mut cohort, _) = Cohort::begin(None, start());
    let kept = Offer { is_kept: true, ..offer(&lifecycle, at(1)) };
    assert_eq!(cohort.next(&kept, WANTED), Err(NotHandedOn::Kept));
    assert_eq!(cohort.next(&offer(&lifecycle, at(1)), WANTED), Ok(None));
}

/// Leases of random length, renewals that succeed or do not, holders with wishes of their own.
#[test]
fn random_rows_begin_no_lease_that_a_new_round_would_not_have_been_as_good_for() {
    let mut handed_on = 0;
    for seed in 0..2_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut lifecycle = lifecycle();
        let count = random.random_range(1..=64);
        let (mut cohort, first) = Cohort::begin(tokens(5_000, count), start());
        let (mut last, mut now, mut ttl) = (first.unwrap(), start(), TTL);
        assert_eq!(last.get(), 5_001 - count);
        loop {
            now = now.saturating_add(Duration::from_micros(random.random_range(0..400_000)));
            while let Some(action) = lifecycle.handle_timeout(now) {
                if action == LeaseAction::Extend && random.random_bool(0.7) {
                    let deadline = now.saturating_add(ttl - Drift::default().of(ttl));
                    lifecycle.handle_extension(ExtendOutcome::Extended(deadline), now);
                }
            }
            let wanted = Wanted {
                ttl: Duration::from_millis(random.random_range(9_500..12_000)),
                lock_delay: Duration::ZERO,
                min_validity: Duration::from_millis(random.random_range(0..9_000)),
                alone: false,
            };
            let others = [OthersWait::Unknown, OthersWait::Nobody][random.random_range(0..2)];
            let offer = Offer { others, turn: 300 * MS, ..offer(&lifecycle, now) };
            let Ok(token) = cohort.next(&offer, wanted) else { break };
            handed_on += 1;
            let token = token.unwrap();
            assert!(token > last && token.get() <= 5_000, "{seed}");
            last = token;
            let left = lifecycle.deadline().saturating_since(now);
            assert!(lifecycle.lost().is_none() && left >= wanted.min_validity, "{seed}");
            assert!(wanted.ttl >= ttl && left >= wanted.ttl.mul_f64(0.48), "{seed}");
            let deadline = lifecycle.deadline();
            lifecycle.handle_term(wanted.ttl, RenewalPolicy::default(), now);
            assert_eq!(lifecycle.deadline(), deadline, "a hand-over moves no deadline");
            ttl = wanted.ttl;
        }
    }
    println!("{handed_on} hand-overs");
    assert!(handed_on > 1_000);
}
