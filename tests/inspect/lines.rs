//! What is told of lines: who waits for what, in which order, alike in memory and on servers.

use std::{
    thread::{JoinHandle, spawn},
    time::{Instant, UNIX_EPOCH},
};

use futures::executor::block_on;
use quorlock::{
    AcquireError, Builder, Redlock,
    inspect::{FleetError, Line, Lines},
};
use quorlock_harness::{Cluster, admit};

use super::{SECOND, SOON, connect, nodes};

/// Waits until the lines are as expected, which they are as soon as those who wait were denied once.
#[track_caller]
fn until(redlock: &Redlock, pattern: &str, is: impl Fn(&[Line]) -> bool) -> Lines {
    let end = Instant::now() + SOON;
    loop {
        let lines = redlock.blocking_lines(pattern).unwrap();
        if is(&lines.lines) {
            return lines;
        }
        assert!(Instant::now() < end, "{lines:?}");
    }
}

fn counts(lines: &[Line]) -> Vec<(String, bool, usize)> {
    let count = |line: &Line| {
        (String::from_utf8_lossy(&line.name).into_owned(), line.is_semaphore, line.waiting)
    };
    lines.iter().map(count).collect()
}

/// A client of its own that waits for it, and gives it back as soon as it has it.
fn waits(client: Redlock, what: fn(&Redlock) -> Result<(), AcquireError>) -> JoinHandle<()> {
    spawn(move || what(&client).unwrap())
}

/// Three to write and two to read what is held, one for a permit, none of what is free; and what is left when all have had it.
fn told(builder: impl Fn() -> Builder, by_wall_clock: bool) -> Vec<Vec<(String, bool, usize)>> {
    let client = || block_on(builder().key_prefix("a*:").connect()).unwrap();
    let redlock = client();
    let begun = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let held = redlock.acquire("held").blocking().unwrap();
    let permit = redlock.semaphore("held", 1).unwrap().acquire().blocking().unwrap();
    let _free = redlock.acquire("free").blocking().unwrap();
    let mut waiting = Vec::new();
    for number in 1..=3 {
        waiting
            .push(waits(client(), |client| client.acquire("held").wait(SOON).blocking().map(drop)));
        until(&redlock, "*", |lines| lines.first().is_some_and(|line| line.waiting == number));
    }
    for number in 4..=5 {
        waiting.push(waits(client(), |client| client.read("held").wait(SOON).blocking().map(drop)));
        until(&redlock, "*", |lines| lines.first().is_some_and(|line| line.waiting == number));
    }
    waiting.push(waits(client(), |client| {
        client.semaphore("held", 1).unwrap().acquire().wait(SOON).blocking().map(drop)
    }));
    let all = until(&redlock, "*", |lines| lines.len() == 2).lines;
    let places = &all[0].places;
    assert!(places.is_sorted(), "{places:?}");
    let reads: Vec<bool> = places.iter().map(|place| place.reads).collect();
    assert_eq!(reads, [false, false, false, true, true], "in the order in which they came");
    for place in places {
        let since = std::time::Duration::from_micros(place.ticket.get());
        let is_now = since + SOON > begun && since < begun + SOON;
        assert!(is_now || !by_wall_clock, "{since:?} {begun:?}");
    }
    let [some, none] = ["hel[a-d]", "h"].map(|pattern| redlock.blocking_lines(pattern).unwrap());
    // Of another prefix.
    let others = block_on(builder().key_prefix("ab:").connect()).unwrap();
    let others = others.blocking_lines("*").unwrap();
    held.blocking_release().unwrap();
    permit.blocking_release().unwrap();
    waiting.into_iter().for_each(|one| one.join().unwrap());
    let after = until(&redlock, "*", <[Line]>::is_empty);
    [&all, &some.lines, &none.lines, &others.lines, &after.lines]
        .map(|lines| counts(lines))
        .to_vec()
}

#[test]
fn lines_are_told_alike_in_memory_and_on_servers() {
    let patient = || Redlock::builder().node_timeout(2 * SECOND).connect_timeout(10 * SECOND);
    let cluster = Cluster::start(3);
    admit(patient().nodes(cluster.urls()));
    let memory = nodes(3);
    let line = |is_semaphore, waiting| ("held".to_owned(), is_semaphore, waiting);
    let both = vec![line(false, 5), line(true, 1)];
    let expected = [both.clone(), both, Vec::new(), Vec::new(), Vec::new()];
    assert_eq!(told(|| patient().nodes(&memory), false), expected);
    assert_eq!(told(|| patient().nodes(cluster.urls()), true), expected);
}

#[test]
fn a_minority_hides_nobody_and_what_others_put_there_counts_as_nothing() {
    let cluster = Cluster::start(3);
    let patient = || Redlock::builder().node_timeout(2 * SECOND).connect_timeout(10 * SECOND);
    admit(patient().nodes(cluster.urls()));
    let client = || block_on(patient().nodes(cluster.urls()).connect()).unwrap();
    let redlock = client();
    let held = redlock.acquire("held").blocking().unwrap();
    let waiting = waits(client(), |client| client.acquire("held").wait(SOON).blocking().map(drop));
    for node in cluster.iter() {
        node.set("quorlock:line:text", "not a line", None);
        node.run(&["ZADD", "quorlock:line:other", "1", "hello", "-1", "!00000000000000aa"]);
        node.run(&["ZADD", "quorlock:line:", "1", "00000000000000aa"]);
    }
    let left = ["ZADD", "quorlock:line:left", "1", "00000000000000aa"];
    cluster[0].run(&left);
    let lines = until(&redlock, "*", |lines| !lines.is_empty());
    let names = |lines: &Lines| -> Vec<_> {
        counts(&lines.lines).into_iter().map(|(name, ..)| name).collect()
    };
    assert_eq!(names(&lines), ["held"], "{lines:?}");
    assert_eq!(lines.untold.iter().count(), 0);
    cluster[2].kill();
    // What stands on one of the two that tell may stand on the third too.
    let lines = until(&redlock, "[hl]e*", |lines| lines.len() == 2);
    assert_eq!(names(&lines).len(), 2, "{lines:?}");
    assert_eq!(lines.untold.failures().count(), 1);
    held.blocking_release().unwrap();
    waiting.join().unwrap();
}

#[test]
fn where_no_node_tells_or_in_classic_mode_that_is_said() {
    let nodes = nodes(3);
    let redlock = connect(&nodes);
    nodes.iter().for_each(|node| node.kill());
    let error = redlock.blocking_lines("*").unwrap_err();
    assert!(matches!(&error, FleetError::NotTold { nodes } if nodes.failures().count() == 3));
    let nodes = super::nodes(1);
    let classic = block_on(Redlock::builder().nodes(&nodes).classic().connect()).unwrap();
    let error = classic.blocking_lines("*").unwrap_err();
    assert!(matches!(error, FleetError::Classic), "{error}");
}
