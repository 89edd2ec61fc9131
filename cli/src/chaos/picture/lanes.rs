//! The lanes: what was done to nodes and workers, what workers held, and what was wrong.

use std::time::Duration;

use quorlock_harness::history::checker::Held;

use super::{
    Frame, HEIGHT, LEFT, RIGHT,
    svg::{Area, Svg, wide},
};
use crate::chaos::story::{Lane, Strike, What};

/// What is drawn over a lease is so much higher on both sides.
const INSET: f64 = 4.0;

fn class(what: What) -> &'static str {
    match what {
        What::Killed => "killed",
        What::Stopped => "stopped",
        What::Emptied => "emptied",
        What::Cut => "cut",
        What::Quarantined => "quarantined",
    }
}

fn lane(svg: &mut Svg, frame: &Frame<'_>, y: f64, name: &str) {
    let width = frame.width - LEFT - RIGHT;
    svg.text("end", (LEFT - 12.0, y + HEIGHT / 2.0 + 4.0), name);
    svg.rect("lane", Area { x: LEFT, y, width, height: HEIGHT }, "");
}

/// In seconds of the run.
fn told(frame: &Frame<'_>, what: &str, from: Duration, to: Duration) -> String {
    let since = |time: Duration| time.saturating_sub(frame.story.from).as_secs_f64();
    format!("{what}, {:.2} s to {:.2} s", since(from), since(to))
}

fn strike(svg: &mut Svg, frame: &Frame<'_>, y: f64, strike: &Strike) {
    let Strike { what, from, to, .. } = *strike;
    let area = frame.area(y, from, to);
    svg.rect(class(what), area, &told(frame, what.text(), from, to));
    let text = match what {
        What::Killed => "on ondark mid",
        What::Stopped | What::Quarantined => "hatchtext mid",
        What::Emptied | What::Cut => "on mid",
    };
    if wide(what.text(), 11.0) + 6.0 < area.width {
        svg.text(text, (area.x + area.width / 2.0, y + HEIGHT / 2.0 + 4.0), what.text());
    }
}

pub(super) fn nodes(svg: &mut Svg, frame: &Frame<'_>) {
    svg.text("section", (LEFT, frame.nodes - 14.0), "NODES, AND WHAT IS DONE TO THEM");
    for node in 0..frame.story.setting.nodes {
        let y = frame.node(node);
        svg.open("node", &format!("node-{}", node + 1));
        lane(svg, frame, y, &format!("node {}", node + 1));
        let of = |quarantined: bool| {
            let strikes = frame.story.strikes.iter();
            strikes.filter(move |strike| {
                strike.lane == Lane::Node(node) && (strike.what == What::Quarantined) == quarantined
            })
        };
        of(true).chain(of(false)).for_each(|one| strike(svg, frame, y, one));
        svg.close();
    }
}

pub(super) fn workers(svg: &mut Svg, frame: &Frame<'_>) {
    let story = frame.story;
    let top = frame.workers - 8.0;
    svg.text("section", (LEFT, top - 4.0), "WORKERS, AND WHAT THEY HOLD");
    for worker in 0..story.setting.workers {
        let y = frame.worker(worker);
        svg.open("worker", &format!("worker-{}", worker + 1));
        lane(svg, frame, y, &format!("worker {}", worker + 1));
        let strikes = || story.strikes.iter().filter(|strike| strike.lane == Lane::Worker(worker));
        let stops = strikes().filter(|strike| strike.what == What::Stopped);
        for stop in stops {
            svg.rect(
                "stopped",
                frame.area(y, stop.from, stop.to),
                &told(frame, "stopped", stop.from, stop.to),
            );
        }
        let kills = || strikes().filter(|strike| strike.what == What::Killed);
        for held in story.history.leases.iter().filter(|held| held.worker == worker) {
            let killed = kills().find(|kill| held.start <= kill.from && kill.from < held.end);
            let end = killed.map_or(held.end, |kill| kill.from);
            let inner = |from, to| {
                let area = frame.area(y, from, to);
                Area { y: y + INSET, height: HEIGHT - 2.0 * INSET, ..area }
            };
            svg.rect("lease", inner(held.start, end), &told(frame, "held", held.start, end));
            if killed.is_some() {
                svg.rect("kept", inner(end, held.end), &told(frame, "not released", end, held.end));
            }
        }
        for stop in strikes().filter(|strike| strike.what == What::Stopped) {
            // Behind the lease, where there is room.
            let leases = story.history.leases.iter().filter(|held| held.worker == worker);
            let ends = leases.filter(|held| held.start <= stop.from).map(|held| held.end).max();
            let from = frame.x(ends.unwrap_or(stop.from).max(stop.from));
            let (to, text) = (frame.x(stop.to) - 8.0, What::Stopped.text());
            if wide(text, 11.0) + 6.0 < to - from {
                svg.text("hatchtext mid", ((from + to) / 2.0, y + HEIGHT / 2.0 + 4.0), text);
            }
        }
        kills().for_each(|kill| strike_killed(svg, frame, y, kill));
        for loss in story.history.losses.iter().filter(|loss| loss.worker == worker) {
            let before = |held: &&Held| held.worker == worker && held.start < loss.at;
            if let Some(held) =
                story.history.leases.iter().filter(before).max_by_key(|held| held.start)
            {
                let x = frame.x(held.end);
                let area = Area { x: x - 2.0, y, width: 4.0, height: HEIGHT };
                svg.rect("lost", area, &told(frame, "lost", held.end, loss.at));
            }
        }
        svg.close();
    }
}

/// A thin bar below, so that what is not released is seen above it.
fn strike_killed(svg: &mut Svg, frame: &Frame<'_>, y: f64, kill: &Strike) {
    let x = frame.x(kill.from);
    let told = told(frame, "killed", kill.from, kill.to);
    svg.rect("killed", Area { x: x - 2.0, y, width: 4.0, height: HEIGHT }, &told);
    svg.rect(
        "killed",
        Area { y: y + HEIGHT - 3.0, height: 3.0, ..frame.area(y, kill.from, kill.to) },
        &told,
    );
}

/// The times in which two held it, with both.
fn twice<'a>(
    frame: &'a Frame<'_>,
) -> impl Iterator<Item = (Duration, Duration, &'a Held, &'a Held)> {
    let overlaps = frame.story.verdict.overlaps.iter();
    overlaps.map(|(earlier, later)| (later.start, earlier.end.min(later.end), earlier, later))
}

/// One strip for the lock itself: who has it, and red where two have.
pub(super) fn lock(svg: &mut Svg, frame: &Frame<'_>) {
    let y = frame.lock;
    svg.text("section", (LEFT, y - 28.0), "THE LOCK, AND WHICH WORKER HAS IT");
    svg.open("lock", "lock");
    lane(svg, frame, y, "lock");
    let mut leases: Vec<&Held> = frame.story.history.leases.iter().collect();
    leases.sort_by_key(|held| held.start);
    for (at, held) in leases.into_iter().filter(|held| held.start < held.end).enumerate() {
        let area = frame.area(y, held.start, held.end);
        let class = if at % 2 == 0 { "lease" } else { "lease2" };
        let number = (held.worker + 1).to_string();
        svg.rect(class, area, &told(frame, &format!("worker {number}"), held.start, held.end));
        if wide(&number, 11.0) + 6.0 < area.width {
            svg.text("on mid", (area.x + area.width / 2.0, y + HEIGHT / 2.0 + 4.0), &number);
        }
    }
    let mut free = LEFT;
    for (from, to, earlier, later) in twice(frame) {
        let area = frame.area(y, from, to);
        let (one, other) = (earlier.worker + 1, later.worker + 1);
        let text = format!("{one} and {other} at once");
        let whole = Area { y, height: frame.bottom - y, ..area };
        svg.rect("wrongband", whole, "");
        let about = told(frame, &format!("workers {text}"), from, to);
        svg.rect("wrong", area, &about);
        for worker in [earlier.worker, later.worker] {
            let height = HEIGHT - 2.0 * INSET;
            svg.rect("wrong", Area { y: frame.worker(worker) + INSET, height, ..area }, &about);
        }
        label(svg, frame, "note badtext", area.x, &text, &mut free);
    }
    svg.close();
}

/// Above the strip, where the one before leaves room.
fn label(svg: &mut Svg, frame: &Frame<'_>, class: &str, x: f64, text: &str, free: &mut f64) {
    let width = wide(text, 12.0) + 14.0;
    let x = x.min(frame.width - RIGHT - width);
    if x >= *free {
        svg.text(class, (x, frame.lock - 8.0), text);
        *free = x + width;
    }
}

/// Late writes: a cross where they were taken, and a barred circle where they were refused.
pub(super) fn late(svg: &mut Svg, frame: &Frame<'_>) {
    let story = frame.story;
    let middle = |worker| frame.worker(worker) + HEIGHT / 2.0;
    for effect in story.refused() {
        let (x, y) = (frame.x(effect.after), middle(effect.worker));
        svg.line("refusedline", (x, frame.lock + HEIGHT), (x, y));
        svg.sign("refused", (x, y), "a late write, refused");
    }
    let mut free = LEFT;
    let mut late: Vec<_> = story.late().collect();
    late.sort_by_key(|(_, late)| late.after);
    // Where two held it at once that is said already.
    let said = twice(frame).next().is_some();
    for (before, late) in late {
        let (x, y) = (frame.x(late.after), middle(late.worker));
        let (one, other) = (late.worker + 1, before.worker + 1);
        svg.line("wrongline", (x, frame.lock - 4.0), (x, y));
        svg.sign(
            "taken",
            (x, y),
            &format!("a late write of worker {one}, taken behind one of worker {other}"),
        );
        if !said {
            let text = format!("{one} overwrites {other}");
            label(svg, frame, "note badtext", x, &text, &mut free);
        }
    }
}
