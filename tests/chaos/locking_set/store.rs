//! The store of the sets: one key each, on a server that no fault touches. Its scripts are those of `docs/fencing.md`.
//!
//! A set is a list of numbers that is read whole and written whole, so that a write of an outdated read takes away what
//! others have added since. It judges nothing.

use std::collections::BTreeSet;

use quorlock_harness::redis::{self, Client, Connection, ToRedisArgs};

/// The script of the page behind this heading.
fn script(first_words: &str) -> &'static str {
    let page = include_str!("../../../docs/fencing.md");
    let mut blocks = page.split("```lua\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.find(|script| script.starts_with(first_words)).expect("a script of docs/fencing.md")
}

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
            Some(token) => {
                match self.eval("-- KEYS the value and its fence; ARGV the token.", set, token, "")
                {
                    redis::Value::Int(0) => return None,
                    value => redis::from_redis_value(value).expect("a text"),
                }
            }
        };
        Some(text.unwrap_or_default())
    }

    /// Whether the store took the whole set. Without a token it takes everything.
    pub(super) fn write(&mut self, set: usize, token: Option<u64>, text: &str) -> bool {
        let Some(token) = token else {
            redis::cmd("SET").arg(key(set)).arg(text).exec(&mut self.0).expect("it answers");
            return true;
        };
        let script = "-- KEYS the value and its fence; ARGV the token and the new value.";
        self.eval(script, set, token, text) == redis::Value::Int(1)
    }

    fn eval(
        &mut self,
        first_words: &str,
        set: usize,
        token: u64,
        text: impl ToRedisArgs,
    ) -> redis::Value {
        let mut eval = redis::cmd("EVAL");
        eval.arg(script(first_words)).arg(2).arg(key(set)).arg(format!("{}:fence", key(set)));
        eval.arg(token).arg(text).query(&mut self.0).expect("the store answers")
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
