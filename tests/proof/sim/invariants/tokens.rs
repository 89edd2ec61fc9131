//! I2: the fencing tokens of one resource are unique, and rise in the order of grants.
//!
//! Source: Kleppmann, "How to do distributed locking" (2016), who found no token in Redlock; `docs/safety.md`, "Tokens";
//! S22, S32 to S35. It rests on no clock, no network and no pause, but on A3: it is asked of every run, whatever becomes
//! of exclusion there. Readers have the token of the writer before them.

use super::{Hold, Violation};

/// Tokens of one resource are unique, and rise in the order of grants.
pub(crate) fn check(history: &[Hold]) -> Result<(), Violation> {
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

#[cfg(test)]
mod tests {
    use super::{super::by_hand::fenced, *};

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
        // The one asks in the moment in which the other has it.
        assert_eq!(check(&[fenced("a", 0, 4, 8), fenced("a", 4, 5, 7)]), Ok(()));
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
}
