//! Any slot of a semaphore: which one a node picks, its counter, and who is let in.

use quorlock::{AcquireError, Permit, Redlock};

use super::{
    super::{SECOND, patient},
    Clients, acquired, conform_in, extended, released, try_it,
};

fn conform(case: super::Case, expected: &[&str]) {
    conform_in(&patient().node_timeout(2 * SECOND), case, expected);
}

fn try_any(redlock: &Redlock, permits: usize) -> Result<Permit, AcquireError> {
    let semaphore = redlock.semaphore("s", permits).unwrap();
    semaphore.try_acquire().ttl(60 * SECOND).without_renewal().blocking()
}

fn seen_of(result: Result<Permit, AcquireError>) -> String {
    acquired(&result.map(Permit::into_lease))
}

fn keys(node: &dyn super::Backend) -> String {
    let mut keys = node.keys();
    keys.sort();
    keys.iter().map(|key| key.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_slot_is_had_by_one_until_none_is_left() {
    conform(
        |node, Clients { redlock, other }, seen| {
            let permits = [redlock, other, redlock].map(|it| try_any(it, 3).unwrap());
            seen.push(keys(node));
            for permit in &permits {
                let name = permit.resource().to_string();
                assert_eq!(name, format!("s/{}", permit.slot()));
                let is_own = node.get(name.as_bytes()) == Some(permit.owner().to_string().into());
                seen.push(format!("{is_own}"));
            }
            let [first, ..] = &permits;
            node.set(first.resource().as_bytes(), b"soonest", Some(20_000));
            seen.push(seen_of(try_any(other, 3)));
            let [_, second, _] = permits;
            let name = second.resource().to_string();
            seen.push(extended(&second));
            seen.push(released(second.into_lease()).to_owned());
            let again = try_any(other, 3).unwrap();
            seen.push(format!("{}", again.resource().to_string() == name));
        },
        &[
            "s/0 s/1 s/2",
            "true",
            "true",
            "true",
            "held by Some(\"soonest\") for up to 30 s",
            "extended, nearly a minute: true",
            "released",
            "true",
        ],
    );
}

#[test]
fn a_lock_at_a_slot_is_a_permit_that_is_taken_and_the_other_way_round() {
    conform(
        |node, Clients { redlock, other }, seen| {
            let plain = try_it(redlock, "s/0").unwrap();
            node.set(b"s/1", b"foreign", None);
            let permit = try_any(other, 3).unwrap();
            seen.push(permit.resource().to_string());
            let owner = permit.owner().to_string();
            seen.push(acquired(&try_it(redlock, "s/2")).replace(&owner, "OWNER"));
            seen.push(seen_of(try_any(other, 2)).replace(&plain.owner().to_string(), "PLAIN"));
            assert_eq!(released(plain), "released");
            seen.push(try_any(redlock, 2).unwrap().resource().to_string());
        },
        &[
            "s/2",
            "held by Some(\"OWNER\") for up to 60 s",
            "held by Some(\"PLAIN\") for up to 60 s",
            "s/0",
        ],
    );
}

#[test]
fn each_slot_has_a_counter_of_its_own_that_rises() {
    conform(
        |_, Clients { redlock, other }, seen| {
            let mut last = [0; 2];
            for turn in 0..8 {
                let held = try_any(redlock, 2).unwrap();
                let next = try_any(other, 2).unwrap();
                let plain = usize::from(next.slot());
                for permit in [&held, &next] {
                    let token = permit.token().unwrap().get();
                    let before = &mut last[usize::from(permit.slot())];
                    assert!(*before < token, "{turn}: {last:?} {token}");
                    *before = token;
                }
                for permit in [held, next] {
                    assert_eq!(released(permit.into_lease()), "released");
                }
                // A plain lease on a slot counts on.
                let lease = try_it(redlock, format!("s/{plain}")).unwrap();
                let token = lease.token().unwrap().get();
                assert!(last[plain] < token, "{turn}");
                last[plain] = token;
                assert_eq!(released(lease), "released");
            }
            seen.push("rises".to_owned());
        },
        &["rises"],
    );
}

#[test]
fn whoever_waits_is_let_in_when_any_slot_is_free_and_lets_the_next_one_in() {
    conform(
        |_, Clients { redlock, other }, seen| {
            let held = [(); 2].map(|()| try_any(redlock, 2).unwrap());
            let semaphore = other.semaphore("s", 2).unwrap();
            let one = || semaphore.acquire().ttl(60 * SECOND).wait(60 * SECOND).blocking().unwrap();
            std::thread::scope(|scope| {
                let waiters = [(); 2].map(|()| scope.spawn(one));
                std::thread::sleep(SECOND / 10);
                let began = std::time::Instant::now();
                drop(held);
                let permits = waiters.map(|waiter| waiter.join().unwrap());
                // A poll would come a second later at the earliest.
                seen.push(format!("at once: {}", began.elapsed() < SECOND / 2));
                let slots = permits.map(|permit| permit.slot());
                seen.push(format!("both: {}", slots == [0, 1] || slots == [1, 0]));
            });
        },
        &["at once: true", "both: true"],
    );
}

#[test]
fn a_semaphore_of_many_is_looked_through_at_once() {
    conform(
        |node, Clients { redlock, other }, seen| {
            let all: Vec<Permit> = (0..256).map(|_| try_any(redlock, 256).unwrap()).collect();
            seen.push(format!("{}", node.keys().len()));
            let owners: Vec<String> = all.iter().map(|it| it.owner().to_string()).collect();
            let denied = seen_of(try_any(other, 256));
            seen.push(format!("{}", owners.iter().any(|owner| denied.contains(owner))));
            drop(all);
        },
        &["256", "true"],
    );
}
