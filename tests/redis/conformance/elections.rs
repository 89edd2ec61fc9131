//! The record of a leader: what both kinds of node keep of it, and tell.

use std::time::Duration;

use quorlock::{Election, Holder, Leadership, Observed, Redlock};
use quorlock_harness::eventually;

use super::{
    super::{SOON, patient},
    Clients, conform_in, released, try_it,
};

/// Who leads, in words; a term by the place that it has among those seen.
fn leader(election: &Election, terms: &[u64]) -> String {
    match election.blocking_leader() {
        Ok(Observed::Leads(leader)) => {
            let term = terms.iter().position(|term| *term == leader.term.get());
            format!("term {term:?} text {} since {}", leader.text, !leader.since.is_zero())
        }
        Ok(Observed::Nobody) => "nobody".to_owned(),
        Ok(Observed::Between(Holder::Held(by))) => {
            format!("held, owner {}, label {:?}", by.owner.is_some(), by.label)
        }
        Ok(other) => format!("{other:?}"),
        Err(error) => error.to_string(),
    }
}

fn label(redlock: &Redlock) -> String {
    match redlock.blocking_holder("r") {
        Ok(Holder::Held(by)) => format!("label {:?} since {}", by.label, by.since.is_some()),
        other => format!("{other:?}"),
    }
}

fn told(election: &Election, leadership: &Leadership) {
    eventually("it is told", SOON, || {
        let seen = election.blocking_leader().unwrap();
        seen.leader().is_some_and(|leader| leader.term == leadership.term())
    });
}

#[test]
fn a_leader_is_told_with_its_text_and_keeps_its_label() {
    let case = |_: &dyn super::Backend, clients: &Clients, seen: &mut Vec<String>| {
        let (one, two) = (clients.redlock.election("r").text("a\n1"), clients.other.election("r"));
        seen.push(leader(&two, &[]));
        let first = one.blocking_campaign().unwrap();
        told(&two, &first);
        let mut terms = vec![first.term().get()];
        seen.push(leader(&two, &terms));
        seen.push(label(&clients.other));
        first.blocking_proclaim([b'7'; 1024]).unwrap();
        seen.push(leader(&two, &terms).replace(&"7".repeat(1024), "1024 digits"));
        first.blocking_proclaim("").unwrap();
        seen.push(leader(&two, &terms));
        first.blocking_resign().unwrap();
        seen.push(leader(&two, &terms));
        let second = two.blocking_campaign().unwrap();
        told(&one, &second);
        terms.push(second.term().get());
        seen.push(leader(&one, &terms));
        seen.push(format!("rising {}", terms[0] < terms[1]));
        drop(second);
        // A plain lease of that name is no leader.
        eventually("it is free", SOON, || leader(&one, &terms) == "nobody");
        let lease = try_it(clients, "r").unwrap();
        seen.push(leader(&two, &terms));
        seen.push(released(lease).to_owned());
    };
    for builder in [patient(), patient().label("web\n1")] {
        let labelled = format!("{builder:?}").contains("web");
        let named = if labelled { r"Some(Label(web\n1))" } else { "None" };
        let (named_holder, plain) =
            (format!("label {named} since true"), format!("held, owner true, label {named}"));
        conform_in(
            &builder,
            case,
            &[
                "nobody",
                r"term Some(0) text a\n1 since true",
                &named_holder,
                "term Some(0) text 1024 digits since true",
                "term Some(0) text  since true",
                "nobody",
                "term Some(1) text  since true",
                "rising true",
                &plain,
                "released",
            ],
        );
    }
}

#[test]
fn a_key_that_is_gone_or_anothers_is_no_leader_and_a_restored_one_is() {
    conform_in(
        &patient(),
        |node, clients, seen| {
            let (one, two) = (clients.redlock.election("r").text("a"), clients.other.election("r"));
            let first = one.blocking_campaign().unwrap();
            told(&two, &first);
            let terms = [first.term().get()];
            let owner = first.owner().to_hex();
            node.set(b"r", b"thief", Some(60_000));
            seen.push(leader(&two, &terms));
            seen.push(format!("{:?}", first.blocking_proclaim("b").is_err()));
            // What it has said before stands beside it again.
            node.set(b"r", &owner, Some(60_000));
            seen.push(
                leader(&two, &terms)
                    .replace(" text a", " text a or b")
                    .replace(" text b", " text a or b"),
            );
            node.set(b"r", b"", Some(1));
            std::thread::sleep(Duration::from_millis(5));
            seen.push(leader(&two, &terms));
        },
        &["held, owner false, label None", "true", "term Some(0) text a or b since true", "nobody"],
    );
}
