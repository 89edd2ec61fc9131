//! No two act as leaders at once.
//!
//! Source: Raft 5.2, "election safety", and Gray and Cheriton's leases, by which it is a matter of time and not of terms
//! alone; Chubby's elections. client-go's `leaderelection` says that it promises none of it.

use super::{History, Violation};

/// Work has ended before that of another begins.
pub(super) fn check(history: &History) -> Result<(), Violation> {
    let acts = history.acts_in_order();
    match acts.windows(2).find(|pair| pair[1].from < pair[0].until) {
        Some(pair) => Err(Violation::Overlap(pair[0].clone(), pair[1].clone())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::by_hand::{act, history},
        *,
    };

    #[test]
    fn two_at_once_are_found() {
        let overlap = act(1, 21, 19, 30);
        let mut bad = history();
        bad.acts[1] = overlap.clone();
        assert_eq!(check(&bad), Err(Violation::Overlap(act(0, 10, 10, 20), overlap)));
    }

    #[test]
    fn work_that_ended_as_it_began_was_none() {
        let mut fine = history();
        fine.acts.push(act(2, 15, 15, 15));
        assert_eq!(check(&fine), Ok(()));
    }
}
