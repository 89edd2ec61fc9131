//! The classes of requests, by which metrics can be told apart.
//!
//! It decides how many there may be: each is a series more of each metric, and is kept for as long as the process lives. It
//! must never let a name through that is beyond that.

use crate::lock::Lock;

/// So many classes a process has; whatever comes behind them is [`OTHER`].
pub(crate) const MOST: usize = 100;
const OTHER: &str = "other";

/// Those that there are. Each is leaked once.
static ALL: Lock<Vec<&'static str>> = Lock::new(Vec::new());

/// A class, or none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Class(&'static str);

impl Class {
    pub(crate) fn of(name: &str) -> Self {
        if name.is_empty() {
            return Self::default();
        }
        let mut all = ALL.lock();
        if let Some(known) = all.iter().find(|known| **known == name) {
            return Self(known);
        }
        if all.len() >= MOST {
            return Self(OTHER);
        }
        let name: &'static str = Box::leak(Box::from(name));
        all.push(name);
        Self(name)
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

    #[test]
    fn there_are_so_many_classes_and_no_more() {
        assert_eq!(Class::of(""), Class::default());
        let first = Class::of("invoice");
        assert_eq!((Class::of("invoice"), first.0), (first, "invoice"));
        let all: Vec<Class> = (0..2 * MOST).map(|at| Class::of(&format!("c{at}"))).collect();
        assert!(all.iter().filter(|class| class.0 != OTHER).count() < MOST);
        assert_eq!(Class::of("one more"), Class(OTHER));
        assert_eq!((Class::of("invoice"), Class::of("c0")), (first, all[0]));
        assert!(ALL.lock().len() <= MOST);
    }
}
