//! What the simulation rests on: processes stand still and end by themselves, who looks on changes nothing, and neither
//! does the order in which tasks are woken.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorlock::runtime::{Runtime, Task};
use quorlock_harness::SimRuntime;
use tokio::sync::Notify;

use crate::MS;

/// Counts on, one every millisecond.
fn counting(runtime: &SimRuntime, count: &Arc<AtomicUsize>) -> Task {
    let (runtime, count) = (runtime.clone(), Arc::clone(count));
    Box::pin(async move {
        loop {
            runtime.sleep(MS).await;
            count.fetch_add(1, Ordering::Relaxed);
        }
    })
}

#[test]
fn a_process_that_stands_still_takes_no_step_and_goes_on_where_it_was() {
    let world = SimRuntime::new(1);
    let (one, other) = (world.process(), world.process());
    let counts: [Arc<AtomicUsize>; 2] = Default::default();
    one.spawn(counting(&one, &counts[0]));
    other.spawn(counting(&other, &counts[1]));
    let read = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    world.pass(10 * MS + MS / 2);
    assert_eq!(read(), [10, 10]);
    one.freeze();
    world.pass(10 * MS);
    assert_eq!(read(), [10, 20]);
    one.thaw();
    world.pass(9 * MS + MS / 4);
    assert_eq!(read(), [20, 29], "the timer that was due rang once");
}

#[test]
fn a_process_that_ends_begins_nothing_while_it_is_taken_apart() {
    struct OnDrop(SimRuntime, Arc<AtomicUsize>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.spawn(counting(&self.0, &self.1));
        }
    }
    let world = SimRuntime::new(1);
    let process = world.process();
    let count = Arc::new(AtomicUsize::new(0));
    let dropped = OnDrop(process.clone(), Arc::clone(&count));
    process.spawn(counting(&process, &count));
    process.spawn(Box::pin(async move {
        std::future::pending::<()>().await;
        drop(dropped);
    }));
    world.pass(5 * MS + MS / 2);
    process.end();
    assert!(process.has_ended() && !world.has_ended());
    world.pass(5 * MS);
    assert_eq!(count.load(Ordering::Relaxed), 5);
    assert_eq!(Arc::strong_count(&count), 1, "nothing of it is left");
}

#[test]
fn a_task_can_end_its_own_process() {
    let world = SimRuntime::new(1);
    let process = world.process();
    let (own, kept) = (process.clone(), Arc::new(()));
    let held = Arc::clone(&kept);
    process.spawn(Box::pin(async move {
        own.end();
        std::future::pending::<()>().await;
        drop(held);
    }));
    world.pass(MS);
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// A run in which many tasks are woken at once, in this order, with so many who look on.
fn digest(order: impl Fn(&mut Vec<Arc<Notify>>), lookers: usize) -> (Vec<String>, u64) {
    let world = SimRuntime::new(7);
    let all: Vec<Arc<Notify>> = (0..20).map(|_| Arc::default()).collect();
    let looked = Arc::new(Mutex::new(0));
    for bell in all.iter().take(lookers) {
        let (quiet, looked, bell) = (world.quiet(), Arc::clone(&looked), Arc::clone(bell));
        let clock = world.clone();
        quiet.spawn(Box::pin(async move {
            loop {
                tokio::select! {
                    biased;
                    () = bell.notified() => {}
                    () = clock.sleep(Duration::from_micros(333)) => {}
                }
                *looked.lock().unwrap() += 1;
            }
        }));
    }
    for (number, bell) in all.iter().enumerate() {
        let (bell, runtime) = (Arc::clone(bell), world.clone());
        world.spawn(Box::pin(async move {
            for _ in 0..5 {
                bell.notified().await;
                let pause = Duration::from_micros(runtime.below(1_000));
                runtime.sleep(pause).await;
                runtime.note(format_args!("{number} after {pause:?}"));
            }
        }));
    }
    for _ in 0..10 {
        let mut bells = all.clone();
        order(&mut bells);
        bells.iter().for_each(|bell| bell.notify_waiters());
        world.pass(2 * MS);
    }
    assert_eq!(*looked.lock().unwrap() > 0, lookers > 0);
    let trace = world.trace();
    world.shut_down();
    trace
}

#[test]
fn the_order_in_which_tasks_are_woken_does_not_matter() {
    assert_eq!(digest(|_| {}, 0), digest(|bells| bells.reverse(), 0));
}

#[test]
fn who_looks_on_changes_nothing() {
    assert_eq!(digest(|_| {}, 0), digest(|_| {}, 3));
}

#[test]
fn lines_that_are_not_kept_are_in_the_digest() {
    let run = |keeps_lines, says: &str| {
        let world = SimRuntime::with_trace(1, keeps_lines);
        world.note(says);
        world.pass(MS);
        world.trace()
    };
    assert_eq!(run(true, "a longer line").1, run(false, "a longer line").1);
    assert_ne!(run(false, "a longer line").1, run(false, "a longer lime").1);
    assert_eq!((run(true, "a").0.len(), run(false, "a").0.len()), (1, 0));
}
