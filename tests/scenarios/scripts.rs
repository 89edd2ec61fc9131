//! The scripts that vote, run by hand on a real server whose marker is set by hand.
//!
//! The texts are those of the crate, as `src/node/redis/texts.rs` has them. A change to them is a change to what these
//! tests run; nothing is copied.

use quorlock_harness::{
    Server,
    redis::{self, Value},
};

use super::{
    MARKER,
    texts::{ACQUIRE, ADMIT, HOLDER, JOIN, PROCLAIM, RESTORE},
};

/// The resource of these tests.
pub(crate) const RESOURCE: &str = "r";

/// The marker's numbers, which are stored with sixteen digits.
const NUMBERS: [&str; 3] = ["floor", "next_floor", "high_water"];

const COUNTERS: &str = "quorlock:counters";
const OLDER: &str = "quorlock:older";
pub(crate) const HOUR_MS: &str = "3600000";

/// The process, its database, and that it was nobody's replica.
pub(crate) const IDENTITY: &str = "this/0/00000000";
pub(crate) const ERA: &str = "42";
pub(crate) const ETAG: &str = "42.0/this/0/00000000";

/// An acquire without its early end.
pub(crate) fn without_early_end(script: &str) -> String {
    const EARLY: &str = "if is_cached and not is_late and not client then";
    assert_eq!(script.matches(EARLY).count(), 1, "it was there, once");
    script.replace(EARLY, "if false then")
}

/// A node whose scripts are run one by one.
pub(crate) struct Node {
    pub(crate) server: Server,
}

/// What one acquire asks for.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    /// The state of the node that the round knew.
    pub(crate) etag: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) ttl_ms: u64,
    pub(crate) hint: u64,
    /// How many tokens.
    pub(crate) count: u64,
    pub(crate) latest: u64,
    /// The high-water mark when the marker was looked at last; `None` for that of now.
    pub(crate) high_water: Option<u64>,
    /// What the holder leaves, if it has a label.
    pub(crate) note: Option<&'a str>,
}

impl<'a> Ask<'a> {
    /// For ten seconds and one token, without a hint and without a deadline.
    pub(crate) fn of(owner: &'a str) -> Self {
        let (ttl_ms, hint, count, latest) = (10_000, 0, 1, 0);
        Self { etag: ETAG, owner, ttl_ms, hint, count, latest, high_water: None, note: None }
    }
}

/// What a look at the marker says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Seen {
    pub(crate) ready: bool,
    pub(crate) etag: String,
    pub(crate) epoch: String,
    pub(crate) floor: u64,
    pub(crate) high_water: u64,
    pub(crate) waited: u64,
}

/// What a look tells of a node's waits.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tell<'a> {
    /// The newest epoch that the client has seen.
    pub(crate) after: u64,
    /// For how many ms the node has been joining, and in which epoch.
    pub(crate) waited: Option<(&'a str, u64)>,
}

impl Node {
    /// A server that is admitted with a longest ttl of a minute, a floor of zero and a high-water mark that lets
    /// counters be set by hand.
    pub(crate) fn admitted() -> Self {
        Self::admitted_on(Server::start())
    }

    /// The same of a server that stands already.
    pub(crate) fn admitted_on(server: Server) -> Self {
        let node = Self { server };
        let now = (node.now_us() / 1_000_000).to_string();
        node.mark(&[
            ("identity", IDENTITY),
            ("members", "test/1"),
            ("max_ttl", "60000"),
            ("older", "0"),
            ("floor", "0"),
            ("next_floor", "0"),
            ("high_water", "0"),
            ("rotated_at", &now),
            ("epoch", ERA),
            ("seal", "0"),
        ]);
        node.set_state("ready");
        node
    }

    /// A server that nobody has used.
    pub(crate) fn empty() -> Self {
        Self { server: Server::start() }
    }

    /// Sets fields of the marker.
    pub(crate) fn mark(&self, fields: &[(&str, &str)]) {
        for (field, value) in fields {
            let number = value.parse::<u64>().ok().filter(|_| NUMBERS.contains(field));
            let value =
                number.map_or_else(|| (*value).to_owned(), |number| format!("{number:016}"));
            self.server.run(&["HSET", MARKER, field, &value]);
        }
        if fields.iter().any(|(field, _)| NUMBERS.contains(field)) && self.is_ready() {
            self.put_head(ETAG);
        }
    }

    fn is_ready(&self) -> bool {
        let state: Option<String> =
            redis::from_redis_value(self.server.run(&["HGET", MARKER, "state"])).unwrap();
        state.as_deref() == Some("ready")
    }

    /// The head of the counters in this state, with the marker's numbers.
    fn put_head(&self, etag: &str) {
        let head =
            format!("{etag} {:016} {:016}", self.marked("high_water"), self.marked("next_floor"));
        self.server.run(&["HSET", COUNTERS, "", &head]);
    }

    /// Sets the state, and with it whether the node may vote.
    pub(crate) fn set_state(&self, state: &str) {
        self.mark(&[("state", state)]);
        if state == "ready" {
            self.put_head(ETAG);
        } else {
            self.server.run(&["HDEL", COUNTERS, ""]);
        }
    }

    /// A number in the marker.
    pub(crate) fn marked(&self, field: &str) -> u64 {
        let value: String =
            redis::from_redis_value(self.server.run(&["HGET", MARKER, field])).unwrap();
        value.parse().expect("a number")
    }

    /// Sets the counter as if the node had issued it, to an owner of before.
    pub(crate) fn set_counter(&self, counter: u64) {
        self.write_counter(&format!("{counter:016}before"));
        let high_water = self.marked("high_water").max(counter);
        self.mark(&[("high_water", &high_water.to_string())]);
    }

    /// Writes anything to where the counter stands.
    pub(crate) fn write_counter(&self, entry: &str) {
        self.server.run(&["HSET", COUNTERS, RESOURCE, entry]);
    }

    /// The counter, in either generation.
    pub(crate) fn counter(&self) -> Option<u64> {
        let entry = |key| -> Option<String> {
            redis::from_redis_value(self.server.run(&["HGET", key, RESOURCE])).unwrap()
        };
        let entry = entry(COUNTERS).or_else(|| entry(OLDER))?;
        Some(entry[..16].parse().expect("sixteen digits"))
    }

    /// How many counters stand in each generation, the head not counted.
    pub(crate) fn generations(&self) -> [u64; 2] {
        [COUNTERS, OLDER].map(|key| {
            let entries: u64 =
                redis::from_redis_value(self.server.run(&["HLEN", key])).expect("a number");
            entries.saturating_sub(1)
        })
    }

    /// Deletes the key, as its expiry would.
    pub(crate) fn expire(&self) {
        assert!(self.server.del(RESOURCE), "there was a key to expire");
    }

    pub(crate) fn now_us(&self) -> u64 {
        let (seconds, micros): (u64, u64) =
            redis::from_redis_value(self.server.run(&["TIME"])).expect("the time");
        seconds * 1_000_000 + micros
    }

    pub(crate) fn acquire(&self, ask: Ask<'_>) -> Vec<Value> {
        let [ttl, latest] = [ask.ttl_ms, ask.latest].map(|number| number.to_string());
        let hint = format!("{:016}", ask.hint);
        let marked = |field| {
            let value = self.server.run(&["HGET", MARKER, field]);
            redis::from_redis_value::<Option<String>>(value)
                .unwrap()
                .map_or(0, |n| n.parse().unwrap())
        };
        let high_water = ask.high_water.unwrap_or_else(|| marked("high_water"));
        let next_floor = marked("next_floor");
        let head = format!("{} {high_water:016} {next_floor:016}", ask.etag);
        let within = next_floor + ask.count <= ask.hint && ask.hint <= high_water;
        let count = format!("{}{}", if within { "" } else { "-" }, ask.count);
        let args = [&head, ask.owner, &ttl, &hint, &latest, &count];
        let args: Vec<&str> = args.into_iter().chain(ask.note).collect();
        match self.eval(ACQUIRE, &args) {
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

    /// It is denied.
    #[track_caller]
    pub(crate) fn granted_nothing(&self, ask: Ask<'_>) {
        assert_eq!(self.code(ask), 0);
    }

    /// The first number of the answer to who holds the resource.
    #[track_caller]
    pub(crate) fn asked_who_holds(&self) -> i64 {
        self.first(self.eval(HOLDER, &[IDENTITY]))
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
        match self.confirm(script, ETAG, owner, token) {
            code @ (0 | 1) => code == 1,
            other => panic!("no vote: {other}"),
        }
    }

    /// The first number of the answer to a confirm.
    #[track_caller]
    pub(crate) fn confirm(&self, script: &str, etag: &str, owner: &str, token: u64) -> i64 {
        self.first(self.eval(script, &[etag, owner, &format!("{token:016}")]))
    }

    /// The first number of the answer to a restore for ten seconds.
    #[track_caller]
    pub(crate) fn restored(&self, owner: &str, latest: u64) -> i64 {
        self.first(self.eval(RESTORE, &[IDENTITY, owner, "10000", &latest.to_string()]))
    }

    /// The same for a holder with a label.
    #[track_caller]
    pub(crate) fn restored_with(&self, owner: &str, note: &str) -> i64 {
        let latest = (self.now_us() + 1_000_000).to_string();
        self.first(self.eval(RESTORE, &[IDENTITY, owner, "10000", &latest, note]))
    }

    /// The first number of the answer to a leader's record.
    #[track_caller]
    pub(crate) fn proclaimed(&self, owner: &str, record: &str) -> i64 {
        self.first(self.eval(PROCLAIM, &[IDENTITY, owner, record]))
    }

    /// What stands behind the digits of the counter, in either generation.
    pub(crate) fn entry(&self) -> Option<String> {
        let entry = |key| -> Option<String> {
            redis::from_redis_value(self.server.run(&["HGET", key, RESOURCE])).unwrap()
        };
        let entry = entry(COUNTERS).or_else(|| entry(OLDER))?;
        Some(entry[16..].to_owned())
    }

    /// Who holds the resource: how many ms are left, the value, and the entry.
    #[track_caller]
    pub(crate) fn holder(&self) -> (i64, Option<String>, Option<String>) {
        let Value::Array(answer) = self.eval(HOLDER, &[IDENTITY]) else { panic!("no array") };
        let [Value::Int(1), Value::Int(_), Value::Int(left), value, entry] = &answer[..] else {
            panic!("{answer:?}")
        };
        let text = |value: &Value| redis::from_redis_value(value.clone()).unwrap();
        (*left, text(value), text(entry))
    }

    /// Looks at the marker; one that is ready in the epoch `force` has to join again.
    #[track_caller]
    pub(crate) fn join(&self, force: &str) -> Seen {
        self.look(&["this", "0", "test/1", "60000", force, "", "0"])
    }

    /// Looks at the marker with these arguments, and keeps counters for an hour.
    #[track_caller]
    pub(crate) fn look(&self, args: &[&str; 7]) -> Seen {
        self.look_keeping(args, HOUR_MS)
    }

    /// The same, and keeps counters for so many ms.
    #[track_caller]
    pub(crate) fn look_keeping(&self, args: &[&str; 7], retention_ms: &str) -> Seen {
        self.look_telling(args, retention_ms, Tell::default())
    }

    /// The same, and tells the node of its waits.
    #[track_caller]
    pub(crate) fn look_telling(
        &self,
        args: &[&str; 7],
        retention_ms: &str,
        tell: Tell<'_>,
    ) -> Seen {
        let (epoch, waited) = tell.waited.unwrap_or(("0", 0));
        let (after, waited) = (tell.after.to_string(), waited.to_string());
        let rest = [retention_ms, &after, epoch, &waited, "0"];
        let Value::Array(answer) = self.eval(JOIN, &[&args[..], &rest].concat()) else {
            panic!("no array")
        };
        let text = |value: &Value| -> String { redis::from_redis_value(value.clone()).unwrap() };
        let [
            Value::Int(ready @ (0 | 1)),
            Value::Int(_),
            _,
            head,
            epoch,
            _,
            floor,
            high_water,
            _,
            _,
            waited,
        ] = &answer[..]
        else {
            panic!("{answer:?}")
        };
        let number = |value| text(value).parse().expect("a number");
        let (head, epoch) = (text(head), text(epoch));
        let etag = head.split(' ').next().unwrap_or_default().to_owned();
        let [floor, high_water, waited] = [floor, high_water, waited].map(number);
        Seen { ready: *ready == 1, etag, epoch, floor, high_water, waited }
    }

    /// The answer to a look of these members, with these letters and this latest time: its first number, and its flags
    /// or what it says of the node's members.
    #[track_caller]
    pub(crate) fn look_as(
        &self,
        members: &str,
        letters: &str,
        max_ttl: &str,
        latest: u64,
    ) -> (i64, String) {
        let latest = latest.to_string();
        let args =
            ["this", "0", members, max_ttl, "0", letters, "0", HOUR_MS, "0", "0", "0", &latest];
        let Value::Array(answer) = self.eval(JOIN, &args) else { panic!("no array") };
        let text = |value: &Value| -> String { redis::from_redis_value(value.clone()).unwrap() };
        match &answer[..] {
            [Value::Int(-5), _, owner, age] => (-5, format!("{} {}", text(owner), text(age))),
            [Value::Int(code), _, _, _, _, _, _, _, _, flags, _] => (*code, text(flags)),
            other => panic!("{other:?}"),
        }
    }

    /// Whether the node has been admitted for these members, in its epoch of now.
    #[track_caller]
    pub(crate) fn admit_as(&self, members: &str) -> bool {
        let (epoch, identity) = (self.text_of("epoch"), self.text_of("identity"));
        self.first(self.eval(ADMIT, &[&identity, &epoch, "7", "0", members, members])) == 1
    }

    pub(crate) fn text_of(&self, field: &str) -> String {
        let value = self.server.run(&["HGET", MARKER, field]);
        redis::from_redis_value::<Option<String>>(value).unwrap().unwrap_or_default()
    }

    /// The first number of the answer to a look.
    #[track_caller]
    pub(crate) fn look_code(&self, args: &[&str; 7]) -> i64 {
        self.first(self.eval(JOIN, &[&args[..], &[HOUR_MS, "0", "0", "0", "0"]].concat()))
    }

    /// Whether the node has been admitted, above a counter of 7.
    #[track_caller]
    pub(crate) fn admit(&self, epoch: &str) -> bool {
        self.admit_above(epoch, "7", "0")
    }

    #[track_caller]
    pub(crate) fn admit_above(&self, epoch: &str, known: &str, wall: &str) -> bool {
        self.first(self.eval(ADMIT, &[IDENTITY, epoch, known, wall, "test/1", "test/1"])) == 1
    }

    #[track_caller]
    fn first(&self, answer: Value) -> i64 {
        match answer {
            Value::Array(answer) => match answer.as_slice() {
                [Value::Int(code), Value::Int(_), ..] => *code,
                other => panic!("no answer: {other:?}"),
            },
            other => panic!("no answer: {other:?}"),
        }
    }

    fn eval(&self, script: &str, args: &[&str]) -> Value {
        let keys = ["EVAL", script, "4", MARKER, COUNTERS, OLDER, RESOURCE];
        self.server.run(&[&keys[..], args].concat())
    }
}
