//! Extensions, and the tokens that they leave alone.

use quorlock_harness::eventually;

use super::{
    super::{SOON, patient, plain},
    Case, acquired, conform, conform_in, extended, released, state, try_it,
};

#[test]
fn an_extension_gives_the_key_its_whole_life_again() {
    conform(
        |node, redlock, seen| {
            let lease = try_it(redlock, "r").unwrap();
            let owner = lease.owner().to_string();
            node.set(b"r", owner.as_bytes(), Some(25_000));
            seen.push(acquired(&try_it(redlock, "r")).replace(&owner, "OWNER"));
            seen.push(extended(&lease));
            seen.push(acquired(&try_it(redlock, "r")).replace(&owner, "OWNER"));
            seen.push(released(lease).to_owned());
            seen.push(format!("{:?}", node.keys()));
        },
        &[
            "held by Some(\"OWNER\") for up to 30 s",
            "extended, nearly a minute: true",
            "held by Some(\"OWNER\") for up to 60 s",
            "released",
            "[]",
        ],
    );
}

#[test]
fn an_extension_never_makes_a_key_anew_and_never_touches_another() {
    conform(
        |node, redlock, seen| {
            let gone = try_it(redlock, "gone").unwrap();
            node.set(b"gone", b"", Some(1));
            eventually("it expires", SOON, || node.get(b"gone").is_none());
            seen.push(extended(&gone));
            seen.push(format!("{:?}", node.get(b"gone")));
            seen.push(extended(&gone));
            seen.push(format!("{:?}", gone.validity()));

            let taken = try_it(redlock, "taken").unwrap();
            node.set(b"taken", b"thief", Some(25_000));
            seen.push(extended(&taken));
            seen.push(acquired(&try_it(redlock, "taken")));
            seen.push(released(taken).to_owned());
        },
        &[
            "lost: Gone",
            "None",
            "lost: Gone",
            "0ns",
            "lost: Gone",
            "held by Some(\"thief\") for up to 30 s",
            "already ended",
        ],
    );
}

#[test]
fn an_extension_that_nobody_answers_takes_nothing_away() {
    conform(
        |node, redlock, seen| {
            let lease = try_it(redlock, "r").unwrap();
            node.pause();
            seen.push(extended(&lease));
            node.resume();
            eventually("it answers again", SOON, || state(redlock) == "Ready");
            seen.push(format!("it stands: {}", node.get(b"r").is_some()));
            eventually("it is extended", SOON, || extended(&lease).starts_with("extended"));
            seen.push(released(lease).to_owned());
        },
        &["in doubt, still valid: true", "it stands: true", "released"],
    );
}

#[test]
fn tokens_rise_with_every_grant_and_outlive_the_lease() {
    let case: Case = |_, redlock, seen| {
        let mut last = None;
        for _ in 0..5 {
            let lease = try_it(redlock, "r").unwrap();
            let token = lease.token().ok();
            seen.push(format!("token: {}, risen: {}", token.is_some(), token > last));
            assert_eq!(lease.signal().token().ok(), token);
            seen.push(extended(&lease));
            assert_eq!(lease.token().ok(), token, "an extension is no grant");
            seen.push(released(lease).to_owned());
            last = token;
        }
        let other = try_it(redlock, "other").unwrap();
        seen.push(format!("token: {}", other.token().is_ok()));
    };
    let lines = |token: bool| {
        let grant = format!("token: {token}, risen: {token}");
        let mut lines: Vec<_> = (0..5)
            .flat_map(|_| {
                [grant.clone(), "extended, nearly a minute: true".into(), "released".into()]
            })
            .collect();
        lines.push(format!("token: {token}"));
        lines
    };
    for (builder, token) in [(plain().classic(), false), (patient(), true)] {
        let lines = lines(token);
        conform_in(&builder, case, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
