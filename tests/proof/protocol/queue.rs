//! Who waits for a resource in one process: L1 to L7, each by name, and random schedules beside a plain list.
//!
//! Goal: no schedule of arrivals, departures, rounds and hand-overs lets anybody overtake, wedges the line, or leaves
//! something behind. Method: each step is made on the queue and on a list that does the obvious; after each of them the
//! invariants are looked at from outside.

use quorlock_core::{Place, Queue, Station};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

/// A queue with one asker, and its place.
fn asked() -> (Queue<u32>, Place) {
    let mut queue = Queue::default();
    let place = queue.ask().unwrap();
    (queue, place)
}

#[test]
fn l1_who_came_first_is_let_in_first_to_ask_and_by_a_hand_over() {
    let (mut queue, first) = asked();
    let places: Vec<Place> = (0..4).map(|number| queue.stand(number)).collect();
    assert!(places.is_sorted());
    assert!(queue.ask().is_none(), "nobody overtakes");
    assert!(queue.handle_won(first));
    assert_eq!(queue.first(first), Some(&0));
    assert_eq!(queue.hand_on(first), Some((places[0], 0)));
    assert_eq!(queue.leave(places[1]), Some(1));
    assert_eq!(queue.hand_on(first), Some((places[2], 2)));
    assert!(queue.handle_over(first));
    assert!(queue.ask().is_none(), "there is one who came before");
    assert_eq!(queue.next_to_ask(), Some((places[3], 3)));
}

#[test]
fn l2_one_asks_at_a_time_and_nobody_while_it_is_held() {
    let (mut queue, first) = asked();
    assert!(queue.ask().is_none());
    queue.stand(1);
    assert!(queue.next_to_ask().is_none(), "one asks");
    queue.handle_won(first);
    assert!(queue.ask().is_none() && queue.next_to_ask().is_none(), "it is held");
    queue.handle_over(first);
    assert!(queue.next_to_ask().is_some());
    assert!(queue.next_to_ask().is_none() && queue.ask().is_none());
}

#[test]
fn l3_whoever_has_left_is_let_in_by_nothing_and_told_of_nothing() {
    let (mut queue, first) = asked();
    let (stands, shares, stays) = (queue.stand(1), queue.share(2), queue.stand(3));
    assert_eq!((queue.leave(stands), queue.leave(shares)), (Some(1), Some(2)));
    assert_eq!((queue.leave(stands), queue.leave(shares)), (None, None));
    assert!(!queue.share_instead(stands) && queue.get_mut(stands).is_none());
    assert!(queue.take_sharing().is_empty());
    assert_eq!((queue.ahead(stays), queue.ahead(stands), queue.len()), (Some(0), None, 1));
    queue.handle_over(first);
    assert_eq!(queue.next_to_ask(), Some((stays, 3)));
    assert!(queue.is_empty());
}

#[test]
fn l4_where_anybody_waits_somebody_asks_or_holds_or_may() {
    let (mut queue, first) = asked();
    let second = queue.stand(2);
    let third = queue.share(3);
    queue.handle_over(first);
    assert_eq!(queue.next_to_ask(), Some((second, 2)));
    queue.handle_over(second);
    assert_eq!(queue.next_to_ask(), Some((third, 3)), "nobody else is left to ask");
    queue.handle_over(third);
    assert_eq!((queue.next_to_ask(), queue.station()), (None, Station::Free));
    assert!(queue.ask().is_some());
}

#[test]
fn l5_a_request_for_one_round_is_handed_nothing_and_overtakes_nobody() {
    let (mut queue, first) = asked();
    let shares = queue.share(1);
    let stands = queue.stand(2);
    assert!(shares < stands);
    queue.handle_won(first);
    assert_eq!(queue.hand_on(first), Some((stands, 2)));
    assert_eq!(queue.hand_on(first), None);
    assert_eq!(queue.take_sharing(), [1]);
    // A request whose time is up in line shares from then on.
    let late = queue.stand(3);
    assert!(queue.share_instead(late) && queue.is_empty());
    assert_eq!((queue.hand_on(first), queue.take_sharing()), (None, vec![3]));
    queue.share(4);
    queue.stand(5);
    queue.handle_over(first);
    assert_eq!(queue.next_to_ask().map(|(_, who)| who), Some(5));
}

#[test]
fn l6_what_is_said_of_another_place_changes_nothing() {
    let (mut queue, first) = asked();
    let second = queue.stand(2);
    assert!(!queue.handle_won(second) && !queue.handle_over(second));
    assert_eq!((queue.station(), queue.hand_on(first)), (Station::Asked(first), None));
    queue.handle_over(first);
    assert_eq!(queue.next_to_ask(), Some((second, 2)));
    queue.stand(3);
    // The one before comes to its end late.
    assert!(!queue.handle_won(first) && !queue.handle_over(first));
    assert!(queue.handle_won(second));
    assert!(!queue.handle_over(first));
    assert_eq!(queue.first(first), None);
    assert_eq!(queue.hand_on(first), None);
    assert_eq!(queue.station(), Station::Held(second));
}

#[test]
fn l7_who_stands_back_is_behind_all_others_and_leaves_from_there() {
    let (mut queue, first) = asked();
    assert_eq!(queue.stand_back(first, 7), Err(7), "nobody else is there");
    let second = queue.stand(1);
    let moved = queue.stand_back(first, 7).unwrap();
    assert!(moved > second);
    assert_eq!(queue.stand_back(first, 8), Err(8), "it does not ask any more");
    assert_eq!((queue.ahead(first), queue.now_at(first)), (Some(1), moved));
    // Once more, when it is let in, and the one before it stands back too.
    assert_eq!(queue.next_to_ask(), Some((second, 1)));
    let behind = queue.stand_back(second, 1).unwrap();
    assert_eq!(queue.next_to_ask(), Some((moved, 7)));
    let again = queue.stand_back(moved, 7).unwrap();
    assert!(again > behind && queue.now_at(first) == again);
    assert_eq!(queue.leave(first), Some(7));
    assert_eq!((queue.leave(first), queue.leave(again)), (None, None));
    // What is over is forgotten, with all its places.
    assert_eq!(queue.next_to_ask(), Some((behind, 1)));
    assert!(queue.handle_over(behind));
    assert_eq!(queue.now_at(second), second);
    assert!(queue.is_idle());
}

#[test]
fn l7_each_of_those_who_stand_back_leaves_under_the_place_that_it_came_with() {
    let (mut queue, first) = asked();
    let second = queue.stand(2);
    queue.stand_back(first, 1).unwrap();
    assert_eq!(queue.next_to_ask(), Some((second, 2)));
    queue.stand_back(second, 2).unwrap();
    assert_eq!(queue.take_out(|who| *who > 2), [], "somebody else");
    assert_eq!((queue.ahead(first), queue.ahead(second)), (Some(0), Some(1)));
    assert_eq!(queue.get_mut(first), Some(&mut 1));
    assert_eq!(queue.leave(first), Some(1));
    assert_eq!(queue.get_mut(first), None);
    assert_eq!(queue.get_mut(second), Some(&mut 2));
    assert_eq!(queue.take_out(|who| *who == 2), [2]);
    assert_eq!((queue.leave(second), queue.now_at(second)), (None, second));
}

#[test]
fn l5_where_nobody_else_stands_there_the_first_who_shares_asks_in_place_of_one_who_stands_back() {
    let (mut queue, first) = asked();
    let shares = queue.share(2);
    let behind = queue.share(3);
    let moved = queue.stand_back(first, 1).unwrap();
    assert_eq!(queue.next_to_ask(), Some((shares, 2)));
    assert!(queue.handle_over(shares));
    assert_eq!(
        queue.next_to_ask(),
        Some((moved, 1)),
        "before the other one, who shares what it finds"
    );
    assert!(queue.handle_over(moved));
    assert_eq!(queue.next_to_ask(), Some((behind, 3)));
}

#[test]
fn it_is_idle_where_nobody_asks_holds_stands_or_shares() {
    let mut queue = Queue::default();
    assert!(queue.is_idle() && queue.is_empty());
    let waits = queue.stand(1);
    assert!(!queue.is_idle() && !queue.is_empty());
    assert_eq!(queue.get_mut(waits), Some(&mut 1));
    queue.leave(waits);
    let shares = queue.share(2);
    assert!(!queue.is_idle() && queue.is_empty());
    assert_eq!(queue.get_mut(shares), Some(&mut 2));
    queue.leave(shares);
    let (mut queue, first) = asked();
    assert!(!queue.is_idle());
    queue.handle_won(first);
    assert!(!queue.is_idle() && queue.is_empty());
    queue.handle_over(first);
    assert!(queue.is_idle());
}

#[test]
fn whoever_waits_in_vain_is_taken_out_from_wherever_it_is() {
    let (mut queue, _) = asked();
    (0..10).for_each(|number| _ = queue.stand(number));
    (10..14).for_each(|number| _ = queue.share(number));
    assert_eq!(queue.take_out(|who| *who % 2 == 0), [0, 2, 4, 6, 8, 10, 12]);
    assert_eq!(queue.take_all(), [1, 3, 5, 7, 9, 11, 13]);
    assert!(queue.is_empty() && queue.take_sharing().is_empty());
}

/// The same by a plain list.
#[derive(Default)]
struct Model {
    waiting: Vec<Place>,
    sharing: Vec<Place>,
    station: Option<(Place, bool)>,
    gone: Vec<Place>,
}

#[test]
fn random_schedules_let_nobody_overtake_and_leave_nobody_behind() {
    for seed in 0..2_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut queue, mut model) = (Queue::<u64>::default(), Model::default());
        let mut served: Vec<Place> = Vec::new();
        for step in 0..200 {
            let someone = |random: &mut StdRng, model: &Model| {
                let all: Vec<Place> = model
                    .waiting
                    .iter()
                    .chain(&model.sharing)
                    .chain(&model.gone)
                    .copied()
                    .collect();
                all.choose(random).copied()
            };
            match random.random_range(0..11) {
                0 | 1 => match queue.ask() {
                    Some(place) => {
                        assert!(
                            model.station.is_none() && model.waiting.is_empty(),
                            "{seed} {step}"
                        );
                        model.station = Some((place, false));
                    }
                    None => model.waiting.push(queue.stand(step)),
                },
                2 => match queue.ask() {
                    Some(place) => model.station = Some((place, false)),
                    None => model.sharing.push(queue.share(step)),
                },
                3 | 4 => {
                    if let Some(place) = someone(&mut random, &model) {
                        let was_there =
                            model.waiting.contains(&place) || model.sharing.contains(&place);
                        assert_eq!(queue.leave(place).is_some(), was_there, "{seed} {step}");
                        model.waiting.retain(|other| *other != place);
                        model.sharing.retain(|other| *other != place);
                        model.gone.push(place);
                    }
                }
                5 => {
                    if let Some((place, false)) = model.station {
                        assert!(queue.handle_won(place));
                        model.station = Some((place, true));
                        let shared = queue.take_sharing().len();
                        assert_eq!(shared, std::mem::take(&mut model.sharing).len());
                    }
                }
                6 => {
                    if let Some((held, true)) = model.station {
                        let next = queue.hand_on(held).map(|(place, _)| place);
                        let expected = (!model.waiting.is_empty()).then(|| model.waiting.remove(0));
                        assert_eq!(next, expected, "{seed} {step}");
                        served.extend(next);
                    }
                }
                7 => {
                    if let Some((place, _)) = model.station.take() {
                        assert!(queue.handle_over(place));
                        model.gone.push(place);
                    }
                }
                10 => {
                    if let Some((place, false)) = model.station {
                        let stands = queue.stand_back(place, step).ok();
                        let others = !(model.waiting.is_empty() && model.sharing.is_empty());
                        assert_eq!(stands.is_some(), others, "{seed} {step}");
                        if stands.is_some() && model.waiting.is_empty() {
                            model.waiting.push(model.sharing.remove(0));
                        }
                        if let Some(stands) = stands {
                            model.station = None;
                            if random.random_bool(0.5) {
                                assert!(queue.leave(stands).is_some());
                                model.gone.extend([place, stands]);
                            } else {
                                model.waiting.push(stands);
                            }
                        }
                    }
                }
                8 => {
                    // Something late, of a request that has gone.
                    if let Some(place) = model.gone.choose(&mut random).copied() {
                        assert!(!queue.handle_over(place) && !queue.handle_won(place));
                    }
                }
                _ => {
                    if let Some(place) = model.waiting.choose(&mut random).copied() {
                        let ahead = model.waiting.iter().position(|other| *other == place);
                        assert_eq!(queue.ahead(place), ahead);
                        if random.random_bool(0.2) {
                            assert!(queue.share_instead(place));
                            model.waiting.retain(|other| *other != place);
                            model.sharing.push(place);
                            model.sharing.sort();
                        }
                    }
                }
            }
            // L4: the line goes on by itself.
            if let Some((place, _)) = queue.next_to_ask() {
                assert!(model.station.is_none(), "{seed} {step}");
                let from =
                    if model.waiting.is_empty() { &mut model.sharing } else { &mut model.waiting };
                assert_eq!(place, from.remove(0), "{seed} {step}");
                served.push(place);
                model.station = Some((place, false));
            }
            assert_eq!(queue.len(), model.waiting.len());
            let anybody = !model.waiting.is_empty() || !model.sharing.is_empty();
            assert!(!anybody || queue.station() != Station::Free, "{seed} {step}: wedged");
        }
        let mut unique = served.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), served.len(), "{seed}: somebody was let in twice");
    }
}

/// A request for a permit beside the line has reserved a place, so that its order is that of its arrival.
#[test]
fn l1_who_asked_beside_the_line_stands_where_it_came_and_asks_for_all_where_nobody_stands() {
    let mut queue = Queue::default();
    let [first, second, third] = [(); 3].map(|()| queue.reserve());
    assert!(queue.is_idle(), "several may ask beside each other");
    assert!(queue.ask_at(second));
    assert!(!queue.ask_at(third), "one asks for all");
    queue.stand_at(third, 3);
    queue.stand(4);
    queue.stand_at(first, 1);
    assert!(queue.next_to_ask().is_none() && queue.handle_over(second));
    assert_eq!(queue.next_to_ask(), Some((first, 1)));
    assert!(queue.handle_over(first) && !queue.ask_at(second), "somebody stands there");
    assert_eq!(queue.leave(second), None, "it has not come to stand there");
    assert_eq!(queue.leave(third), Some(3));
    assert_eq!(queue.next_to_ask().map(|(_, request)| request), Some(4));
}

/// A newcomer to a resource that is free, asked for or held here, by everything that may be known of it: the whole
/// table.
#[test]
fn whoever_comes_asks_waits_or_is_told_by_what_is_known_here() {
    use quorlock_core::{Comer, Joined, Known};
    let states = |number: u32| {
        let (mut queue, first) = asked();
        match number {
            0 => {
                queue.handle_over(first);
            }
            1 => {}
            2 => {
                queue.handle_won(first);
            }
            // Somebody stands in line, too.
            3 => {
                queue.stand(7);
            }
            4 => {
                queue.stand(7);
                queue.handle_won(first);
            }
            // It is over, and the next one has not been let in.
            _ => {
                queue.stand(7);
                queue.handle_over(first);
            }
        }
        queue
    };
    let mut seen = std::collections::BTreeMap::new();
    for bits in 0..128_u32 {
        let bit = |number: u32| bits >> number & 1 == 1;
        let comer = Comer { asks_once: bit(0), is_any: bit(1), adopts: false };
        let known = Known {
            closed: bit(2),
            kept: bit(3),
            held: bit(4),
            in_round: bit(5),
            found_held: bit(6),
        };
        for state in 0..6 {
            let mut queue = states(state);
            let before = (queue.station(), queue.len());
            let joined = queue.join(comer, known);
            let is_free = state == 0;
            let has_line = state > 2;
            let expected = if known.closed {
                "closed"
            } else if is_free && comer.is_any {
                "beside"
            } else if is_free {
                "asks"
            } else if known.kept && !has_line {
                "takes"
            } else if !comer.asks_once {
                "stands"
            } else if known.held {
                "held"
            } else if known.found_held && !known.in_round {
                "told"
            } else {
                "shares"
            };
            let is = match joined {
                Joined::Closed => "closed",
                Joined::Asks(place) => {
                    assert_eq!(queue.station(), Station::Asked(place));
                    "asks"
                }
                Joined::Beside(_) => "beside",
                Joined::Takes => "takes",
                Joined::Held => "held",
                Joined::Told => "told",
                Joined::Shares => "shares",
                Joined::Stands => "stands",
            };
            assert_eq!(is, expected, "{comer:?}, {known:?}, state {state}");
            if is != "asks" {
                assert_eq!((queue.station(), queue.len()), before, "it stands nowhere by itself");
            }
            *seen.entry(is).or_insert(0) += 1;
        }
    }
    assert_eq!(seen.len(), 8, "{seen:?}");
}
