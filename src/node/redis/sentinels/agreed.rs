//! Which master the Sentinels name together, and for how long a client may go by that.
//!
//! It decides from their last answers alone: pure, without clock and connection. A client may use a master only for
//! `TOLD_FOR` after it began to ask a majority of all Sentinels that named it. Two majorities share a Sentinel, and none
//! takes back a failover. So no client uses the former master for longer than that once another was told of the new one.

use std::{sync::Arc, time::Duration};

use crate::{node::redis::address::Place, protocol::Timestamp};

/// For how long an answer counts, from when it was asked for.
pub(super) const TOLD_FOR: Duration = Duration::from_secs(3);

/// What one Sentinel has said last.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// When it was asked.
    pub(super) asked: Timestamp,
    /// Which Sentinel it is: two addresses may lead to one.
    pub(super) id: Arc<str>,
    /// Where it says that the master is.
    pub(super) place: Place,
    /// How many other Sentinels it knows.
    pub(super) others: usize,
}

/// A master, and until when a client may use it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Agreed {
    pub(super) place: Place,
    pub(super) until: Timestamp,
}

/// How many Sentinels must name the same master, of those that are configured or known to one of them.
pub(super) fn needed(answers: &[Option<Answer>]) -> usize {
    let known = answers.iter().flatten().map(|answer| answer.others.saturating_add(1));
    known.fold(answers.len(), usize::max) / 2 + 1
}

/// What enough of them name.
pub(super) fn agree(answers: &[Option<Answer>], now: Timestamp) -> Option<Agreed> {
    let needed = needed(answers);
    let counts = |answer: &&Answer| now < answer.asked.saturating_add(TOLD_FOR);
    let mut answers: Vec<&Answer> = answers.iter().flatten().filter(counts).collect();
    answers.sort_by_key(|answer| std::cmp::Reverse(answer.asked));
    // A Sentinel with two addresses counts once, by its last answer.
    let mut seen = Vec::new();
    answers.retain(|answer| {
        let is_first = !seen.contains(&&answer.id);
        seen.push(&answer.id);
        is_first
    });
    answers.iter().find_map(|first| {
        let mut alike = answers.iter().filter(|answer| answer.place == first.place);
        let oldest = alike.nth(needed - 1)?;
        let until = oldest.asked.saturating_add(TOLD_FOR);
        Some(Agreed { place: first.place.clone(), until })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_origin(Duration::from_millis(ms))
    }

    fn answer(id: &str, asked: u64, port: u16, others: usize) -> Option<Answer> {
        let place = Place { host: Arc::from("h"), port, failover: 0 };
        Some(Answer { asked: at(asked), id: Arc::from(id), place, others })
    }

    fn agreed(answers: &[Option<Answer>], now: u64) -> Option<(u16, Timestamp)> {
        agree(answers, at(now)).map(|agreed| (agreed.place.port, agreed.until))
    }

    #[test]
    fn a_majority_is_of_all_that_are_configured_or_known() {
        let two = [answer("a", 0, 1, 2), answer("b", 0, 1, 2), None];
        assert_eq!(agreed(&two, 0), Some((1, at(3_000))));
        assert_eq!(agreed(&[answer("a", 0, 1, 2), None, None], 0), None);
        assert_eq!(agreed(&[answer("a", 0, 1, 0), None, None], 0), None);
        assert_eq!(agreed(&[answer("a", 0, 1, 0)], 0), Some((1, at(3_000))));
        assert_eq!(agreed(&[answer("a", 0, 1, 1)], 0), None, "it knows another one");
        let of_five = [answer("a", 0, 1, 2), answer("b", 0, 1, 4), answer("c", 0, 2, 2)];
        assert_eq!(agreed(&of_five, 0), None);
        assert_eq!(agreed(&[], 0), None);
    }

    #[test]
    fn those_that_name_another_master_do_not_count() {
        let split = [answer("a", 0, 1, 2), answer("b", 0, 2, 2), None];
        assert_eq!(agreed(&split, 0), None);
        let moved = [answer("a", 0, 1, 2), answer("b", 0, 2, 2), answer("c", 0, 2, 2)];
        assert_eq!(agreed(&moved, 0).map(|(port, _)| port), Some(2));
    }

    #[test]
    fn a_master_of_another_failover_is_another_one() {
        let mut again = [answer("a", 0, 1, 2), answer("b", 0, 1, 2), None];
        if let Some(answer) = &mut again[0] {
            answer.place.failover = 2;
        }
        assert_eq!(agreed(&again, 0), None);
    }

    #[test]
    fn it_holds_from_the_oldest_answer_that_is_needed() {
        let answers = [answer("a", 500, 1, 2), answer("b", 100, 1, 2), answer("c", 300, 1, 2)];
        assert_eq!(agreed(&answers, 600), Some((1, at(3_300))));
        assert_eq!(agreed(&answers, 3_299), Some((1, at(3_300))));
        assert_eq!(agreed(&answers, 3_300), None);
    }

    #[test]
    fn two_addresses_of_one_sentinel_are_one_answer() {
        let twice = [answer("a", 100, 1, 2), answer("a", 0, 1, 2), None];
        assert_eq!(agreed(&twice, 200), None);
        let moved = [answer("a", 0, 1, 2), answer("a", 100, 2, 2), answer("b", 0, 1, 2)];
        assert_eq!(agreed(&moved, 200), None, "its last answer counts");
    }
}
