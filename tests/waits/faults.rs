//! Processes and nodes that are killed or stopped during a wait: how late the next grant is.

use std::{thread, time::Duration};

use quorlock_harness::{Cluster, admit, all_ready, connected};

use super::{
    GRACE, MS, POLL, ROOM, SECOND, admitted,
    field::Field,
    lines, median,
    process::{Event, now},
    queue::{Queue, expiry, in_line},
    settings,
};

/// How often each fault is done, with as many hand-overs without it in between.
const TIMES: usize = 10;
const TTL: Duration = Duration::from_secs(20);

/// The kernel closes the connections of a killed process, so that the nodes know at once that it does not hear.
#[test]
fn a_killed_head_costs_those_behind_it_nothing() {
    killed_heads("a killed head", 1, 3, TIMES);
}

/// The next one that lives is found in one step: were each given a grace, or waited for, that would be seen here.
#[test]
fn many_killed_heads_cost_those_behind_them_nothing() {
    killed_heads("six killed heads", 6, 8, TIMES / 2);
}

/// Kills so many waiters, and as many others come.
fn killed_heads(fault: &str, killed: usize, waiting: usize, times: usize) {
    in_line(waiting + 1, TTL, |queue| {
        let lateness = queue.by_turns(fault, times, Queue::turn, |queue, _| {
            for _ in 0..killed {
                let head = queue.head();
                queue.field.kill(head);
                queue.without(head);
            }
            let former = queue.holder();
            let late = queue.pass();
            // The one behind the dead was the head, and is not any more.
            queue.joins(former);
            for _ in 0..killed {
                let new = queue.field.add();
                queue.joins(new);
            }
            late
        });
        lateness.assert_within(5 * MS);
    });
}

/// Its connections stay open, and it does not come: it is passed over after a grace, and is the first again when it goes on.
#[test]
fn a_stopped_head_costs_one_grace_and_gets_its_turn() {
    in_line(4, TTL, |queue| {
        let lateness = queue.by_turns("a stopped head", TIMES, Queue::turn, |queue, _| {
            let head = queue.head();
            queue.field.process(head).pause();
            let stopped = now();
            queue.without(head);
            let former = queue.holder();
            let late = queue.pass();
            queue.joins(former);
            // It is stopped for a second in all, while the resource is held.
            thread::sleep((stopped + SECOND).saturating_sub(now()));
            queue.field.process(head).resume();
            // By its ticket, which is older than those of all the others.
            queue.order.insert(1, head);
            queue.all_stand();
            queue.turn();
            late
        });
        // The grace, two round trips where that is more, and the round of the next.
        lateness.assert_within(4 * GRACE);
    });
}

/// It is free, and this one gets it.
fn has_it(field: &Field, process: usize) {
    loop {
        let heard = field.next();
        match heard.event {
            Event::Granted { .. } => return assert_eq!(heard.process, process),
            Event::Failed { .. } => panic!("{heard:?}"),
            _ => {}
        }
    }
}

/// It is released, and a process gets it: which, and how late. Events of two processes may be heard in either order.
fn handed_on(field: &mut Field, holder: usize, request: usize) -> (usize, Duration) {
    field.process(holder).say(&format!("release {request}"));
    let (mut ended, mut granted) = (None, None);
    loop {
        let heard = field.next();
        match heard.event {
            Event::Ended { id, at } if id == request => ended = Some(at),
            Event::Granted { at, .. } => granted = Some((heard.process, at)),
            Event::Failed { .. } => panic!("{heard:?}"),
            _ => {}
        }
        if let (Some(ended), Some((next, at))) = (ended, granted) {
            assert!(at >= ended, "two holders: granted {:?} early", ended - at);
            return (next, at - ended);
        }
    }
}

/// The first two of a line, also of permits and of sets, are stopped. No one wakes the third, which gets it with its
/// next poll; and the two get it when they go on.
#[test]
fn two_stopped_heads_in_a_row_cost_a_poll_at_most_in_every_line() {
    let cluster = admitted(TTL);
    for (kind, count) in [("acquire", 1), ("permit", 1), ("set", 2)] {
        let mut field = Field::start(4, cluster.urls(), TTL);
        let mut request = 0;
        let mut lateness = Vec::new();
        for _ in 0..4 {
            let first = request;
            for process in 0..4 {
                field.process(process).say(&format!("{kind} {request}"));
                request += 1;
                if process == 0 {
                    has_it(&field, 0);
                } else {
                    lines::stand(&cluster, count * process);
                }
            }
            field.process(1).pause();
            field.process(2).pause();
            let (third, late) = handed_on(&mut field, 0, first);
            assert_eq!(third, 3, "{kind}");
            lateness.push(late);
            field.process(1).resume();
            field.process(2).resume();
            let (one, _) = handed_on(&mut field, 3, first + 3);
            let (other, _) = handed_on(&mut field, one, first + one);
            assert_eq!(one + other, 3, "{kind}");
            field.process(other).say(&format!("release {}", first + other));
            lines::stand(&cluster, 0);
        }
        lateness.sort_unstable();
        println!("{kind}: behind two stopped heads after {lateness:?}");
        assert!(lateness.iter().all(|late| *late < POLL + ROOM), "{kind}: {lateness:?}");
        field.end();
    }
}

/// It is stopped and goes on while the resource is held: it has lost nothing, though all the others have asked
/// meanwhile, and it asks once more.
#[test]
fn a_head_that_was_stopped_while_the_resource_was_held_is_still_the_first() {
    in_line(3, TTL, |queue| {
        let mut times = 0;
        for _ in 0..5 {
            let head = queue.head();
            let first = lines::first(queue.cluster);
            assert!(first.is_some(), "nobody is the first");
            queue.field.process(head).pause();
            thread::sleep(POLL + SECOND / 2);
            queue.field.process(head).resume();
            // It asks at once, since it should have asked before.
            thread::sleep(SECOND / 4);
            queue.all_stand();
            assert_eq!(lines::first(queue.cluster), first);
            // What a busy machine stops for a grace is passed over, and has its turn then: `drain` sees to that.
            let former = queue.holder();
            queue.pass_anyhow();
            times += usize::from(queue.holder() == head);
            queue.comes(former);
        }
        assert!(times >= 3, "the first of the line was the next {times} times of 5");
    });
}

/// Nobody releases what it held. The next has it when its keys have expired on a quorum.
#[test]
fn a_killed_holder_costs_its_ttl_and_one_poll_at_most() {
    let ttl = 2 * SECOND;
    in_line(3, ttl, |queue| {
        let mut late = Vec::new();
        for _ in 0..3 {
            let holder = queue.holder();
            queue.field.kill(holder);
            // From now on nobody extends it.
            let free = expiry(queue.cluster);
            queue.order.pop_front();
            let passed = queue.next_grant();
            queue.has_got_it(passed.to);
            // PTTL is in whole milliseconds, rounded.
            assert!(passed.at + 2 * MS >= free, "before the keys expired: {:?}", free - passed.at);
            late.push(passed.at.saturating_sub(free));
            let new = queue.field.add();
            queue.comes(new);
        }
        println!("a killed holder: late by {late:?} beyond the end of its keys");
        assert!(late.iter().all(|late| *late <= POLL + ROOM), "{late:?}");
        // The first in line knows when they expire: polls alone would be late by half of one, by and large.
        assert!(median(&late) <= POLL / 15, "nobody has looked at that time: {late:?}");
    });
}

/// One or two of five, right before the release, in turn. A node that comes back has to be told the line again, and until then
/// there is no order.
#[test]
fn killed_nodes_cost_one_poll_at_most() {
    let ttl = SECOND;
    let cluster = Cluster::start_with(5, |_, builder| builder.append_only(true));
    admit(settings(&cluster.urls(), ttl));
    let observer = connected(settings(&cluster.urls(), ttl));
    let mut queue = Queue::start(&cluster, cluster.urls(), 4, ttl);
    let lateness = queue.by_turns("killed nodes", TIMES, Queue::turn_anyhow, |queue, round| {
        let nodes = [round % 5, (round + 2) % 5];
        let nodes = &nodes[..1 + round % 2];
        nodes.iter().for_each(|node| queue.cluster[*node].kill());
        let former = queue.holder();
        let late = queue.pass_anyhow();
        queue.joins(former);
        // Every other time it has forgotten everything, and is quarantined.
        for node in nodes {
            let node = &queue.cluster[*node];
            if round % 4 < 2 { node.restart() } else { node.restart_empty() }
        }
        all_ready(&observer);
        late
    });
    lateness.assert_each_within(POLL + ROOM);
    queue.drain();
}
