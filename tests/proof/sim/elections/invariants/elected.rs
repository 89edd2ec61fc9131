//! Observers report nobody who was not elected.
//!
//! Source: the validity of consensus (what is decided was proposed, and by whom it says); etcd's `Election.Leader`, which
//! reads the key of the one who has it. Nodes know of a leader only from the one who has won.

use super::{History, Violation};

/// A reported leader had won that term by then, and the text is its own.
pub(super) fn check(history: &History) -> Result<(), Violation> {
    for report in &history.reports {
        let won = history.won.get(&report.term);
        if won.is_none_or(|(client, at)| {
            *at > report.at || !report.text.starts_with(&format!("{client}."))
        }) {
            return Err(Violation::NobodyWon(report.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            Report,
            by_hand::{history, report},
        },
        *,
    };

    #[test]
    fn one_who_was_not_elected_or_says_something_else_is_found() {
        for (wrong, text) in [(11, "1."), (10, "1."), (10, "0")] {
            let mut bad = history();
            bad.reports[0] = Report { text: text.to_owned(), ..report(5, wrong, 12) };
            assert_eq!(check(&bad), Err(Violation::NobodyWon(bad.reports[0].clone())));
        }
    }

    #[test]
    fn one_who_was_elected_later_is_found() {
        let mut bad = history();
        bad.reports[0] = report(5, 10, 8);
        assert_eq!(check(&bad), Err(Violation::NobodyWon(report(5, 10, 8))));
    }
}
