//! The nodes of a fleet: its name, a generation, and the names of its nodes, as the marker of each node has them.
//!
//! It decides which lists are the same: order and case do not matter. It never reads an address, and names no node
//! itself.

use alloc::{format, string::String, sync::Arc, vec::Vec};
use core::fmt;

/// A name contains letters, digits and these. Any other byte is written as `%` and two digits.
const PLAIN: &[u8] = b"-._~:/[]%@";

/// The nodes of a fleet, by their names.
///
/// Every client of a fleet has the same list: quorums of two lists that share a node need not meet. A node keeps the
/// list that it belongs to, and refuses clients with another.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Members {
    /// The marker's form: `generation names fleet`, the names in order with commas between them.
    text: Arc<str>,
}

impl Members {
    /// A fleet of this name whose nodes have these names, in any order and case.
    ///
    /// ```
    /// use quorlock_core::Members;
    ///
    /// let ours = Members::new("default", ["B:6379", "a:6379"]);
    /// assert_eq!(ours, Members::new("default", ["a:6379", "b:6379"]));
    /// assert_eq!(ours.nodes().collect::<Vec<_>>(), ["a:6379", "b:6379"]);
    /// ```
    pub fn new(fleet: &str, nodes: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut names: Vec<String> = nodes.into_iter().map(|name| normal(name.as_ref())).collect();
        names.sort_unstable();
        Self { text: Arc::from(format!("1 {} {fleet}", names.join(","))) }
    }

    /// Reads the text of a marker. A foreign text is taken for the name of a fleet without nodes.
    pub fn from_text(text: &str) -> Self {
        Self { text: Arc::from(text) }
    }

    /// A name in the form that a list has and compares: in lower case, except the path of a socket, and without blanks.
    pub fn name(name: &str) -> String {
        normal(name)
    }

    /// The text in a marker.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of the fleet: `Builder::fleet`.
    pub fn fleet(&self) -> &str {
        self.parts().map_or(&*self.text, |(_, fleet)| fleet)
    }

    /// The names of the nodes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        let names = self.parts().map_or("", |(names, _)| names);
        names.split(',').filter(|name| !name.is_empty())
    }

    fn parts(&self) -> Option<(&str, &str)> {
        let (generation, rest) = self.text.split_once(' ')?;
        generation.parse::<u32>().ok()?;
        rest.split_once(' ')
    }

    /// The nodes of this list that the other does not have.
    fn without<'a>(&'a self, other: &Self) -> String {
        let other: Vec<&str> = other.nodes().collect();
        let own: Vec<&'a str> = self.nodes().filter(|name| !other.contains(name)).collect();
        own.join(", ")
    }

    /// How this list of ours differs from another one, in words.
    pub fn difference(&self, theirs: &Self) -> String {
        let (ours, others) = (self.without(theirs), theirs.without(self));
        match (ours.is_empty(), others.is_empty()) {
            (false, false) => format!("you have {ours}, they have {others}"),
            (false, true) => format!("you have {ours}, they do not"),
            (true, false) => format!("they have {others}, you do not"),
            (true, true) if self.fleet() == theirs.fleet() => "another generation".into(),
            (true, true) => {
                format!("your fleet is called {}, theirs {}", self.fleet(), theirs.fleet())
            }
        }
    }
}

/// A name in the form that is compared. Case matters in the path of a socket.
fn normal(name: &str) -> String {
    let is_path = name.starts_with("unix:");
    let mut normal = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || PLAIN.contains(&byte) {
            normal.push(char::from(if is_path { byte } else { byte.to_ascii_lowercase() }));
        } else {
            normal.push_str(&format!("%{byte:02x}"));
        }
    }
    normal
}

impl fmt::Display for Members {
    /// The name of the fleet, and its nodes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fleet())?;
        let mut before = " (";
        for node in self.nodes() {
            write!(f, "{before}{node}")?;
            before = ", ";
        }
        if before == ", " { f.write_str(")") } else { Ok(()) }
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
