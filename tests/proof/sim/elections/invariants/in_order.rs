//! What one observer reports never goes back.
//!
//! Source: etcd's `Election.Observe`, "reliably observes ordered leader proposals"; monotonic reads, of session guarantees
//! (Terry and others).

use std::collections::BTreeMap;

use super::{History, Report, Violation};

/// The terms that an observer reports do not fall.
pub(super) fn check(history: &History) -> Result<(), Violation> {
    let mut last: BTreeMap<usize, &Report> = BTreeMap::new();
    for report in &history.reports {
        if let Some(before) = last.insert(report.observer, report)
            && before.term > report.term
        {
            let (before, report) = (Box::new(before.clone()), Box::new(report.clone()));
            return Err(Violation::ReportFell(before, report));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::by_hand::{at, history, report},
        *,
    };

    #[test]
    fn an_observer_that_goes_back_is_found() {
        let mut bad = history();
        bad.reports = vec![report(5, 21, 25), Report { asked: at(19), ..report(5, 10, 26) }];
        assert!(matches!(check(&bad), Err(Violation::ReportFell(..))));
    }

    #[test]
    fn two_observers_may_see_it_at_different_times() {
        let mut fine = history();
        fine.reports = vec![report(5, 21, 25), Report { asked: at(19), ..report(6, 10, 26) }];
        assert_eq!(check(&fine), Ok(()));
    }
}
