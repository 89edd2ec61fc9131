//! Nobody is reported behind whom another had been elected before anybody was asked.
//!
//! Source: Herlihy and Wing's linearizability, of a read: it returns nothing that was over when it began; etcd answers
//! `Election.Leader` by a linearizable read for this.

use super::{History, Violation};

/// No later term had been won when the nodes were asked.
pub(super) fn check(history: &History) -> Result<(), Violation> {
    for report in &history.reports {
        let later = history.won.range(report.term + 1..).find(|(_, (_, at))| *at < report.asked);
        if let Some((term, _)) = later {
            return Err(Violation::WasOver(report.clone(), *term));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::by_hand::{history, report},
        *,
    };

    #[test]
    fn one_whose_term_was_over_is_found() {
        let mut bad = history();
        bad.reports.push(report(6, 10, 21));
        assert_eq!(check(&bad), Err(Violation::WasOver(report(6, 10, 21), 21)));
    }
}
