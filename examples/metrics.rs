//! Workers on a few resources, and their metrics for Prometheus at <http://127.0.0.1:9464/metrics>.
//!
//!     cargo run --example metrics
//!     cargo run --example metrics -- 60 redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3
//!
//! The first argument is the number of seconds. Without nodes it uses some in memory, and kills one half way.
#![allow(clippy::disallowed_methods, reason = "the ban on clocks and spawns is for the library")]

use std::{
    error::Error,
    io::{Read, Write},
    net::TcpListener,
    time::{Duration, Instant},
};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use quorlock::{
    Builder, Redlock,
    node::{MemoryNode, NodeSpec},
};

const BUCKETS: [f64; 15] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// The least that Prometheus reads. The exporter has an HTTP listener of its own (its feature `http-listener`).
fn serve(listener: &TcpListener, metrics: &PrometheusHandle) {
    for mut stream in listener.incoming().flatten() {
        let text = metrics.render();
        // Without its feature for that, the program has to call this.
        metrics.run_upkeep();
        let _ = stream.read(&mut [0; 4096]);
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
            text.len()
        );
    }
}

async fn work(redlock: Redlock, number: usize, until: Instant) {
    while Instant::now() < until {
        let resource = format!("resource:{}", number % 6);
        match redlock.acquire(resource).wait(Duration::from_millis(500)).await {
            Ok(lease) => {
                tokio::time::sleep(Duration::from_millis(40)).await;
                drop(lease.release().await);
            }
            Err(error) => println!("worker {number}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
}

/// Holds one resource for as long as it can: its lease is renewed, and lost in an outage.
async fn hold(redlock: Redlock, until: Instant) {
    while Instant::now() < until {
        if let Ok(lease) = redlock.acquire("job").await {
            let left = until.saturating_duration_since(Instant::now());
            if let Ok(lost) = tokio::time::timeout(left, lease.lost()).await {
                println!("job: {lost}");
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Before the first connect, so that the recorder is told what each metric means.
    let metrics = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Prefix("quorlock_".to_owned()), &BUCKETS)?
        .install_recorder()?;
    let listener = TcpListener::bind("127.0.0.1:9464")?;
    let text = metrics.clone();
    std::thread::spawn(move || serve(&listener, &text));

    let mut args = std::env::args().skip(1);
    let seconds = args.next().map_or(Ok(2), |seconds| seconds.parse())?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let urls: Vec<String> = args.collect();
    let memory = [(); 3].map(|()| MemoryNode::new());
    let nodes: Vec<NodeSpec> = if urls.is_empty() {
        memory.iter().map(NodeSpec::from).collect()
    } else {
        urls.iter().map(NodeSpec::from).collect()
    };
    let builder: Builder = Redlock::builder().nodes(nodes).ttl(Duration::from_secs(2));
    let redlock = builder.connect().await?;
    let mut workers: Vec<_> =
        (0..12).map(|number| tokio::spawn(work(redlock.clone(), number, until))).collect();
    workers.push(tokio::spawn(hold(redlock.clone(), until)));
    tokio::time::sleep(Duration::from_secs(seconds) / 2).await;
    memory[0].kill();
    for worker in workers {
        worker.await?;
    }
    // Releases that it has not confirmed are repeated there, so that nothing is left to wait for.
    memory[0].restart();
    // What Prometheus reads last.
    let shown = |line: &&str| line.contains("_total") && !line.starts_with('#');
    metrics.render().lines().filter(shown).for_each(|line| println!("{line}"));
    redlock.close().await?;
    Ok(())
}
