//! The leases of one grant: G1 to G5, each by name, and random schedules beside a plain account of whose time it is.
//!
//! Goal: no order of hand-overs, losses, shutdowns and ends lets two numbers hold, ends a grant twice, or releases under
//! somebody's work what has a lock-delay. Method: each step is made on the machine and noted by hand; after each of them every
//! number that was ever given is asked.

use std::{collections::BTreeMap, time::Duration};

use quorlock_core::{
    Cohort, Drift, ExtendOutcome, FencingToken, LeaseAction, Leases, Lifecycle, LossReason,
    NextLease, OthersWait, RenewalPolicy, Situation, Timestamp, TokenRange, Wanted,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::at;

pub(super) const TTL: Duration = Duration::from_secs(10);
pub(super) const MS: Duration = Duration::from_millis(1);

/// What a grant is asked for with.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    pub(super) linger: Duration,
    pub(super) lock_delay: Duration,
    pub(super) alone: bool,
    pub(super) keeps_until: Option<Timestamp>,
}

fn leases(Asked { linger, lock_delay, alone, keeps_until }: Asked) -> Leases {
    let deadline = at(9_898);
    let drift = Drift::default();
    let lifecycle = Lifecycle::new(at(0), deadline, TTL, drift, RenewalPolicy::default());
    let tokens = Some(TokenRange::ending_at(FencingToken::new(64), 64));
    let (cohort, token) = Cohort::begin(tokens, at(0));
    Leases::new(lifecycle, cohort, token, (linger, lock_delay, alone), keeps_until)
}

pub(super) fn taken(asked: Asked) -> Leases {
    let mut leases = leases(asked);
    leases.handle_taken(0);
    leases
}

pub(super) fn next(lock_delay: Duration) -> NextLease {
    let wanted = Wanted { ttl: TTL, lock_delay, min_validity: Duration::ZERO, alone: false };
    NextLease {
        wanted,
        renewal: RenewalPolicy::default(),
        keeps_until: None,
        linger: Duration::ZERO,
    }
}

pub(super) fn now(ms: u64) -> Situation {
    Situation { others: OthersWait::Nobody, turn: TTL, now: at(ms), steady: at(ms) }
}

#[test]
fn g1_one_number_holds_and_one_that_is_past_was_released_whatever_comes() {
    let mut leases = taken(Asked::default());
    assert!(leases.left(Some(0), at(1)).is_ok() && leases.left(None, at(1)).is_ok());
    let begun = leases.hand_on(&next(Duration::ZERO), now(1)).unwrap();
    assert_eq!((begun.number, begun.token.map(FencingToken::get)), (1, Some(2)));
    assert_eq!(leases.left(Some(0), at(1)), Err(LossReason::Released));
    assert!(leases.left(Some(1), at(1)).is_ok());
    // It is lost to the next one, and was released by the one before.
    assert!(matches!(leases.handle_check(at(20_000)), Some(LeaseAction::Lose(_))));
    assert_eq!(leases.left(Some(0), at(20_000)), Err(LossReason::Released));
    assert_eq!(leases.left(Some(1), at(20_000)), Err(LossReason::RenewalFailed));
    // What comes of a number that is past is nothing.
    assert_eq!(leases.begin_work(0), Err(LossReason::Released));
    leases.handle_taken(0);
    leases.hold(0, at(99_999));
    assert!(!leases.is_taken() && leases.hold_until().is_none());
    assert!(!leases.leave(0, at(20_000)) && leases.end(0, None).is_none());
    assert!(!leases.may_go_on(0));
}

#[test]
fn g1_a_holder_that_shares_it_with_readers_has_another_number_and_the_same_token() {
    let mut leases = taken(Asked::default());
    let token = leases.token();
    assert_eq!(leases.downgrade(0), Some(1));
    assert_eq!((leases.number(), leases.token(), leases.is_downgraded()), (1, token, true));
    assert_eq!(leases.left(Some(0), at(1)), Err(LossReason::Released));
    assert!(leases.left(Some(1), at(1)).is_ok());
    assert!(leases.downgrade(0).is_none() && !leases.may_go_on(1), "readers come beside it");
    // An extension that was begun before is refused by those that have followed.
    let lost = ExtendOutcome::Lost;
    assert_eq!(leases.judged(lost, false), ExtendOutcome::InDoubt);
    assert_eq!(leases.judged(lost, true), lost);
    assert_eq!(taken(Asked::default()).judged(lost, false), lost);
}

#[test]
fn g2_a_grant_ends_once_and_goes_on_with_nothing() {
    for reason in [None, Some(LossReason::LeftToExpire)] {
        let mut leases = taken(Asked::default());
        let ended = leases.end(0, reason).unwrap();
        assert!(ended.was_held && leases.has_ended() && !leases.lasts());
        assert!(leases.end(0, None).is_none());
        assert_eq!(leases.left(Some(0), at(1)), Err(reason.unwrap_or(LossReason::Released)));
        assert!(
            !leases.may_go_on(0) && leases.downgrade(0).is_none() && leases.shut_down().is_none()
        );
        assert!(leases.begin_work(0).is_err());
        assert_eq!(leases.handle_extension(ExtendOutcome::Lost, at(2)), None);
        assert_eq!((leases.handle_check(at(99_999)), leases.poll_timeout()), (None, None));
    }
    // A lost lease was not held any more when it ended.
    let mut leases = taken(Asked::default());
    leases.handle_check(at(20_000));
    assert!(!leases.end(0, None).unwrap().was_held);
    // A shutdown ends it while it is held.
    let mut leases = taken(Asked::default());
    assert_eq!(leases.shut_down(), Some(false));
    assert!(leases.shut_down().is_none() && !leases.may_go_on(0));
    assert_eq!(leases.begin_work(0), Err(LossReason::ShutDown));
    assert!(leases.end(0, None).unwrap().was_held);
}

#[test]
fn a_shutdown_says_whether_work_goes_on() {
    let mut leases = taken(Asked::default());
    leases.begin_work(0).unwrap();
    assert_eq!(leases.shut_down(), Some(true));
    assert_eq!(leases.left(Some(0), at(1)), Err(LossReason::ShutDown));
}

#[test]
fn g3_while_it_is_kept_nobody_holds_it_and_nobody_is_told() {
    let linger = 100 * MS;
    let mut leases = taken(Asked { linger, ..Asked::default() });
    assert!(leases.lingers() && leases.keep(now(5), None));
    assert!(leases.is_kept() && leases.token().is_none());
    assert_eq!(leases.left(Some(0), at(5)), Err(LossReason::Released));
    assert!(leases.poll_timeout().is_some_and(|next| next <= at(105)));
    let due = leases.handle_timeout(at(104));
    assert!(!due.give_back && due.tell.is_none());
    let mut over = leases.clone();
    assert!(over.handle_timeout(at(105)).give_back);
    // It is lost meanwhile: nobody is told, and it goes back.
    let mut lost = leases.clone();
    lost.handle_extension(ExtendOutcome::Lost, at(50));
    let mut late = leases.clone();
    let due = late.handle_timeout(at(20_000));
    assert!(due.give_back && due.tell.is_none());
    assert!(!leases.clone().end_kept().unwrap().was_held, "it was given back before");
    // The request that takes it goes on with its own number and token.
    let begun = leases.resume(&next(Duration::ZERO), now(50)).unwrap();
    assert_eq!((begun.number, begun.token.map(FencingToken::get)), (2, Some(2)));
    assert!(!leases.is_kept() && leases.left(Some(2), at(50)).is_ok());
    assert!(leases.left(Some(1), at(50)).is_err() && leases.left(Some(0), at(50)).is_err());
    assert!(leases.resume(&next(Duration::ZERO), now(50)).is_none(), "it is not kept");
    // A request that saw it kept a moment ago ends nothing.
    assert!(leases.end_kept().is_none() && leases.left(Some(2), at(50)).is_ok());
}

#[test]
fn it_is_kept_where_that_was_asked_for_and_nothing_speaks_against_it() {
    let linger = 100 * MS;
    let asked = Asked { linger, ..Asked::default() };
    let kept = |leases: &mut Leases, situation, heard| leases.keep(situation, heard);
    assert!(!kept(&mut taken(Asked::default()), now(5), None), "nobody has asked for it");
    let others = Situation { others: OthersWait::Somebody, ..now(5) };
    assert!(!kept(&mut taken(asked), others, None), "somebody waits");
    let unknown = Situation { others: OthersWait::Unknown, ..now(5) };
    assert!(kept(&mut taken(asked), unknown, None));
    let held = Asked { keeps_until: Some(at(6)), ..asked };
    assert!(!kept(&mut taken(held), now(5), None), "others are kept out for longer");
    assert!(kept(&mut taken(held), now(6), None));
    assert!(!kept(&mut taken(asked), now(5), Some(at(5))), "the nodes tell of nobody any more");
    let mut heard = taken(asked);
    assert!(kept(&mut heard, now(5), Some(at(7))));
    assert!(heard.handle_timeout(at(7)).give_back, "for no longer than they tell");
    assert!(!kept(&mut taken(asked), now(9_000), None), "it is about to be lost");
    let mut ended = taken(asked);
    ended.shut_down();
    assert!(!kept(&mut ended, now(5), None));
}

#[test]
fn g4_it_is_left_where_it_was_lost_under_work_and_has_a_lock_delay() {
    let lock_delay = 1_000 * MS;
    let with = Asked { lock_delay, ..Asked::default() };
    let lost = |mut leases: Leases| {
        leases.handle_check(at(20_000));
        leases.leave(0, at(20_000))
    };
    assert!(lost(taken(with)));
    assert!(!lost(taken(Asked::default())), "it has no lock-delay");
    assert!(!lost(leases(with)), "nobody has had it");
    assert!(!taken(with).leave(0, at(1)), "it is not lost");
    // A shutdown is in time, unless work goes on beyond the deadline.
    let mut ended = taken(with);
    ended.shut_down();
    assert!(!ended.leave(0, at(9_897)));
    assert!(ended.leave(0, at(9_898)));
    // A holder that lets it expire has said that the work is done.
    let mut expires = taken(with);
    expires.end(0, Some(LossReason::LeftToExpire));
    assert!(!expires.leave(0, at(20_000)));
    // What was set too late is released behind the same delay, also once it has ended so.
    let mut left = taken(with);
    left.handle_check(at(20_000));
    assert_eq!(left.hold_of_late(at(20_000), at(20_000)), Some(at(21_000)));
    assert!(left.leave(0, at(20_000)));
    left.end(0, None).unwrap();
    assert_eq!(left.hold_of_late(at(20_500), at(20_500)), Some(at(21_500)));
    let mut released = taken(with);
    released.handle_check(at(20_000));
    released.end(0, None).unwrap();
    assert_eq!(released.hold_of_late(at(20_000), at(20_000)), None, "its holder has said so");
}

#[test]
fn g5_others_are_kept_out_from_when_a_holder_has_it_and_never_for_less() {
    let mut leases = leases(Asked { keeps_until: Some(at(500)), ..Asked::default() });
    assert_eq!(leases.clone().end(0, None).unwrap().hold, None, "nobody could work under it");
    leases.handle_taken(0);
    assert_eq!(leases.hold_until(), Some(at(500)));
    assert!(leases.hand_on(&next(Duration::ZERO), now(499)).is_err(), "nor is it handed on");
    leases.hold(0, at(400));
    assert_eq!(leases.hold_until(), Some(at(500)));
    leases.hold(0, at(700));
    let ended = leases.end(0, None).unwrap();
    assert_eq!((ended.hold, ended.token.map(FencingToken::get)), (Some(at(700)), Some(1)));
}

#[test]
fn a_warning_stands_until_it_is_extended() {
    let mut leases = taken(Asked::default());
    leases.handle_extension(ExtendOutcome::InDoubt, at(3_300));
    while leases.warning().is_none() {
        let next = leases.poll_timeout().expect("it goes on");
        assert!(next < at(9_898));
        let due = leases.handle_timeout(next);
        if due.extend {
            leases.handle_extension(ExtendOutcome::InDoubt, next);
        }
        assert_eq!(due.tell.is_some(), leases.warning().is_some());
    }
    assert_eq!(leases.handle_extension(ExtendOutcome::Extended(at(15_000)), at(8_000)), None);
    assert_eq!(leases.warning(), None);
}

/// What has become of a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Of {
    Holder,
    Nobody,
    Past,
}

#[test]
fn random_schedules_let_one_number_hold_at_a_time() {
    let (mut handed, mut kept, mut resumed, mut downgraded, mut lost, mut ended) =
        (0, 0, 0, 0, 0, 0);
    for seed in 0..4_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let lock_delay = if random.random_bool(0.3) { 1_000 * MS } else { Duration::ZERO };
        let linger = if random.random_bool(0.5) { 300 * MS } else { Duration::ZERO };
        let asked = Asked { linger, lock_delay, ..Asked::default() };
        let mut leases = taken(asked);
        let mut numbers = BTreeMap::from([(0, Of::Holder)]);
        let (mut tokens, mut is_over, mut was_left, mut ms) = (vec![1], false, false, 0);
        for _ in 0..60 {
            ms += random.random_range(0..200);
            let current = leases.number();
            let number =
                if random.random_bool(0.8) { current } else { random.random_range(0..=current) };
            let is_current = numbers.get(&number) == Some(&Of::Holder);
            let mut situation = now(ms);
            if random.random_bool(0.2) {
                situation.others = OthersWait::Somebody;
            }
            let mut goes_on = next(lock_delay);
            goes_on.linger = linger;
            let mut begins = |numbers: &mut BTreeMap<u64, Of>, begun: quorlock_core::Begun| {
                let token = begun.token.expect("it has one").get();
                assert!(tokens.last() < Some(&token), "seed {seed}: tokens rise");
                tokens.push(token);
                numbers.values_mut().for_each(|of| *of = Of::Past);
                assert!(numbers.insert(begun.number, Of::Holder).is_none(), "seed {seed}");
            };
            match random.random_range(0..10) {
                0..3 => {
                    if leases.may_go_on(number)
                        && let Ok(begun) = leases.hand_on(&goes_on, situation)
                    {
                        assert!(is_current && !is_over, "seed {seed}: it is not its to hand on");
                        begins(&mut numbers, begun);
                        leases.handle_taken(begun.number);
                        handed += 1;
                    }
                }
                3 if leases.may_go_on(number) && leases.keep(situation, None) => {
                    assert!(is_current && !is_over, "seed {seed}");
                    numbers.values_mut().for_each(|of| *of = Of::Past);
                    numbers.insert(leases.number(), Of::Nobody);
                    kept += 1;
                }
                4 => {
                    if let Some(begun) = leases.resume(&goes_on, situation) {
                        assert!(numbers.values().any(|of| *of == Of::Nobody), "seed {seed}");
                        begins(&mut numbers, begun);
                        leases.handle_taken(begun.number);
                        resumed += 1;
                    }
                }
                5 if random.random_bool(0.2) => {
                    if let Some(number) = leases.downgrade(number) {
                        assert!(is_current && !is_over, "seed {seed}");
                        numbers.values_mut().for_each(|of| *of = Of::Past);
                        numbers.insert(number, Of::Holder);
                        downgraded += 1;
                    }
                }
                6 => {
                    let outcome = match random.random_range(0..10) {
                        0 => ExtendOutcome::Lost,
                        1..4 => ExtendOutcome::InDoubt,
                        _ => ExtendOutcome::Extended(at(ms + 9_800)),
                    };
                    let told = leases.handle_extension(outcome, at(ms));
                    lost += u32::from(matches!(told, Some(LeaseAction::Lose(_))));
                }
                7 => {
                    leases.handle_check(at(ms));
                    leases.handle_timeout(at(ms));
                }
                8 if random.random_bool(0.1) => {
                    // By a request that saw it kept a moment ago.
                    let is_kept = leases.is_kept();
                    assert_eq!(leases.end_kept().is_some(), is_kept && !is_over, "seed {seed}");
                    is_over |= is_kept;
                }
                8 if random.random_bool(0.1) => {
                    let was_over = is_over;
                    assert_eq!(leases.end(number, None).is_some(), is_current && !was_over);
                    if is_current && !was_over {
                        is_over = true;
                        ended += 1;
                    }
                }
                9 if random.random_bool(0.05) => {
                    let is_left = leases.leave(number, at(ms));
                    let reason = leases.lifecycle().lost().is_some_and(LossReason::is_loss);
                    let may = is_current && !lock_delay.is_zero() && leases.is_taken();
                    assert_eq!(is_left, may && reason && (!is_over || was_left), "seed {seed}");
                    was_left |= is_left;
                    if is_left {
                        assert_eq!(leases.end(number, None).is_some(), !is_over);
                        is_over = true;
                    }
                }
                _ => {}
            }
            let holds: Vec<u64> = numbers
                .iter()
                .filter(|(number, _)| leases.left(Some(**number), at(ms)).is_ok())
                .map(|(number, _)| *number)
                .collect();
            let is_lost = leases.lifecycle().lost().is_some();
            let holder =
                numbers.iter().find(|(_, of)| **of == Of::Holder).map(|(number, _)| *number);
            let expected: Vec<u64> = holder.filter(|_| !is_over && !is_lost).into_iter().collect();
            assert_eq!(holds, expected, "seed {seed}: {numbers:?}");
            for (number, of) in &numbers {
                if *of == Of::Past {
                    assert_eq!(leases.left(Some(*number), at(ms)), Err(LossReason::Released));
                }
            }
        }
    }
    let all = [handed, kept, resumed, downgraded, lost, ended];
    assert!(all.iter().all(|count| *count > 500), "{all:?}");
}
