//! I7: when all is released and closed, nothing is left on any server.
//!
//! Source: redis.io, "unlock all the instances, even those believed not locked"; `docs/safety.md`, "Cleanup"; S20, S23,
//! S31. It is asked for at once, long before a ttl could have removed anything; and in a world in which clients die or
//! messages are late, when the longest ttl is over.

use super::Violation;

/// The keys of each server.
pub(crate) fn check(servers: impl Iterator<Item = Vec<Vec<u8>>>) -> Result<(), Violation> {
    for (server, keys) in servers.enumerate() {
        if !keys.is_empty() {
            let keys = keys.iter().map(|key| key.escape_ascii().to_string()).collect();
            return Err(Violation::LeftBehind { server, keys });
        }
    }
    Ok(())
}

#[test]
fn a_key_that_is_left_is_found() {
    let clean = || Vec::<Vec<u8>>::new();
    assert_eq!(check([clean(), clean()].into_iter()), Ok(()));
    let left = check([clean(), vec![b"a".to_vec()]].into_iter());
    let keys = vec!["a".to_owned()];
    assert_eq!(left, Err(Violation::LeftBehind { server: 1, keys }));
}
