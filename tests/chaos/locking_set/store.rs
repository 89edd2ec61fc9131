//! The store of the sets: one key each, on a server that no fault touches. Its script is `examples/fences/redis.lua`.
//!
//! A set is a list of numbers that is read whole and written whole, so that a write of an outdated read takes away what
//! others have added since. It judges nothing.

use std::collections::BTreeSet;

use quorlock_harness::redis::{self, Client, Connection, RedisResult};

const SCRIPT: &str = include_str!("../../../examples/fences/redis.lua");

pub(super) struct Store(Connection);

impl Store {
    pub(super) fn open(url: &str) -> Self {
        // Without a time limit: a read with one is interrupted when a process that was stopped goes on.
        let connection = Client::open(url).and_then(|client| client.get_connection());
        Self(connection.expect("the store answers"))
    }

    /// The text of a set. A read with a token makes the store refuse smaller ones; `None` after a larger one.
    pub(super) fn read(&mut self, set: usize, token: Option<u64>) -> Option<String> {
        let text: Option<String> = match token {
            None => redis::cmd("GET").arg(key(set)).query(&mut self.0).expect("it answers"),
            Some(token) => self.eval(set, &[token.to_string()])?,
        };
        Some(text.unwrap_or_default())
    }

    /// Whether the store took the whole set. Without a token it takes everything.
    pub(super) fn write(&mut self, set: usize, token: Option<u64>, text: &str) -> bool {
        let Some(token) = token else {
            redis::cmd("SET").arg(key(set)).arg(text).exec(&mut self.0).expect("it answers");
            return true;
        };
        self.eval(set, &[token.to_string(), text.to_owned()]).is_some()
    }

    /// What the script answers; nothing after a larger token.
    fn eval(&mut self, set: usize, args: &[String]) -> Option<Option<String>> {
        let mut eval = redis::cmd("EVAL");
        eval.arg(SCRIPT).arg(2).arg(key(set)).arg(format!("{}:fence", key(set))).arg(args);
        let said: RedisResult<Option<String>> = eval.query(&mut self.0);
        said.inspect_err(|error| assert_eq!(error.code(), Some("STALE"), "{error}")).ok()
    }

    /// What is in a set in the end.
    pub(super) fn elements(&mut self, set: usize) -> BTreeSet<u64> {
        let text = self.read(set, None).expect("nobody is refused");
        text.split(',').filter(|it| !it.is_empty()).map(|it| it.parse().unwrap()).collect()
    }
}

fn key(set: usize) -> String {
    format!("{{set:{set}}}")
}
