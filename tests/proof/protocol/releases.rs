//! Releases that one node has not confirmed: U1 to U4, each by name, and random schedules beside a plain list.
//!
//! Goal: no schedule of answers, silences and arrivals forgets a release, sends it too early, or floods a node that answers
//! nothing. Method: each step is made on the machine and on a list that does the obvious.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use quorlock_core::{Kept, Unconfirmed, UnconfirmedRelease, longest_release};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::at;

const TTL: Duration = Duration::from_secs(10);
const TAKEN_FOR: Duration = Duration::from_secs(1);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);
const PAUSE: Duration = Unconfirmed::<u32>::PAUSE;

fn release(now: u64, may_land_late: bool) -> UnconfirmedRelease {
    UnconfirmedRelease::new(at(now), TTL, TAKEN_FOR, may_land_late)
}

fn names(kept: &[Kept<u32>]) -> Vec<u32> {
    kept.iter().map(|(_, name)| *name).collect()
}

/// So many that are due at the beginning.
fn with(count: u32) -> Unconfirmed<u32> {
    let mut releases = Unconfirmed::default();
    for name in 0..count {
        assert_eq!(releases.push(release(0, false), name, at(0)), None);
    }
    releases
}

#[test]
fn u1_each_is_handed_out_again_until_it_is_confirmed_or_over() {
    let mut releases = with(1);
    for _ in 0..5 {
        let batch = releases.take(at(1));
        assert_eq!(names(&batch.due), [0]);
        assert!(releases.is_empty() && releases.take(at(1)).due.is_empty(), "it is under way");
        releases.handle_sent(batch.due, 1);
        assert!(releases.len() == 1 && !releases.is_empty());
    }
    let (over, _) =
        (0..).map(|s| (s, at(s * 1_000))).find(|(_, now)| release(0, false).is_over(*now)).unwrap();
    assert_eq!(names(&releases.take(at((over - 1) * 1_000)).due), [0]);
    let mut releases = with(2);
    let batch = releases.take(at(over * 1_000));
    assert_eq!((batch.due.len(), batch.given_up), (0, vec![0, 1]));
    assert_eq!(releases.poll_timeout(), None);
}

#[test]
fn u2_none_is_handed_out_before_it_is_due() {
    let mut releases = Unconfirmed::default();
    let again = release(0, true).handle_answer(false, at(0), at(0), NODE_TIMEOUT).unwrap();
    releases.put((again, 1));
    releases.put((again, 2));
    assert_eq!(releases.poll_timeout(), Some(at(50)));
    assert!(releases.take(at(49)).due.is_empty());
    assert_eq!(names(&releases.take(at(50)).due), [1], "one at a time so far");
    assert_eq!(names(&releases.take(at(50)).due), [2]);
    // A new one may be for later too.
    assert_eq!(releases.push(again, 3, at(49)), None);
    assert!(releases.take(at(49)).due.is_empty());
    assert_eq!(names(&releases.take(at(50)).due), [3]);
}

#[test]
fn u3_a_node_that_answers_nothing_gets_one_at_a_time_with_pauses_that_double() {
    let mut releases = with(100);
    for pause in [20, 40, 80, 160, 320, 500, 500] {
        let batch = releases.take(at(0));
        assert_eq!(batch.due.len(), 1);
        let pause = Some(Duration::from_millis(pause));
        assert_eq!(releases.handle_sent(batch.due, 1), pause);
    }
    // It answers: those that failed are behind the others.
    let batch = releases.take(at(0));
    assert_eq!(names(&batch.due), [7]);
    assert_eq!(releases.handle_sent(Vec::new(), 1), None);
    let mut batch = releases.take(at(0));
    assert_eq!(names(&batch.due), (8..40).collect::<Vec<_>>());
    // One of many is enough to go on at once.
    batch.due.truncate(31);
    assert_eq!(releases.handle_sent(batch.due, 32), None);
    let batch = releases.take(at(0));
    assert_eq!(batch.due.len(), 32);
    assert_eq!(releases.handle_sent(batch.due, 32), Some(PAUSE), "the pauses begin anew");
    assert_eq!(releases.take(at(0)).due.len(), 1);
}

#[test]
fn behind_the_last_one_it_begins_anew() {
    let mut releases = with(1);
    let batch = releases.take(at(0));
    releases.handle_sent(batch.due, 1);
    releases.take(at(0));
    releases.handle_sent(Vec::new(), 1);
    assert_eq!(releases.poll_timeout(), None);
    for name in 0..2 {
        releases.push(release(0, false), name, at(0));
    }
    let batch = releases.take(at(0));
    assert_eq!(batch.due.len(), 1);
    assert_eq!(releases.handle_sent(batch.due, 1), Some(PAUSE));
}

#[test]
fn u4_the_oldest_of_those_that_wait_makes_room() {
    let most = u32::try_from(Unconfirmed::<u32>::MOST).unwrap();
    let mut releases = with(most);
    assert_eq!(releases.push(release(0, false), most, at(0)), Some(0));
    assert_eq!(releases.len(), Unconfirmed::<u32>::MOST);
    let again = release(0, true).handle_answer(false, at(0), at(0), NODE_TIMEOUT).unwrap();
    let mut releases = Unconfirmed::default();
    (0..most).for_each(|name| releases.put((again, name)));
    assert_eq!(releases.push(release(0, false), most, at(0)), Some(0), "of those for later");
}

/// Several commands may have set it.
#[test]
fn one_that_has_deleted_the_key_is_the_last_word_unless_several_may_have_set_it() {
    use quorlock_core::{NodeId, ReleaseOrder};
    for several in [false, true] {
        let order = ReleaseOrder { node: NodeId::new(0), may_land_late: true, several };
        let release = UnconfirmedRelease::ordered(at(0), TTL, TAKEN_FOR, Some(&order));
        let deleted = release.handle_answer(true, at(0), at(0), NODE_TIMEOUT);
        assert_eq!(deleted.is_some(), several);
        assert!(release.handle_answer(false, at(0), at(0), NODE_TIMEOUT).is_some());
    }
    let release = UnconfirmedRelease::ordered(at(0), TTL, TAKEN_FOR, None);
    assert_eq!(release.handle_answer(false, at(0), at(0), NODE_TIMEOUT), None);
}

#[test]
fn a_release_may_take_ten_node_timeouts_and_a_second_unless_one_of_them_is_longer() {
    let longest = |ms| longest_release(Duration::from_millis(ms)).as_millis();
    assert_eq!([50, 100, 101, 3_000].map(longest), [500, 1_000, 1_000, 3_000]);
}

#[test]
fn random_schedules_forget_none_and_send_none_too_early() {
    let (mut confirmed, mut over, mut again) = (0, 0, 0);
    for seed in 0..500 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut releases = Unconfirmed::default();
        // From when on each may be sent, and until when; and those under way.
        let mut plain: BTreeMap<u32, UnconfirmedRelease> = BTreeMap::new();
        let mut now = 0;
        for name in 0..300 {
            now += random.random_range(0..200);
            if random.random_bool(0.3) {
                let release = release(now, random.random_bool(0.5));
                plain.insert(name, release);
                assert_eq!(releases.push(release, name, at(now)), None);
            }
            if random.random_bool(0.02) {
                now += 400_000;
            }
            let batch = releases.take(at(now));
            for name in batch.given_up {
                let release = plain.remove(&name).expect("it is kept");
                assert!(release.is_over(at(now)), "seed {seed}: {name} is given up too early");
                over += 1;
            }
            let due = |release: &UnconfirmedRelease| release.from() <= at(now);
            let mut seen = BTreeSet::new();
            for (release, name) in &batch.due {
                assert!(seen.insert(*name), "seed {seed}: {name} is sent twice");
                assert_eq!(plain.get(name), Some(release), "seed {seed}: {name}");
                assert!(due(release) && !release.is_over(at(now)), "seed {seed}: {name}");
            }
            if batch.due.is_empty() {
                assert!(!plain.values().any(due), "seed {seed}: one is due and is not sent");
            }
            let sent = batch.due.len();
            let is_away = random.random_bool(0.3);
            let mut open = Vec::new();
            for (release, name) in batch.due {
                if is_away || random.random_bool(0.2) {
                    open.push((release, name));
                    continue;
                }
                let has_deleted = random.random_bool(0.5);
                match release.handle_answer(has_deleted, at(now), at(now), NODE_TIMEOUT) {
                    None => {
                        plain.remove(&name);
                        confirmed += 1;
                    }
                    Some(release) => {
                        plain.insert(name, release);
                        releases.put((release, name));
                        again += 1;
                    }
                }
            }
            if sent > 0 {
                let is_stuck = open.len() == sent;
                assert_eq!(releases.handle_sent(open, sent).is_some(), is_stuck, "seed {seed}");
            }
            assert_eq!(releases.len(), plain.len(), "seed {seed}");
            let next = plain.values().map(UnconfirmedRelease::from).min();
            let told = releases.poll_timeout();
            // Those that are due are told of by the first of them.
            let fits = told == next || told.max(next) <= Some(at(now));
            assert!(fits && told.is_some() == next.is_some(), "seed {seed}: {told:?}, {next:?}");
        }
    }
    assert!(confirmed > 10_000 && over > 300 && again > 3_000, "{confirmed} {over} {again}");
}
