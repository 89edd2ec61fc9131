//! The judge of elections: who acted when, and what observers saw.
//!
//! It knows nothing of how the history came about, and is itself tried on histories written by hand.

use std::collections::BTreeMap;

use quorlock::protocol::Timestamp;

/// Work of a leader: from when to when it acted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Act {
    pub(super) client: usize,
    pub(super) term: u64,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

/// A leader as it was seen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Report {
    pub(super) observer: usize,
    pub(super) term: u64,
    pub(super) text: String,
    /// When the nodes were asked, at the earliest.
    pub(super) asked: Timestamp,
    pub(super) at: Timestamp,
}

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Which terms were won, by whom, and when that was known.
    pub(super) won: BTreeMap<u64, (usize, Timestamp)>,
    pub(super) acts: Vec<Act>,
    pub(super) reports: Vec<Report>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Violation {
    /// Two acted at once.
    Overlap(Act, Act),
    /// The second acted behind the first, with the smaller term.
    TermFell(Act, Act),
    /// Nobody had won it, or says so.
    NobodyWon(Report),
    /// The observer had seen a larger one.
    ReportFell(Box<Report>, Box<Report>),
    /// Another had been elected behind it before anybody was asked.
    WasOver(Report, u64),
}

pub(super) fn check(history: &History) -> Result<(), Violation> {
    let mut acts: Vec<&Act> = history.acts.iter().filter(|act| act.from < act.until).collect();
    acts.sort_by_key(|act| (act.from, act.until));
    for pair in acts.windows(2) {
        let (first, second) = (pair[0].clone(), pair[1].clone());
        if second.from < first.until {
            return Err(Violation::Overlap(first, second));
        }
        if second.term < first.term {
            return Err(Violation::TermFell(first, second));
        }
    }
    let mut last: BTreeMap<usize, &Report> = BTreeMap::new();
    for report in &history.reports {
        let won = history.won.get(&report.term);
        if won.is_none_or(|(client, at)| {
            *at > report.at || !report.text.starts_with(&format!("{client}."))
        }) {
            return Err(Violation::NobodyWon(report.clone()));
        }
        let later = history.won.range(report.term + 1..).find(|(_, (_, at))| *at < report.asked);
        if let Some((term, _)) = later {
            return Err(Violation::WasOver(report.clone(), *term));
        }
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
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_origin(Duration::from_millis(millis))
    }

    fn act(client: usize, term: u64, from: u64, until: u64) -> Act {
        Act { client, term, from: at(from), until: at(until) }
    }

    fn report(observer: usize, term: u64, asked: u64) -> Report {
        let (asked, at) = (at(asked), at(asked + 1));
        Report { observer, term, text: format!("{}.", term % 10), asked, at }
    }

    fn history() -> History {
        let won = BTreeMap::from([(10, (0, at(10))), (21, (1, at(20)))]);
        let acts = vec![act(0, 10, 10, 20), act(1, 21, 20, 30)];
        History { won, acts, reports: vec![report(5, 10, 12), report(5, 21, 25)] }
    }

    #[test]
    fn one_behind_the_other_is_fine() {
        assert_eq!(check(&history()), Ok(()));
    }

    #[test]
    fn what_is_wrong_is_found() {
        let overlap = act(1, 21, 19, 30);
        let mut bad = history();
        bad.acts[1] = overlap.clone();
        assert_eq!(check(&bad), Err(Violation::Overlap(act(0, 10, 10, 20), overlap)));
        let mut bad = history();
        bad.acts.push(act(2, 9, 40, 50));
        assert!(matches!(check(&bad), Err(Violation::TermFell(..))));
        for (wrong, text) in [(11, "1."), (10, "1."), (10, "0")] {
            let mut bad = history();
            bad.reports[0] = Report { text: text.to_owned(), ..report(5, wrong, 12) };
            assert_eq!(check(&bad), Err(Violation::NobodyWon(bad.reports[0].clone())));
        }
        let mut bad = history();
        bad.reports[0] = report(5, 10, 8);
        assert_eq!(check(&bad), Err(Violation::NobodyWon(report(5, 10, 8))), "before it won");
        bad = history();
        bad.reports.push(report(6, 10, 21));
        assert_eq!(check(&bad), Err(Violation::WasOver(report(6, 10, 21), 21)));
        bad = history();
        bad.reports = vec![report(5, 21, 25), Report { asked: at(19), ..report(5, 10, 26) }];
        assert!(matches!(check(&bad), Err(Violation::ReportFell(..))));
    }
}
