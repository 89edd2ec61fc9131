//! The script that asks what is done of a resource, or keeps that, and its answer.
//!
//! It decides which answer is a completion: other programs may have written anything there.

use std::time::Duration;

use redis::Value;

use super::{
    super::script::{self, Arg, DONE, List, OWN, Script},
    Answer, kind, refusal, unexpected,
};
use crate::{
    node::NodeError,
    protocol::{Completed, Completion, Resource},
};

/// The key beside that of a resource, for periods of this length.
pub(in crate::node::redis) fn completion_of(resource: &Resource, every: Duration) -> Vec<u8> {
    let length = format!("{}:", every.as_millis());
    [DONE, length.as_bytes(), resource.as_bytes()].concat()
}

pub(in crate::node::redis) fn ask_completed<'a>(
    identity: &'a [u8],
    key: &'a [u8],
    done: Option<&Completed>,
) -> Script<'a> {
    let [marker, counters, older] = OWN;
    let identity = Arg::Bytes(identity);
    let args = match done {
        Some(done) => {
            let left = u64::try_from(done.wire_left().as_millis()).unwrap_or(u64::MAX);
            List::Three([identity, Arg::Owned(done.completion.to_bytes()), Arg::Number(left)])
        }
        None => List::One([identity]),
    };
    let keys = List::Four([marker, counters, older, key]);
    Script { source: &script::COMPLETED, keys, lines: &[], args }
}

pub(in crate::node::redis) fn told_completed(
    answer: &Answer,
) -> Result<Option<Completed>, NodeError> {
    let [Value::Int(1), _, Value::Int(left), said] = answer.told() else {
        return Err(refusal(answer));
    };
    match said {
        Value::Nil => Ok(None),
        Value::BulkString(said) => Ok(Completion::read(said).map(|completion| {
            // Where somebody has removed its end, it is as if it had just been done.
            let left =
                u64::try_from(*left).map_or_else(|_| completion.life(), Duration::from_millis);
            Completed { left, completion }
        })),
        other => Err(unexpected(kind(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Label, Owner, Period};

    fn told(rest: impl IntoIterator<Item = Value>) -> Result<Option<Completed>, NodeError> {
        let reply = [Value::Int(1), Value::Int(7)].into_iter().chain(rest).collect();
        told_completed(&Answer::read(Value::Array(reply)).unwrap().0)
    }

    #[test]
    fn what_stands_there_is_a_completion_or_nothing() {
        let period = Period::of(0, Duration::from_secs(60)).unwrap();
        let done = period.completed(Owner::from_random([7; 16]), Label::new(b"h\xff"), 0);
        let text = || Value::BulkString(done.completion.to_bytes());
        let completed = |left| Some(Completed { left, ..done.clone() });
        let second = Duration::from_secs(1);
        assert_eq!(told([Value::Int(1_000), text()]), Ok(completed(second)));
        assert_eq!(told([Value::Int(-1), text()]), Ok(completed(done.completion.life())));
        assert_eq!(told([Value::Int(-2), Value::Nil]), Ok(None));
        assert_eq!(told([Value::Int(9), Value::BulkString(b"theirs".to_vec())]), Ok(None));
        assert!(told([Value::Int(9), Value::Okay]).is_err());
        assert!(told([Value::Int(9)]).is_err());
    }

    #[test]
    fn the_key_is_beside_that_of_the_resource() {
        let resource = Resource::new("job").unwrap();
        let key = completion_of(&resource, Duration::from_secs(60));
        let script = ask_completed(b"abc/0/0", &key, None);
        assert_eq!(script.keys[3], b"quorlock:done:60000:job");
        assert_eq!(script.args, [Arg::Bytes(b"abc/0/0")]);
        let done = Period::of(0, Duration::from_secs(60)).unwrap();
        let done = done.completed(Owner::from_random([7; 16]), None, 0);
        let script = ask_completed(b"abc/0/0", &key, Some(&done));
        let (text, left) = (Arg::Owned(done.completion.to_bytes()), Arg::Number(89_999));
        assert_eq!(script.args, [Arg::Bytes(b"abc/0/0"), text, left]);
    }
}
