//! What a message calls that which was asked for.
//!
//! It decides the words alone. It must never print a name as it is, nor more of a long one than a line can bear.

use std::fmt;

use crate::protocol::{Resource, Target};

/// So many bytes of a name are shown, and so many names of a set.
const SHOWN: (usize, usize) = (120, 4);

/// A resource, several or a semaphore, with an article; where nothing is known of it the article alone.
pub(super) struct Named<'a>(pub(super) Option<&'a Target>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("the resource"),
            Some(Target::AnyOf(slots)) => write!(f, "the semaphore {}", Quoted(slots.name())),
            Some(Target::Set(set)) => {
                let (shown, others) = set.as_slice().split_at(SHOWN.1.min(set.as_slice().len()));
                f.write_str("the resources ")?;
                for (at, resource) in shown.iter().enumerate() {
                    write!(f, "{}{}", if at == 0 { "" } else { ", " }, Quoted(resource))?;
                }
                match others.len() {
                    0 => Ok(()),
                    1 => f.write_str(" and 1 other"),
                    others => write!(f, " and {others} others"),
                }
            }
            Some(target) => write!(f, "the resource {}", Quoted(target.resource())),
        }
    }
}

/// The beginning of a message that something else follows: why it was not acquired.
pub(super) struct NotAcquired<'a>(pub(super) &'a Option<Target>);

impl fmt::Display for NotAcquired<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(target) = self.0 else { return Ok(()) };
        let were = if target.is_set() { "were" } else { "was" };
        write!(f, "{} {were} not acquired: ", Named(Some(target)))
    }
}

/// Of what a lease is; nothing where that is not known.
pub(super) struct On<'a>(pub(super) Option<&'a Target>);

impl fmt::Display for On<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |target| write!(f, " on {}", Named(Some(target))))
    }
}

/// A name in quotes.
pub(super) struct Quoted<'a>(pub(super) &'a Resource);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.as_bytes();
        match bytes.get(..SHOWN.0).filter(|shown| shown.len() < bytes.len()) {
            None => write!(f, "`{}`", self.0),
            Some(shown) => write!(f, "`{}...` ({} bytes)", shown.escape_ascii(), bytes.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{ResourceSet, Slots};

    fn resource(name: &str) -> Resource {
        Resource::new(name).unwrap()
    }

    fn set(names: usize) -> Target {
        let names = (0..names).map(|name| resource(&name.to_string()));
        Target::from(ResourceSet::new(names).unwrap())
    }

    #[test]
    fn each_kind_is_called_by_its_name() {
        let shown = |target: Target| Named(Some(&target)).to_string();
        assert_eq!(shown(resource("a\n").into()), r"the resource `a\n`");
        assert_eq!(shown(Target::Shared(resource("a"))), "the resource `a`");
        assert_eq!(shown(set(2)), "the resources `0`, `1`");
        assert_eq!(shown(set(5)), "the resources `0`, `1`, `2`, `3` and 1 other");
        assert_eq!(shown(set(32)), "the resources `0`, `1`, `10`, `11` and 28 others");
        let slots = Slots::new(b"", "api", 3).unwrap();
        assert_eq!(shown(Target::Slot(slots.slot(2).unwrap())), "the resource `api/2`");
        assert_eq!(shown(slots.into()), "the semaphore `api`");
        assert_eq!(Named(None).to_string(), "the resource");
    }

    #[test]
    fn a_name_that_fills_a_page_is_cut() {
        let shown = |bytes| Quoted(&resource(&"x".repeat(bytes))).to_string();
        assert_eq!(shown(120), format!("`{}`", "x".repeat(120)));
        assert_eq!(shown(65_536), format!("`{}...` (65536 bytes)", "x".repeat(120)));
    }

    #[test]
    fn a_message_about_nothing_begins_with_its_cause() {
        assert_eq!(NotAcquired(&None).to_string(), "");
        assert_eq!(NotAcquired(&Some(set(1))).to_string(), "the resource `0` was not acquired: ");
        let set = set(2);
        assert_eq!(
            NotAcquired(&Some(set.clone())).to_string(),
            "the resources `0`, `1` were not acquired: "
        );
        assert_eq!(On(Some(&set)).to_string(), " on the resources `0`, `1`");
        assert_eq!(On(None).to_string(), "");
    }
}
