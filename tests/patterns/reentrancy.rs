//! Goal: a holder may acquire its resource again, and it is released at the last release.
//!
//! Method: an outer and an inner acquire of one worker, and a stranger that tries in between.

use quorlock_harness::{Cluster, Server};

use super::{SECOND, client, set_nx_px};

#[tokio::test]
async fn an_inner_acquire_blocks_itself_or_releases_too_early() {
    let server = Server::start();
    assert!(set_nx_px(&server, "r", "worker", "60000"));
    assert!(!set_nx_px(&server, "r", "worker", "60000"), "the worker waits for itself");
    // A common cure: a worker that finds its own name there holds it, and deletes it when it is done.
    assert_eq!(server.get("r").as_deref(), Some(&b"worker"[..]));
    assert!(server.del("r"), "the inner one is done");
    assert!(set_nx_px(&server, "r", "stranger", "60000"), "while the outer one is still at work");

    // Here the holders of one handle are counted.
    let cluster = Cluster::start(3);
    let (redlock, stranger) = (client(&cluster), client(&cluster));
    let worker = redlock.reentrant();
    let outer = worker.acquire("r").await.unwrap();
    let inner = worker.acquire("r").await.unwrap();
    assert_eq!(inner.token(), outer.token());
    assert_eq!(inner.owner(), outer.owner());
    inner.release().await.unwrap();
    outer.check().expect("the outer one still holds");
    assert!(stranger.try_acquire("r").await.unwrap_err().is_contended());
    outer.release().await.unwrap();
    let next = stranger.acquire("r").wait(10 * SECOND).await.unwrap();
    next.release().await.unwrap();
}
