//! A thousand waiters in one process: first come, first served, and waiters that leave leave nothing behind.

use std::{
    fs,
    future::{Future as _, IntoFuture as _, poll_fn},
    pin::Pin,
    task::Poll,
    time::{Duration, Instant},
};

use quorlock::{AcquireFuture, Lease, Redlock, runtime::TokioRuntime};
use quorlock_harness::{Cluster, Server};
use tokio::sync::mpsc;

use super::{SECOND, SOON, admitted, lines, settings};

const WAITERS: usize = 1000;
const MANY: usize = 20_000;
const TTL: Duration = Duration::from_secs(10);

/// The resident memory of this process, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// So many requests that have been polled once, one after the other.
async fn waiters(redlock: &Redlock, count: usize) -> Vec<Pin<Box<AcquireFuture>>> {
    let mut waiting = Vec::with_capacity(count);
    for _ in 0..count {
        let mut future = Box::pin(redlock.acquire(super::RESOURCE).into_future());
        poll_fn(|cx| {
            assert!(future.as_mut().poll(cx).is_pending(), "it is held");
            Poll::Ready(())
        })
        .await;
        waiting.push(future);
    }
    waiting
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// All of them were served, in the order in which they came.
#[track_caller]
fn in_order(served: &[usize], came: impl Iterator<Item = usize>) {
    let came: Vec<usize> = came.collect();
    let wrong = served.iter().zip(&came).position(|(served, came)| served != came);
    let around = wrong.map(|at| (at, &served[at..served.len().min(at + 10)]));
    assert!(around.is_none(), "out of order from there: {around:?}");
    assert_eq!(served.len(), came.len(), "all of them");
}

fn scripts(cluster: &Cluster) -> u64 {
    cluster.iter().map(|server: &Server| server.command_calls("evalsha")).sum()
}

/// A client that holds what all want; nothing is left when the test has ended.
fn with_a_holder(test: impl AsyncFnOnce(&Cluster, &Redlock, Lease)) {
    let cluster = admitted(TTL);
    runtime().block_on(async {
        let redlock = settings(&cluster.urls(), TTL).connect().await.unwrap();
        redlock.ready(SOON).await.unwrap();
        let lease = redlock.acquire(super::RESOURCE).await.unwrap();
        test(&cluster, &redlock, lease).await;
        redlock.close().await.unwrap();
    });
    lines::nothing_left(&cluster);
}

/// Tasks that await these, say who they are while they hold, and give it back.
fn served<T: Send + 'static>(
    waiting: impl IntoIterator<Item = (usize, Pin<Box<AcquireFuture>>)>,
    shown: fn(&Lease) -> T,
) -> mpsc::UnboundedReceiver<(usize, T)> {
    let (tell, told) = mpsc::unbounded_channel();
    for (number, future) in waiting {
        let tell = tell.clone();
        tokio::spawn(async move {
            let lease = future.await.unwrap_or_else(|error| panic!("waiter {number}: {error}"));
            // Told before it is released, so that this order is that of the grants.
            tell.send((number, shown(&lease))).ok().unwrap();
            drop(lease);
        });
    }
    told
}

#[test]
fn a_thousand_waiters_are_served_in_the_order_in_which_they_came() {
    with_a_holder(async |cluster, redlock, lease| {
        let mut token = lease.token().unwrap();
        let before = scripts(cluster);
        let waiting = waiters(redlock, WAITERS).await;
        let shown = |lease: &Lease| (lease.token().unwrap(), lease.owner());
        let mut told = served(waiting.into_iter().enumerate(), shown);
        let began = Instant::now();
        drop(lease);
        let (mut order, mut owners, mut last) = (Vec::new(), 0, None);
        while let Some((number, (next, owner))) = told.recv().await {
            assert!(next > token, "{next} after {token}");
            token = next;
            owners += usize::from(last.replace(owner) != Some(owner));
            order.push(number);
        }
        let (took, commands) = (began.elapsed(), scripts(cluster) - before);
        println!(
            "{WAITERS} waiters in {took:?}, under {owners} grants of the nodes: {:.2} commands for each and node",
            commands as f64 / (WAITERS * cluster.len()) as f64
        );
        in_order(&order, 0..WAITERS);
        // 64 hand-overs for each, where nobody else waits.
        assert!(owners <= WAITERS / 8, "{owners} grants for {WAITERS} waiters");
    });
}

/// From the middle, from both ends, and all that are left at once.
#[test]
fn those_who_stay_are_served_in_order_whoever_leaves() {
    with_a_holder(async |_, redlock, lease| {
        let mut waiting = waiters(redlock, 300).await;
        // Every third leaves, those at the ends among them.
        let mut staying = Vec::new();
        for (number, future) in waiting.drain(..).enumerate().rev() {
            if number % 3 == 1 {
                staying.push((number, future));
            }
        }
        let mut told = served(staying, |_| ());
        drop(lease);
        let mut order = Vec::new();
        while let Some((number, ())) = told.recv().await {
            order.push(number);
        }
        in_order(&order, (0..300).filter(|number| number % 3 == 1));
    });
}

/// The engine runs in a runtime of its own, so that its tasks can be counted.
#[test]
fn a_thousand_waiters_that_are_dropped_at_once_leave_nothing() {
    let cluster = admitted(TTL);
    let holder = settings(&cluster.urls(), TTL).blocking_connect().unwrap();
    holder.blocking_ready(SOON).unwrap();
    let lease = holder.acquire(super::RESOURCE).blocking().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let current = TokioRuntime::current().unwrap();
        let redlock = settings(&cluster.urls(), TTL).runtime(current).connect().await.unwrap();
        redlock.ready(SOON).await.unwrap();
        // A first waiter that comes and goes starts all that is started once.
        drop(waiters(&redlock, 1).await);
        settled(&cluster, 0).await;
        let (idle, mut sizes, mut while_waiting) = (tasks(), Vec::new(), 0);
        for _ in 0..20 {
            let waiting = waiters(&redlock, WAITERS).await;
            settled(&cluster, 1).await;
            while_waiting = while_waiting.max(tasks());
            drop(waiting);
            settled(&cluster, 0).await;
            sizes.push(resident());
        }
        // So many that memory which the process had reserved before does not count.
        let before = resident();
        let many = waiters(&redlock, MANY).await;
        let each = resident().saturating_sub(before) / MANY;
        drop(many);
        settled(&cluster, 0).await;
        println!(
            "{each} bytes for each of {MANY} waiters; {idle} tasks without waiters, {while_waiting} at most with {WAITERS}; \
             {} kB resident after one cycle, {} kB after {}",
            sizes[0] >> 10,
            sizes[19] >> 10,
            sizes.len()
        );
        assert!(each < 20_000, "{each} bytes for a waiter");
        assert!(while_waiting <= idle + 50, "{idle} tasks, and {while_waiting} with waiters");
        let deadline = Instant::now() + SOON;
        while tasks() > idle && Instant::now() < deadline {
            tokio::time::sleep(SECOND / 100).await;
        }
        assert!(tasks() <= idle, "{idle} tasks before, {} after", tasks());
        // A leak would add up: 15,000 waiters have come and gone since the fifth cycle.
        let grown = sizes[19].saturating_sub(sizes[4]);
        assert!(grown < 15 * WAITERS * 100, "{grown} bytes more: {sizes:?}");
        assert!(lease.is_valid(), "it was held all the time");
        redlock.close().await.unwrap();
    });
    lease.blocking_release().unwrap();
    lines::nothing_left(&cluster);
}

/// Waits until so many stand in line on the nodes. Those who leave have left before the line would have ended by itself.
async fn settled(cluster: &Cluster, waiters: usize) {
    let deadline = Instant::now() + if waiters == 0 { lines::LIFE / 2 } else { SOON };
    while !lines::are(cluster, waiters) {
        assert!(Instant::now() < deadline, "not {waiters} in line");
        tokio::time::sleep(SECOND / 200).await;
    }
}
