//! A leader that acts later has the larger term.
//!
//! Source: Raft 5.1, terms as a logical clock; Chubby's sequencers; Kleppmann's fencing tokens. A store that compares terms
//! refuses the later leader otherwise.

use super::{History, Violation};

/// Terms rise in the order in which they are acted in.
pub(super) fn check(history: &History) -> Result<(), Violation> {
    let acts = history.acts_in_order();
    match acts.windows(2).find(|pair| pair[1].term < pair[0].term) {
        Some(pair) => Err(Violation::TermFell(pair[0].clone(), pair[1].clone())),
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
    fn a_term_that_falls_is_found() {
        let mut bad = history();
        bad.acts.push(act(2, 9, 40, 50));
        assert!(matches!(check(&bad), Err(Violation::TermFell(..))));
    }
}
