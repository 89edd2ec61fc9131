//! The nodes of a fleet: its name, a generation, and the names of its nodes, as the record of each node has them.
//!
//! A fleet goes from one list to the next by generations. Meanwhile clients have both lists, and the record of a node says
//! whom it serves.
//!
//! It decides which lists are the same (order and case do not matter), and what a node's record means to a client with
//! its list. It never reads an address, and names no node itself.

use alloc::{borrow::ToOwned, format, string::String, sync::Arc, vec::Vec};
use core::fmt;

/// A name contains letters, digits and these. Any other byte is written as `%` and two digits.
const PLAIN: &[u8] = b"-._~:/[]%@";

/// The nodes of a fleet, by their names.
///
/// Every client of a fleet has the same list, or this list and the one before: quorums of two lists that share a node need
/// not meet. A node keeps the list that it belongs to, and refuses clients with another.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Members {
    /// The form of a record: `generation names fleet`, the names in order with commas between them. Of two lists it is
    /// `generation before>after fleet`, with the generation of the first.
    text: Arc<str>,
}

/// Whose votes a node takes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Serves {
    /// Clients with the list before a change alone, and clients with both lists.
    Before,
    /// Clients with both lists alone: it is sealed.
    Both,
    /// Clients with the list behind the change alone, and clients with both lists. Without a change these are all.
    #[default]
    After,
}

/// What a node tells of another list.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Belongs {
    /// It belongs to that list.
    Record,
    /// A client with that list means to use it, or has it held.
    Claim,
    /// It belongs to an earlier list, and a client with both lists has said which one is next.
    Announced,
}

/// What the record of a node says to a client that it does not serve.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Relation {
    /// It serves this list in this generation, which is a later one than the client knew when it asked.
    Later(u32),
    /// It is about to serve this list, in this generation: clients with both lists alone may vote there until then.
    Into(u32),
    /// The fleet has left this list.
    Left,
    /// It has missed a change: its record is of an earlier generation of this list, or of a change from or to it.
    Earlier,
    /// A client that changes the list means to let it in.
    Claimed,
    /// It belongs to another fleet, or to another list in the same generation.
    Others,
}

#[derive(Clone, Copy)]
struct Parts<'a> {
    generation: u32,
    /// Of two lists the first.
    names: &'a str,
    after: Option<&'a str>,
    fleet: &'a str,
}

impl Members {
    /// A fleet of this name whose nodes have these names, in any order and case. It is in the first generation.
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

    /// Both lists of a change from the list of `before` to this one.
    ///
    /// ```
    /// use quorlock_core::{Members, Relation, Serves};
    ///
    /// let (old, new) = (Members::new("default", ["a", "b", "c"]), Members::new("default", ["a", "b", "d"]));
    /// let both = new.after(&old);
    /// assert_eq!(both.text(), "1 a,b,c>a,b,d default");
    /// assert_eq!(both.serving(Serves::Before), old);
    /// assert_eq!(both.serving(Serves::After), new.at(2));
    /// assert_eq!(new.relation(&both), Relation::Into(2));
    /// assert_eq!(old.relation(&both), Relation::Left);
    /// ```
    #[must_use]
    pub fn after(&self, before: &Self) -> Self {
        let names = |members: &Self| members.parts().map_or("", |parts| parts.names).to_owned();
        let text = format!("1 {}>{} {}", names(before), names(self), self.fleet());
        Self { text: Arc::from(text) }
    }

    /// Reads the text of a record. A foreign text is taken for the name of a fleet without nodes.
    pub fn from_text(text: &str) -> Self {
        Self { text: Arc::from(text) }
    }

    /// A name in the form that a list has and compares: in lower case, except the path of a socket, and without blanks.
    pub fn name(name: &str) -> String {
        normal(name)
    }

    /// The text in a record.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of the fleet: `Builder::fleet`.
    pub fn fleet(&self) -> &str {
        self.parts().map_or(&*self.text, |parts| parts.fleet)
    }

    /// The names of the nodes with commas between them, and those of the second list behind a `>`. It has no blanks. A
    /// foreign text has none.
    pub fn names(&self) -> &str {
        let mut words = self.text.split(' ').skip(1);
        self.parts().and_then(|_| words.next()).unwrap_or_default()
    }

    /// The names of the nodes, in order; of two lists those of the first.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        names(self.parts().map_or("", |parts| parts.names))
    }

    /// The names of the nodes behind the change, if there are two lists.
    pub fn nodes_after(&self) -> Option<impl Iterator<Item = &str>> {
        self.parts()?.after.map(names)
    }

    /// How often the fleet had another list before, and one; of two lists that of the first. A foreign text has none.
    pub fn generation(&self) -> u32 {
        self.parts().map_or(0, |parts| parts.generation)
    }

    /// The same list in another generation.
    #[must_use]
    pub fn at(&self, generation: u32) -> Self {
        let rest = self.parts().and_then(|_| self.text.split_once(' '));
        rest.map_or_else(
            || self.clone(),
            |(_, rest)| Self::from_text(&format!("{generation} {rest}")),
        )
    }

    /// The record of a node of this client that serves so. With one list that is the list.
    #[must_use]
    pub fn serving(&self, serves: Serves) -> Self {
        let Some(Parts { generation, names, after: Some(after), fleet }) = self.parts() else {
            return self.clone();
        };
        match serves {
            Serves::Before => Self::from_text(&format!("{generation} {names} {fleet}")),
            Serves::Both => self.clone(),
            Serves::After => {
                Self::from_text(&format!("{} {after} {fleet}", generation.saturating_add(1)))
            }
        }
    }

    /// Whom a node with this record serves, if it serves a client with this list. With one list there is one such record.
    pub fn served_by(&self, record: &Self) -> Option<Serves> {
        let all = [Serves::After, Serves::Both, Serves::Before];
        all.into_iter().find(|serves| self.serving(*serves) == *record)
    }

    /// What a record says that does not serve this list.
    pub fn relation(&self, record: &Self) -> Relation {
        let (Some(ours), Some(theirs)) = (self.parts(), record.parts()) else {
            return Relation::Others;
        };
        if ours.fleet != theirs.fleet {
            return Relation::Others;
        }
        // In which generation of ours the record would serve us.
        let is = |names: &str| theirs.after.is_none() && theirs.names == names;
        let serving = match ours.after {
            None => is(ours.names).then_some(theirs.generation),
            Some(_)
                if (theirs.names, theirs.after) == (ours.names, ours.after) || is(ours.names) =>
            {
                Some(theirs.generation)
            }
            Some(after) => is(after).then(|| theirs.generation.saturating_sub(1)),
        };
        let newest =
            |parts: Parts<'_>| parts.generation.saturating_add(u32::from(parts.after.is_some()));
        let is_into_ours = ours.after.is_none() && theirs.after == Some(ours.names);
        match serving {
            Some(generation) if generation >= ours.generation => Relation::Later(generation),
            _ if is_into_ours && newest(theirs) >= ours.generation => {
                Relation::Into(newest(theirs))
            }
            _ if newest(theirs) > newest(ours) => Relation::Left,
            _ if theirs.generation < ours.generation && is_kin(ours, theirs) => Relation::Earlier,
            _ => Relation::Others,
        }
    }

    fn parts(&self) -> Option<Parts<'_>> {
        let (generation, rest) = self.text.split_once(' ')?;
        let (lists, fleet) = rest.split_once(' ')?;
        let (names, after) = match lists.split_once('>') {
            Some((before, after)) => (before, Some(after)),
            None => (lists, None),
        };
        Some(Parts { generation: generation.parse().ok()?, names, after, fleet })
    }

    /// The names of the nodes, of two lists those behind the change.
    fn newest(&self) -> impl Iterator<Item = &str> {
        names(self.parts().map_or("", |parts| parts.after.unwrap_or(parts.names)))
    }

    /// The nodes of this list that the other does not have.
    fn without<'a>(&'a self, other: &Self) -> String {
        let other: Vec<&str> = other.newest().collect();
        let own: Vec<&'a str> = self.newest().filter(|name| !other.contains(name)).collect();
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

/// Whether their record is of our list, of two the one before the change, or of a change to or from it. Fleets of one name
/// that have no list in common may be two fleets, and so may one that has the list behind our change.
fn is_kin(ours: Parts<'_>, theirs: Parts<'_>) -> bool {
    theirs.names == ours.names || theirs.after == Some(ours.names)
}

fn names(names: &str) -> impl Iterator<Item = &str> {
    names.split(',').filter(|name| !name.is_empty())
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
    /// The name of the fleet, and its nodes; of two lists both.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fleet())?;
        let list = |f: &mut fmt::Formatter<'_>, open: &str, names: &str| {
            if names.is_empty() { Ok(()) } else { write!(f, "{open}{})", names.replace(',', ", ")) }
        };
        let Some(parts) = self.parts() else { return Ok(()) };
        list(f, " (", parts.names)?;
        list(f, " to (", parts.after.unwrap_or_default())
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
