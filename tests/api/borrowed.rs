//! Work that borrows, in tasks that are spawned.
//!
//! Goal: work under a lease may borrow what it looks at. Method: work that borrows is spawned, and has to end with the
//! borrowed value changed.

use std::sync::Arc;

use quorlock::{LossReason, Redlock};

use super::fleet;

async fn look(_name: &str) {
    tokio::task::yield_now().await;
}

/// Its work borrows what the caller has.
struct Service {
    redlock: Redlock,
    names: Vec<String>,
    looked: usize,
}

impl Service {
    async fn serve(&mut self, shared: &Arc<String>) -> bool {
        let lease = self.redlock.acquire("r").await.unwrap();
        let signal = lease.signal();
        let work = async {
            for name in &mut self.names {
                look(name).await;
                look(shared).await;
                self.looked += 1;
                name.push('x');
            }
            signal.check().is_ok()
        };
        lease.run(work).await.unwrap()
    }
}

#[tokio::test]
async fn work_that_borrows_can_be_spawned() {
    let redlock = Redlock::connect(fleet()).await.unwrap();
    let names = vec!["a".to_owned(), "b".to_owned()];
    let mut service = Service { redlock: redlock.clone(), names, looked: 0 };
    let served = tokio::spawn(async move {
        let shared = Arc::new("x".to_owned());
        (service.serve(&shared).await, service.looked, service.names)
    });
    assert_eq!(served.await.unwrap(), (true, 2, vec!["ax".to_owned(), "bx".to_owned()]));
    drop(redlock.try_acquire("r").await.expect("it has been given back"));
}

#[tokio::test]
async fn work_is_dropped_with_the_loss_and_not_begun_behind_it() {
    let redlock = Redlock::connect(fleet()).await.unwrap();
    let lease = redlock.acquire("r").await.unwrap();
    let mut begun = false;
    let stopping = async {
        tokio::task::yield_now().await;
        redlock.shutdown().await
    };
    let work = async {
        begun = true;
        std::future::pending::<()>().await;
    };
    let (lost, _) = futures::future::join(lease.run(work), stopping).await;
    assert_eq!((lost.unwrap_err().reason, begun), (LossReason::ShutDown, true));

    let redlock = Redlock::connect(fleet()).await.unwrap();
    let lease = redlock.acquire("r").await.unwrap();
    redlock.shutdown().await.unwrap();
    let late = lease.run(async { panic!("it was begun") }).await;
    assert_eq!(late.unwrap_err().reason, LossReason::ShutDown);
}
