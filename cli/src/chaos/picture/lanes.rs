//! The lanes of nodes and of workers: what was done to them, what workers held, and what they lost.

use std::time::Duration;

use quorlock_harness::history::checker::Held;

use super::{Frame, HEIGHT, LEFT, Notes, RIGHT};
use crate::{
    chaos::story::{Lane, Strike, What},
    picture::{Area, Svg, wide},
};

/// Marks behind a lease are this much taller on both sides.
pub(super) const INSET: f64 = 4.0;

const fn class(what: What) -> &'static str {
    match what {
        What::Killed => "killed",
        What::Stopped => "stopped",
        What::Emptied => "emptied",
        What::Cut => "cut",
        What::Quarantined => "quarantined",
    }
}

/// An empty lane with its name.
pub(super) fn lane(svg: &mut Svg, frame: &Frame<'_>, y: f64, name: &str) {
    let width = frame.width - LEFT - RIGHT;
    svg.text("end", (LEFT - 12.0, y + HEIGHT / 2.0 + 4.0), name);
    svg.rect("lane", Area { x: LEFT, y, width, height: HEIGHT }, "");
}

/// In seconds of the run.
pub(super) fn told(frame: &Frame<'_>, what: &str, from: Duration, to: Duration) -> String {
    let since = |time: Duration| time.saturating_sub(frame.story.from).as_secs_f64();
    format!("{what}, {:.2} s to {:.2} s", since(from), since(to))
}

/// In the middle between two places, where there is room.
pub(super) fn between(svg: &mut Svg, class: &str, (from, to): (f64, f64), y: f64, text: &str) {
    if wide(text, 11.0) + 5.0 < to - from {
        svg.text(class, (f64::midpoint(from, to), y + HEIGHT / 2.0 + 4.0), text);
    }
}

pub(super) fn nodes(svg: &mut Svg, frame: &Frame<'_>) {
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
    emptied(svg, frame);
}

fn strike(svg: &mut Svg, frame: &Frame<'_>, y: f64, strike: &Strike) {
    let Strike { what, from, to, .. } = *strike;
    let mut area = frame.area(y, from, to);
    area.width = area.width.max(4.0);
    svg.rect(class(what), area, &told(frame, what.text(), from, to));
    let text = match what {
        What::Killed => "on ondark mid",
        What::Stopped | What::Quarantined => "hatchtext mid",
        What::Emptied | What::Cut => "on mid",
    };
    between(svg, text, (area.x, area.x + area.width), y, what.text());
}

/// Says how many came back empty together.
fn emptied(svg: &mut Svg, frame: &Frame<'_>) {
    let strikes = frame.story.strikes.iter().filter(|strike| strike.what == What::Emptied);
    let mut times: Vec<Duration> = strikes.map(|strike| strike.from).collect();
    times.sort_unstable();
    let mut notes = Notes::above(frame.nodes, 1);
    for together in times.chunk_by(|one, other| one == other) {
        let Some(from) = together.first() else { continue };
        let text = format!("{} of {} lose their data", together.len(), frame.story.setting.nodes);
        notes.put(svg, frame, "emptytext", frame.x(*from), &text);
    }
}

pub(super) fn workers(svg: &mut Svg, frame: &Frame<'_>) {
    for worker in 0..frame.story.setting.workers {
        svg.open("worker", &format!("worker-{}", worker + 1));
        let y = frame.worker(worker);
        lane(svg, frame, y, &format!("worker {}", worker + 1));
        One { frame, worker, y }.draw(svg);
        svg.close();
    }
}

/// The lane of one worker.
struct One<'a> {
    frame: &'a Frame<'a>,
    worker: usize,
    y: f64,
}

impl One<'_> {
    fn draw(&self, svg: &mut Svg) {
        let frame = self.frame;
        for stop in self.strikes(What::Stopped) {
            let about = told(frame, "stopped", stop.from, stop.to);
            svg.rect("stopped", frame.area(self.y, stop.from, stop.to), &about);
        }
        self.leases().for_each(|held| self.lease(svg, held));
        for stop in self.strikes(What::Stopped) {
            // After the lease has ended.
            let ends = self.leases().filter(|held| held.start <= stop.from).map(|held| held.end);
            let from = frame.x(ends.max().unwrap_or(stop.from).max(stop.from));
            let room = (from, frame.x(stop.to) - 8.0);
            between(svg, "hatchtext mid", room, self.y, What::Stopped.text());
        }
        for kill in self.strikes(What::Killed) {
            let about = told(frame, "killed", kill.from, kill.to);
            let away = frame.area(self.y, kill.from, kill.to);
            svg.rect("killed", Area { x: away.x - 2.0, width: 4.0, ..away }, &about);
            // At the bottom, so that the unreleased lease is seen above it.
            svg.rect("killed", Area { y: self.y + HEIGHT - 3.0, height: 3.0, ..away }, &about);
        }
        let losses = frame.story.history.losses.iter();
        for loss in losses.filter(|loss| loss.worker == self.worker && loss.at < frame.story.to) {
            let before = self.leases().filter(|held| held.start < loss.at);
            if let Some(held) = before.max_by_key(|held| held.start) {
                let area = frame.area(self.y, held.end, held.end);
                let about = told(frame, &format!("lost: {}", loss.why), held.end, loss.at);
                svg.rect("lost", Area { x: area.x - 2.0, width: 4.0, ..area }, &about);
            }
        }
    }

    fn lease(&self, svg: &mut Svg, held: &Held) {
        let frame = self.frame;
        let mut kills = self.strikes(What::Killed);
        let killed = kills.find(|kill| held.start <= kill.from && kill.from < held.end);
        let end = killed.map_or(held.end, |kill| kill.from);
        let inner = |from, to| {
            let area = frame.area(self.y, from, to);
            Area { y: self.y + INSET, height: HEIGHT - 2.0 * INSET, ..area }
        };
        svg.rect("lease", inner(held.start, end), &told(frame, "held", held.start, end));
        if killed.is_some() {
            svg.rect("kept", inner(end, held.end), &told(frame, "not released", end, held.end));
        }
    }

    fn strikes(&self, what: What) -> impl Iterator<Item = &Strike> {
        let strikes = self.frame.story.strikes.iter();
        strikes
            .filter(move |strike| strike.lane == Lane::Worker(self.worker) && strike.what == what)
    }

    fn leases(&self) -> impl Iterator<Item = &Held> {
        let story = self.frame.story;
        let leases = story.history.leases.iter();
        leases.filter(|held| held.worker == self.worker && held.start < story.to)
    }
}
