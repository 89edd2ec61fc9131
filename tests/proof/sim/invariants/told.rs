//! I5: a client told of a grant has it, and a holder is told of its loss, at once and for good.
//!
//! Source: etcd issue 11456, found by Jepsen: a waiter was told that it held the lock when its lease had expired;
//! `docs/safety.md`, "Being told"; S3, S7. By the holder's own clock, and while its process runs: a grant has validity
//! left, and as soon as `check` says that the lease is over `lost` ends, and neither takes it back.

use std::time::Duration;

use super::Violation;

/// What a holder saw at one moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Seen {
    /// What `check` said is left. None: it is over.
    pub(crate) left: Option<Duration>,
    /// `lost` has ended.
    pub(crate) is_told: bool,
}

/// Judges what one holder saw, in order. The first is what it saw when it was granted the lease; `is_new`, that
/// nothing had stopped it between the verdict and that.
pub(crate) fn check(owner: &str, seen: &[Seen], is_new: bool) -> Result<(), Violation> {
    let violation = |what| Err(Violation::NotTold { owner: owner.to_owned(), what });
    let is_valid = |seen: &Seen| seen.left.is_some_and(|left| !left.is_zero());
    if is_new && seen.first().is_some_and(|first| !is_valid(first)) {
        return violation("it was granted with nothing left");
    }
    let mut was_over = false;
    for now in seen {
        if was_over && now.left.is_some() {
            return violation("it was over, and is not any more");
        }
        if now.is_told && now.left.is_some() {
            return violation("it was told of a loss, and holds by its check");
        }
        was_over |= now.left.is_none();
    }
    match seen.last() {
        Some(last) if was_over && !last.is_told => violation("it was over, and was not told"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDS: Seen = Seen { left: Some(Duration::from_millis(5)), is_told: false };
    const OVER: Seen = Seen { left: None, is_told: false };
    const TOLD: Seen = Seen { left: None, is_told: true };

    #[test]
    fn one_that_holds_and_is_told_of_its_end_is_fine() {
        for fine in [&[][..], &[HOLDS], &[HOLDS, HOLDS, TOLD], &[HOLDS, OVER, TOLD]] {
            assert_eq!(check("a", fine, true), Ok(()));
        }
        assert_eq!(check("a", &[TOLD], false), Ok(()), "it stood still when the verdict came");
    }

    #[test]
    fn whatever_is_wrong_is_found() {
        let empty = Seen { left: Some(Duration::ZERO), is_told: false };
        let both = Seen { is_told: true, ..HOLDS };
        for (wrong, what) in [
            (&[empty][..], "nothing left"),
            (&[TOLD], "nothing left"),
            (&[HOLDS, OVER, HOLDS], "not any more"),
            (&[HOLDS, OVER], "not told"),
            (&[HOLDS, both], "holds by its check"),
        ] {
            let Err(Violation::NotTold { what: seen, .. }) = check("a", wrong, true) else {
                panic!("{what}")
            };
            assert!(seen.contains(what), "{seen}");
        }
    }
}
