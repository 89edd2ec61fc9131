//! What a denial tells of a holder that has a label: both kinds of node call it by that.

use quorlock::{AcquireError, protocol::Label};

use super::{super::patient, Clients, conform_in};

/// What the error calls the holder.
fn called<T>(result: Result<T, AcquireError>) -> String {
    match result {
        Ok(_) => "granted".to_owned(),
        Err(error) => {
            let label = error.nodes().and_then(|nodes| nodes.label()).map(Label::to_string);
            let text = error.to_string();
            let held = text.split_once(" is held by ").map(|(_, rest)| rest);
            let until = |rest: &str| rest.split(", and was not free").next().map(str::to_owned);
            format!("{} {}", held.and_then(until).unwrap_or(text), label.unwrap_or_default())
        }
    }
}

/// By each way to ask that can meet a holder.
fn all_ways(clients: &Clients, seen: &mut Vec<String>) {
    let asks = &clients.other;
    seen.push(called(asks.try_acquire("r").blocking()));
    seen.push(called(asks.try_acquire_all(["a", "r"]).blocking()));
    seen.push(called(asks.try_read("r").blocking()));
}

#[test]
fn a_denial_calls_the_holder_by_its_label() {
    let case = |node: &dyn super::Backend, clients: &Clients, seen: &mut Vec<String>| {
        let lease = clients.redlock.acquire("r").blocking().unwrap();
        all_ways(clients, seen);
        lease.blocking_release().unwrap();
        let leader = clients.redlock.election("r").text([b'x'; 1024]).blocking_campaign().unwrap();
        all_ways(clients, seen);
        leader.blocking_resign().unwrap();
        // Another program has its key where a labelled one had its own: nothing is known of it.
        node.set(b"r", b"by hand", Some(60_000));
        all_ways(clients, seen);
    };
    let (named, nobody) = (r"`web\n1` web\n1", "somebody else ");
    let expected = [[named; 3], [named; 3], [nobody; 3]].concat();
    conform_in(&patient().label("web\n1"), case, &expected);
    conform_in(&patient(), case, &[nobody; 9]);
}
