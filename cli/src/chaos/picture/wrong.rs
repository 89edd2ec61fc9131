//! The strip of the lock, and what was wrong or was kept from going wrong: two holders, and late writes.
//!
//! What is wrong stands above everything else, in red.

use std::time::Duration;

use quorlock_harness::history::checker::Held;

use super::{
    Frame, HEIGHT, Notes,
    lanes::{INSET, between, lane, told},
};
use crate::{
    chaos::story::Story,
    picture::{Area, Svg},
};

const BAD: &str = "badtext";

/// A mark of two holders is no narrower.
const LEAST: f64 = 7.0;

/// The times in which two workers held the lock, with both leases.
fn twice<'a>(
    frame: &'a Frame<'_>,
) -> impl Iterator<Item = (Duration, Duration, &'a Held, &'a Held)> {
    let overlaps = frame.story.verdict.overlaps.iter();
    overlaps.map(|(earlier, later)| (later.start, earlier.end.min(later.end), earlier, later))
}

/// One strip for the lock itself: which worker has it, in red where two have.
pub(super) fn lock(svg: &mut Svg, frame: &Frame<'_>) {
    let (story, y) = (frame.story, frame.lock);
    svg.open("lock", "lock");
    lane(svg, frame, y, "lock");
    let seen = |held: &&Held| held.start < held.end && held.start < story.to;
    let mut leases: Vec<&Held> = story.history.leases.iter().filter(seen).collect();
    leases.sort_by_key(|held| held.start);
    for (at, held) in leases.into_iter().enumerate() {
        let area = frame.area(y, held.start, held.end);
        let class = if at % 2 == 0 { "lease" } else { "lease2" };
        let number = (held.worker + 1).to_string();
        svg.rect(class, area, &told(frame, &format!("worker {number}"), held.start, held.end));
        between(svg, "on mid", (area.x, area.x + area.width), y, &number);
    }
    for (from, to, earlier, later) in twice(frame) {
        let area = frame.area(y, from, to);
        svg.rect("wrongband", Area { y, height: frame.bottom - y, ..area }, "");
        let about = format!("workers {} and {} at once", earlier.worker + 1, later.worker + 1);
        let about = told(frame, &about, from, to);
        // However short it was, it is what matters most.
        let area = Area { width: area.width.max(LEAST), ..area };
        svg.rect("wrong", area, &about);
        for worker in [earlier.worker, later.worker] {
            let height = HEIGHT - 2.0 * INSET;
            svg.rect("wrong", Area { y: frame.worker(worker) + INSET, height, ..area }, &about);
        }
    }
    svg.close();
}

/// Late writes: a cross where they were taken, and a barred circle where they were refused.
pub(super) fn late(svg: &mut Svg, frame: &Frame<'_>) {
    let mut sign = |name: &str, line: &str, worker: usize, at: Duration, about: &str| {
        let (x, y) = (frame.x(at), frame.worker(worker) + HEIGHT / 2.0);
        svg.line(line, (x, frame.lock - 4.0), (x, y));
        svg.sign(name, (x, y), about);
    };
    for effect in frame.story.refused() {
        sign("refused", "refusedline", effect.worker, effect.after, "a late write, refused");
    }
    for (before, late) in frame.story.late() {
        let (one, other) = (late.worker + 1, before.worker + 1);
        let about = format!("a late write of worker {one}, taken behind one of worker {other}");
        sign("taken", "wrongline", late.worker, late.after, &about);
    }
}

/// What else is wrong: the worker, the time, and the words.
fn odd(story: &Story) -> Vec<(usize, Duration, String)> {
    let (verdict, name) = (&story.verdict, |worker: usize| worker + 1);
    let tokens = verdict.wrong_tokens.iter().map(|(one, other)| {
        let later = if one.start > other.start { one } else { other };
        (later.worker, later.start, format!("token of {} is not new", name(later.worker)))
    });
    let refused = verdict.refused.iter().map(|effect| {
        (effect.worker, effect.after, format!("{} is refused though it holds", name(effect.worker)))
    });
    // Two holders at once are shown already.
    let at_once = |at: Duration| {
        let mut overlaps = verdict.overlaps.iter();
        overlaps.any(|(one, other)| other.start <= at && at <= one.end.max(other.end))
    };
    let between = verdict.stale.iter().filter(|(_, late)| late.held && !at_once(late.after));
    let between = between.map(|(before, late)| {
        let text = format!("{} overwrites {} out of turn", name(late.worker), name(before.worker));
        (late.worker, late.after, text)
    });
    tokens.chain(refused).chain(between).collect()
}

/// Whether there is any of that.
pub(super) fn is_odd(story: &Story) -> bool {
    !odd(story).is_empty()
}

/// A diamond where it is.
pub(super) fn diamonds(svg: &mut Svg, frame: &Frame<'_>) {
    for (worker, at, text) in odd(frame.story) {
        let (x, y) = (frame.x(at), frame.worker(worker) + HEIGHT / 2.0);
        svg.line("wrongline", (x, frame.lock - 4.0), (x, y));
        svg.sign("odd", (x, y), &text);
    }
}

/// The same in words over the lock.
pub(super) fn words(svg: &mut Svg, frame: &Frame<'_>) {
    let story = frame.story;
    let number = |worker: usize| worker + 1;
    let twice = twice(frame).map(|(from, _, one, other)| {
        let text = format!("{} and {} at once", number(one.worker), number(other.worker));
        (from, BAD, text)
    });
    let late = story.late().map(|(before, late)| {
        let text = format!("late: {} overwrites {}", number(late.worker), number(before.worker));
        (late.after, BAD, text)
    });
    let refused = story.refused().map(|effect| {
        (effect.after, "goodtext", format!("late write of {} refused", number(effect.worker)))
    });
    // The worst comes first where there is no room for all.
    let mut notes = Notes::above(frame.lock, 2);
    let odd = odd(story).into_iter().map(|(_, time, text)| (time, BAD, text));
    for (time, class, text) in twice.chain(odd).chain(late).chain(refused) {
        notes.put(svg, frame, class, frame.x(time), &text);
    }
}
