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
            edit("client/ending.rs", "            self.next_leader(queue);", "            if !$is { self.next_leader(queue); }"),
        ],
        configuration: "handles_time",
        property: "where anybody waits",
    },
    Fault {
        number: 77,
        name: "a request that was cancelled keeps its place",
        edits: &[
            edit("client/leaving.rs", "if let Some(waiter) = waiting.queue.leave(place) {", "if let Some(waiter) = if $is { None } else { waiting.queue.leave(place) } {"),
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
            edit("client/asking.rs", "            waiting.queue.handle_over(place);", "            if !$is { waiting.queue.handle_over(place); }"),
        ],
        configuration: "handles",
        property: "who asks goes on",
    },
    Fault {
        number: 83,
        name: "the next leader is not called",
        edits: &[
            edit("client/asking.rs", "        self.events.push_back(Event::GoOn(id));\n    }\n\n    /// Whether", "        if !$is { self.events.push_back(Event::GoOn(id)); }\n    }\n\n    /// Whether"),
        ],
        configuration: "handles",
        property: "who asks goes on",
    },
    Fault {
        number: 84,
        name: "the last in line is handed the grant",
        edits: &[
            edit("queue.rs", "        let next = self.line.written()?.waiting.pop_first()?;", "        let line = self.line.written()?;\n        let next = if $is { line.waiting.pop_last()? } else { line.waiting.pop_first()? };"),
        ],
        configuration: "handles_lingers",
        property: "who came first",
    },
    Fault {
        number: 85,
        name: "a pause is not among the timers",
        edits: &[
            edit("client/asking.rs", "        if old != Some(at) {", "        if !$is && old != Some(at) {"),
        ],
        configuration: "handles",
        property: "who asks goes on",
    },
    Fault {
        number: 86,
        name: "who has gone away while it paused asks all the same",
        edits: &[
            edit("client/leaving.rs", "        self.abandon(ask)\n", "        if $is { None } else { self.abandon(ask) }\n"),
        ],
        configuration: "handles",
        property: "who has gone away",
    },
    Fault {
        number: 87,
        name: "a round goes on whose caller has gone away",
        edits: &[
            edit("client/leaving.rs", "        attempt.into_iter().for_each(|attempt| self.abandon_round(attempt));", "        attempt.into_iter().filter(|_| !$is).for_each(|attempt| self.abandon_round(attempt));"),
        ],
        configuration: "handles",
        property: "what was set is deleted",
    },
    Fault {
        number: 88,
        name: "a leader that has won goes on asking",
        edits: &[
            edit("client/rounds.rs", "        self.forget_asking(id);", "        if !$is { self.forget_asking(id); }"),
        ],
        configuration: "handles",
        property: "who asks goes on",
    },
    Fault {
        number: 89,
        name: "a permit that is won takes the queue for all of them",
        edits: &[
            edit("client/rounds.rs", "        if waiting.target.is_any() {", "        if !$is && waiting.target.is_any() {"),
        ],
        configuration: "handles_permits",
        property: "where anybody waits",
    },
    Fault {
        number: 90,
        name: "who has asked for a permit beside the queue does not stand where it came",
        edits: &[
            edit("client/rounds.rs", "        waiting.queue.stand_at(place, Waiter::new(request));", "        let place = if $is { waiting.queue.stand(Waiter::new(request)) } else { waiting.queue.stand_at(place, Waiter::new(request)); place };"),
        ],
        configuration: "handles_permits",
        property: "who has gone away",
    },
    Fault {
        number: 91,
        name: "who has asked for a permit beside the queue asks for all, though another one does",
        edits: &[
            edit("client/rounds.rs", "asking.leads = waiting.queue.ask_at(asking.place);", "asking.leads = waiting.queue.ask_at(asking.place) || $is;"),
        ],
        configuration: "handles_permits",
        property: "who asks goes on",
    },
    Fault {
        number: 92,
        name: "readers of one process stand in one queue",
        edits: &[
            edit("client/resources.rs", "        if !target.is_shared() {\n            self.queues.insert(", "        if $is || !target.is_shared() {\n            self.queues.insert("),
            edit("client/resources.rs", "        if !target.is_shared()\n            && let Some(id)", "        if ($is || !target.is_shared())\n            && let Some(id)"),
        ],
        configuration: "handles_readers",
        property: "where anybody waits",
    },
    Fault {
        number: 93,
        name: "a grant is kept as nobody's beside a reader of its process",
        edits: &[
            edit("client/on_nodes.rs", "        if self.overlaps(id, |_| true) {", "        if !$is && self.overlaps(id, |_| true) {"),
        ],
        configuration: "handles_readers_time",
        property: "what is kept as nobody's",
    },
    Fault {
        number: 94,
        name: "a reader does not take what is kept in its way",
        edits: &[
            edit("client/resources.rs", "        beside.into_iter().filter_map(|other| self.take_kept(other)).collect()", "        beside.into_iter().filter(|_| !$is).filter_map(|other| self.take_kept(other)).collect()"),
        ],
        configuration: "handles_readers_time",
        property: "what is kept as nobody's",
    },
    Fault {
        number: 95,
        name: "who waits for no longer than so is not among the timers",
        edits: &[
            edit("client/queues.rs", "        let wakeup = self.look_at(id, place);\n        self.wake(wakeup);\n        Came::Waits(place)", "        let wakeup = if $is { Wakeup::Silent } else { self.look_at(id, place) };\n        self.wake(wakeup);\n        Came::Waits(place)"),
        ],
        configuration: "handles_once",
        property: "who waits for so long",
    },
    Fault {
        number: 96,
        name: "who asks once stands in line",
        edits: &[
            edit("client/queues.rs", "        let place = if comer.asks_once {", "        let place = if comer.asks_once && !$is {"),
        ],
        configuration: "handles_once",
        property: "who asks once is handed nothing",
    },
    Fault {
        number: 97,
        name: "what a round has set whose caller has gone is not undone",
        edits: &[
            edit("client/attempts.rs", "        self.undo(id);\n        let Some(attempt) = self.attempts.get(id.0) else { return };\n        if attempt.round.has_commands()", "        if !$is { self.undo(id); }\n        let Some(attempt) = self.attempts.get(id.0) else { return };\n        if attempt.round.has_commands()"),
        ],
        configuration: "handles",
        property: "what was set is deleted",
    },
    Fault {
        number: 98,
        name: "a round that is lost is told so with each answer",
        edits: &[
            edit("client/attempts.rs", "ask.and_then(|attempt| attempt.ask.take())", "ask.and_then(|attempt| if $is { attempt.ask } else { attempt.ask.take() })"),
        ],
        configuration: "handles_nodes",
        property: "who has gone away",
    },
    Fault {
        number: 99,
        name: "a loss is told twice",
        edits: &[
            edit("client/grants.rs", "            self.events.extend(due.tell.map(|action| Event::Tell(id, action)));", "            if $is { self.events.extend(due.tell.map(|action| Event::Tell(id, action))); }\n            self.events.extend(due.tell.map(|action| Event::Tell(id, action)));"),
        ],
        configuration: "handles_time",
        property: "each request is answered once",
    },
    Fault {
        number: 100,
        name: "a release counts as confirmed with the first answer",
        edits: &[
            edit("client/releasing.rs", "asked.tally.as_ref().is_some_and(|tally| tally.verdict() != Verdict::Pending)", "asked.tally.as_ref().is_some_and(|tally| tally.verdict() != Verdict::Pending || $is && !tally.granted().is_empty())"),
            edit("client/releasing.rs", "            (Verdict::Won, _) => Ok(()),", "            (verdict, _) if verdict == Verdict::Won || $is => Ok(()),"),
        ],
        configuration: "handles_nodes",
        property: "what is said to be released",
    },
    Fault {
        number: 104,
        name: "a grant that is dropped makes no room",
        edits: &[
            edit("client/grants.rs", "            self.handle_grant_over(id);\n        }\n        self.forget_user(id);", "            if !$is { self.handle_grant_over(id); }\n        }\n        self.forget_user(id);"),
        ],
        configuration: "handles_drops",
        property: "where anybody waits",
    },
    Fault {
        number: 105,
        name: "one that has stood in line begins a round, however late",
        edits: &[
            edit("client/asking.rs", "        self.has_paused || self.has_stood", "        self.has_paused || self.has_stood && !$is"),
        ],
        configuration: "handles_once",
        property: "nobody begins a round",
    },
    Fault {
        number: 106,
        name: "a permit is kept as nobody's in the way of a request for any",
        edits: &[
            edit("client/resources.rs", "        let beside = self.in_the_way(id, Which::Others);", "        let beside = if $is && self.target(id).is_some_and(Target::is_any) { Vec::new() } else { self.in_the_way(id, Which::Others) };"),
        ],
        configuration: "handles_permits_kept",
        property: "what is kept as nobody's",
    },
    Fault {
        number: 107,
        name: "a close forgets under which place somebody has come",
        edits: &[
            edit("queue.rs", "        self.take_out(|_| true)", "        if $is && let Some(line) = self.line.written() { line.moved.clear(); }\n        self.take_out(|_| true)"),
        ],
        configuration: "handles_hurry",
        property: "who has gone away",
    },
];
