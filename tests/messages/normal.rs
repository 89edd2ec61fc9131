//! What is different in each run, replaced: addresses by the numbers of the nodes, owners, and times that were measured.
//!
//! It must leave alone what a user has set: a ttl stands in a message as it was asked for.

use quorlock_harness::{Cluster, Server};

/// What was found, with the ports that stand in it.
pub(crate) struct Found {
    message: String,
    ports: Vec<u16>,
}

impl Found {
    /// Without any address of a server.
    pub(crate) fn plain(error: impl std::fmt::Display) -> Self {
        Self { message: error.to_string(), ports: Vec::new() }
    }

    pub(crate) fn on(error: impl std::fmt::Display, cluster: &Cluster) -> Self {
        let ports = cluster.iter().map(Server::port).collect();
        Self { message: error.to_string(), ports }
    }

    pub(crate) fn and_port(mut self, port: u16) -> Self {
        self.ports.push(port);
        self
    }

    /// The message as it stands in the file.
    pub(crate) fn text(self) -> String {
        let mut text = self.message;
        for (port, number) in self.ports.iter().zip(7001..) {
            text = text.replace(&format!(":{port}"), &format!(":{number}"));
        }
        let text = MEASURED.iter().fold(text, |text, before| without_times(&text, before));
        without_owners(&without_words_of_the_resolver(&text))
    }
}

/// What stands before a time that was measured.
const MEASURED: [&str; 7] = [
    " within ",
    " expires in ",
    " gave up after ",
    " takes another ",
    "` for ",
    " in quarantine for ",
    " as before, for ",
];

/// A time as `{:?}` prints it: digits, and one of its units.
fn time(text: &str) -> Option<usize> {
    let number = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let unit = ["ns", "µs", "ms", "s"].into_iter().find(|unit| text[number..].starts_with(unit))?;
    let end = number + unit.len();
    let ends = !text[end..].starts_with(char::is_alphanumeric);
    (number > 0 && ends).then_some(end)
}

fn without_times(text: &str, before: &str) -> String {
    let mut parts = text.split(before);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(before);
        match time(part) {
            Some(end) => {
                shown.push('_');
                shown.push_str(&part[end..]);
            }
            None => shown.push_str(part),
        }
    }
    shown
}

fn without_owners(text: &str) -> String {
    let is_owner =
        |part: &str| part.len() == 32 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = text.split('`').map(|part| if is_owner(part) { "OWNER" } else { part });
    parts.collect::<Vec<_>>().join("`")
}

/// What the system says of a name that is not there depends on whether it has a resolver at all.
fn without_words_of_the_resolver(text: &str) -> String {
    const BEFORE: &str = "failed to lookup address information: ";
    let mut parts = text.split(BEFORE);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(BEFORE);
        shown.push('_');
        shown.push_str(part.find([';', ',', ')']).map_or("", |end| &part[end..]));
    }
    shown
}

#[test]
fn only_what_is_measured_is_replaced() {
    let text = |message: &str| Found { message: message.to_owned(), ports: vec![41_234] }.text();
    assert_eq!(text("free within 1.23µs; x"), "free within _; x");
    assert_eq!(text("held by `x` for 9s: for somebody"), "held by `x` for _: for somebody");
    assert_eq!(text("the ttl of 60s, for 3.5samples"), "the ttl of 60s, for 3.5samples");
    assert_eq!(text("(127.0.0.1:41234)"), "(127.0.0.1:7001)");
    let owner = "0123456789abcdef0123456789ABCDEF";
    assert_eq!(text(&format!("`{owner}` `{owner}0`")), format!("`OWNER` `{owner}0`"));
    assert_eq!(
        text("failed to lookup address information: no; x"),
        "failed to lookup address information: _; x"
    );
}
