//! The figures as a picture: a lane for each line, and in it where its times lie, on an axis of powers of ten.
//!
//! Half of all operations take no longer than the dot, and nine in ten no longer than the bar is long; what is slower is a line up to
//! the slowest, with a mark at the ninety-ninth of a hundred. It draws what the report says. Red stays for what is wrong.

use super::{
    figures::{Figures, span},
    lines::{Group, Line},
    report::Report,
};
use crate::picture::{Area, PAGE, Svg, escaped, wrapped};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 268.0;
/// Where the axis ends, and the columns begin.
const RIGHT: f64 = WIDTH - 176.0;
const P50: f64 = WIDTH - 100.0;
const P99: f64 = WIDTH - 26.0;
const STEP: f64 = 29.0;
const HEIGHT: f64 = 24.0;
/// For the name of a group.
const GROUP: f64 = 26.0;
const EDGE: f64 = 26.0;
const HEAD: f64 = 20.0;
const SUB: f64 = 13.0;

const STYLE: &str = "\
.without{fill:#8b949e}.free{fill:#2f7fd8}.others{fill:#5f63cf}.handover{fill:#12867f}
.reach{stroke-width:2;opacity:.55}.strokewithout{stroke:#8b949e}.strokefree{stroke:#2f7fd8}.strokeothers{stroke:#5f63cf}.strokehandover{stroke:#12867f}
.dot{fill:#ffffff;stroke-width:3}.tick{stroke-width:3}.strong{font-weight:700}
.floor{stroke:#59636e;stroke-width:1.2;stroke-dasharray:3 3}
@media(prefers-color-scheme:dark){.without{fill:#7d8590}.free{fill:#3f8ae6}.others{fill:#7d81ea}.handover{fill:#22a196}
.strokewithout{stroke:#7d8590}.strokefree{stroke:#3f8ae6}.strokeothers{stroke:#7d81ea}.strokehandover{stroke:#22a196}
.dot{fill:#0d1117}.floor{stroke:#9aa4ae}}";

/// The axis: from one time to another, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    /// Around all of them, in steps of 1, 2 and 5.
    fn around(lines: &[&Figures]) -> Self {
        let shortest = lines.iter().filter_map(|line| line.at(0.0)).fold(f64::MAX, f64::min);
        let longest = lines.iter().filter_map(|line| line.longest()).fold(0.0, f64::max);
        let mut axis = Self { from: 1e3, to: 1e4 };
        for step in steps() {
            if step <= shortest {
                axis.from = step;
            }
        }
        axis.to = steps().find(|step| *step >= longest).unwrap_or(1e12).max(axis.from * 10.0);
        axis
    }

    fn x(self, nanos: f64) -> f64 {
        let part = (nanos.max(self.from) / self.from).ln() / (self.to / self.from).ln();
        LEFT + (RIGHT - LEFT) * part.min(1.0)
    }
}

/// 1, 2 and 5 of each power of ten, from a microsecond to a quarter of an hour.
fn steps() -> impl Iterator<Item = f64> {
    (3..12).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)))
}

fn rows(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The picture as SVG.
pub(super) fn draw(report: &Report) -> String {
    let lines: Vec<&Figures> = report.lines.iter().filter(|line| line.count() > 0).collect();
    let axis = Axis::around(&lines);
    let text = WIDTH - 2.0 * EDGE;
    let head = wrapped(&report.headline(), HEAD * 1.06, text);
    let said = [report.parts(), report.load(), report.renewal()].into_iter().flatten();
    let sub: Vec<String> =
        said.chain([report.mode()]).flat_map(|line| wrapped(&line, SUB * 1.05, text)).collect();
    let groups: Vec<Group> = Group::ALL
        .into_iter()
        .filter(|group| lines.iter().any(|line| line.line.group() == *group))
        .collect();
    let top = 26.0 + rows(head.len()) * 27.0 + rows(sub.len()) * 18.0 + 24.0;
    let bottom = top + rows(groups.len()) * GROUP + rows(lines.len()) * STEP;
    let height = bottom + 84.0;

    let mut svg = Svg::default();
    svg.raw(format_args!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0} {height:.0}" width="{WIDTH:.0}" height="{height:.0}" role="img" aria-labelledby="headline">"#
    ));
    svg.raw(format_args!(r#"<title id="headline">{}</title>"#, escaped(&report.headline())));
    svg.raw(format_args!("<style>{PAGE}\n{STYLE}</style>"));
    svg.rect("page", Area { x: 0.0, y: 0.0, width: WIDTH, height }, "");
    let mut y = 38.0;
    for line in &head {
        svg.text("head", (EDGE, y), line);
        y += 27.0;
    }
    for line in &sub {
        svg.text("sub", (EDGE, y - 3.0), line);
        y += 18.0;
    }
    svg.text("small soft end", (P50, top + 4.0), "p50");
    svg.text("small soft end", (P99, top + 4.0), "p99");
    let places = lanes(&mut svg, &groups, &lines, report.clients, top);
    grid(&mut svg, axis, top + 14.0, bottom);
    sections(&mut svg, &groups, &lines, top);
    if let Some(floor) = report.line(Line::Ping).and_then(|line| line.at(50.0)) {
        let x = axis.x(floor);
        svg.line("floor", (x, top + 14.0), (x, bottom));
    }
    for (figures, y) in places {
        one(&mut svg, axis, figures, y);
    }
    legend(&mut svg, bottom + 46.0);
    svg.raw("</svg>");
    svg.into_text()
}

/// The empty lanes with their names, and where each is.
fn lanes<'a>(
    svg: &mut Svg,
    groups: &[Group],
    lines: &[&'a Figures],
    clients: usize,
    top: f64,
) -> Vec<(&'a Figures, f64)> {
    let (mut y, mut places) = (top, Vec::new());
    for group in groups {
        y += GROUP;
        for figures in lines.iter().filter(|line| line.line.group() == *group) {
            let width = RIGHT - LEFT;
            svg.text("end", (LEFT - 12.0, y + HEIGHT / 2.0 + 4.0), &figures.line.text(clients));
            svg.rect("lane", Area { x: LEFT, y, width, height: HEIGHT }, "");
            places.push((*figures, y));
            y += STEP;
        }
    }
    places
}

/// The names of the groups, above all lines.
fn sections(svg: &mut Svg, groups: &[Group], lines: &[&Figures], top: f64) {
    let mut y = top;
    for group in groups {
        y += GROUP;
        svg.text("section", (EDGE, y - 8.0), &group.text().to_uppercase());
        y += STEP * rows(lines.iter().filter(|line| line.line.group() == *group).count());
    }
}

/// Lines at all steps, with the text of each, or of powers of ten alone where there is no room for more.
fn grid(svg: &mut Svg, axis: Axis, top: f64, bottom: f64) {
    let within = |step: &f64| (axis.from..=axis.to).contains(step);
    let wide = axis.x(axis.from * 10.0) - axis.x(axis.from);
    for (index, step) in steps().enumerate().filter(|(_, step)| within(step)) {
        let x = axis.x(step);
        svg.line("grid", (x, top), (x, bottom));
        // The first of three is a power of ten.
        if index % 3 == 0 || wide > 150.0 {
            let text = span(step).replace(".00", "").replace(".0", "");
            svg.text("small soft mid", (x, bottom + 16.0), &text);
        }
    }
}

/// What lies in one lane.
fn one(svg: &mut Svg, axis: Axis, figures: &Figures, y: f64) -> Option<()> {
    let at = |percent| figures.at(percent).map(|nanos| axis.x(nanos));
    let (least, p10, p50) = (at(0.0)?, at(10.0)?, at(50.0)?);
    let (p90, p99, most) = (at(90.0)?, at(99.0)?, axis.x(figures.longest()?));
    let (class, middle) = (figures.line.group().class(), y + HEIGHT / 2.0);
    svg.line(&format!("reach stroke{class}"), (least, middle), (most, middle));
    let told = format!(
        "{} times: half within {}, 90 in 100 within {}, 99 within {}, all within {}",
        figures.count(),
        span(figures.at(50.0)?),
        span(figures.at(90.0)?),
        span(figures.at(99.0)?),
        span(figures.longest()?)
    );
    let bar = Area { x: p10, y: middle - 7.0, width: p90 - p10, height: 14.0 };
    svg.rect(class, bar, &told);
    svg.line(&format!("tick stroke{class}"), (p99, middle - 8.0), (p99, middle + 8.0));
    svg.line(&format!("reach stroke{class}"), (most, middle - 4.0), (most, middle + 4.0));
    svg.dot(&format!("dot stroke{class}"), (p50, middle), 4.5, &told);
    svg.text("strong end", (P50, middle + 4.0), &span(figures.at(50.0)?));
    svg.text("soft end", (P99, middle + 4.0), &span(figures.at(99.0)?));
    Some(())
}

/// How a lane is read.
fn legend(svg: &mut Svg, y: f64) {
    let mut x = LEFT;
    let bar = Area { x, y: y - 7.0, width: 56.0, height: 14.0 };
    svg.line("reach strokewithout", (x - 14.0, y), (x + 118.0, y));
    svg.rect("without", bar, "");
    svg.dot("dot strokewithout", (x + 18.0, y), 4.5, "");
    svg.line("tick strokewithout", (x + 92.0, y - 8.0), (x + 92.0, y + 8.0));
    svg.line("reach strokewithout", (x + 118.0, y - 4.0), (x + 118.0, y + 4.0));
    x += 134.0;
    let text = "bar: 10 to 90 in 100; dot: half; mark: 99 in 100; line: all.";
    svg.text("small soft", (x, y - 2.0), text);
    svg.text(
        "small soft",
        (x, y + 13.0),
        "The axis is logarithmic. Dashed: a round trip to a majority (PING).",
    );
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use roxmltree::Document;

    use super::*;
    use crate::bench::report::tests::empty;

    fn report(times: &[(Line, u64, u64)]) -> Report {
        let line = |(line, least, most): &(Line, u64, u64)| {
            let mut figures = Figures::new(*line).unwrap();
            (0..=100).for_each(|part| {
                figures.add(Duration::from_nanos(least + (most - least) * part / 100));
            });
            figures
        };
        Report { lines: times.iter().map(line).collect(), ..empty(&["redis <7>"]) }
    }

    #[test]
    fn everything_stands_in_the_picture_whatever_the_times_are() {
        let long = 3_600 * 1_000_000_000;
        for times in [
            &[(Line::Ping, 1_000, 1_001)][..],
            &[(Line::Ping, 20_000, 900_000), (Line::Lease, 90_000, long), (Line::Many, 100, 200)],
            &[(Line::Lease, 999_999, 1_000_001), (Line::Processes, 5_000_000, 5_000_000)],
            &[],
        ] {
            let report = report(times);
            let picture = draw(&report);
            let document = Document::parse(&picture).unwrap();
            let number = |node: roxmltree::Node<'_, '_>, name: &str| {
                node.attribute(name).map(|text| text.parse::<f64>().unwrap())
            };
            let height = number(document.root_element(), "height").unwrap();
            for node in document.descendants() {
                for (name, end) in [("x", WIDTH), ("x2", WIDTH), ("cx", WIDTH), ("y", height)] {
                    let at = number(node, name);
                    assert!(at.is_none_or(|at| (0.0..=end).contains(&at)), "{node:?}");
                }
            }
            let lanes =
                document.descendants().filter(|node| node.attribute("class") == Some("lane"));
            assert_eq!(lanes.count(), times.len());
            // On the axis, from left to right.
            let bars = document.descendants().filter(|node| node.attribute("cx").is_some());
            assert_eq!(bars.count(), times.len() + 1, "and one in the legend");
        }
    }

    #[test]
    fn what_is_slower_stands_to_the_right() {
        let report = report(&[(Line::Ping, 50_000, 50_000), (Line::Lease, 5_000_000, 5_000_000)]);
        let lines: Vec<&Figures> = report.lines.iter().collect();
        let axis = Axis::around(&lines);
        assert!(axis.x(50_000.0) >= LEFT && axis.x(50_000.0) < axis.x(5_000_000.0));
        assert!(axis.x(5_010_000.0) <= RIGHT);
        let [step, twice] = [axis.x(2e5) - axis.x(1e5), axis.x(4e5) - axis.x(2e5)];
        assert!((step - twice).abs() < 0.01, "a factor is a length");
    }
}
