//! Goal: a client that Sentinels lead to the master has one holder at any moment, and tokens that rise, however a master
//! ends: killed, stopped and back, or cut off from the Sentinels and not from its clients.
//!
//! Method: real Sentinels, and clients that each hold the lock in turn and say from when until when. `lives_on.rs` shows
//! that the last of these gives two holders to clients of one address. `QUORLOCK_FAILOVERS` says how many of each.

use std::time::{Duration, Instant};

use quorlock::{Builder, Redlock, node::NodeState};
use quorlock_harness::{Proxy, Server};

use super::{
    MS, NODE_TIMEOUT, QUARANTINE, SECOND, SOON, TTL,
    group::{Group, Sentinel, cut_off_sentinels, let_sentinels_in},
    soon, state,
    workers::{Workers, hold, one_at_a_time},
};

fn settings(group: &Group) -> Builder {
    with_settings(&group.url())
}

fn with_settings(url: &str) -> Builder {
    let builder = Redlock::builder().node(url).node_timeout(NODE_TIMEOUT);
    builder.connect_timeout(10 * SECOND).close_timeout(20 * SECOND).ttl(TTL).max_ttl(TTL)
}

async fn client(group: &Group) -> Redlock {
    let redlock = settings(group).connect().await.unwrap();
    soon("it votes", || state(&redlock) == NodeState::Ready).await;
    redlock
}

fn failovers() -> usize {
    let text = std::env::var("QUORLOCK_FAILOVERS").unwrap_or_else(|_| "2".to_owned());
    text.parse().unwrap()
}

/// Has the master fail again and again, and be itself again once another server has taken its place.
async fn fail_over(fail: impl Fn(&Server), mend: impl Fn(&Server)) {
    let group = Group::start();
    let clients = [client(&group).await, client(&group).await, client(&group).await];
    let workers = Workers::start(&clients, "turns");
    let (mut failed, mut fresh) = (Vec::new(), Vec::new());
    for _ in 0..failovers() {
        let grants = workers.grants();
        soon("they take turns", || workers.grants() > grants + 20).await;
        let master = group.master().unwrap();
        failed.push(Instant::now());
        fail(&group.servers[master]);
        soon("another one is the master", || group.master() == Some(1 - master)).await;
        // A client that comes now has never seen the other one.
        let client = client(&group).await;
        let lease = client.acquire("turns").wait(SOON).await.unwrap();
        fresh.push(hold(3, &lease, 10 * MS).await);
        lease.release().await.unwrap();
        let grants = workers.grants();
        soon("they take turns again", || workers.grants() > grants + 20).await;
        mend(&group.servers[master]);
        group.let_follow(master);
    }
    let mut held = workers.end().await;
    held.extend(fresh);
    held.sort_by_key(|held| held.from);
    one_at_a_time(&held);
    let gaps = failed.iter().map(|failed| {
        let around = held.windows(2).filter(|pair| {
            pair[1].from > *failed && pair[0].from < *failed + 2 * QUARANTINE + 10 * SECOND
        });
        around.map(|pair| pair[1].from - pair[0].until).max().unwrap()
    });
    let mut gaps: Vec<Duration> = gaps.collect();
    gaps.sort_unstable();
    let (least, median) = (gaps[0], gaps[gaps.len() / 2]);
    let most = gaps[gaps.len() - 1];
    println!(
        "{} leases, {} failovers, without a grant {median:?} ({least:?} to {most:?})",
        held.len(),
        gaps.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_killed_gives_one_holder() {
    fail_over(Server::kill, Server::restart).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_stopped_and_comes_back_gives_one_holder() {
    fail_over(Server::pause, Server::resume).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_only_the_sentinels_lose_gives_one_holder() {
    fail_over(cut_off_sentinels, |_| {}).await;
}

/// A master that is cut off from the Sentinels, lives on, and is named again before it was anybody's replica: nothing in it
/// shows that another one was the master meanwhile, and granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_named_again_without_having_been_a_replica_waits() {
    let group = Group::start();
    // Long enough to be held by a client of the second master when the first one is named again.
    let long = || with_settings(&group.url()).ttl(3 * TTL).max_ttl(3 * TTL);
    let first = long().connect().await.unwrap();
    let warm = first.acquire("named again").wait(SOON).await.unwrap();
    warm.release().await.unwrap();
    cut_off_sentinels(&group.servers[0]);
    soon("the other one is the master", || group.master() == Some(1)).await;
    let held = first.acquire("named again").wait(SOON).wait_through_outages().await.unwrap();
    let first = tokio::spawn(async move { hold(0, &held, SOON).await });
    // A Sentinel makes a replica of a former master eight seconds after it sees it again.
    let_sentinels_in(&group.servers[0]);
    tokio::time::sleep(2_500 * MS).await;
    cut_off_sentinels(&group.servers[1]);
    soon("it is the master again", || group.master() == Some(0)).await;
    let second = long().build().unwrap();
    let lease = second.acquire("named again").wait(SOON).wait_through_outages().await.unwrap();
    let second = hold(1, &lease, 10 * MS).await;
    one_at_a_time(&[first.await.unwrap(), second]);
}

/// A user without the right to subscribe hears of a switch a little later.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_the_sentinels_needs_two_rights() {
    let group = Group::start();
    for sentinel in &group.sentinels {
        let rights =
            ["on", ">pass", "resetchannels", "-@all", "+sentinel|myid", "+sentinel|master"];
        sentinel.run(&[&["ACL", "SETUSER", "app"], &rights[..]].concat());
    }
    let url = format!("{}?sentinel_username=app&sentinel_password=pass", group.url());
    let redlock = with_settings(&url).connect().await.unwrap();
    soon("it votes", || state(&redlock) == NodeState::Ready).await;
}

/// The quarantine is longer by the time for which a client may go on with a former master.
#[tokio::test(flavor = "multi_thread")]
async fn the_quarantine_covers_a_client_that_has_not_heard_of_the_switch() {
    let group = Group::start();
    let redlock = settings(&group).build().unwrap();
    assert_eq!(redlock.quarantine(), QUARANTINE + Duration::from_millis(3_300));
}

/// Without a majority of the Sentinels a client cannot know whether the master still is one.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_where_no_majority_of_the_sentinels_answers_and_not_before() {
    let mut group = Group::start();
    let redlock = client(&group).await;
    let held = redlock.acquire("unheard").await.unwrap();
    group.sentinels[0].kill();
    tokio::time::sleep(2 * TTL).await;
    held.check().expect("two of three still answer");
    group.sentinels[1].kill();
    let killed = Instant::now();
    soon("it is over", || held.check().is_err()).await;
    assert!(killed.elapsed() >= SECOND, "it was not given up at once");
    let error = redlock.try_acquire("other").await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("too few Sentinels name a master `main`, needed=2 configured=3"),
        "{text}"
    );
}

/// The client loses the Sentinels when they lose the master, and reaches that for as long as it likes.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_hear_of_the_switch_gives_up_before_the_next_holder() {
    let group = Group::start();
    let ways: Vec<Proxy> =
        group.sentinels.iter().map(|sentinel| Proxy::start(sentinel.port())).collect();
    let url = group.url_by(ways.iter().map(Proxy::port));
    let deaf = with_settings(&url).connect().await.unwrap();
    soon("it votes", || state(&deaf) == NodeState::Ready).await;
    let other = client(&group).await;
    let first = deaf.acquire("unheard").await.unwrap();
    ways.iter().for_each(|way| way.blackhole(true));
    cut_off_sentinels(&group.servers[0]);
    let (had, next) = tokio::join!(hold(0, &first, SOON), async {
        let lease = other.acquire("unheard").wait(SOON).wait_through_outages().await.unwrap();
        hold(1, &lease, 10 * MS).await
    });
    one_at_a_time(&[had, next]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_the_sentinels_is_said() {
    let group = Group::start();
    let ports: Vec<u16> = group.sentinels.iter().map(Sentinel::port).collect();
    let server = group.servers[0].port();
    let fails = async |url: &str| {
        let builder = with_settings(url).connect_timeout(2 * SECOND);
        builder.connect().await.unwrap_err().to_string()
    };
    let one = group.url_by(std::iter::once(ports[0]));
    let text = fails(&one).await;
    assert!(text.contains("needed=2 configured=1"), "a majority is of all that there are: {text}");
    let text = fails(&group.url().replace("/main", "/other")).await;
    assert!(text.contains("name a master `other`") && text.contains("No such master"), "{text}");
    let text = fails(&format!("redis+sentinel://127.0.0.1:{server}/main")).await;
    assert!(
        text.contains("name a master `main`") && text.contains("`sentinel_password`"),
        "{text}"
    );
    let text = fails(&group.url().replace("secret", "wrong")).await;
    assert!(text.contains("password"), "of the master: {text}");
}

/// What decides when is a Sentinel here, and a test in `failover.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_follows_the_sentinels_gives_one_holder() {
    let group = Group::start();
    let address = Proxy::start(group.servers[0].port());
    let url = format!("redis://:secret@127.0.0.1:{}", address.port());
    let [a, b] = [(); 2].map(|()| with_settings(&url).build().unwrap());
    let held = a.acquire("address").wait(SOON).await.unwrap();
    let failed = Instant::now();
    group.servers[0].kill();
    let asking = tokio::spawn(async move {
        let lease = b.acquire("address").wait(SOON).wait_through_outages().await.unwrap();
        hold(1, &lease, 10 * MS).await
    });
    let first = tokio::spawn(async move { hold(0, &held, SOON).await });
    soon("the other one is the master", || group.master() == Some(1)).await;
    let promoted = failed.elapsed();
    address.retarget(group.servers[1].port());
    let (first, second) = (first.await.unwrap(), asking.await.unwrap());
    println!("promoted after {promoted:?}, without a grant {:?}", second.from - first.until);
    assert!(first.until - failed <= TTL);
    one_at_a_time(&[first, second]);
}
