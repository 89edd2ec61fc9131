//! Many writers at once, each on a connection of its own, and what their history must be like.
//!
//! Tokens are drawn around a number that rises, so that late ones come all the time. A history is judged by the order in
//! which calls and answers were seen. It must never judge one in which nothing was refused, or nothing taken.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use rand::Rng as _;

use super::Store;

const WRITERS: usize = 4;
const WRITES: usize = 60;

/// How far a token may be behind the latest.
const LATENESS: u64 = 8;

/// One write: when it was called and answered, by a count that all writers share.
#[derive(Clone, Copy, Debug)]
struct Write {
    token: u64,
    called: u64,
    answered: u64,
    accepted: bool,
}

/// Lets writers at the store that `connect` reaches, and judges.
pub(crate) fn judged<S: Store, C: AsyncFn() -> S + Sync>(connect: C) -> Result<(), String> {
    let (clock, latest) = (AtomicU64::new(0), AtomicU64::new(1000));
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let writer = || {
        let work = async {
            let mut store = connect().await;
            let mut writes = Vec::new();
            for _ in 0..WRITES {
                let latest = latest.fetch_add(1, Ordering::SeqCst);
                let token = latest - rand::rng().random_range(0..LATENESS);
                let called = tick();
                let accepted = store.write(token, &token.to_string()).await;
                writes.push(Write { token, called, answered: tick(), accepted });
            }
            writes
        };
        alone(work)
    };
    let history: Vec<Write> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(writer)).collect();
        writers.into_iter().flat_map(|writer| writer.join().expect("a writer")).collect()
    });
    let look = || alone(async { connect().await.look().await });
    let last = thread::scope(|scope| scope.spawn(look).join().expect("a reader"));
    judge(&history, last.parse().expect("the value is a token"))
}

/// Runs it on this thread.
pub(crate) fn alone<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

fn judge(history: &[Write], last: u64) -> Result<(), String> {
    let accepted = || history.iter().filter(|write| write.accepted);
    for write in history {
        // So the accepted tokens of each writer do not fall either.
        let before = accepted().filter(|other| other.answered < write.called);
        let larger = |other: &&Write| other.token > write.token;
        if write.accepted
            && let Some(other) = before.clone().find(larger)
        {
            return Err(format!("{write:?} was taken after {other:?}"));
        }
        let mut meanwhile = accepted().filter(|other| other.called < write.answered);
        if !write.accepted && !meanwhile.any(|other| larger(&other)) {
            return Err(format!("{write:?} was refused, and nobody had a larger token"));
        }
    }
    let largest = history.iter().map(|write| write.token).max();
    if largest != Some(last) {
        return Err(format!("{last} is there in the end, and the largest token was {largest:?}"));
    }
    let refused = history.len() - accepted().count();
    assert!(refused > 0 && accepted().count() > 0, "{refused} refused, which proves nothing");
    Ok(())
}

#[test]
fn a_history_is_judged_by_what_was_taken_and_what_was_refused() {
    let write = |token, called, answered, accepted| Write { token, called, answered, accepted };
    let first = write(5, 0, 1, true);
    judge(&[first, write(4, 2, 3, false)], 5).unwrap();
    judge(&[write(5, 0, 3, true), write(4, 1, 2, true), write(3, 4, 5, false)], 5).unwrap();
    let taken_late = judge(&[first, write(4, 2, 3, true), write(6, 4, 5, true)], 6);
    assert!(taken_late.unwrap_err().contains("was taken after"));
    let for_nothing = judge(&[first, write(6, 2, 3, false)], 5);
    assert!(for_nothing.unwrap_err().contains("was refused"));
    let overwritten = judge(&[write(5, 0, 3, true), write(4, 1, 2, true)], 4);
    assert!(overwritten.unwrap_err().contains("is there in the end"));
    let by_refused = [write(4, 0, 5, false), write(3, 1, 2, false), write(5, 3, 4, true)];
    assert!(judge(&by_refused, 5).unwrap_err().contains("was refused"));
}
