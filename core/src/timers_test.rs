//! The queue, driven by hand: which entries are taken out when, and when the driver is woken.

use super::*;

const MS: Duration = Duration::from_millis(1);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(millis))
}

/// Each added entry has a number of its own.
#[derive(Default)]
struct Numbered {
    queue: TimerQueue<u32>,
    count: u32,
}

type Key = (Timestamp, u32);

impl Numbered {
    fn add(&mut self, millis: u64, slack: Duration) -> (Key, Wakeup) {
        self.count += 1;
        let wakeup = self.queue.schedule(None, at(millis), slack, self.count);
        ((at(millis), self.count), wakeup)
    }

    fn cancel(&mut self, (at, item): Key) {
        self.queue.cancel(at, item);
    }

    fn due(&mut self, now: u64) -> Vec<Key> {
        self.queue.take_due(at(now))
    }

    fn next_look(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.queue.next_look(now)
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}

#[test]
fn the_task_is_started_once_and_woken_only_for_what_comes_before_it_looks() {
    let mut queue = Numbered::default();
    let (first, wakeup) = queue.add(1_000, Duration::ZERO);
    assert_eq!(wakeup, Wakeup::Start);
    assert_eq!(queue.add(900, Duration::ZERO).1, Wakeup::Silent, "it has not looked yet");
    assert!(queue.due(100).is_empty());
    assert_eq!(queue.next_look(at(100)), Some(at(600)), "it never sleeps for long");
    assert_eq!(queue.add(700, Duration::ZERO).1, Wakeup::WakeFrom(at(200)), "it looks before");
    let (then, wakeup) = queue.add(600, Duration::ZERO);
    assert_eq!(wakeup, Wakeup::WakeFrom(at(100)), "that is when it looks, unless the clock jumps");
    queue.cancel(then);
    assert_eq!(queue.add(599, Duration::ZERO).1, Wakeup::Wake);
    assert_eq!(queue.add(598, Duration::ZERO).1, Wakeup::Silent, "it has been woken");
    assert!(queue.due(101).is_empty());
    assert_eq!(queue.next_look(at(101)), Some(at(598)));
    queue.cancel(first);
    assert_eq!(queue.len(), 4);
}

/// The clock may have jumped by any time since the sleep began. Its timer has not, and ends half a second after now at
/// the latest.
#[test]
fn the_task_is_woken_for_what_is_due_sooner_than_its_whole_sleep_takes() {
    let mut queue = Numbered::default();
    let _ = queue.add(10_000, Duration::ZERO);
    assert!(queue.due(100).is_empty());
    assert_eq!(queue.next_look(at(100)), Some(at(600)));
    assert_eq!(queue.add(5_000, Duration::ZERO).1, Wakeup::WakeFrom(at(4_500)));
    let (soon, wakeup) = queue.add(700, Duration::ZERO);
    assert_eq!(wakeup, Wakeup::WakeFrom(at(200)));
    // Woken for an entry that is due so soon, the task sleeps no longer than until then.
    assert!(queue.due(300).is_empty());
    assert_eq!(queue.next_look(at(300)), Some(at(700)));
    assert_eq!(queue.add(750, Duration::ZERO).1, Wakeup::WakeFrom(at(350)));
    assert_eq!(queue.due(700).first(), Some(&soon));
}

#[test]
fn a_task_with_nothing_left_is_woken_and_one_that_was_dropped_is_followed_by_another() {
    let mut queue = Numbered::default();
    assert!(queue.queue.is_empty());
    let (key, _) = queue.add(1_000, Duration::ZERO);
    assert!(!queue.queue.is_empty());
    queue.cancel(key);
    assert_eq!((queue.len(), queue.next_look(at(0))), (0, None));
    assert_eq!(queue.add(1_000, Duration::ZERO).1, Wakeup::Wake);
    queue.queue.abandon();
    assert_eq!(queue.add(2_000, Duration::ZERO).1, Wakeup::Start, "the task was dropped");
    assert_eq!(queue.len(), 2);
}

#[test]
fn a_lease_has_one_entry() {
    let mut queue = Numbered::default();
    let ((first, item), _) = queue.add(1_000, Duration::ZERO);
    let _ = queue.queue.schedule(Some(first), at(500), Duration::ZERO, item);
    assert_eq!(queue.due(5_000), [(at(500), item)]);
    queue.cancel((at(500), item));
    assert_eq!(queue.len(), 0);
}

#[test]
fn a_renewal_that_is_due_takes_others_along_and_neither_losses_nor_warnings() {
    let mut queue = Numbered::default();
    let mut renewal = |millis| queue.add(millis, 30 * MS).0;
    let (due, near, far) = (renewal(1_000), renewal(1_030), renewal(1_031));
    let (now, soon) = (queue.add(1_002, Duration::ZERO).0, queue.add(1_003, Duration::ZERO).0);
    assert!(queue.due(997).is_empty());
    assert_eq!(queue.due(1_000), [due, now, near]);
    assert_eq!(queue.due(1_001), [soon], "a loss takes nothing along");
    assert_eq!(queue.due(1_031), [far]);
}

#[test]
fn a_batch_is_filled_and_not_exceeded() {
    let mut queue = Numbered::default();
    for n in 0..300 {
        let _ = queue.add(1_000 + n, 1_000 * MS);
    }
    assert_eq!(TimerQueue::<u32>::batch(), 128);
    assert_eq!(queue.due(1_000).len(), BATCH);
    assert_eq!(queue.due(1_001).len(), 0, "the rest is not due");
    assert_eq!(queue.due(1_128).len(), BATCH);
    for n in 0..200 {
        let _ = queue.add(2_000, Duration::ZERO);
        assert_eq!(queue.len(), 44 + n + 1);
    }
    assert_eq!(queue.due(2_000).len(), 244, "what is due is not kept back");
}
