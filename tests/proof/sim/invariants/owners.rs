//! I4: each grant has an owner of its own.
//!
//! Source: redis.io, "a random string, unique across all clients and all lock requests"; PaxosLease Revisited, "owner-only
//! release"; fuel-core's one UUID for all attempts; S11 and S12. A release of one attempt would end another one otherwise.

use quorlock::protocol::Timestamp;

use super::{Hold, Violation};

/// No owner is used twice, but for the resources of one lease.
pub(crate) fn check(history: &[Hold]) -> Result<(), Violation> {
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
}
