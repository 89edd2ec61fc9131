//! The blocking form, called where an executor is at work on the thread already.

use std::time::Duration;

use quorlock::{Redlock, node::MemoryNode};

use super::{SOON, tokio_threads};

/// A task of tokio has a budget for each time that it is polled, and whoever blocks in one is never polled again.
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
    redlock.blocking_close().unwrap();
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
