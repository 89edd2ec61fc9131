//! Histories written by hand, on which the judge is tried.

use std::{collections::BTreeMap, time::Duration};

use quorlock_core::Timestamp;

use super::{Act, History, Report, check};

pub(super) fn at(millis: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(millis))
}

pub(super) fn act(client: usize, term: u64, from: u64, until: u64) -> Act {
    Act { client, term, from: at(from), until: at(until) }
}

pub(super) fn report(observer: usize, term: u64, asked: u64) -> Report {
    let (asked, at) = (at(asked), at(asked + 1));
    Report { observer, term, text: format!("{}.", term % 10), asked, at }
}

/// Two terms, one behind the other.
pub(super) fn history() -> History {
    let won = BTreeMap::from([(10, (0, at(10))), (21, (1, at(20)))]);
    let acts = vec![act(0, 10, 10, 20), act(1, 21, 20, 30)];
    History { won, acts, reports: vec![report(5, 10, 12), report(5, 21, 25)] }
}

#[test]
fn one_behind_the_other_is_fine() {
    assert_eq!(check(&history()), Ok(()));
}
