//! How long a process may hand a resource on inside itself while others wait for it.

use std::time::{Duration, Instant};

use super::{SECOND, SOON, admitted, field::Field, lines, process::Event};

const TASKS: usize = 4;
const TTL: Duration = Duration::from_secs(10);

/// With holds that are long beside a round trip, a process has a few of them in a row while others wait, and not as many as it
/// has tokens.
#[test]
fn a_process_lets_others_in_after_its_turn() {
    const HOLD: Duration = Duration::from_millis(20);
    let cluster = admitted(TTL);
    let mut field = Field::start(3, cluster.urls(), TTL);
    let order = format!("work {TASKS} {}", HOLD.as_micros());
    (0..3).for_each(|process| field.process(process).say(&order));
    let over = Instant::now() + 7 * SECOND;
    let mut grants = Vec::new();
    while Instant::now() < over {
        let heard = field.next_within(SOON).expect("the work goes on");
        if let Event::Granted { at, .. } = heard.event {
            grants.push((at, heard.process));
        }
    }
    field.end();
    grants.sort();
    let began = grants[0].0 + SECOND;
    grants.retain(|(at, _)| *at >= began);
    let mut runs: Vec<usize> =
        grants.chunk_by(|(_, before), (_, next)| before == next).map(<[_]>::len).collect();
    runs.sort();
    println!("leases in a row by one of three processes: {runs:?}");
    // A turn is 10 ms, or 20 round trips: on a busy machine these may take a few milliseconds each.
    let usual = runs[runs.len() / 2];
    assert!(usual <= 10, "{runs:?}");
    lines::nothing_left(&cluster);
}
