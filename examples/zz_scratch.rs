#![allow(clippy::all, clippy::disallowed_methods, missing_docs, unused)]
use quorlock::{Redlock, node::MemoryNode};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

fn pct(v: &mut Vec<Duration>, p: f64) -> Duration {
    v.sort();
    v[((v.len() - 1) as f64 * p) as usize]
}

fn main() {
    let classic = std::env::args().any(|a| a == "classic");
    let rt =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let nodes: Vec<MemoryNode> = (0..5).map(|_| MemoryNode::new()).collect();
    let builder = Redlock::builder().nodes(&nodes);
    let builder = if classic { builder.classic() } else { builder };
    let redlock = builder.blocking_connect().unwrap();
    // 1: two tasks, hold nothing: hand-over latency from release to the next's return.
    let released = Arc::new(Mutex::new(None::<Instant>));
    let took = Arc::new(Mutex::new(Vec::new()));
    rt.block_on(async {
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let (redlock, released, took) = (redlock.clone(), released.clone(), took.clone());
                tokio::spawn(async move {
                    for _ in 0..5000 {
                        let lease = redlock.acquire("r").await.unwrap();
                        let now = Instant::now();
                        if let Some(at) = released.lock().unwrap().take() {
                            took.lock().unwrap().push(now - at);
                        }
                        let until = Instant::now() + Duration::from_micros(50);
                        while Instant::now() < until {
                            std::hint::spin_loop()
                        }
                        *released.lock().unwrap() = Some(Instant::now());
                        lease.release().await.unwrap();
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for t in tasks {
            t.await.unwrap();
        }
    });
    let mut v = took.lock().unwrap().clone();
    println!(
        "hand-over {} : p50 {:?} p99 {:?} max {:?}",
        v.len(),
        pct(&mut v, 0.5),
        pct(&mut v, 0.99),
        pct(&mut v, 1.0)
    );
    // 2: 16 tasks 2 ms each
    for kind in ["mutex", "quorlock"] {
        let local = Arc::new(tokio::sync::Mutex::new(()));
        let waits = Arc::new(Mutex::new(Vec::new()));
        let since = Instant::now();
        let n = rt.block_on(async {
            let tasks: Vec<_> = (0..16)
                .map(|_| {
                    let (redlock, local, waits) = (redlock.clone(), local.clone(), waits.clone());
                    tokio::spawn(async move {
                        let mut n = 0;
                        while since.elapsed() < Duration::from_secs(3) {
                            let asked = Instant::now();
                            if kind == "mutex" {
                                let _g = local.lock().await;
                                waits.lock().unwrap().push(asked.elapsed());
                                tokio::time::sleep(Duration::from_millis(2)).await;
                            } else {
                                let lease = redlock.acquire("hot").await.unwrap();
                                waits.lock().unwrap().push(asked.elapsed());
                                tokio::time::sleep(Duration::from_millis(2)).await;
                                lease.release().await.unwrap();
                            }
                            n += 1;
                        }
                        n
                    })
                })
                .collect();
            let mut n = Vec::new();
            for t in tasks {
                n.push(t.await.unwrap());
            }
            n
        });
        let total: i32 = n.iter().sum();
        let sq: f64 = n.iter().map(|x| (*x as f64).powi(2)).sum();
        let jain = (total as f64).powi(2) / (16.0 * sq);
        let mut w = waits.lock().unwrap().clone();
        println!(
            "{kind}: {:.0}/s p50 {:?} p99 {:?} jain {jain:.4}",
            total as f64 / since.elapsed().as_secs_f64(),
            pct(&mut w, 0.5),
            pct(&mut w, 0.99)
        );
    }
    // 3: sequential
    let since = Instant::now();
    for _ in 0..2000 {
        redlock.acquire("s").blocking().unwrap().blocking_release().unwrap();
    }
    println!("sequential {:?}", since.elapsed() / 2000);
}
