//! Which notices a state gives that comes, lasts and goes.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_secs(seconds))
}

fn seconds(at: Timestamp) -> u64 {
    at.since_origin().as_secs()
}

const DOWN: Manner = Manner::Lasting(Duration::ZERO);

#[test]
fn a_trouble_is_told_at_once_and_again_every_minute_and_its_end_at_once() {
    let mut watch = Watch::default();
    let (mut told, mut now) = (Vec::new(), 5);
    while now < 200 {
        if let Some(notice) = watch.handle(&"down", DOWN, at(now)) {
            told.push((now, notice.times, notice.lasted.as_secs()));
        }
        now += 1;
    }
    assert_eq!(told, [(5, 1, 0), (65, 0, 60), (125, 0, 120), (185, 0, 180)]);
    let back = watch.handle(&"up", Manner::Once, at(200)).unwrap();
    assert_eq!((back.times, back.lasted), (1, Duration::ZERO));
    assert_eq!(watch.handle(&"up", Manner::Once, at(900)), None, "what is well is told once");
    assert_eq!(watch.poll_timeout(), None);
}

#[test]
fn whoever_sleeps_until_the_timeout_misses_no_line() {
    let mut watch = Watch::default();
    let mut now = at(5);
    let mut told = Vec::new();
    while now < at(200) {
        told.extend(watch.handle(&"down", DOWN, now).map(|_| seconds(now)));
        now = watch.poll_timeout().unwrap();
    }
    assert_eq!(told, [5, 65, 125, 185]);
}

/// One line for each state and minute, with its count.
#[test]
fn what_goes_to_and_fro_is_counted_and_its_last_state_is_told() {
    let mut watch = Watch::default();
    let mut told = Vec::new();
    for now in 0..=130 {
        let (state, manner) = if now % 2 == 0 { ("down", DOWN) } else { ("up", Manner::Once) };
        if let Some(notice) = watch.handle(&state, manner, at(now)) {
            told.push((now, state, notice.times));
        }
    }
    let expected = [
        (0, "down", 1),
        (1, "up", 1),
        (2, "down", 1),
        (3, "up", 1),
        (4, "down", 1),
        (5, "up", 1),
        (60, "down", 28),
        (61, "up", 28),
        (120, "down", 30),
        (121, "up", 30),
    ];
    assert_eq!(told, expected);
    // It stays up from 131 on: the last time down was not told, so its end is not told either.
    assert_eq!(watch.handle(&"up", Manner::Once, at(131)), None);
    assert_eq!(watch.poll_timeout(), None);
    // After some quiet minutes it may be told three times in a row again.
    let mut told = 0;
    for now in 1_000..1_030 {
        let (state, manner) = if now % 2 == 0 { ("down", DOWN) } else { ("up", Manner::Once) };
        told += u32::from(watch.handle(&state, manner, at(now)).is_some());
    }
    assert_eq!(told, 6);
}

#[test]
fn what_was_well_from_the_beginning_is_told_when_it_is_so_again() {
    let mut watch = Watch::default();
    assert_eq!(watch.handle(&"up", Manner::Over, at(0)), None);
    assert_eq!(watch.handle(&"down", Manner::Lasting(2 * SECOND), at(5)), None);
    assert_eq!(watch.handle(&"up", Manner::Over, at(6)), None, "that counts for nothing");
    assert!(watch.handle(&"down", DOWN, at(10)).is_some());
    assert_eq!(watch.handle(&"up", Manner::Over, at(11)).unwrap().times, 1);
    let mut late = Watch::default();
    assert!(late.handle(&"down", DOWN, at(0)).is_some());
    assert_eq!(late.handle(&"up", Manner::Over, at(1)).unwrap().times, 1, "it never was before");
}

/// However it flaps: the end of a told trouble is told at once, and no other end is.
#[test]
fn a_trouble_that_was_told_and_its_end_come_in_pairs() {
    let mut state = 7_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    for _ in 0..200 {
        let (mut watch, mut now, mut is_open, mut pairs) = (Watch::default(), 0, false, 0);
        assert!(watch.handle(&"up", Manner::Once, at(now)).is_some(), "the first is told");
        for _ in 0..500 {
            now += draw(9);
            let (state, manner) = match draw(4) {
                0 => ("down", DOWN),
                1 => ("waits", Manner::Lasting(2 * SECOND)),
                2 => ("hidden", Manner::Silent),
                _ => ("up", Manner::Once),
            };
            let was_told = watch.handle(&state, manner, at(now)).is_some();
            match state {
                "up" => {
                    assert_eq!(was_told, is_open, "{now}");
                    pairs += u32::from(was_told);
                    is_open = false;
                }
                // Another log line tells of it.
                "hidden" => is_open = true,
                _ => is_open |= was_told,
            }
        }
        assert!(pairs > 10, "{pairs}");
    }
}

#[test]
fn what_has_not_lasted_long_enough_counts_for_nothing() {
    let mut watch = Watch::default();
    let lasting = Manner::Lasting(2 * SECOND);
    assert_eq!(watch.handle(&"asked", lasting, at(0)), None);
    assert_eq!((watch.state(), watch.poll_timeout()), (None, Some(at(2))));
    assert_eq!(watch.handle(&"up", Manner::Once, at(1)).unwrap().times, 1);
    for now in 2..50 {
        let (state, manner) = if now % 2 == 0 { ("asked", lasting) } else { ("up", Manner::Once) };
        assert_eq!(watch.handle(&state, manner, at(now)), None, "it was up all the time");
    }
    assert_eq!(watch.handle(&"asked", lasting, at(50)), None);
    let asked = watch.handle(&"asked", lasting, at(52)).unwrap();
    assert_eq!((asked.times, asked.lasted), (1, 2 * SECOND));
    assert_eq!(watch.state(), Some(&"asked"));
}

#[test]
fn what_is_silent_is_not_told_and_counts_as_a_state() {
    let mut watch = Watch::default();
    assert!(watch.handle(&"up", Manner::Once, at(0)).is_some());
    assert_eq!(watch.handle(&"hidden", Manner::Silent, at(100)), None);
    assert_eq!(watch.poll_timeout(), None);
    assert_eq!(watch.handle(&"hidden", Manner::Once, at(100)), None, "it has begun already");
    assert_eq!(watch.handle(&"hidden", DOWN, at(110)), None, "it has been told of elsewhere");
    assert_eq!(watch.poll_timeout(), Some(at(160)));
    assert_eq!(watch.handle(&"hidden", Manner::Silent, at(120)), None);
    assert_eq!(watch.handle(&"up", Manner::Once, at(200)).unwrap().times, 1, "it is up again");
}

#[test]
fn what_happens_again_and_again_is_told_once_a_minute_with_a_count() {
    let mut pacer = Pacer::default();
    let told: Vec<(u64, u64)> =
        (0..=150).filter_map(|now| Some((now, pacer.handle("late", at(now))?))).collect();
    assert_eq!(told, [(0, 1), (60, 60), (120, 60)]);
    assert_eq!(pacer.handle("other", at(150)), Some(1), "each line has a minute of its own");
    assert_eq!(pacer.handle("late", at(1_000)), Some(31));
}

#[test]
fn of_what_has_no_end_so_many_are_told_in_a_minute_and_remembered() {
    let mut pacer = Pacer::of_at_most(2);
    let told: Vec<u64> = (0..100).filter(|number| pacer.handle(*number, at(0)).is_some()).collect();
    assert_eq!(told, [0, 1]);
    assert_eq!(pacer.handle(0, at(30)), None);
    // A place is free when its line may be told again.
    assert_eq!(pacer.handle(7, at(59)), None);
    assert_eq!(pacer.handle(0, at(60)), Some(2), "it was there twice since");
    assert_eq!(pacer.handle(7, at(61)), Some(1), "in the place of 1");
    assert_eq!(pacer.handle(1, at(62)), None);
    assert_eq!(Pacer::of_at_most(0).handle(0, at(0)), None);
    let mut one = Pacer::of_at_most(1);
    assert_eq!(one.handle(1, at(0)), Some(1));
    assert_eq!((one.handle(2, at(59)), one.handle(2, at(60))), (None, Some(1)), "a whole minute");
}

#[test]
fn a_waiter_says_for_whom_it_waits_after_a_second_or_a_quarter_of_its_wait() {
    let says = |policy| says_at(policy, at(7)).map(|says| says.saturating_since(at(7)));
    assert_eq!(says(WaitPolicy::OneRound), None);
    assert_eq!(says(WaitPolicy::For(SECOND)), Some(SECOND / 4));
    assert_eq!(says(WaitPolicy::For(60 * SECOND)), Some(SECOND));
    assert_eq!(says(WaitPolicy::Unlimited), Some(SECOND));
}
