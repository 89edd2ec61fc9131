//! Real servers, as they fail at night.

use std::net::TcpListener;

use quorlock::{Redlock, protocol::LossReason};
use quorlock_harness::{Cluster, Server, all_ready, connected, eventually};

use super::{Log, MS, SECOND, SOON};

/// How many lines fit on a screen.
const SCREEN: usize = 25;

#[test]
fn one_contended_acquire_under_a_three_node_outage_fits_on_a_screen() {
    let (log, _turn) = Log::of_process();
    let cluster = Cluster::start(5);
    let settings = || {
        let builder = Redlock::builder().nodes(cluster.urls()).ttl(2 * SECOND).max_ttl(2 * SECOND);
        builder.connect_timeout(10 * SECOND)
    };
    let told =
        || eventually("all have been told of", SOON, || log.with(&["node votes"]).len() == 5);
    let first = connected(settings().danger_skip_quarantine());
    // Its log is written by another thread, and must not end up among the lines of the next one.
    told();
    first.blocking_close().unwrap();
    drop(first);
    log.clear();
    let redlock = connected(settings());
    told();
    let checkout = tracing::info_span!("checkout", order = 7);
    let held = checkout.in_scope(|| redlock.acquire("invoice:42").blocking().unwrap());
    let before = log.lines().len();

    let clone = redlock.clone();
    let waiter = std::thread::spawn(move || {
        let span = tracing::info_span!("refund", order = 8);
        let request = clone.acquire("invoice:42").wait(SOON).wait_through_outages();
        (span.in_scope(|| request.blocking().unwrap()), span)
    });
    eventually("the waiter says for whom it waits", SOON, || {
        !log.with(&["still waiting"]).is_empty()
    });
    cluster.iter().take(3).for_each(Server::kill);
    eventually("the lease is lost", SOON, || held.check().is_err());
    assert_eq!(held.check().unwrap_err().reason, LossReason::RenewalFailed);
    let (owner, token) = (held.owner().to_string(), held.token().unwrap());
    drop(held);
    eventually("it is told", SOON, || !log.with(&["lease lost"]).is_empty());
    cluster.iter().take(3).for_each(Server::restart);
    let (second, _span) = waiter.join().unwrap();
    all_ready(&redlock);
    eventually("that is told too", SOON, || log.with(&["node votes"]).len() == 5 + 3);
    second.blocking_release().unwrap();
    eventually("and the end", SOON, || !log.with(&["released", "refund"]).is_empty());

    let lines = log.lines().split_off(before);
    println!("{} lines:\n{}", lines.len(), lines.join("\n"));
    assert!(lines.len() <= SCREEN, "{}", lines.len());
    let one = |words: &[&str]| {
        let found: Vec<&String> =
            lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).collect();
        assert_eq!(found.len(), 1, "{words:?}: {found:#?}");
    };
    let resource = "resource=invoice:42";
    one(&["INFO", "refund{order=8}", "still waiting", resource, &format!("holder=\"{owner}\"")]);
    for server in cluster.iter().take(3) {
        let address = format!("address=\"127.0.0.1:{}\"", server.port());
        one(&["WARN", "node down", &address, "reason="]);
        one(&["INFO", "node votes", &address]);
    }
    let missing = format!("127.0.0.1:{}): down, ", cluster[1].port());
    one(&["ERROR", "quorum lost", "votes=2", "needed=3", &missing]);
    let (owner, token) = (format!("owner={owner}"), format!("token={}", token.get()));
    one(&["WARN", "checkout{order=7}", "lease lost", resource, &owner, &token, "reason="]);
    one(&["WARN", "of 5 nodes", "nobody can acquire for up to", "quarantine="]);
    one(&["INFO", "quarantine over", "votes="]);
    one(&["INFO", "quorum back", "votes="]);
    let (owner, token) = (second_owner(&lines), "token=");
    one(&["DEBUG", "refund{order=8}", "acquired", resource, &owner, token, "rounds="]);
}

/// The owner in the line of an acquired lease.
fn second_owner(lines: &[String]) -> String {
    let line = lines.iter().find(|line| line.contains(": acquired ")).expect("somebody has");
    line.split_whitespace().find(|word| word.starts_with("owner=")).unwrap().to_owned()
}

#[test]
fn a_node_that_was_never_reached_is_told_at_once_with_its_address_and_the_systems_reason() {
    let (log, _turn) = Log::of_process();
    let cluster = Cluster::start(2);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nodes = Redlock::builder().nodes(cluster.urls()).node(format!("redis://127.0.0.1:{port}"));
    let redlock = nodes.danger_skip_quarantine().blocking_connect().unwrap();
    let address = format!("127.0.0.1:{port}");
    eventually("it is told", SOON, || !log.with(&["node down", &address]).is_empty());
    // It is tried again and again, and that is counted and not told.
    eventually("it is counted", SOON, || redlock.nodes()[2].failed_attempts > 5);
    let told = log.with(&["node=2"]);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].starts_with("WARN") && told[0].contains("os error"), "{told:#?}");
    assert!(told[0].contains("attempts=1 "), "{told:#?}");
    // A quorum votes, so that nothing more is wrong.
    assert!(log.with(&["quorum"]).is_empty(), "{:#?}", log.lines());
    let Ok(server) = std::panic::catch_unwind(|| Server::builder().port(port).start()) else {
        println!("somebody else has taken the port: its return is not tried");
        return;
    };
    all_ready(&redlock);
    eventually("it is back", SOON, || !log.with(&["INFO", "node votes", &address]).is_empty());
    assert_eq!(redlock.nodes()[2].failed_attempts, 0);
    drop((redlock, server));
}

#[test]
fn a_refusal_is_an_error_and_is_not_told_at_each_check() {
    let (log, _turn) = Log::of_process();
    let cluster = Cluster::start(3);
    let urls = [cluster[0].url(), cluster[1].url(), format!("{}/99", cluster[2].url())];
    let builder = Redlock::builder().nodes(urls).connect_timeout(10 * SECOND);
    let redlock = builder.danger_skip_quarantine().blocking_connect().expect("two are a quorum");
    eventually("it is checked several times", SOON, || redlock.nodes()[2].failed_attempts > 3);
    let told = log.with(&["node=2"]);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].starts_with("ERROR") && told[0].contains("no database 99"), "{told:#?}");
}

#[test]
fn all_waiters_for_one_resource_say_so_and_one_line_is_for_everybody() {
    let (log, _turn) = Log::of_process();
    let cluster = Cluster::start(1);
    let redlock = connected(Redlock::builder().nodes(cluster.urls()).danger_skip_quarantine());
    let held = redlock.acquire("hot").blocking().unwrap();
    let waiters: Vec<_> = (0..20)
        .map(|_| redlock.acquire("hot").wait(SOON))
        .map(|request| std::thread::spawn(move || request.blocking().map(drop)))
        .collect();
    eventually("all say so", SOON, || log.with(&["still waiting"]).len() >= 20);
    held.blocking_release().unwrap();
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap().unwrap());
    assert_eq!(log.with(&["INFO", "still waiting", "times=1"]).len(), 1, "{:#?}", log.lines());
    assert_eq!(log.with(&["still waiting"]).len(), 20, "each says it once");
    let not = redlock.acquire("hot").wait(500 * MS);
    let held = redlock.acquire("hot").blocking().unwrap();
    let error = not.blocking().unwrap_err();
    assert!(error.is_contended(), "{error}");
    let told = log.with(&["DEBUG", "not acquired", "outcome=\"contended\""]);
    assert_eq!(told.len(), 1, "{:#?}", log.lines());
    // An unreleased lease would keep the engine, and its lines, for the tests after this one.
    held.blocking_release().unwrap();
    redlock.blocking_close().unwrap();
}
