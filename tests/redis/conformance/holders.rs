//! Who holds a resource, as one node says.

use quorlock::{
    Holder, HolderError, Redlock,
    protocol::{Owner, Sighting},
};
use quorlock_harness::eventually;

use super::{
    super::{SECOND, SOON, patient, plain},
    Clients, conform, conform_in, released, state, try_it,
};

/// The answer in words: a remaining time in whole half minutes, rounded up.
fn holder(redlock: &Redlock, resource: impl AsRef<[u8]>) -> String {
    match redlock.blocking_holder(resource) {
        Ok(Holder::Held(by)) => {
            let left = by.remaining.map(|left| left.as_nanos().div_ceil(30_000_000_000) * 30);
            let token = by.token.is_some();
            let (value, owner) = (by.value.escape_ascii().to_string(), by.owner.is_some());
            let (label, since) = (by.label, by.since.is_some());
            format!(
                "{value} owner {owner} label {label:?} since {since} left {left:?} token {token}"
            )
        }
        Ok(Holder::Free) => "free".to_owned(),
        Ok(Holder::Unclear { nodes }) => match &nodes[0].seen {
            Ok(Sighting::Held(key)) => format!("unclear: {key:?}"),
            Ok(Sighting::Free) => "unclear: free".to_owned(),
            Err(error) => format!("unclear, sent: {}", error.sent()),
        },
        Ok(other) => format!("{other:?}"),
        Err(HolderError::Resource(error)) => error.to_string(),
        Err(other) => other.to_string(),
    }
}

#[test]
fn a_holder_is_named_with_its_label_and_token() {
    for (builder, rest) in [
        (plain().classic().label("web\n1"), "label None since false left Some(60) token false"),
        (
            patient().label("web\n1"),
            r"label Some(Label(web\n1)) since true left Some(60) token true",
        ),
        (patient(), "label None since false left Some(60) token true"),
    ] {
        let named = format!("OWNER owner true {rest}");
        conform_in(
            &builder,
            |_, redlock, seen| {
                seen.push(holder(redlock, "r"));
                let lease = try_it(redlock, "r").unwrap();
                let owner = lease.owner().to_string();
                seen.push(holder(redlock, "r").replace(&owner, "OWNER"));
                // Whoever is denied leaves nothing.
                drop(try_it(redlock, "r").unwrap_err());
                futures::executor::block_on(lease.extend()).unwrap();
                seen.push(holder(redlock, "r").replace(&owner, "OWNER"));
                seen.push(released(lease).to_owned());
                seen.push(holder(redlock, "r"));
            },
            &["free", &named, &named, "released", "free"],
        );
    }
}

/// Of a resource that is shared nobody is named; a slot of a semaphore and each part of a set are held as any resource is.
#[test]
fn each_kind_of_lease_is_told_as_its_keys_say() {
    conform_in(
        &patient().label("web"),
        |_, Clients { redlock, other }, seen| {
            let mut told = |name: &str, owner: Owner| {
                let said = holder(redlock, name).replace(&owner.to_string(), "OWNER");
                seen.push(format!("{name}: {said}"));
            };
            let one = redlock.read("r").ttl(58 * SECOND).blocking().unwrap();
            told("r", one.owner());
            let beside = other.read("r").ttl(88 * SECOND).blocking().unwrap();
            told("r", one.owner());
            beside.blocking_release().unwrap();
            told("r", one.owner());
            let owner = one.owner();
            one.blocking_release().unwrap();
            told("r", owner);

            let semaphore = redlock.semaphore("s", 1).unwrap();
            let permit = semaphore.acquire().ttl(58 * SECOND).blocking().unwrap();
            let owner = permit.owner();
            told("s", owner);
            told("s/0", owner);
            permit.blocking_release().unwrap();
            told("s/0", owner);

            let set = redlock.acquire_all(["b", "a"]).ttl(58 * SECOND).blocking().unwrap();
            told("a", set.owner());
            told("b", set.owner());
            set.blocking_release().unwrap();

            let writer = redlock.write("d").ttl(58 * SECOND).blocking().unwrap();
            let owner = writer.owner();
            told("d", owner);
            let reads = writer.downgrade().unwrap();
            eventually("the node has followed", SOON, || holder(redlock, "d").contains("shared"));
            told("d", owner);
            reads.blocking_release().unwrap();
            told("d", owner);
        },
        &[
            "r: shared by readers, see quorlock. owner false label None since false left Some(60) token false",
            "r: shared by readers, see quorlock. owner false label None since false left Some(90) token false",
            "r: shared by readers, see quorlock. owner false label None since false left Some(60) token false",
            "r: free",
            "s: free",
            "s/0: OWNER owner true label Some(Label(web)) since true left Some(60) token true",
            "s/0: free",
            "a: OWNER owner true label Some(Label(web)) since true left Some(60) token true",
            "b: OWNER owner true label Some(Label(web)) since true left Some(60) token true",
            "d: OWNER owner true label Some(Label(web)) since true left Some(60) token true",
            "d: shared by readers, see quorlock. owner false label None since false left Some(60) token false",
            "d: free",
        ],
    );
}

#[test]
fn keys_of_others_are_told_as_they_are() {
    conform(
        |node, redlock, seen| {
            node.set(b"r", b"them\0", Some(45_000));
            seen.push(holder(redlock, "r"));
            node.set(b"r", b"", None);
            seen.push(holder(redlock, "r"));
            node.set(b"r", &[b'x'; 100], None);
            seen.push(holder(redlock, "r").replace(&"x".repeat(64), "64 of them"));
            // An entry of a lease that was says nothing of a key that another has set since.
            let lease = try_it(redlock, "was").unwrap();
            node.set(b"was", b"thief", None);
            seen.push(holder(redlock, "was"));
            drop(lease);
            seen.push(holder(redlock, ""));
        },
        &[
            "them\\x00 owner false label None since false left Some(60) token false",
            " owner false label None since false left None token false",
            "64 of them owner false label None since false left None token false",
            "thief owner false label None since false left None token false",
            "it has no name, see whether a variable was never set",
        ],
    );
}

#[test]
fn a_node_that_is_down_says_nothing_and_one_that_is_back_what_it_has() {
    conform(
        |node, redlock, seen| {
            node.kill();
            eventually("it is seen to be down", SOON, || state(redlock) == "down");
            seen.push(holder(redlock, "r"));
            node.restart();
            eventually("it is back", 2 * SOON, || state(redlock) == "Ready");
            seen.push(holder(redlock, "r"));
            node.set(b"r", b"thief", None);
            seen.push(holder(redlock, "r"));
            drop(redlock.blocking_close());
            seen.push(format!("closed: {}", holder(redlock, "r")));
        },
        &[
            "unclear, sent: false",
            "free",
            "thief owner false label None since false left None token false",
            "closed: thief owner false label None since false left None token false",
        ],
    );
}
