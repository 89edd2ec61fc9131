//! Commands as scripts and arguments, replies as answers: values in, values out.
//!
//! It decides what a reply means. It sends nothing, reads no clock and knows no connection. A reply may be anything.
//! One that no script of ours gives is [`NodeError::Unexpected`]: it must never cause a panic, and never count as a
//! grant.

mod acquiring;
mod completed;
mod holder;
mod joining;
mod votes;

use std::sync::Arc;

use redis::Value;

pub(super) use self::{
    acquiring::{Acquired, Wanted, acquire, acquired, adopt, adopted, in_line},
    completed::{ask_completed, completion_of, told_completed},
    holder::{ask_holder, proclaim, proclaimed, told_holder},
    joining::{Looked, Process, admit, admitted, look, looked},
    votes::{
        acquire_classic, acquired_classic, confirm, confirmed, denial, downgrade, extend, extended,
        first_byte, hand_back, holder, leave, release, released, remaining, restore, restored,
        track_next,
    },
};
use crate::{node::NodeError, protocol::FencingToken};

/// The answer of a script that also tells the node's clock.
#[derive(Debug)]
pub(super) enum Answer {
    /// The clock alone: granted, exactly as asked.
    AsAsked,
    /// A number for the result, the clock, and whatever else.
    Told(Vec<Value>),
}

impl Answer {
    /// From a reply, with the node's clock in microseconds. In classic mode scripts do not read it, and tell zero.
    pub(super) fn read(reply: Value) -> Result<(Self, Option<u64>), NodeError> {
        match reply {
            Value::Array(told) => {
                let clock = told.get(1).and_then(count).ok_or_else(|| unexpected("no clock"))?;
                Ok((Self::Told(told), (clock > 0).then_some(clock)))
            }
            clock => match count(&clock) {
                None | Some(0) => Err(unexpected(kind(&clock))),
                clock => Ok((Self::AsAsked, clock)),
            },
        }
    }

    /// The values; none where it was granted as asked.
    fn told(&self) -> &[Value] {
        match self {
            Self::AsAsked => &[],
            Self::Told(values) => values,
        }
    }
}

/// A number that a script can have counted to: Lua's doubles are exact up to there.
fn count(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok().filter(|n| *n <= FencingToken::MAX.get()),
        _ => None,
    }
}

/// What a script says instead of voting.
fn refusal(answer: &Answer) -> NodeError {
    match answer.told() {
        [Value::Int(-1), _] => NodeError::NotAdmitted,
        [Value::Int(-3), _] => NodeError::ArrivedLate,
        [Value::Int(-4), _] => NodeError::CounterExhausted,
        _ => unexpected("an answer of another form"),
    }
}

fn unexpected(kind: &'static str) -> NodeError {
    NodeError::Unexpected { message: Arc::from(kind) }
}

/// Its type alone: a reply may be long, and may hold what no log should show.
const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Int(_) => "an integer",
        Value::BulkString(_) | Value::SimpleString(_) | Value::VerbatimString { .. } => "a string",
        Value::Okay => "OK",
        Value::Array(_) => "an array",
        _ => "another type",
    }
}

#[cfg(test)]
#[path = "garbage_test.rs"]
mod garbage;
