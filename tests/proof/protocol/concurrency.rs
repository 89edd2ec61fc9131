//! How many rounds are under way at once, and who waits for that: C1 to C5, each by name, and random schedules beside a plain
//! list.
//!
//! Goal: no schedule of rounds, deadlines and departures lets anybody overtake, forgets one who waits, or loses count. Method:
//! each step is made on the machine and on a list that does the obvious; after each of them they are compared.

use std::collections::BTreeMap;

use quorlock_core::{Concurrency, Load, Quorum, Timestamp, Turn, TurnedAway};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::at;

const NODE_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(50);

fn rounds() -> Concurrency<u32> {
    Concurrency::new(Quorum::of(3), NODE_TIMEOUT)
}

/// As many as it lets in at once.
fn fill(rounds: &mut Concurrency<u32>, now: Timestamp) -> Vec<Turn> {
    std::iter::from_fn(|| rounds.begin(now)).collect()
}

#[test]
fn c1_no_more_are_let_in_than_the_limit_allows() {
    let mut rounds = rounds();
    let mut turns = fill(&mut rounds, at(0));
    assert_eq!((turns.len(), rounds.under_way()), (64, 64));
    rounds.wait(1, None).unwrap();
    assert!(rounds.next(at(0)).is_none());
    // It halves: nobody is let in before there is room again.
    rounds.give_back(&mut turns[0], Some(Load::Overrun), at(50));
    assert_eq!((rounds.limit(), rounds.under_way()), (32, 63));
    assert!(rounds.next(at(50)).is_none());
    for turn in &mut turns[1..32] {
        rounds.give_back(turn, None, at(50));
    }
    assert!(rounds.next(at(50)).is_none(), "32 are under way");
    assert!(rounds.give_back(&mut turns[32], None, at(50)), "one waits");
    assert!(matches!(rounds.next(at(50)), Some((1, Ok(_)))));
    assert!(rounds.next(at(50)).is_none());
}

#[test]
fn c2_who_waits_is_let_in_first_come_first_served_and_before_who_comes() {
    let mut rounds = rounds();
    let mut turns = fill(&mut rounds, at(0));
    let places: Vec<u64> = (0..3).map(|number| rounds.wait(number, None).unwrap()).collect();
    assert!(places.is_sorted());
    rounds.give_back(&mut turns[0], None, at(1));
    assert!(rounds.begin(at(1)).is_none(), "nobody overtakes, though there is room");
    assert_eq!(rounds.leave(places[0]), Some(0));
    let (first, turn) = rounds.next(at(1)).unwrap();
    assert_eq!((first, turn.unwrap().waited()), (1, true));
    assert!(!turns[1].waited());
}

#[test]
fn c3_who_waits_is_answered_once_and_not_late_before_its_deadline() {
    let mut rounds = rounds();
    let mut turns = fill(&mut rounds, at(0));
    rounds.wait(0, Some(at(20))).unwrap();
    rounds.wait(1, Some(at(10))).unwrap();
    let gone = rounds.wait(2, Some(at(5))).unwrap();
    assert_eq!(rounds.poll_timeout(), Some(at(5)));
    assert_eq!((rounds.leave(gone), rounds.leave(gone)), (Some(2), None));
    assert_eq!(rounds.poll_timeout(), Some(at(10)));
    assert_eq!(rounds.turn_away(at(9)), None);
    assert_eq!(rounds.turn_away(at(10)), Some(1), "it does not stand first");
    assert_eq!(rounds.turn_away(at(10)), None);
    // There is room at the very deadline.
    rounds.give_back(&mut turns[0], None, at(20));
    assert!(matches!(rounds.next(at(20)), Some((0, Err(TurnedAway::Late)))));
    assert_eq!((rounds.waiting(), rounds.under_way(), rounds.poll_timeout()), (0, 63, None));
}

#[test]
fn c4_a_turn_counts_until_a_quorum_has_answered_and_once() {
    let mut rounds = rounds();
    let mut turn = rounds.begin(at(0)).unwrap();
    turn.handle_begun(at(0));
    assert!(!turn.is_over());
    assert_eq!(turn.handle_answer(false), None, "a failure is no answer");
    assert_eq!(turn.handle_answer(true), None);
    assert_eq!(turn.handle_timeout(0), None, "no quorum could have answered");
    assert_eq!(turn.handle_timeout(1), Some(Load::Overrun));
    assert_eq!(turn.handle_answer(true), Some(Load::Answered));
    rounds.give_back(&mut turn, Some(Load::Answered), at(7));
    assert!(turn.is_over());
    assert_eq!((turn.handle_answer(true), turn.handle_timeout(3)), (None, None));
    rounds.give_back(&mut turn, Some(Load::Overrun), at(9));
    let traffic = rounds.traffic();
    assert_eq!((rounds.under_way(), rounds.limit(), traffic.answered), (0, 64, at(7)));
}

#[test]
fn c5_once_it_is_closed_nobody_is_let_in_and_nobody_waits() {
    let mut rounds = rounds();
    let mut turns = fill(&mut rounds, at(0));
    let place = rounds.wait(1, Some(at(10))).unwrap();
    rounds.wait(2, None).unwrap();
    assert_eq!(rounds.close().collect::<Vec<_>>(), [1, 2]);
    assert_eq!((rounds.waiting(), rounds.poll_timeout(), rounds.leave(place)), (0, None, None));
    assert_eq!(rounds.wait(3, None), Err(3));
    assert!(!rounds.give_back(&mut turns[0], None, at(1)));
    assert!(rounds.begin(at(1)).is_none() && rounds.next(at(1)).is_none());
}

/// Only where many are under way, or somebody waits, may a late answer be the doing of this process.
#[test]
fn a_crowd_is_noted_when_it_begins_and_while_anybody_waits() {
    let mut rounds = rounds();
    let mut turns: Vec<Turn> = (0..31).filter_map(|n| rounds.begin(at(n))).collect();
    assert_eq!(rounds.traffic().crowded, Timestamp::ORIGIN);
    turns.extend(rounds.begin(at(40)));
    assert_eq!(rounds.traffic().crowded, at(40));
    turns.extend(fill(&mut rounds, at(30)));
    assert_eq!(rounds.traffic().crowded, at(40), "it does not go back");
    rounds.wait(0, None).unwrap();
    rounds.give_back(&mut turns[0], None, at(60));
    assert!(rounds.next(at(70)).is_some());
    assert_eq!(rounds.traffic().crowded, at(70));
}

/// What does the obvious.
#[derive(Default)]
struct Plain {
    waiting: BTreeMap<u64, (u32, Option<Timestamp>)>,
    closed: bool,
}

#[test]
fn random_schedules_are_those_of_a_plain_list() {
    let (mut let_in, mut late, mut left) = (0, 0, 0);
    for seed in 0..2_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut rounds, mut plain) = (rounds(), Plain::default());
        let mut turns: Vec<Turn> = Vec::new();
        let mut now = 0;
        for number in 0..400 {
            now += random.random_range(0..3);
            let is_full = turns.len() >= rounds.limit();
            match random.random_range(0..100) {
                // A few come at once, so that it fills.
                0..40 => {
                    let turn = rounds.begin(at(now));
                    let may = !plain.closed && plain.waiting.is_empty() && !is_full;
                    assert_eq!(turn.is_some(), may, "seed {seed}");
                    match turn {
                        Some(mut turn) => {
                            turn.handle_begun(at(now));
                            turns.push(turn);
                        }
                        None => {
                            let deadline = random.random_bool(0.5);
                            let deadline = deadline.then(|| at(now + random.random_range(0..60)));
                            let place = rounds.wait(number, deadline);
                            assert_eq!(place.is_err(), plain.closed);
                            if let Ok(place) = place {
                                let last = plain.waiting.insert(place, (number, deadline));
                                assert!(last.is_none(), "seed {seed}: the place is taken");
                                assert_eq!(plain.waiting.last_key_value().unwrap().0, &place);
                            }
                        }
                    }
                }
                40..60 => {
                    let first = plain.waiting.first_key_value().map(|(place, who)| (*place, *who));
                    let next = rounds.next(at(now));
                    let Some((place, (who, deadline))) = first.filter(|_| !is_full) else {
                        assert!(next.is_none(), "seed {seed}");
                        continue;
                    };
                    plain.waiting.remove(&place);
                    let (found, turn) = next.expect("there is room");
                    assert_eq!(found, who, "seed {seed}: another one overtakes");
                    let is_late = deadline.is_some_and(|deadline| deadline <= at(now));
                    assert_eq!(turn.is_err(), is_late, "seed {seed}");
                    let_in += u32::from(!is_late);
                    turns.extend(turn);
                }
                60..70 => {
                    let away = rounds.turn_away(at(now));
                    let due = plain.waiting.iter().filter(|(_, (_, deadline))| {
                        deadline.is_some_and(|deadline| deadline <= at(now))
                    });
                    let due = due.min_by_key(|(place, (_, deadline))| (*deadline, **place));
                    let due = due.map(|(place, (who, _))| (*place, *who));
                    assert_eq!(away, due.map(|(_, who)| who), "seed {seed}");
                    if let Some((place, _)) = due {
                        plain.waiting.remove(&place);
                        late += 1;
                    }
                }
                70..78 => {
                    let place = random.random_range(0..u64::from(number) + 1);
                    let who = plain.waiting.remove(&place).map(|(who, _)| who);
                    assert_eq!(rounds.leave(place), who, "seed {seed}");
                    left += u32::from(who.is_some());
                }
                78..99 if !turns.is_empty() => {
                    let mut turn = turns.swap_remove(random.random_range(0..turns.len()));
                    let load = [None, Some(Load::Answered), Some(Load::Overrun)];
                    let load = load[random.random_range(0..3)];
                    let waits = rounds.give_back(&mut turn, load, at(now));
                    assert_eq!(waits, !plain.waiting.is_empty(), "seed {seed}");
                    assert!(!rounds.give_back(&mut turn, load, at(now)));
                }
                99 if random.random_bool(0.05) => {
                    let all: Vec<u32> = plain.waiting.values().map(|(who, _)| *who).collect();
                    assert_eq!(rounds.close().collect::<Vec<_>>(), all, "seed {seed}");
                    plain.waiting.clear();
                    plain.closed = true;
                }
                _ => {}
            }
            assert_eq!(rounds.waiting(), plain.waiting.len(), "seed {seed}");
            assert_eq!(rounds.under_way(), turns.len(), "seed {seed}");
            let next = plain.waiting.values().filter_map(|(_, deadline)| *deadline).min();
            assert_eq!(rounds.poll_timeout(), next, "seed {seed}");
        }
    }
    assert!(let_in > 10_000 && late > 2_000 && left > 2_000, "{let_in} {late} {left}");
}
