//! The scripts that vote, run by hand on a real server whose marker is set by hand.
//!
//! The sources are those of the crate, put together as `src/node/redis/script.rs` does. A change to them is a
//! change to what these tests run; nothing is copied.

use quorlock_harness::{
    Server,
    redis::{self, Value},
};

use super::MARKER;

macro_rules! voting {
    ($file:literal) => {
        concat!(
            include_str!("../../src/node/redis/scripts/marker.lua"),
            include_str!(concat!("../../src/node/redis/scripts/", $file))
        )
    };
}

pub(crate) const ACQUIRE: &str = include_str!("../../src/node/redis/scripts/acquire.lua");
pub(crate) const CONFIRM: &str = voting!("confirm.lua");
const RESTORE: &str = voting!("restore.lua");
const JOIN: &str = include_str!("../../src/node/redis/scripts/join.lua");
const ADMIT: &str = include_str!("../../src/node/redis/scripts/admit.lua");

/// The resource of these tests, and the key of its counter.
pub(crate) const RESOURCE: &str = "r";
pub(crate) const FENCE: &str = "fence:{r}";

const RUN_ID: &str = "this process";
pub(crate) const ERA: &str = "42";

/// A node whose scripts are run one by one.
pub(crate) struct Node {
    pub(crate) server: Server,
}

/// What one acquire asks for.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) run_id: &'a str,
    /// The era that is relied on, if any.
    pub(crate) era: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) ttl_ms: u64,
    pub(crate) hint: u64,
    pub(crate) latest: u64,
}

impl<'a> Ask<'a> {
    /// For ten seconds, without a hint and without a deadline.
    pub(crate) fn of(owner: &'a str) -> Self {
        Self { run_id: RUN_ID, era: "", owner, ttl_ms: 10_000, hint: 0, latest: 0 }
    }
}

impl Node {
    /// A server that is admitted with a longest ttl of a minute and all counters at zero.
    pub(crate) fn admitted() -> Self {
        let node = Self { server: Server::start() };
        let now = (node.now_us() / 1_000_000).to_string();
        node.mark(&[
            ("run_id", RUN_ID),
            ("state", "ready"),
            ("max_ttl", "60000"),
            ("floor", "0"),
            ("passed", "0"),
            ("high", "0"),
            ("turned", &now),
            ("era", ERA),
        ]);
        node
    }

    /// Sets fields of the marker.
    pub(crate) fn mark(&self, fields: &[(&str, &str)]) {
        for (field, value) in fields {
            self.server.run(&["HSET", MARKER, field, value]);
        }
    }

    /// A field of the marker.
    pub(crate) fn marked(&self, field: &str) -> u64 {
        let value = self.server.run(&["HGET", MARKER, field]);
        redis::from_redis_value(value).expect("a number")
    }

    pub(crate) fn set_counter(&self, counter: u64) {
        self.server.set(FENCE, counter.to_string(), None);
    }

    /// The counter, exactly as it is stored.
    pub(crate) fn counter(&self) -> Option<String> {
        self.server.get(FENCE).map(|bytes| String::from_utf8(bytes).expect("text"))
    }

    /// The key is gone, by its expiry or by whatever else.
    pub(crate) fn expire(&self) {
        assert!(self.server.del(RESOURCE), "there was a key to expire");
    }

    pub(crate) fn now_us(&self) -> u64 {
        let (seconds, micros): (u64, u64) =
            redis::from_redis_value(self.server.run(&["TIME"])).expect("the time");
        seconds * 1_000_000 + micros
    }

    pub(crate) fn acquire(&self, ask: Ask<'_>) -> Vec<Value> {
        let numbers = [ask.ttl_ms, ask.hint, ask.latest].map(|number| number.to_string());
        let [ttl, hint, latest] = &numbers;
        match self.eval(ACQUIRE, &[ask.era, ask.owner, ttl, hint, latest, ask.run_id]) {
            Value::Array(answer) => answer,
            other => vec![other],
        }
    }

    /// The counter with which an acquire is granted.
    #[track_caller]
    pub(crate) fn granted(&self, ask: Ask<'_>) -> u64 {
        match self.acquire(ask).as_slice() {
            [Value::Int(1), Value::Int(_), Value::Int(fence), ..] => u64::try_from(*fence).unwrap(),
            // Its clock alone: as asked.
            [Value::Int(_)] => ask.hint,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// The first number of an answer.
    #[track_caller]
    pub(crate) fn code(&self, ask: Ask<'_>) -> i64 {
        match self.acquire(ask).as_slice() {
            [Value::Int(code), ..] => *code,
            other => panic!("no code: {other:?}"),
        }
    }

    /// Whether the node confirms, by the script given.
    #[track_caller]
    pub(crate) fn confirmed(&self, script: &str, owner: &str, token: u64) -> bool {
        match self.eval(script, &[RUN_ID, owner, &token.to_string()]) {
            Value::Array(answer) => match answer.as_slice() {
                [Value::Int(code @ (0 | 1)), Value::Int(_)] => *code == 1,
                other => panic!("no vote: {other:?}"),
            },
            other => panic!("no vote: {other:?}"),
        }
    }

    /// The first number of the answer to a restore for ten seconds.
    #[track_caller]
    pub(crate) fn restored(&self, owner: &str, latest: u64) -> i64 {
        match self.eval(RESTORE, &[RUN_ID, owner, "10000", &latest.to_string()]) {
            Value::Array(answer) => match answer.as_slice() {
                [Value::Int(code), Value::Int(_)] => *code,
                other => panic!("no answer: {other:?}"),
            },
            other => panic!("no answer: {other:?}"),
        }
    }

    /// Whether the node is ready, and its era; one that is ready in the era `force` has to join again.
    #[track_caller]
    pub(crate) fn join(&self, force: &str) -> (bool, String) {
        let command = ["EVAL", JOIN, "1", MARKER, RUN_ID, "60000", force];
        let Value::Array(answer) = self.server.run(&command) else { panic!("no array") };
        let [Value::Int(ready), Value::Int(_), Value::BulkString(era), ..] = &answer[..] else {
            panic!("{answer:?}")
        };
        (*ready == 1, String::from_utf8(era.clone()).unwrap())
    }

    /// Whether the node has been admitted.
    #[track_caller]
    pub(crate) fn admit(&self, era: &str) -> bool {
        let command = ["EVAL", ADMIT, "1", MARKER, RUN_ID, era, "7", "0"];
        let Value::Array(answer) = self.server.run(&command) else { panic!("no array") };
        answer[0] == Value::Int(1)
    }

    fn eval(&self, script: &str, args: &[&str]) -> Value {
        let command = [&["EVAL", script, "3", MARKER, RESOURCE, FENCE][..], args].concat();
        self.server.run(&command)
    }
}
