//! Figures of a run as one line of JSON: printed, and written to `NAME.jsonl` in the directory that `QUORLOCK_EVIDENCE` names.
//!
//! The generator of `docs/evidence.md` reads these lines, and adds when they were written and at which commit. A figure that a
//! test has not seen must never stand in one.

use std::{fmt::Write as _, fs::File, io::Write as _, path::Path, time::Duration};

/// The variable that names the directory. It is made where it is not there.
pub const DIRECTORY: &str = "QUORLOCK_EVIDENCE";

/// One line of figures that grows.
#[derive(Clone, Debug)]
pub struct Evidence {
    name: String,
    json: String,
}

impl Evidence {
    /// Figures of the part `name`, such as `chaos`: of what, in plain words, and in which configuration.
    pub fn new(name: &str, what: &str, configuration: &str) -> Self {
        let line = Self { name: name.to_owned(), json: String::new() };
        line.text("what", what).text("configuration", configuration)
    }

    /// A number under a name.
    #[must_use]
    pub fn count(self, key: &str, number: impl TryInto<u64>) -> Self {
        let number = number.try_into().ok().expect("a count that fits");
        self.field(key, &number.to_string())
    }

    /// Words under a name.
    #[must_use]
    pub fn text(self, key: &str, text: &str) -> Self {
        let quoted = quoted(text);
        self.field(key, &quoted)
    }

    /// How long it took.
    #[must_use]
    pub fn seconds(self, time: Duration) -> Self {
        self.field("seconds", &format!("{:.1}", time.as_secs_f64()))
    }

    fn field(mut self, key: &str, value: &str) -> Self {
        let comma = if self.json.is_empty() { "" } else { ", " };
        let _ = write!(self.json, "{comma}{}: {value}", quoted(key));
        self
    }

    /// The line.
    pub fn line(&self) -> String {
        format!("{{{}}}", self.json)
    }

    /// Prints the line, and keeps it where that is asked for.
    pub fn tell(&self) {
        println!("{}", self.line());
        if let Some(directory) = std::env::var_os(DIRECTORY).filter(|it| !it.is_empty()) {
            self.keep(Path::new(&directory));
        }
    }

    fn keep(&self, directory: &Path) {
        std::fs::create_dir_all(directory).expect("a directory for figures");
        let file = directory.join(format!("{}.jsonl", self.name));
        let file = File::options().append(true).create(true).open(file);
        // In one write, so that lines of two processes stay apart.
        let line = format!("{}\n", self.line());
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("figures are kept");
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_one_line_of_json_and_lines_are_added() {
        let line = Evidence::new("some", "a \"thing\"\n\\", "3 nodes")
            .count("violations", 0_u8)
            .seconds(Duration::from_millis(1_250));
        let json = r#"{"what": "a \"thing\"\u000a\\", "configuration": "3 nodes", "violations": 0, "seconds": 1.2}"#;
        assert_eq!(line.line(), json);
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        line.keep(&inner);
        line.keep(&inner);
        let kept = std::fs::read_to_string(inner.join("some.jsonl")).unwrap();
        assert_eq!(kept, format!("{json}\n{json}\n"));
    }
}
