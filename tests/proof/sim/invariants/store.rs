//! I6: a store that compares tokens takes what a holder writes, and nothing of an earlier holder.
//!
//! Source: Kleppmann, "How to do distributed locking" (2016), the storage that rejects the write of client 1;
//! `docs/fencing.md`; S1, S2, S36. That it takes nothing older than what it has is its own doing. That no write is
//! refused that reaches it while its lease holds is ours: the tokens must be in the order of the leases.

use quorlock_core::Timestamp;

use super::{Hold, Violation};

/// A write that has reached the store of a resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Write {
    pub(crate) resource: String,
    pub(crate) owner: String,
    pub(crate) token: u64,
    pub(crate) at: Timestamp,
    pub(crate) is_taken: bool,
}

/// The writes are in the order in which the store saw them. Where exclusion is not promised, a holder may be refused.
pub(crate) fn check(writes: &[Write], history: &[Hold], excludes: bool) -> Result<(), Violation> {
    let mut latest: Vec<&Write> = Vec::new();
    for write in writes {
        let before = latest.iter_mut().find(|other| other.resource == write.resource);
        if write.is_taken {
            match before {
                Some(before) if before.token > write.token => {
                    let (first, second) = (Box::new((*before).clone()), Box::new(write.clone()));
                    return Err(Violation::StaleWrite { first, second });
                }
                Some(before) => *before = write,
                None => latest.push(write),
            }
        } else if excludes {
            let holds = |hold: &&Hold| {
                hold.owner == write.owner
                    && hold.token == Some(write.token)
                    && hold.resource == write.resource
                    && (hold.from..hold.until).contains(&write.at)
            };
            if let Some(hold) = history.iter().find(holds) {
                let (write, hold) = (Box::new(write.clone()), Box::new(hold.clone()));
                return Err(Violation::HolderRefused { write, hold });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::by_hand::fenced, *};

    fn write(token: u64, at: u64, is_taken: bool) -> Write {
        let at = Timestamp::from_origin(Duration::from_millis(at));
        let (resource, owner) = ("a".to_owned(), format!("a-0-{token}"));
        Write { resource, owner, token, at, is_taken }
    }

    #[test]
    fn a_store_that_takes_what_is_older_than_what_it_has_is_found() {
        let (older, newer) = (write(1, 9, true), write(2, 5, true));
        let seen = check(&[newer.clone(), older.clone()], &[], false);
        let (first, second) = (Box::new(newer), Box::new(older));
        assert_eq!(seen, Err(Violation::StaleWrite { first, second }));
        let elsewhere = Write { resource: "b".to_owned(), ..write(1, 9, true) };
        assert_eq!(check(&[write(2, 5, true), elsewhere, write(2, 6, true)], &[], true), Ok(()));
    }

    #[test]
    fn a_holder_that_is_refused_is_found_and_one_who_was_is_not() {
        let hold = Hold { until: write(1, 9, true).at, ..fenced("a", 0, 4, 1) };
        let refused = |at| {
            check(&[write(2, 3, true), write(1, at, false)], std::slice::from_ref(&hold), true)
        };
        let write = Box::new(write(1, 8, false));
        let hold = Box::new(hold.clone());
        assert_eq!(refused(8), Err(Violation::HolderRefused { write, hold }));
        assert_eq!((refused(9), refused(3)), (Ok(()), Ok(())));
    }
}
