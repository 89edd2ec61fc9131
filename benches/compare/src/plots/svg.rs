//! A drawing as SVG text: shapes by class, and one style for light and dark.
//!
//! The background is drawn too, so that a reader's page of the other kind does not make the text vanish.

use std::fmt::Write as _;

use crate::waiting::Who;

pub(super) const WIDTH: f64 = 760.0;

/// Colours of the page and of the text come in pairs; those of the contenders are read on both.
const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-weight:600;font-size:13px}.soft{fill:#59636e}.page{fill:#fff}
.grid{stroke:#d8dee4;stroke-width:1}.curve{fill:none;stroke-width:2}.best{stroke-width:6;stroke-opacity:.5}.range{stroke-width:3;stroke-opacity:.55}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.page{fill:#0d1117}.grid{stroke:#30363d}}";

/// Where a text stands beside its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// What is drawn so far.
#[derive(Default)]
pub(super) struct Svg {
    body: String,
}

impl Svg {
    pub(super) fn text(&mut self, (x, y): (f64, f64), class: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" class="{class}" text-anchor="{anchor}">{text}</text>"#
        );
    }

    pub(super) fn grid(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = writeln!(
            self.body,
            r#"<line class="grid" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    /// From the first to the second on a level, with a dot at the first and a stroke at the second.
    pub(super) fn range(&mut self, who: Who, (x1, x2): (f64, f64), y: f64) {
        let colour = colour(who);
        let _ = writeln!(
            self.body,
            r#"<line class="range" stroke="{colour}" x1="{x1:.1}" y1="{y:.1}" x2="{x2:.1}" y2="{y:.1}"/>
<line stroke="{colour}" stroke-width="2" x1="{x2:.1}" y1="{:.1}" x2="{x2:.1}" y2="{:.1}"/>
<circle fill="{colour}" cx="{x1:.1}" cy="{y:.1}" r="5"/>"#,
            y - 5.0,
            y + 5.0,
        );
    }

    pub(super) fn bar(&mut self, who: Who, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let _ = writeln!(
            self.body,
            r#"<rect fill="{}" x="{x:.1}" y="{y:.1}" width="{:.1}" height="{height:.1}" rx="2"/>"#,
            colour(who),
            width.max(1.0),
        );
    }

    pub(super) fn curve(&mut self, who: Who, points: impl Iterator<Item = (f64, f64)>) {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
        }
        // The best possible curve stays visible behind those that are as good.
        let class = if who == Who::Local { "curve best" } else { "curve" };
        let _ =
            writeln!(self.body, r#"<path class="{class}" stroke="{}" d="{path}"/>"#, colour(who));
    }

    /// The whole drawing. `what` is for readers who do not see it.
    pub(super) fn finish(self, height: f64, what: &str) -> String {
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0}" width="{WIDTH}" height="{height:.0}" role="img">
<title>{what}</title>
<style>{STYLE}</style>
<rect class="page" width="100%" height="100%" rx="6"/>
{}</svg>
"#,
            self.body
        )
    }
}

/// One for each, the same in all drawings.
const fn colour(who: Who) -> &'static str {
    match who {
        Who::Local => "#8a8f98",
        Who::Floor => "#b08a5b",
        Who::Quorlock => "#2f7de1",
        Who::Linger => "#0fa3a3",
        Who::Classic => "#8c6fe0",
        Who::Rslock => "#e08a1e",
        Who::Redlock => "#d1495b",
        Who::NodeRedlock => "#4c9f45",
    }
}
