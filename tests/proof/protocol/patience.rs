//! For how long a client waits for the first in the line after passing it over.
//!
//! Goal: a client that comes late again and again is waited for longer, and nothing is done for one that does not come
//! at all. Method: the times at which that changes.

use quorlock_core::{ClientId, Patience};

use super::*;

const GRACE: Duration = Duration::from_millis(2);

fn client(number: u8) -> ClientId {
    ClientId::new([number; 8])
}

/// The same one was passed over so often, at this time.
fn passed_over(patience: &mut Patience, number: u8, times: usize, millis: u64) {
    (0..times).for_each(|_| patience.pass_over(client(number), at(millis)));
}

fn longer(patience: &Patience, number: u8) -> u128 {
    patience.of(client(number), GRACE).as_millis() / GRACE.as_millis()
}

#[test]
fn from_the_third_time_on_the_grace_is_longer_and_from_the_sixth_as_for_anybody() {
    let mut patience = Patience::default();
    assert_eq!(longer(&patience, 1), 1);
    let graces: Vec<u128> = (0..8)
        .map(|_| {
            passed_over(&mut patience, 1, 1, 0);
            longer(&patience, 1)
        })
        .collect();
    assert_eq!(graces, [1, 1, 8, 64, 128, 1, 1, 1], "256 ms at most");
    assert_eq!(longer(&patience, 2), 1, "another one");
    // Where the common grace is longer, it is that.
    let mut patience = Patience::default();
    passed_over(&mut patience, 1, 5, 0);
    assert_eq!(patience.of(client(1), Duration::from_millis(300)), Duration::from_millis(300));
}

#[test]
fn one_for_which_more_is_done_is_known_for_a_minute_and_others_for_ten_seconds() {
    for (times, known) in [(2, 10_000), (3, 60_000)] {
        for (millis, is_known) in [(known - 1, true), (known, false)] {
            let mut patience = Patience::default();
            passed_over(&mut patience, 1, times, 0);
            passed_over(&mut patience, 1, 3, millis);
            assert_eq!(longer(&patience, 1) == 8, !is_known, "{times} times, {millis} ms");
        }
    }
}

/// Or it would have the common grace for ever, as long as it is passed over now and then.
#[test]
fn one_that_did_not_come_even_then_is_given_another_chance_after_a_minute() {
    let mut patience = Patience::default();
    passed_over(&mut patience, 1, 6, 0);
    passed_over(&mut patience, 1, 1, 30_000);
    passed_over(&mut patience, 1, 3, 60_000);
    assert_eq!(longer(&patience, 1), 8);
}

#[test]
fn no_more_than_32_are_known_and_the_one_that_was_not_met_for_the_longest_is_forgotten() {
    let mut patience = Patience::default();
    for number in 0..32 {
        passed_over(&mut patience, number, 3, u64::from(number) + 1);
    }
    passed_over(&mut patience, 0, 1, 40);
    assert_eq!((longer(&patience, 0), longer(&patience, 1)), (64, 8));
    passed_over(&mut patience, 32, 3, 41);
    assert_eq!((longer(&patience, 0), longer(&patience, 1)), (64, 1));
    assert!((2..=32).all(|number| longer(&patience, number) == 8));
}
