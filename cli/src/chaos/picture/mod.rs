//! A run as a picture: a lane for each node with what was done to it, one strip for the lock, and a lane for each worker with
//! what it held, lost, and wrote too late.
//!
//! It draws what the story says, and decides where; what is wrong is red, and nothing else is. One file, which a browser shows
//! in light or in dark as its user likes.

mod lanes;
mod legend;
mod style;
mod wrong;

use std::time::Duration;

use self::style::{DEFINED, STYLE};
use super::story::{Setting, Story};
use crate::picture::{Area, PAGE, Svg, escaped, wide, wrapped};

const LEFT: f64 = 96.0;
const RIGHT: f64 = 28.0;
/// From the top of one lane to that of the next, and the height of one.
const STEP: f64 = 28.0;
const HEIGHT: f64 = 22.0;
const HEAD: f64 = 20.0;
const SUB: f64 = 13.0;

/// Where everything stands.
struct Frame<'a> {
    story: &'a Story,
    width: f64,
    /// Of the first node.
    nodes: f64,
    /// Of the strip of the lock.
    lock: f64,
    /// Of the first worker.
    workers: f64,
    /// Below the last lane.
    bottom: f64,
}

impl Frame<'_> {
    fn x(&self, time: Duration) -> f64 {
        let Story { from, to, .. } = *self.story;
        let (whole, since) = ((to - from).as_secs_f64(), time.saturating_sub(from).as_secs_f64());
        LEFT + (self.width - LEFT - RIGHT) * (since / whole).min(1.0)
    }

    /// From one time to another, in a lane that begins here.
    fn area(&self, y: f64, from: Duration, to: Duration) -> Area {
        let x = self.x(from);
        Area { x, y, width: self.x(to) - x, height: HEIGHT }
    }

    fn node(&self, node: usize) -> f64 {
        self.nodes + STEP * count(node)
    }

    fn worker(&self, worker: usize) -> f64 {
        self.workers + STEP * count(worker)
    }
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// The picture as SVG.
pub(crate) fn draw(story: &Story) -> String {
    let Setting { nodes, workers, .. } = story.setting;
    // A long run has a wide picture.
    let seconds = (story.to - story.from).as_secs_f64();
    let width = (seconds * 18.0 + LEFT + RIGHT).clamp(1200.0, 8000.0);
    let text = 1200.0 - LEFT - RIGHT;
    let head = wrapped(&story.headline(), HEAD * 1.06, text);
    let sub = [story.mode(), story.figures()].map(|line| wrapped(&line, SUB * 1.05, text)).concat();
    let band = 26.0 + count(head.len()) * 27.0 + count(sub.len()) * 18.0;
    let first = band + 62.0;
    let lock = first + STEP * count(nodes) + 68.0;
    let workers_at = lock + STEP + 28.0;
    let bottom = workers_at + STEP * count(workers);
    let frame = Frame { story, width, nodes: first, lock, workers: workers_at, bottom };
    let height = bottom + 34.0 + legend::height(story, width) + 14.0;

    let mut svg = Svg::default();
    svg.raw(format_args!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img" aria-labelledby="verdict">"#
    ));
    svg.raw(format_args!(r#"<title id="verdict">{}</title>"#, escaped(&story.headline())));
    svg.raw(format_args!("<style>{PAGE}\n{STYLE}</style>"));
    svg.raw(DEFINED);
    svg.rect("page", Area { x: 0.0, y: 0.0, width, height }, "");
    headline(&mut svg, story, &head, &sub, band, width);
    axis(&mut svg, &frame);
    lanes::nodes(&mut svg, &frame);
    lanes::workers(&mut svg, &frame);
    wrong::lock(&mut svg, &frame);
    wrong::late(&mut svg, &frame);
    wrong::diamonds(&mut svg, &frame);
    wrong::words(&mut svg, &frame);
    names(&mut svg, &frame);
    legend::draw(&mut svg, story, width, bottom + 46.0);
    svg.raw("</svg>");
    svg.into_text()
}

fn headline(svg: &mut Svg, story: &Story, head: &[String], sub: &[String], band: f64, width: f64) {
    let (fill, text, sign) = if story.is_clean() {
        ("goodhead", "head goodtext", "good")
    } else {
        ("badhead", "head badtext", "bad")
    };
    svg.rect(fill, Area { x: 0.0, y: 0.0, width, height: band }, "");
    svg.sign(sign, (LEFT / 2.0, 30.0), "");
    let mut y = 37.0;
    for line in head {
        svg.text(text, (LEFT, y), line);
        y += 27.0;
    }
    y -= 4.0;
    for line in sub {
        svg.text("sub", (LEFT, y), line);
        y += 18.0;
    }
}

/// The headings of the lanes, drawn over all lines.
fn names(svg: &mut Svg, frame: &Frame<'_>) {
    svg.text("section", (LEFT, frame.nodes - 27.0), "NODES, AND WHAT IS DONE TO THEM");
    svg.text("section", (LEFT, frame.lock - 42.0), "THE LOCK, AND WHICH WORKER HAS IT");
    svg.text("section", (LEFT, frame.workers - 10.0), "WORKERS, AND WHAT THEY HOLD");
}

/// Notes above a lane, in rows, each where the others leave room.
struct Notes {
    /// The taken spans of each row, the lowest row first.
    rows: Vec<Vec<(f64, f64)>>,
    bottom: f64,
}

impl Notes {
    fn above(y: f64, rows: usize) -> Self {
        Self { rows: vec![Vec::new(); rows], bottom: y - 8.0 }
    }

    fn put(&mut self, svg: &mut Svg, frame: &Frame<'_>, class: &str, x: f64, text: &str) {
        let width = wide(text, 12.0) + 14.0;
        // After its place, or before it if only there is room.
        for from in [x.min(frame.width - RIGHT - width), x - width + 10.0] {
            let (to, mut y) = (from + width, self.bottom);
            for taken in &mut self.rows {
                let free = |(start, end): &(f64, f64)| to <= *start || *end <= from;
                if from >= LEFT && taken.iter().all(free) {
                    taken.push((from, to));
                    svg.text(&format!("note {class}"), (from, y), text);
                    return;
                }
                y -= 16.0;
            }
        }
    }
}

/// The time, with lines through all lanes.
fn axis(svg: &mut Svg, frame: &Frame<'_>) {
    let story = frame.story;
    let whole = (story.to - story.from).as_secs_f64();
    let pixels = (frame.width - LEFT - RIGHT) / whole;
    let steps = [1_u64, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600];
    let fits = |step: &&u64| Duration::from_secs(**step).as_secs_f64() * pixels >= 60.0;
    let step = steps.iter().find(fits).copied().unwrap_or(7200);
    let mut at = 0;
    while Duration::from_secs(at).as_secs_f64() <= whole {
        let x = frame.x(story.from + Duration::from_secs(at));
        svg.line("grid", (x, frame.nodes - 6.0), (x, frame.bottom));
        svg.text("small soft mid", (x, frame.bottom + 16.0), &format!("{at} s"));
        at += step;
    }
}

#[cfg(test)]
mod tests {
    use roxmltree::Document;

    use super::*;
    use crate::chaos::story::tests::{bad, good, held, story, wrote};

    fn classes(picture: &str) -> Vec<String> {
        let document = Document::parse(picture).unwrap();
        let all = document
            .descendants()
            .filter(|node| !node.ancestors().any(|one| one.has_tag_name("defs")));
        all.filter_map(|node| node.attribute("class").map(str::to_owned)).collect()
    }

    #[test]
    fn nothing_is_red_where_nothing_is_wrong() {
        let red =
            |class: &str| class.contains("bad") || class.contains("wrong") || class == "cross";
        let of_good = classes(&draw(&good()));
        assert!(!of_good.iter().any(|class| red(class)), "{of_good:?}");
        assert!(of_good.iter().any(|class| class == "refusedline"));
        let of_bad = classes(&draw(&bad()));
        assert!(of_bad.iter().any(|class| class == "head badtext"));
        // On the strip, in both lanes and in the legend.
        assert_eq!(of_bad.iter().filter(|class| *class == "wrong").count(), 4);
        assert_eq!(of_bad.iter().filter(|class| *class == "wrongline").count(), 1);
    }

    /// What goes wrong is planted in the record, and told in the sentence, in the figures and in the picture, in red.
    #[test]
    fn each_kind_of_wrong_is_seen_in_the_record_and_told() {
        let apart = |one, other| vec![held(0, one, 100, 1000), held(1, other, 2000, 3000)];
        let good = || wrote(1, 2, 2200, true, true);
        let planted = [
            (
                "held the lock at once",
                "wrong",
                story(vec![held(0, 1, 100, 2001), held(1, 2, 2000, 3000)], vec![]),
            ),
            // A killed holder holds until its time is over. A lease inside another is an overlap too.
            (
                "held the lock at once",
                "wrong",
                story(vec![held(1, 2, 500, 600), held(1, 1, 100, 2500)], vec![]),
            ),
            ("came twice", "#odd", story(apart(5, 5), vec![])),
            ("a token fell", "#odd", story(apart(9, 5), vec![])),
            (
                "a late write overwrote",
                "#taken",
                story(apart(1, 2), vec![good(), wrote(0, 1, 2500, true, false)]),
            ),
            (
                "out of turn",
                "#odd",
                story(apart(1, 2), vec![good(), wrote(0, 1, 2500, true, true)]),
            ),
            (
                "a holder was refused",
                "#odd",
                story(apart(1, 2), vec![wrote(1, 2, 2200, false, true)]),
            ),
        ];
        for (words, sign, story) in planted {
            let headline = story.headline();
            assert!(headline.starts_with("Wrong: ") && headline.contains(words), "{headline}");
            assert_eq!(story.json(Some("x"), false)["clean"], false);
            let picture = draw(&story);
            let drawn = Document::parse(&picture).unwrap();
            let is = |node: roxmltree::Node<'_, '_>| {
                [node.attribute("class"), node.attribute("href")].contains(&Some(sign))
            };
            // Once in its lane, and once in the legend; two holders are two.
            let liveness = drawn.descendants().filter(|node| is(*node)).count();
            assert_eq!(liveness, if sign == "wrong" { 4 } else { 2 }, "{words}: {picture}");
            assert!(classes(&picture).iter().any(|class| class == "head badtext"));
        }
        let mut of_store = story(apart(1, 2), vec![]);
        assert!(of_store.is_clean());
        of_store.verdict.falls.push((2, 1));
        assert!(draw(&of_store).contains("Wrong: tokens fell at the store"));
    }

    #[test]
    fn everything_stands_in_the_picture_and_notes_apart() {
        let mut story = bad();
        // More late writes than there is room for notes.
        let late = story.verdict.stale.last().cloned().unwrap();
        story.verdict.stale.extend((0..40).map(|_| late.clone()));
        for story in [story, good()] {
            let picture = draw(&story);
            let document = Document::parse(&picture).unwrap();
            let number = |node: roxmltree::Node<'_, '_>, name: &str| -> Option<f64> {
                node.attribute(name).map(|text| text.parse().unwrap())
            };
            let root = document.root_element();
            let (width, height) = (number(root, "width").unwrap(), number(root, "height").unwrap());
            let mut notes: Vec<(f64, f64, f64)> = Vec::new();
            for node in document.descendants().filter(|node| node.has_tag_name("text")) {
                let (x, y) = (number(node, "x").unwrap(), number(node, "y").unwrap());
                let long = wide(node.text().unwrap(), 12.0);
                assert!(x >= 0.0 && x < width && y > 0.0 && y < height, "{node:?}");
                if node.attribute("class").is_some_and(|class| class.starts_with("note")) {
                    assert!(x + long <= width, "{node:?}");
                    let apart = |(from, to, at): &(f64, f64, f64)| {
                        *at != y || x + long <= *from || *to <= x
                    };
                    assert!(notes.iter().all(apart), "{node:?}");
                    notes.push((x, x + long, y));
                }
            }
            assert!(!notes.is_empty());
        }
    }

    #[test]
    fn a_long_run_is_wide_and_a_short_one_has_seconds() {
        let mut story = good();
        story.to = story.from + Duration::from_secs(600);
        assert!(draw(&story).contains("viewBox=\"0 0 8000 "));
        story.to = story.from + Duration::from_millis(1200);
        let picture = draw(&story);
        assert!(picture.contains(">1 s</text>") && picture.contains("viewBox=\"0 0 1200 "));
    }
}
