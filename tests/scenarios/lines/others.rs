//! What others have put into a line hides nobody who waits there, and what they say of a reader's place counts for nothing.
//! The script of one resource is run by hand, on lines that are written by hand, by a clock that stands: no line ends.

use super::{A, Answer, B, C, LINE, Says, acquire};
use crate::standing::with_standing_clock;

#[test]
fn who_stands_behind_three_that_are_no_clients_is_seen() {
    for places in 0..6 {
        let (node, _clock) = with_standing_clock();
        for place in 0..places {
            let place = place.to_string();
            node.server.run(&["ZADD", LINE, &place, &format!("no client {place}")]);
        }
        node.server.run(&["ZADD", LINE, "100", A]);
        node.server.run(&["PEXPIRE", LINE, "4000"]);
        for says in [Says::default(), Says::named(C), Says::stands(C, "200")] {
            assert_eq!(acquire(&node, C, says), Answer::Behind(A.to_owned()), "{places} {says:?}");
        }
    }
}

/// A writer's place may be said to be stuck, by the client itself. No client says that of one who waits to read.
#[test]
fn one_who_waits_to_read_keeps_out_who_asks_once_whatever_is_said_of_its_place() {
    for (name, answer) in [
        (B.to_owned(), Answer::Granted { waiting: Some(true) }),
        (format!("~{B}"), Answer::Behind(B.to_owned())),
    ] {
        let (node, _clock) = with_standing_clock();
        node.server.run(&["ZADD", LINE, "200", &name]);
        node.server.run(&["PEXPIRE", LINE, "4000"]);
        node.server.set(format!("quorlock:stuck:{name}r"), "200 0 s", None);
        node.server.set("s", "held", None);
        assert_eq!(acquire(&node, C, Says::default()), answer, "{name}");
    }
}
