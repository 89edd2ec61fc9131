//! I4: each grant has an owner of its own.
//!
//! Source: redis.io, "a random string, unique across all clients and all lock requests"; PaxosLease Revisited, "owner-only
//! release"; fuel-core's one UUID for all attempts; S11 and S12. A release of one attempt would end another one otherwise.

use super::{Hold, Violation};

/// No owner is used twice, but for the resources of one lease, and for those in a process to whom a lease is handed on:
/// each of them has a larger token than the one before.
pub(crate) fn check(history: &[Hold]) -> Result<(), Violation> {
    let mut holds: Vec<&Hold> = history.iter().collect();
    holds.sort_by_key(|hold| (&hold.owner, &hold.resource, hold.token, hold.from));
    let twice = |pair: &[&Hold]| {
        let (one, other) = (pair[0], pair[1]);
        let is_handed_on = one.token.is_some() && one.token < other.token;
        one.owner == other.owner
            && (one.client != other.client || one.resource == other.resource && !is_handed_on)
    };
    match holds.windows(2).find(|pair| twice(pair)) {
        Some(pair) => Err(Violation::OwnerUsedTwice { owner: pair[0].owner.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::by_hand::hold, *};

    #[test]
    fn an_owner_that_is_used_twice_is_found() {
        let (mut first, second) = (hold(0, "a", 0, 10), hold(1, "a", 10, 20));
        first.owner.clone_from(&second.owner);
        let expected = Violation::OwnerUsedTwice { owner: second.owner.clone() };
        assert_eq!(check(&[first, second]), Err(expected));
    }

    #[test]
    fn one_that_is_handed_on_has_a_larger_token_and_stays_in_its_process() {
        let first = Hold { token: Some(5), ..hold(0, "a", 0, 10) };
        let handed_on = Hold { token: Some(6), from: first.until, ..first.clone() };
        assert_eq!(check(&[handed_on.clone(), first.clone()]), Ok(()));
        for wrong in [
            Hold { client: 1, ..handed_on.clone() },
            Hold { token: Some(5), ..handed_on.clone() },
            Hold { token: None, ..handed_on },
        ] {
            let seen = check(&[first.clone(), wrong]);
            assert!(matches!(seen, Err(Violation::OwnerUsedTwice { .. })));
        }
    }
}
