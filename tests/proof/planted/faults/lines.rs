//! Faults of lines: who is next on a node, who leaves, and when a waiter asks again.

use super::{Fault, edit};

#[rustfmt::skip]
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        number: 44,
        name: "nobody names the first in line as one who did not come",
        edits: &[
            edit("waiter.rs", "late.map(|first| first.client).filter(|_| self.ticket.is_some())", "{ let _ = late; None::<ClientId> }"),
        ],
        configuration: "lines_hang",
        property: "a waiter gets it",
    },
    Fault {
        number: 45,
        name: "a free key is for the first to ask, whatever stands in line",
        edits: &[
            edit("line/wait_list.rs", "let first = match before(self).filter(|_| is_free) {", "let first = match before(self).filter(|_| is_free && !$is) {"),
        ],
        configuration: "lines_behind",
        property: "where nothing goes wrong, nobody overtakes",
    },
    Fault {
        number: 46,
        name: "who is granted the resource stays in the line",
        edits: &[
            edit("line/wait_list.rs", "self.remove(Waiting::to(reads, client));", "{ let _ = (reads, client); }"),
        ],
        configuration: "lines",
        property: "who waits no more",
    },
    Fault {
        number: 47,
        name: "who waits no more stays in the line",
        edits: &[
            edit("line/wait_list.rs", "self.scores.get(&place) == Some(&score(ticket))", "false"),
        ],
        configuration: "lines_hang",
        property: "who waits no more",
    },
    Fault {
        number: 48,
        name: "who waits asks only when the key ends, whatever is told or lost",
        edits: &[
            edit("waiter/plan.rs", "        self.limit = self.limit.min(self.poll);\n        self.heed(now);", "        if !$is { self.limit = self.limit.min(self.poll); }\n        self.heed(now);"),
        ],
        configuration: "lines",
        property: "a waiter asks again",
    },
    Fault {
        number: 101,
        name: "who has won stays in the lines of those that have denied it",
        edits: &[
            edit("client/attempts.rs", "            self.leave_where_denied(id);", "            if !$is { self.leave_where_denied(id); }"),
        ],
        configuration: "lines",
        property: "who waits no more",
    },
    Fault {
        number: 102,
        name: "a place is kept of which nobody waits any more",
        edits: &[
            edit("client/on_nodes.rs", "            self.leave_lines(&target, ticket, nodes);\n            self.say_place_gone(id);", "            if !$is { self.leave_lines(&target, ticket, nodes); }\n            self.say_place_gone(id);"),
        ],
        configuration: "lines_two",
        property: "who waits no more",
    },
    Fault {
        number: 103,
        name: "each round takes a new place in the line",
        edits: &[
            edit("client/on_nodes.rs", "        waiter.handle_other_place(is_left_behind);", "        if $is { *waiter = Box::new(Waiter::new(client, quorum)); }\n        waiter.handle_other_place(is_left_behind);"),
        ],
        configuration: "lines",
        property: "a place in the line",
    },
];
