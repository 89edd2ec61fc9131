//! Several resources at once: all of their keys or none, and one number for all of their counters.

use std::collections::HashMap;

use quorlock::{AcquireError, Holder, Lease, Redlock, TogetherError};

use super::{
    super::{SECOND, patient, plain},
    Clients, acquired, conform_in, extended, released, try_it,
};

fn try_all(redlock: &Redlock, names: &[&str]) -> Result<Lease, AcquireError> {
    redlock.try_acquire_all(names).ttl(60 * SECOND).blocking()
}

/// Who is in the way of a set, with the resource that is named.
fn in_the_way(result: Result<Lease, AcquireError>) -> String {
    match &result {
        Err(AcquireError::Contended { resource: Some(resource), .. }) => {
            format!("{resource} {}", acquired(&result))
        }
        _ => acquired(&result),
    }
}

fn token(redlock: &Redlock, name: &str) -> u64 {
    match redlock.blocking_holder(name).unwrap() {
        Holder::Held(by) => by.token.expect("the node says so").get(),
        other => panic!("{other}"),
    }
}

fn keys(node: &dyn super::Backend) -> String {
    let mut keys = node.keys();
    keys.sort();
    keys.iter().map(|key| key.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
}

fn conform(case: super::Case, expected: &[&str]) {
    conform_in(&patient().node_timeout(2 * SECOND), case, expected);
}

#[test]
fn all_keys_are_set_or_none() {
    conform(
        |node, Clients { redlock, other }, seen| {
            let lease = try_all(redlock, &["c", "a", "b", "a"]).unwrap();
            let names: Vec<String> = lease.resources().iter().map(ToString::to_string).collect();
            seen.push(format!("{} by {} keys: {}", names.join(" "), lease.resource(), keys(node)));
            let owner = lease.owner().to_string();
            let alike = ["a", "b", "c"].map(|name| node.get(name.as_bytes()));
            seen.push(format!("{}", alike.iter().all(|it| *it == Some(owner.clone().into()))));
            for name in ["a", "b", "c"] {
                seen.push(acquired(&try_it(other, name)).replace(&owner, "OWNER"));
            }
            seen.push(in_the_way(try_all(other, &["x", "b", "y"])).replace(&owner, "OWNER"));
            seen.push(keys(node));
            seen.push(released(lease).to_owned());
            seen.push(keys(node));
        },
        &[
            "a b c by a keys: a b c",
            "true",
            "held by Some(\"OWNER\") for up to 60 s",
            "held by Some(\"OWNER\") for up to 60 s",
            "held by Some(\"OWNER\") for up to 60 s",
            "b held by Some(\"OWNER\") for up to 60 s",
            "a b c",
            "released",
            "",
        ],
    );
}

#[test]
fn of_several_in_the_way_the_one_that_lives_for_longest_is_named() {
    conform(
        |node, Clients { redlock, .. }, seen| {
            node.set(b"a", b"one", Some(20_000));
            node.set(b"c", b"two", Some(80_000));
            seen.push(in_the_way(try_all(redlock, &["a", "b", "c"])));
            node.set(b"b", b"three", None);
            seen.push(in_the_way(try_all(redlock, &["a", "b", "c"])));
            seen.push(in_the_way(try_all(redlock, &["a"])));
            seen.push(keys(node));
        },
        &[
            "c held by Some(\"two\") for up to 90 s",
            "b held by Some(\"three\") for ever",
            "held by Some(\"one\") for up to 30 s",
            "a b c",
        ],
    );
}

#[test]
fn the_counters_of_a_set_become_one_number_above_each_of_them() {
    conform(
        |_, Clients { redlock, other }, seen| {
            let mut last = HashMap::new();
            let mut above = |names: &[&'static str], own: u64| {
                let rises =
                    names.iter().all(|name| last.insert(*name, own).is_none_or(|it| it < own));
                seen.push(format!("{names:?} rises: {rises}"));
            };
            let sets = [&["a", "b"][..], &["b", "c"], &["a", "c"], &["a", "b", "c"]];
            for (turn, names) in sets.into_iter().cycle().take(8).enumerate() {
                let lease = try_all(redlock, names).unwrap();
                let own = lease.token().unwrap().get();
                above(names, own);
                assert!(names.iter().all(|name| token(other, name) == own), "{turn}");
                lease.blocking_release().unwrap();
                let name = &names[turn % names.len()];
                let one = try_it(other, name).unwrap();
                above(std::slice::from_ref(name), one.token().unwrap().get());
                one.blocking_release().unwrap();
            }
            assert!(seen.iter().all(|line| line.ends_with("rises: true")), "{seen:?}");
            seen.truncate(1);
        },
        &["[\"a\", \"b\"] rises: true"],
    );
}

#[test]
fn a_node_extends_a_set_where_all_of_its_keys_stand() {
    conform(
        |node, Clients { redlock, .. }, seen| {
            let hold =
                || redlock.try_acquire_all(["a", "b", "c"]).ttl(60 * SECOND).without_renewal();
            let lease = hold().blocking().unwrap();
            seen.push(extended(&lease));
            node.set(b"b", b"", Some(1));
            quorlock_harness::eventually("it is gone", 5 * SECOND, || node.get(b"b").is_none());
            seen.push(extended(&lease));
            seen.push(keys(node));
            seen.push(released(lease).to_owned());
            seen.push(keys(node));

            let lease = hold().blocking().unwrap();
            node.set(b"c", b"thief", Some(50_000));
            seen.push(extended(&lease));
            seen.push(released(lease).to_owned());
            seen.push(keys(node));
        },
        &[
            "extended, nearly a minute: true",
            "lost: Gone",
            "a c",
            "already ended",
            "",
            "lost: Gone",
            "already ended",
            "c",
        ],
    );
}

#[test]
fn others_are_kept_out_of_all_of_them() {
    conform(
        |node, Clients { redlock, other }, seen| {
            let request = redlock.try_acquire_all(["a", "b"]).ttl(60 * SECOND);
            let lease = request.hold_at_least(20 * SECOND).blocking().unwrap();
            let owner = lease.owner().to_string();
            seen.push(released(lease).to_owned());
            seen.push(keys(node));
            seen.push(in_the_way(try_all(other, &["b", "z"])).replace(&owner, "OWNER"));
        },
        &["released", "a b", "b held by Some(\"OWNER\") for up to 30 s"],
    );
}

#[test]
fn what_cannot_be_had_at_once_is_refused_by_name() {
    conform_in(
        &plain().classic(),
        |_, Clients { redlock, .. }, seen| {
            let classic = redlock.try_acquire_all(["a", "b"]).blocking();
            assert!(matches!(classic, Err(AcquireError::Together(TogetherError::Classic))));
            // One resource is one resource, however it is asked for.
            seen.push(acquired(&redlock.try_acquire_all(["a"]).blocking()));
        },
        &["granted"],
    );
    conform(
        |_, Clients { redlock, .. }, seen| {
            seen.push(acquired(&redlock.try_acquire_all(Vec::<&str>::new()).blocking()));
            let many: Vec<String> = (0..33).map(|number| number.to_string()).collect();
            seen.push(acquired(&redlock.acquire_all(&many).blocking()));
            seen.push(acquired(&redlock.acquire_all(&many[..32]).blocking()));
            seen.push(acquired(&redlock.acquire_all(["a", "quorlock:x"]).blocking()));
            seen.push(acquired(&redlock.acquire_all(["a", ""]).blocking()));
        },
        &[
            "the resources cannot be locked at once, and nothing was sent: there is no resource, see whether a list was \
             never filled",
            "the resources cannot be locked at once, and nothing was sent: there are 33 resources, of at most 32, lock one \
             that stands for all of them",
            "granted",
            "the resource cannot be locked, and nothing was sent: keys that begin with `quorlock:` are kept for the nodes, \
             choose another name",
            "the resource cannot be locked, and nothing was sent: it has no name, see whether a variable was never set",
        ],
    );
}
