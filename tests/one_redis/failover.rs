//! Goal: the replica that is promoted votes only when every lease that it may have missed is over, and its tokens are
//! above those it has missed; a holder is told in time, and the log and the errors say what is going on.
//!
//! Method: the pair of `pair.rs`, whose master is killed; workers that contend for one resource all the time, and one
//! holder that renews across it.

use std::time::Instant;

use quorlock::node::NodeState;

use super::{
    MS, Pair, QUARANTINE, SOON, TTL, client, joining, log, settings, soon, state, token,
    workers::{Workers, hold, one_at_a_time},
};

/// The replica knows nothing of the last leases when it is promoted.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_missed_the_last_grants_gives_one_holder_and_rising_tokens() {
    log::begin();
    let pair = Pair::start();
    let clients = [client(&pair).await, client(&pair).await, client(&pair).await];
    let workers = Workers::start(&clients, "missed:contended");
    soon("they take turns", || workers.grants() > 30).await;

    pair.cut_replication();
    let before = workers.grants();
    soon("they go on without the replica", || workers.grants() > before + 30).await;
    let held = clients[0].acquire("missed:held").await.unwrap();
    let first_token = token(&held);
    // Nothing records a renewal of this lease, for its holder does not look.
    let busy = clients[1].try_acquire("missed:held").await.unwrap_err();
    assert!(busy.is_contended(), "{busy}");

    let failed = Instant::now();
    pair.fail_over();
    assert_eq!(pair.replica.get("missed:held"), None, "it has missed the lease");
    soon("they notice", || matches!(state(&clients[1]), NodeState::Quarantined { .. })).await;

    // One that asks at once is told why it does not get it.
    let refused = clients[1].try_acquire("missed:held").await.unwrap_err();
    let text = format!("{refused} {:?}", refused);
    assert!(text.contains("uarantine"), "{text}");
    // A client that has never spoken to the master, and knows only the promoted replica.
    let late = joining(&pair).await;
    let (first, second) = tokio::join!(hold(0, &held, SOON), async {
        let lease = late.acquire("missed:held").wait(SOON).await.unwrap();
        hold(1, &lease, 10 * MS).await
    });
    one_at_a_time(&[first.clone(), second.clone()]);
    assert_eq!(first.token, first_token);
    let (lost_after, waited) = (first.until - failed, second.from - failed);
    assert!(lost_after <= TTL, "it is lost within a ttl, {lost_after:?}");
    assert!(waited >= TTL, "nobody before every lease of before is over, {waited:?}");

    let gone_on = workers.grants();
    soon("they go on", || workers.grants() > gone_on + 30).await;
    let all = workers.end().await;
    one_at_a_time(&all);
    let pause = all.windows(2).map(|pair| pair[1].from - pair[0].until).max().unwrap();
    assert!(pause >= QUARANTINE - 50 * MS, "nobody voted meanwhile, {pause:?}");
    println!(
        "{} leases of {} workers; the holder lost its own after {lost_after:?}, the next had it after {waited:?}; \
         nobody had any for {pause:?}",
        all.len(),
        clients.len(),
    );

    // The lines of the log, in this order. The line that no node votes names none, since it is about all of them.
    let address = pair.address();
    let said = [
        log::first(failed, &[&address, "node down"]),
        log::first(failed, &["WARN", "may have forgotten leases"]),
        log::first(failed, &["missed:held", "lease lost"]),
        log::first(failed, &[&address, "node votes"]),
        log::first(failed, &["ERROR", "quorum lost", &address]),
        log::first(failed, &["INFO", "quarantine over"]),
        log::first(failed, &["INFO", "quorum back"]),
    ];
    assert!(said[0].0 < said[2].0 && said[2].0 < said[3].0, "{said:#?}");
    assert!(said[0].0 < said[4].0 && said[4].0 < said[6].0, "{said:#?}");
    for (at, line) in said {
        println!("{:>8.3} s {line}", (at - failed).as_secs_f64());
    }
    println!("an acquire meanwhile: {refused}");
}

/// The control: the quarantine makes the difference, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_quarantine_there_are_two_holders() {
    let pair = Pair::start();
    let a = client(&pair).await;
    pair.cut_replication();
    let first = a.acquire("unguarded").await.unwrap();
    pair.fail_over();
    let builder = settings(&pair).danger_skip_quarantine();
    let b = builder.connect().await.unwrap();
    let second = b.acquire("unguarded").wait(TTL / 4).await.unwrap();
    first.check().expect("A still has it");
    second.check().expect("and B has it too");
}

/// The replica has seen everything. It is another process all the same, and waits: its data is no proof that there was
/// nothing more.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_has_seen_everything_waits_too() {
    let pair = Pair::start();
    let (a, b) = (client(&pair).await, client(&pair).await);
    let held = a.acquire("seen:held").await.unwrap();
    soon("the replica has the lease", || pair.replica.get("seen:held").is_some()).await;
    let failed = Instant::now();
    pair.fail_over();
    let (first, second) = tokio::join!(hold(0, &held, SOON), async {
        let lease = b.acquire("seen:held").wait(SOON).await.unwrap();
        hold(1, &lease, 10 * MS).await
    });
    one_at_a_time(&[first.clone(), second.clone()]);
    assert!(first.until - failed <= TTL, "it is not renewed by a node that does not vote");
    assert!(second.from - failed >= TTL);
    // The release of what is over leaves the next one alone, and the lock is in order again.
    let _ = held.release().await;
    let third = a.acquire("seen:held").wait(SOON).await.unwrap();
    assert!(token(&third) > second.token);
    third.release().await.unwrap();
}

/// The client does not see the failover: it starts when the promoted one has been admitted, or, if there was no client,
/// has never been asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_starts_after_the_failover_goes_on_above() {
    let pair = Pair::start();
    let a = client(&pair).await;
    pair.cut_replication();
    let lease = a.acquire("later").await.unwrap();
    let before = token(&lease);
    lease.release().await.unwrap();
    a.close().await.unwrap();
    drop(a);
    pair.fail_over();
    // No client is left that knew the master.
    let began = Instant::now();
    let b = client(&pair).await;
    assert!(began.elapsed() >= QUARANTINE - 50 * MS, "it waits on behalf of those of before");
    let lease = b.acquire("later").await.unwrap();
    assert!(token(&lease) > before);
    // The next one finds it admitted.
    let c = joining(&pair).await;
    soon("it has looked", || state(&c) != NodeState::Connecting).await;
    assert_eq!(state(&c), NodeState::Ready);
    assert!(c.try_acquire("later").await.unwrap_err().is_contended());
    lease.release().await.unwrap();
}
