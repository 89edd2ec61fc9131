//! I3: behind a lease that was lost by time and left, nobody gets the resource for the lock-delay; nor before the least
//! time is over for which a lease keeps others out.
//!
//! Source: Burrows, "The Chubby lock service" (2006), 2.4, and Consul's sessions; `docs/safety.md`, "Lock-delay" and
//! "Cleanup"; S2.

use super::{Hold, Violation};

/// Nobody else gets the resource before it may be had.
pub(crate) fn check(history: &[Hold]) -> Result<(), Violation> {
    for first in history {
        let Some(kept_out) = first.kept_out else { continue };
        let comes = |hold: &&Hold| {
            hold.resource == first.resource && hold.from >= first.until && hold.owner != first.owner
        };
        if let Some(second) =
            history.iter().filter(comes).find(|hold| hold.from < kept_out && hold.from < hold.until)
        {
            let (first, second) = (Box::new(first.clone()), Box::new(second.clone()));
            return Err(Violation::TooSoon { first, second });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quorlock_core::Timestamp;

    use super::{super::by_hand::hold, *};

    #[test]
    fn one_that_comes_before_the_lock_delay_is_over_is_found() {
        let at = |millis| Some(Timestamp::from_origin(Duration::from_millis(millis)));
        let first = Hold { kept_out: at(50), ..hold(0, "a", 10, 20) };
        let (soon, late) = (hold(1, "a", 49, 60), hold(1, "a", 50, 60));
        assert_eq!(check(&[late, first.clone(), hold(1, "b", 21, 60)]), Ok(()));
        let expected =
            Violation::TooSoon { first: Box::new(first.clone()), second: Box::new(soon.clone()) };
        assert_eq!(check(&[soon, first]), Err(expected));
    }
}
