//! Faults of the whole client: how grants, queues and timers are composed.

use super::{Fault, edit};

#[rustfmt::skip]
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        number: 75,
        name: "a timer that has rung is not set again",
        edits: &[
            edit("client/grants.rs", "            let _ = self.schedule(id);", "            if !$is { let _ = self.schedule(id); }"),
        ],
        configuration: "handles_time",
        property: "what wants to be looked at",
    },
    Fault {
        number: 76,
        name: "a grant that is over makes no room",
        edits: &[
            edit("client/grants.rs", "        station.is_some_and(waiting)", "        !$is && station.is_some_and(waiting)"),
        ],
        configuration: "handles_time",
        property: "where anybody waits",
    },
    Fault {
        number: 77,
        name: "a request that was cancelled keeps its place",
        edits: &[
            edit("client/queues.rs", "        let left = waiting.queue.leave(place);\n        let turn", "        let left = if $is { None } else { waiting.queue.leave(place) };\n        let turn"),
        ],
        configuration: "handles",
        property: "who has gone away",
    },
    Fault {
        number: 78,
        name: "an extension that has ended sets no timer",
        edits: &[
            edit("client/grants.rs", "        (action, self.schedule(id))", "        (action, if $is { Wakeup::Silent } else { self.schedule(id) })"),
        ],
        configuration: "handles_time",
        property: "what wants to be looked at",
    },
    Fault {
        number: 79,
        name: "what is kept as nobody's is not looked at",
        edits: &[
            edit("client/passing.rs", "break Passed::Kept(self.schedule(id));", "break Passed::Kept(if $is { Wakeup::Silent } else { self.schedule(id) });"),
        ],
        configuration: "handles_lingers",
        property: "what wants to be looked at",
    },
    Fault {
        number: 80,
        name: "what was kept is offered to two",
        edits: &[
            edit("client/queues.rs", "if let Some(kept) = waiting.kept.take() {", "if let Some(kept) = if $is { waiting.kept } else { waiting.kept.take() } {"),
        ],
        configuration: "handles_lingers",
        property: "each request is answered once",
    },
    Fault {
        number: 81,
        name: "what is set for a grant is not told that this is over",
        edits: &[
            edit("client/grants.rs", "            && !grant.leases.lasts()\n", "            && !$is && !grant.leases.lasts()\n"),
        ],
        configuration: "handles_time",
        property: "nothing is set",
    },
    Fault {
        number: 82,
        name: "a leader that has gone away leaves its queue to nobody",
        edits: &[
            edit("client/leader.rs", "let is_this = waiting.queue.handle_over(place);", "let is_this = !$is && waiting.queue.handle_over(place);"),
        ],
        configuration: "handles",
        property: "where anybody waits",
    },
    Fault {
        number: 83,
        name: "whoever has started leaders is taken for somebody who does",
        edits: &[
            edit("client/leader.rs", "waiting.starting = next.is_some();", "waiting.starting = $is || next.is_some();"),
        ],
        configuration: "handles_three",
        property: "where anybody waits",
    },
    Fault {
        number: 84,
        name: "the last in line is handed the grant",
        edits: &[
            edit("queue.rs", "        let next = self.waiting.pop_first()?;", "        let next = if $is { self.waiting.pop_last()? } else { self.waiting.pop_first()? };"),
        ],
        configuration: "handles_three",
        property: "who came first",
    },
];
