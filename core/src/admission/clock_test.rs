//! The guard on one clock, reading by reading: what is a jump, and what is none.

use super::*;

const YEARS: u64 = 1_000_000_000_000_000;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(millis))
}

fn reading(clock: &mut NodeClock, millis: u64, node_millis: u64) -> bool {
    clock.handle_reading(at(millis), at(millis + 1), YEARS + node_millis * 1000)
}

#[test]
fn a_clock_that_runs_is_fine_whatever_it_shows() {
    let mut clock = NodeClock::default();
    assert!((0..1000).all(|step| reading(&mut clock, step * 100, step * 105)));
}

#[test]
fn jumps_in_either_direction_are_seen_once() {
    let mut clock = NodeClock::default();
    assert!(reading(&mut clock, 0, 10_000));
    assert!(!reading(&mut clock, 100, 70_000));
    assert!(reading(&mut clock, 200, 70_100));
    assert!(!reading(&mut clock, 300, 10_000));
    assert!(reading(&mut clock, 400, 10_100));
}

#[test]
fn each_jump_begins_a_series_and_nothing_else_does() {
    let mut clock = NodeClock::default();
    assert!(reading(&mut clock, 0, 0));
    let series = clock.series();
    assert!((1..500).all(|step| reading(&mut clock, step * 100, step * 105)));
    assert_eq!(clock.series(), series);
    let sent_before = clock.series();
    assert!(!reading(&mut clock, 50_000, 60_000));
    // A command from before the jump, answered behind the reply that showed it, is steady by itself.
    assert!(reading(&mut clock, 50_001, 60_001));
    assert_ne!(clock.series(), sent_before);
    let sent_after = clock.series();
    assert!(reading(&mut clock, 50_100, 60_100));
    assert_eq!(clock.series(), sent_after);
}

#[test]
fn a_clock_that_stands_still_is_seen_however_often_it_is_read() {
    let mut clock = NodeClock::default();
    assert!(!(0..1000).all(|step| reading(&mut clock, step, 5)));
}

#[test]
fn a_reply_that_waited_in_our_own_socket_is_no_jump() {
    let mut clock = NodeClock::default();
    assert!(reading(&mut clock, 0, 0));
    assert!(clock.handle_reading(at(100), at(60_000), YEARS + 101_000));
}

#[test]
fn a_reply_that_waited_long_hides_no_jump_after_it() {
    let mut clock = NodeClock::default();
    assert!(reading(&mut clock, 0, 0));
    assert!(clock.handle_reading(at(20_000), at(60_000), YEARS + 20_000_000));
    assert!(!reading(&mut clock, 61_000, 91_000), "half a minute ahead");
}

#[test]
fn the_longer_a_reading_lies_back_the_less_it_bounds_the_time_there() {
    let mut clock = NodeClock::default();
    assert!(reading(&mut clock, 0, 0));
    let day = 24 * 3600 * 1000;
    // Ten in a million slow.
    let there = YEARS + day * 1000 + day / 100;
    assert!(clock.at(at(day)).unwrap() < there);
    assert!(clock.at_most(at(day)).unwrap() > there);
}

#[test]
fn the_latest_reading_tells_the_time_there() {
    let mut clock = NodeClock::default();
    assert_eq!(clock.at(at(5)), None);
    assert!(reading(&mut clock, 10, 7));
    assert_eq!(clock.at(at(20)), Some(YEARS + 17_000));
}

/// A clock that is first read at time zero, by a reply that took no time.
fn read_at_once() -> NodeClock {
    let mut clock = NodeClock::default();
    assert!(clock.handle_reading(at(0), at(0), YEARS));
    clock
}

#[test]
fn the_step_that_is_no_jump_yet_is_as_large_as_two_clocks_may_be_grained() {
    // A second later: 50 ms, and a tenth of that second.
    for (beyond, steady) in [(150_000, true), (150_001, false)] {
        let ahead = YEARS + 1_000_000 + beyond;
        assert_eq!(read_at_once().handle_reading(at(1_000), at(1_000), ahead), steady, "{beyond}");
        let behind = YEARS + 1_000_000 - beyond;
        assert_eq!(read_at_once().handle_reading(at(1_000), at(1_000), behind), steady, "{beyond}");
    }
}

#[test]
fn what_is_compared_with_is_ten_seconds_old_at_least_and_no_less_certain_than_a_second_more() {
    // A lead of half a second makes the way back a jump, once the anchor is taken there.
    let compared_with = |sent: u64, arrived: u64| {
        let mut clock = read_at_once();
        assert!(clock.handle_reading(at(sent), at(arrived), YEARS + arrived * 1000 + 500_000));
        clock.handle_reading(at(arrived), at(arrived), YEARS + arrived * 1000)
    };
    assert!(compared_with(9_999, 9_999), "the first one");
    assert!(!compared_with(10_000, 10_000), "the one of then");
    // The first took no time: this one took a second, and then a little more.
    let after_a_wait = |waited: u64| {
        let mut clock = read_at_once();
        assert!(clock.handle_reading(at(20_000), at(20_000 + waited), YEARS + 20_000_000));
        clock.handle_reading(at(30_000), at(30_000), YEARS + 32_300_000)
    };
    assert!(!after_a_wait(1_000), "the one that took a second: a tenth of nine seconds");
    assert!(after_a_wait(1_001), "the first one: a tenth of thirty seconds");
}
