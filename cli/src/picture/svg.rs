//! The elements of a picture as text.
//!
//! It decides how they are written, and must never let text become markup.

use std::fmt::{Display, Write as _};

/// A picture that grows.
#[derive(Debug, Default)]
pub(crate) struct Svg(String);

/// A rectangle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Svg {
    pub(crate) fn raw(&mut self, text: impl Display) {
        // A String takes everything.
        let _ = writeln!(self.0, "{text}");
    }

    /// With this text as its tooltip.
    pub(crate) fn rect(&mut self, class: &str, area: Area, told: &str) {
        let Area { x, y, width, height } = area;
        let told = title(told);
        // Anything narrower would not be seen.
        let width = width.max(1.5);
        self.raw(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="2">{told}</rect>"#
        ));
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.raw(format_args!(
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    pub(crate) fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, told: &str) {
        let told = title(told);
        self.raw(format_args!(
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius:.1}">{told}</circle>"#
        ));
    }

    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let text = escaped(text);
        self.raw(format_args!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{text}</text>"#));
    }

    /// One of the signs that are defined in the head.
    pub(crate) fn sign(&mut self, name: &str, (x, y): (f64, f64), told: &str) {
        let told = title(told);
        self.raw(format_args!(
            r##"<g transform="translate({x:.1} {y:.1})"><use href="#{name}"/>{told}</g>"##
        ));
    }

    pub(crate) fn open(&mut self, class: &str, id: &str) {
        let id = escaped(id);
        self.raw(format_args!(r#"<g class="{class}" id="{id}">"#));
    }

    pub(crate) fn close(&mut self) {
        self.raw("</g>");
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

fn title(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(text)) }
}

pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no room for these.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// About how wide a text is, in a size of letters. Fonts differ; this is rather too wide.
pub(crate) fn wide(text: &str, size: f64) -> f64 {
    let letters = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    f64::from(letters) * size * 0.56
}

/// A text in lines that are no wider than this, in a size of letters.
pub(crate) fn wrapped(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if wide(line, size) + wide(word, size) + size < width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        assert_eq!(escaped("<a b=\"c\"> & \u{1b}\u{ffff}d"), "&lt;a b=&quot;c&quot;&gt; &amp;   d");
        let mut svg = Svg::default();
        svg.text("t", (1.0, 2.0), "a<b");
        assert_eq!(svg.into_text(), "<text class=\"t\" x=\"1.0\" y=\"2.0\">a&lt;b</text>\n");
    }

    #[test]
    fn lines_keep_all_words() {
        let lines = wrapped("one two three four", 10.0, 60.0);
        assert!(lines.len() > 1);
        assert_eq!(lines.join(" "), "one two three four");
        assert!(lines.iter().all(|line| wide(line, 10.0) < 60.0));
    }
}
