//! The judge: leases of one resource must not overlap in time, their fencing tokens are unique and rise, and
//! nothing may stay behind. Readers may overlap, and have the token of the writer before them.
//!
//! Goal: a violation is data, which names both leases. It knows nothing of how the history came about, and
//! is itself tested here on histories written by hand.

use std::fmt;

use quorlock::protocol::Timestamp;

/// What one client believed: that it held the resource from then until then.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Hold {
    pub(crate) client: usize,
    pub(crate) resource: String,
    pub(crate) owner: String,
    /// Together with other readers.
    pub(crate) reads: bool,
    /// None in classic mode.
    pub(crate) token: Option<u64>,
    /// When it was asked for: no round began before that.
    pub(crate) asked: Timestamp,
    /// When the lease was in the client's hands.
    pub(crate) from: Timestamp,
    /// The first moment at which it no longer relied on it: released, dropped, or out of validity.
    pub(crate) until: Timestamp,
    /// It was lost and left, so that nobody else gets it before this.
    pub(crate) kept_out: Option<Timestamp>,
}

/// What went wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Violation {
    Overlap {
        first: Box<Hold>,
        second: Box<Hold>,
    },
    /// Both got one token.
    TokenTwice {
        first: Box<Hold>,
        second: Box<Hold>,
    },
    /// The second was asked for when the first had been granted, and has the smaller token.
    TokenFell {
        first: Box<Hold>,
        second: Box<Hold>,
    },
    /// The second came before the lock-delay of the first was over.
    TooSoon {
        first: Box<Hold>,
        second: Box<Hold>,
    },
    OwnerUsedTwice {
        owner: String,
    },
    LeftBehind {
        server: usize,
        keys: Vec<String>,
    },
    NotClosed {
        client: usize,
        unfinished: usize,
    },
    NotLive {
        resource: String,
        error: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#?}")
    }
}

/// Exclusion: at most one holder per resource at any time, or readers alone.
pub(crate) fn check(history: &[Hold]) -> Result<(), Violation> {
    let mut holds: Vec<&Hold> = history.iter().filter(|hold| hold.from < hold.until).collect();
    holds.sort_by_key(|hold| (&hold.resource, hold.from, hold.until));
    // Of those before, the one that ends last is the one to overlap with: of writers, and of readers.
    let mut last: [Option<&Hold>; 2] = [None; 2];
    for hold in holds {
        last = last.map(|last| last.filter(|last| last.resource == hold.resource));
        let others = if hold.reads { &last[..1] } else { &last };
        if let Some(first) = others.iter().flatten().find(|last| hold.from < last.until) {
            return Err(Violation::Overlap {
                first: Box::new((*first).clone()),
                second: Box::new(hold.clone()),
            });
        }
        let last = &mut last[usize::from(hold.reads)];
        *last = last.filter(|last| last.until > hold.until).or(Some(hold));
    }
    check_tokens(history)?;
    check_delays(history)?;
    // A lease on several resources has one owner for all of them.
    let mut owners: Vec<_> =
        history.iter().map(|hold| (&hold.owner, &hold.resource, hold.client, hold.from)).collect();
    owners.sort();
    let is_twice = |pair: &[(&String, &String, usize, Timestamp)]| {
        let ((one, of, client, from), (other, of_other, client_other, from_other)) =
            (pair[0], pair[1]);
        one == other && (of == of_other || (client, from) != (client_other, from_other))
    };
    match owners.windows(2).find(|pair| is_twice(pair)) {
        Some(pair) => Err(Violation::OwnerUsedTwice { owner: pair[0].0.clone() }),
        None => Ok(()),
    }
}

/// Fencing: whatever happens to exclusion, tokens of one resource are unique, and rise in the order of grants.
pub(crate) fn check_tokens(history: &[Hold]) -> Result<(), Violation> {
    for (index, a) in history.iter().enumerate() {
        for b in &history[index + 1..] {
            let (Some(token_a), Some(token_b)) = (a.token, b.token) else { continue };
            if a.resource != b.resource {
                continue;
            }
            let pair =
                |first: &Hold, second: &Hold| (Box::new(first.clone()), Box::new(second.clone()));
            if token_a == token_b && !a.reads && !b.reads {
                let (first, second) = pair(a, b);
                return Err(Violation::TokenTwice { first, second });
            }
            for (first, second) in [(a, b), (b, a)] {
                let falls = first.token > second.token
                    || first.token == second.token && first.reads && !second.reads;
                if first.from < second.asked && falls {
                    let (first, second) = pair(first, second);
                    return Err(Violation::TokenFell { first, second });
                }
            }
        }
    }
    Ok(())
}

/// Lock-delay: behind a loss nobody gets the resource for so long.
fn check_delays(history: &[Hold]) -> Result<(), Violation> {
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

    use super::*;

    fn hold(client: usize, resource: &str, from: u64, until: u64) -> Hold {
        let at = |millis| Timestamp::from_origin(Duration::from_millis(millis));
        let owner = format!("{client}-{resource}-{from}");
        let resource = resource.to_owned();
        let (asked, from, until) = (at(from), at(from), at(until));
        let (reads, token, kept_out) = (false, None, None);
        Hold { client, resource, owner, reads, token, asked, from, until, kept_out }
    }

    /// One that is asked for at the first time, granted at the second and over at once.
    fn fenced(resource: &str, asked: u64, from: u64, token: u64) -> Hold {
        let mut hold = hold(0, resource, from, from);
        hold.asked = Timestamp::from_origin(Duration::from_millis(asked));
        hold.owner = format!("{resource}-{asked}-{token}");
        hold.token = Some(token);
        hold
    }

    #[test]
    fn a_token_that_is_given_twice_is_found() {
        let (first, second) = (fenced("a", 0, 1, 7), fenced("a", 5, 6, 7));
        let history = [first.clone(), fenced("b", 0, 9, 7), second.clone()];
        let (first, second) = (Box::new(first), Box::new(second));
        assert_eq!(check(&history), Err(Violation::TokenTwice { first, second }));
    }

    #[test]
    fn a_token_that_falls_is_found_in_whatever_order_it_is_written() {
        let (first, second) = (fenced("a", 0, 1, 8), fenced("a", 2, 3, 7));
        let (one, two) = (Box::new(first.clone()), Box::new(second.clone()));
        let expected = Err(Violation::TokenFell { first: one, second: two });
        assert_eq!(check(&[first.clone(), fenced("a", 2, 5, 9), second.clone()]), expected);
        assert_eq!(check(&[second, first]), expected);
    }

    #[test]
    fn tokens_of_acquires_that_ran_side_by_side_may_be_in_any_order() {
        let history = [fenced("a", 0, 4, 8), fenced("a", 3, 5, 7), fenced("b", 9, 9, 1)];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn a_planted_overlap_is_found_in_whatever_order_it_is_written() {
        let (first, second) = (hold(0, "a", 10, 20), hold(1, "a", 19, 30));
        let expected =
            Violation::Overlap { first: Box::new(first.clone()), second: Box::new(second.clone()) };
        assert_eq!(check(&[first.clone(), second.clone()]), Err(expected.clone()));
        assert_eq!(check(&[second, hold(2, "b", 0, 100), first]), Err(expected));
    }

    #[test]
    fn an_overlap_with_a_long_one_is_found_behind_short_ones() {
        let history = [hold(0, "a", 0, 100), hold(1, "a", 99, 100)];
        assert!(matches!(check(&history), Err(Violation::Overlap { .. })));
    }

    #[test]
    fn one_client_overlapping_with_itself_is_an_overlap() {
        let history = [hold(0, "a", 0, 10), hold(0, "a", 5, 6)];
        assert!(matches!(check(&history), Err(Violation::Overlap { .. })));
    }

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

    #[test]
    fn one_after_another_and_side_by_side_are_fine() {
        let history = [
            hold(0, "a", 10, 20),
            hold(1, "a", 20, 30),
            hold(1, "b", 15, 25),
            hold(2, "a", 25, 25),
        ];
        assert_eq!(check(&history), Ok(()));
        assert_eq!(check(&[]), Ok(()));
    }

    #[test]
    fn readers_overlap_with_writers_alone() {
        let reader = |client, from, until| Hold { reads: true, ..hold(client, "a", from, until) };
        let readers = [reader(0, 0, 50), reader(1, 10, 20), reader(2, 15, 18)];
        assert_eq!(check(&readers), Ok(()));
        for writer in [hold(3, "a", 19, 21), hold(3, "a", 49, 60)] {
            let with = [readers.as_slice(), &[writer]].concat();
            assert!(matches!(check(&with), Err(Violation::Overlap { .. })));
        }
        let early = [hold(0, "a", 0, 10), reader(1, 9, 20)];
        assert!(matches!(check(&early), Err(Violation::Overlap { .. })));
    }

    #[test]
    fn a_reader_has_the_token_of_the_writer_before_it_and_not_of_that_after_it() {
        let reads = |hold: Hold| Hold { reads: true, owner: format!("{}r", hold.owner), ..hold };
        let (writer, reader) = (fenced("a", 0, 1, 7), reads(fenced("a", 2, 3, 7)));
        let beside = reads(fenced("a", 4, 5, 7));
        assert_eq!(check(&[writer, reader.clone(), beside, fenced("a", 6, 7, 8)]), Ok(()));
        let fell = check(&[reader, fenced("a", 4, 5, 7)]);
        assert!(matches!(fell, Err(Violation::TokenFell { .. })));
        let fell = check(&[fenced("a", 0, 1, 8), reads(fenced("a", 2, 3, 7))]);
        assert!(matches!(fell, Err(Violation::TokenFell { .. })));
    }

    #[test]
    fn an_owner_that_is_used_twice_is_found() {
        let (mut first, second) = (hold(0, "a", 0, 10), hold(1, "a", 10, 20));
        first.owner.clone_from(&second.owner);
        let expected = Violation::OwnerUsedTwice { owner: second.owner.clone() };
        assert_eq!(check(&[first, second]), Err(expected));
    }
}
