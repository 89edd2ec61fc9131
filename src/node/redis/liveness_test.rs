//! When a connection is given up, and what room there is on it, with a clock that is set by hand.

use super::*;
use crate::runtime::Task;

const MS: Duration = Duration::from_millis(1);

/// A clock to set, and nothing else.
#[derive(Debug, Default)]
struct Hands(Lock<Duration>);

impl Runtime for Hands {
    fn now(&self) -> Timestamp {
        Timestamp::from_origin(*self.0.lock())
    }

    fn wall_us(&self) -> u64 {
        0
    }

    fn sleep_until(&self, _at: Timestamp) -> Task {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _task: Task) {}

    fn random(&self) -> [u8; 16] {
        [0; 16]
    }
}

fn liveness() -> (Arc<Hands>, Arc<Liveness>) {
    let hands = Arc::new(Hands::default());
    let runtime: Arc<dyn Runtime> = hands.clone();
    (hands, Arc::new(Liveness::new(Arc::default(), runtime, 100 * MS)))
}

fn at(hands: &Hands, ms: u32) {
    *hands.0.lock() = ms * MS;
}

#[test]
fn what_is_late_together_counts_once_and_silence_ends_the_connection() {
    let (hands, liveness) = liveness();
    at(&hands, 100);
    (0..1000).for_each(|_| liveness.timed_out());
    at(&hands, 1099);
    liveness.timed_out();
    assert!(!liveness.down.is_down());
    at(&hands, 1100);
    liveness.timed_out();
    assert!(liveness.down.is_down());
}

#[test]
fn a_reply_begins_the_count_anew_whoever_waits_for_it() {
    let (hands, liveness) = liveness();
    for round in 0..100 {
        at(&hands, 100 + 990 * round);
        (0..10).for_each(|_| liveness.timed_out());
        at(&hands, 100 + 990 * round + 980);
        liveness.timed_out();
        Liveness::begin(&liveness, Room::Others).unwrap().answered();
    }
    assert!(!liveness.down.is_down());
}

#[test]
fn the_room_of_acquires_is_not_that_of_others_and_is_given_back() {
    let (_, liveness) = liveness();
    let acquires: Vec<_> =
        (0..MOST_ACQUIRES).map(|_| Liveness::begin(&liveness, Room::Acquires).unwrap()).collect();
    assert!(matches!(Liveness::begin(&liveness, Room::Acquires), Err(NodeError::Overloaded)));
    drop(Liveness::begin(&liveness, Room::Others).unwrap());
    drop(acquires);
    let again = (0..MOST_ACQUIRES).map(|_| Liveness::begin(&liveness, Room::Acquires).unwrap());
    drop(again.collect::<Vec<_>>());
}

/// Held leases need no more than that, and must not use up what acquires need.
#[test]
fn the_room_of_others_is_limited_too_and_is_not_that_of_acquires() {
    let (_, liveness) = liveness();
    let others: Vec<_> =
        (0..MOST_OTHERS).map(|_| Liveness::begin(&liveness, Room::Others).unwrap()).collect();
    assert!(matches!(Liveness::begin(&liveness, Room::Others), Err(NodeError::Overloaded)));
    let acquires: Vec<_> =
        (0..MOST_ACQUIRES).map(|_| Liveness::begin(&liveness, Room::Acquires).unwrap()).collect();
    assert!(others.len() + acquires.len() <= MOST_UNANSWERED, "room in the queue itself");
    drop(others);
    assert!(matches!(Liveness::begin(&liveness, Room::Acquires), Err(NodeError::Overloaded)));
    drop(Liveness::begin(&liveness, Room::Others).unwrap());
}

#[test]
fn a_silent_connection_ends_also_when_nothing_more_can_be_sent_on_it() {
    let (hands, liveness) = liveness();
    let _full: Vec<_> =
        (0..MOST_ACQUIRES).map(|_| Liveness::begin(&liveness, Room::Acquires).unwrap()).collect();
    (0..MOST_ACQUIRES).for_each(|_| liveness.timed_out());
    at(&hands, 999);
    assert!(Liveness::begin(&liveness, Room::Acquires).is_err());
    assert!(!liveness.down.is_down());
    at(&hands, 1000);
    assert!(Liveness::begin(&liveness, Room::Acquires).is_err());
    assert!(liveness.down.is_down());
}
