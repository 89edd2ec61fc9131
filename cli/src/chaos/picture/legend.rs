//! Explains the colours and signs that are in the picture, and no others.

use super::{HEIGHT, LEFT, RIGHT, wrong::is_odd};
use crate::{
    chaos::story::{Lane, Story, What},
    picture::{Area, Svg, wide},
};

const ROW: f64 = 24.0;
const GAP: f64 = 22.0;
const BOX: f64 = 22.0;

enum EpochMark {
    Class(&'static str),
    Narrow(&'static str),
    Sign(&'static str),
}

fn items(story: &Story) -> Vec<(EpochMark, &'static str)> {
    let has = |node: bool, what: What| {
        let mut strikes = story.strikes.iter();
        strikes.any(|one| one.what == what && matches!(one.lane, Lane::Node(_)) == node)
    };
    let killed = has(false, What::Killed);
    let all = [
        (
            !story.verdict.overlaps.is_empty(),
            EpochMark::Class("wrong"),
            "two workers hold the lock at once",
        ),
        (
            story.late().next().is_some(),
            EpochMark::Sign("taken"),
            "late write, taken: it overwrites what a later holder wrote",
        ),
        (is_odd(story), EpochMark::Sign("odd"), "out of turn: the words above say what"),
        (
            story.refused().next().is_some(),
            EpochMark::Sign("refused"),
            "late write, refused by the store",
        ),
        (true, EpochMark::Class("lease"), "holds the lock"),
        (!story.history.losses.is_empty(), EpochMark::Narrow("lost"), "lost it"),
        (
            // A lock of the user's may be free at once.
            killed && !story.setting.theirs,
            EpochMark::Class("kept"),
            "killed, and not yet free for others",
        ),
        (
            has(true, What::Stopped) || has(false, What::Stopped),
            EpochMark::Class("stopped"),
            "stopped (SIGSTOP)",
        ),
        (has(true, What::Killed) || killed, EpochMark::Class("killed"), "killed (SIGKILL)"),
        (has(true, What::Emptied), EpochMark::Class("emptied"), "back without its data"),
        (
            has(true, What::Quarantined),
            EpochMark::Class("quarantined"),
            "does not vote: may have forgotten",
        ),
        (has(true, What::Cut), EpochMark::Class("cut"), "cut off"),
    ];
    let used = all.into_iter().filter(|(used, ..)| *used);
    used.map(|(_, mark, text)| (mark, text)).collect()
}

/// The place of each item from the left and the top, and the height of all.
fn places(items: &[(EpochMark, &'static str)], width: f64) -> (Vec<(f64, f64)>, f64) {
    let (mut x, mut y, mut places) = (LEFT, 0.0, Vec::new());
    for (_, text) in items {
        let wide = BOX + 8.0 + wide(text, 12.0);
        if x + wide > width.min(1200.0) - RIGHT {
            (x, y) = (LEFT, y + ROW);
        }
        places.push((x, y));
        x += wide + GAP;
    }
    (places, y + ROW)
}

pub(super) fn height(story: &Story, width: f64) -> f64 {
    places(&items(story), width).1
}

pub(super) fn draw(svg: &mut Svg, story: &Story, width: f64, top: f64) {
    let items = items(story);
    let (places, _) = places(&items, width);
    for ((mark, text), (x, y)) in items.iter().zip(places) {
        let (y, height) = (top + y, HEIGHT - 8.0);
        match mark {
            EpochMark::Class(class) => svg.rect(class, Area { x, y, width: BOX, height }, ""),
            EpochMark::Narrow(class) => svg.rect(
                class,
                Area { x: x + BOX - 6.0, y: y - 2.0, width: 4.0, height: height + 4.0 },
                "",
            ),
            EpochMark::Sign(name) => svg.sign(name, (x + BOX / 2.0, y + height / 2.0), ""),
        }
        svg.text("small", (x + BOX + 8.0, y + 11.0), text);
    }
}
