//! The blocking form, called where an executor is at work on the thread already.

use std::time::Duration;

use quorlock::{LossReason, Redlock, ReleaseError, node::MemoryNode};

use super::{SOON, tokio_threads};

/// A tokio task has a budget for each poll, and a call that blocks in one never gets a new one.
#[test]
fn hundreds_of_blocking_calls_in_one_task_of_an_executor_are_answered() {
    let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    let (done, ended) = std::sync::mpsc::channel();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    runtime.spawn(async move {
        let redlock = Redlock::blocking_connect(&nodes).unwrap();
        for _ in 0..300 {
            redlock.acquire("r").blocking().unwrap().blocking_release().unwrap();
        }
        redlock.blocking_close().unwrap();
        done.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(20)).expect("it goes on");
    drop(runtime);
}

/// Everything that blocks, where another executor is at work already.
fn block_everywhere(nodes: &[MemoryNode]) {
    let redlock = Redlock::blocking_connect(nodes).unwrap();
    let lease = redlock.acquire("r").blocking().unwrap();
    assert!(redlock.try_acquire("r").blocking().unwrap_err().is_contended());
    lease.blocking_release().unwrap();
    drop(redlock.acquire("r").blocking().unwrap());

    let short = redlock.acquire("r").ttl(Duration::from_millis(200)).without_renewal();
    let short = short.blocking().unwrap();
    assert_eq!(short.blocking_ending(), Ok(LossReason::NotRenewed));
    assert_eq!(short.blocking_lost().unwrap().reason, LossReason::NotRenewed);
    assert_eq!(short.signal().blocking_lost(), short.blocking_lost());
    drop(short);
    let long = redlock.acquire("r").without_renewal().blocking().unwrap();
    assert!(long.blocking_extend().unwrap() > Duration::from_secs(1));
    long.blocking_release().unwrap();

    let ran = redlock.acquire("r").blocking_run(|lease| {
        let busy = redlock.try_acquire("r").blocking().unwrap_err();
        (lease.token(), busy.is_contended())
    });
    let ran = ran.unwrap();
    assert!(ran.output.0.is_ok() && ran.output.1 && ran.lost.is_none());
    let short = redlock.acquire("r").ttl(Duration::from_millis(50)).without_renewal();
    let ran = short.blocking_run(|lease| lease.blocking_lost().unwrap()).unwrap();
    assert_eq!(ran.lost, Some(ran.output));

    block_everywhere_with_others(&redlock);

    let worker = redlock.reentrant();
    let outer = worker.acquire("r").ttl(Duration::from_secs(5)).blocking().unwrap();
    let inner = worker.try_acquire("r").blocking().unwrap();
    assert_eq!((inner.owner(), inner.ttl()), (outer.owner(), Duration::from_secs(5)));
    inner.blocking_release().unwrap();
    outer.check().unwrap();
    outer.blocking_release().unwrap();

    let held = redlock.acquire("r").blocking().unwrap();
    assert_eq!(redlock.blocking_close().unwrap().held, 1);
    assert_eq!(redlock.blocking_shutdown().unwrap().released, 1);
    assert_eq!(held.blocking_lost().unwrap().reason, LossReason::ShutDown);
    assert!(matches!(held.blocking_release(), Err(ReleaseError::ShutDown)));
}

/// The same for readers and permits.
fn block_everywhere_with_others(redlock: &Redlock) {
    let (short, semaphore) = (Duration::from_millis(50), redlock.semaphore("s", 1).unwrap());
    let ran = redlock.read("r").blocking_run(|lease| {
        let busy = redlock.try_write("r").blocking().unwrap_err();
        (lease.token(), busy.is_contended())
    });
    let ran = ran.unwrap();
    assert!(ran.output.1 && ran.lost.is_none());
    let written = redlock.write("r").blocking_run(|lease| lease.token().unwrap()).unwrap();
    assert!(!ran.output.0.covers(written.output), "it is released when it has ended");
    let read = redlock.read("r").ttl(short).without_renewal();
    let ran = read.blocking_run(|lease| {
        assert_eq!(lease.blocking_ending(), Ok(LossReason::NotRenewed));
        lease.blocking_lost().unwrap()
    });
    let ran = ran.unwrap();
    assert_eq!(ran.lost, Some(ran.output));

    let ran = semaphore.acquire().blocking_run(|permit| {
        let busy = semaphore.try_acquire().blocking().unwrap_err();
        (permit.slot(), busy.is_contended())
    });
    let ran = ran.unwrap();
    assert_eq!((ran.output, ran.lost), ((0, true), None));
    let permit = semaphore.acquire().ttl(short).without_renewal();
    let ran = permit.blocking_run(|permit| permit.blocking_lost().unwrap()).unwrap();
    assert_eq!(ran.lost, Some(ran.output));
    semaphore.acquire().blocking().unwrap().blocking_release().unwrap();
}

/// Runs it there, on a thread of its own, so that a hang fails too.
fn where_it_may_block(run: impl FnOnce(Vec<MemoryNode>) + Send + 'static) {
    let nodes: Vec<MemoryNode> = (0..3).map(|_| MemoryNode::new()).collect();
    let (done, ended) = std::sync::mpsc::channel();
    let running = std::thread::spawn(move || {
        run(nodes);
        done.send(()).unwrap();
    });
    ended.recv_timeout(SOON).expect("it neither panics nor hangs");
    running.join().unwrap();
}

#[test]
fn the_blocking_form_works_inside_an_executor_of_futures() {
    where_it_may_block(|nodes| {
        futures::executor::block_on(async { block_everywhere(&nodes) });
        let mut pool = futures::executor::LocalPool::new();
        pool.run_until(async { block_everywhere(&nodes) });
    });
}

#[test]
fn the_blocking_form_works_inside_tasks_of_tokio() {
    where_it_may_block(|nodes| {
        let runtime = tokio_threads();
        runtime.block_on(async { block_everywhere(&nodes) });
        let in_a_task = nodes.clone();
        let task = async move { block_everywhere(&in_a_task) };
        runtime.block_on(runtime.spawn(task)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { block_everywhere(&nodes) });
        runtime.block_on(runtime.spawn(async move { block_everywhere(&nodes) })).unwrap();
    });
}

#[test]
fn the_blocking_form_works_inside_smol() {
    where_it_may_block(|nodes| {
        smol::block_on(async { block_everywhere(&nodes) });
        smol::block_on(smol::spawn(async move { block_everywhere(&nodes) }));
    });
}

#[test]
fn the_blocking_form_works_in_the_work_of_a_run() {
    where_it_may_block(|nodes| {
        let outer = Redlock::blocking_connect(&nodes).unwrap();
        let sum = futures::executor::block_on(outer.acquire("outer").run(async |_| {
            block_everywhere(&nodes);
            1
        }));
        assert_eq!(sum.unwrap(), 1);
    });
}
