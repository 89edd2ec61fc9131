//! Several processes with several tasks each, all of which want the same resource all the time: who gets how much.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::{
    SECOND, SOON, admitted, field::Field, jain, lines, process::Event, quantile, run_time,
};

const PROCESSES: usize = 8;
const TASKS: usize = 4;
const TTL: Duration = Duration::from_secs(10);

#[test]
fn processes_and_their_tasks_get_equal_shares() {
    let cluster = admitted(TTL);
    let mut field = Field::start(PROCESSES, cluster.urls(), TTL);
    // Held for 2 ms.
    (0..PROCESSES).for_each(|process| field.process(process).say(&format!("work {TASKS} 2000")));
    let settled = Instant::now() + SECOND;
    let over = settled + run_time(6);
    let mut counted = 0;
    let mut grants: HashMap<(usize, usize), usize> = HashMap::new();
    let mut ended: HashMap<(usize, usize), Duration> = HashMap::new();
    let mut waits = Vec::new();
    let mut token = 0;
    // Of fewer than a hundred each chance alone makes shares that differ, and on a busy machine of more: it averages out. What
    // is unfair does not, and is looked for twice.
    let mut most = 1_600;
    while Instant::now() < over || counted < most {
        let heard = field.next_within(SOON).expect("the work goes on");
        let counts = Instant::now() >= settled;
        match heard.event {
            Event::Granted { id, at, token: next } => {
                token = token.max(next);
                if counts {
                    counted += 1;
                    *grants.entry((heard.process, id)).or_default() += 1;
                    waits.extend(ended.get(&(heard.process, id)).map(|ended| at - *ended));
                    if counted == 1_600 && !is_fair(&grants) {
                        most = 4 * counted;
                    }
                }
            }
            Event::Ended { id, at } => {
                ended.insert((heard.process, id), at);
            }
            Event::Failed { .. } => panic!("{heard:?}"),
            _ => {}
        }
    }
    let took = settled.elapsed();
    field.end();
    let (processes, tasks) = shares(&grants);
    waits.sort();
    let (all, by_process, by_task) = (counted, jain(&processes), jain(&tasks));
    println!(
        "{PROCESSES} processes with {TASKS} tasks: {:.0} grants/s; Jain's index {by_process:.3} over processes, \
         {by_task:.3} over tasks; waits p50 {:?}, p99 {:?}, {:?} at most; {processes:?}",
        all as f64 / took.as_secs_f64(),
        quantile(&waits, 0.5),
        quantile(&waits, 0.99),
        quantile(&waits, 1.0),
    );
    assert!(is_fair(&grants), "{by_process:.3} over processes, {by_task:.3} over tasks: {tasks:?}");
    lines::nothing_left(&cluster);
}

/// How often each process was granted it, and each task of each.
fn shares(grants: &HashMap<(usize, usize), usize>) -> (Vec<usize>, Vec<usize>) {
    let of = |process, task| grants.get(&(process, task)).copied().unwrap_or(0);
    let tasks = |process| (0..TASKS).map(move |task| of(process, task));
    let processes = (0..PROCESSES).map(|process| tasks(process).sum()).collect();
    (processes, (0..PROCESSES).flat_map(tasks).collect())
}

fn is_fair(grants: &HashMap<(usize, usize), usize>) -> bool {
    let (processes, tasks) = shares(grants);
    // Each task has been served at least as often as first come, first served demands, with room.
    let least = tasks.iter().min().expect("tasks");
    let is_served = *least * 2 >= tasks.iter().sum::<usize>() / tasks.len();
    is_served && jain(&processes) >= 0.95 && jain(&tasks) >= 0.9
}
