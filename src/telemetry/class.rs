//! The classes of requests, by which metrics can be told apart.
//!
//! It decides how many there may be: each is a series more of each metric, and is kept for as long as the process lives. It
//! must never let a name through that is beyond that.

use super::metrics;
use crate::lock::Lock;

/// So many classes a process has; whatever comes behind them is [`OTHER`].
pub(crate) const MOST: usize = 100;
const OTHER: &str = "other";

/// Those that there are. Each is leaked once.
static ALL: Lock<Vec<&'static str>> = Lock::new(Vec::new());
/// How often a name is looked up while another thread has them.
const LOOKS: usize = 10_000;
/// The longest name, in bytes.
const LONGEST: usize = 100;

/// A class, or none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Class(&'static str);

impl Class {
    pub(crate) fn of(name: &str) -> Self {
        if name.is_empty() || !cfg!(feature = "metrics") {
            return Self::default();
        }
        let Some((known, is_new)) = Self::known(name) else { return Self(OTHER) };
        if is_new {
            metrics::begin_class(known);
        }
        Self(known)
    }

    /// The name as it is kept, and whether that is new; `None` where there are too many.
    fn known(name: &str) -> Option<(&'static str, bool)> {
        // In a forked child a thread of the parent's may have it for ever.
        let mut all = (0..LOOKS).find_map(|_| ALL.try_lock())?;
        if let Some(known) = all.iter().find(|known| **known == name) {
            return Some((known, false));
        }
        if all.len() >= MOST || name.len() > LONGEST {
            return None;
        }
        let name: &'static str = Box::leak(Box::from(name));
        all.push(name);
        Some((name, true))
    }

    /// Its name; `None` where there is none.
    #[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nobody counts"))]
    pub(super) const fn name(self) -> Option<&'static str> {
        if self.0.is_empty() { None } else { Some(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "metrics")]
    #[test]
    fn there_are_so_many_classes_and_no_more() {
        assert_eq!(Class::of(""), Class::default());
        let first = Class::of("invoice");
        assert_eq!((Class::of("invoice"), first.0), (first, "invoice"));
        let all: Vec<Class> = (0..2 * MOST).map(|at| Class::of(&format!("c{at}"))).collect();
        assert!(all.iter().filter(|class| class.0 != OTHER).count() < MOST);
        assert_eq!(Class::of("one more"), Class(OTHER));
        assert_eq!((Class::of("invoice"), Class::of("c0")), (first, all[0]));
        assert_eq!(Class::of(&"x".repeat(LONGEST + 1)), Class(OTHER));
        assert!(ALL.lock().len() <= MOST);
    }
}
