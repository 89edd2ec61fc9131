//! Goal: whatever a server answers, nothing here panics, and only what a script of ours says is a grant.
//!
//! Method: values of every type and size, alone and in arrays of every length up to five, as the answer to everything.

use std::mem::discriminant;

use redis::{PushKind, VerbatimFormat};

use super::*;
use crate::protocol::{FencingToken, Granted, Reply, Resource, Slots, Target};

const NOW: i64 = 1_795_170_000_123_456;

/// Values that may stand in an answer, beginning with those that the scripts do say.
fn values() -> Vec<Value> {
    let text = |text: &[u8]| Value::BulkString(text.to_vec());
    vec![
        Value::Int(1),
        Value::Int(0),
        Value::Int(NOW),
        Value::Int(-1),
        Value::Int(2),
        Value::Int(i64::MAX),
        Value::Int(i64::MIN),
        Value::Int(1 << 53),
        Value::Nil,
        Value::Okay,
        text(b""),
        text(b"OK"),
        text(b"1"),
        text(b"77.1/abc/0/0 0000000000000200 0000000000000150"),
        text(&[0xff, 0]),
        Value::SimpleString("1".to_owned()),
        Value::VerbatimString { format: VerbatimFormat::Text, text: "1".to_owned() },
        Value::Boolean(true),
        Value::Double(1.0),
        Value::Array(Vec::new()),
        Value::Array(vec![Value::Int(1)]),
        Value::Set(vec![Value::Int(1)]),
        Value::Map(vec![(Value::Int(1), Value::Int(NOW))]),
        Value::Push { kind: PushKind::Message, data: vec![Value::Int(1)] },
    ]
}

/// Every array of so many of these values.
fn arrays(length: usize, of: &[Value]) -> Vec<Vec<Value>> {
    (0..length).fold(vec![Vec::new()], |arrays, _| {
        let with = |array: Vec<Value>| {
            of.iter().map(move |value| [array.clone(), vec![value.clone()]].concat())
        };
        arrays.into_iter().flat_map(with).collect()
    })
}

fn replies() -> impl Iterator<Item = Value> {
    // Beyond three values the clock is a valid one, so that the rest is read.
    let long = |rest, of: &[Value]| {
        arrays(rest, of).into_iter().flat_map(|rest| {
            let code = [1, 0, -5].map(Value::Int);
            code.map(|code| Value::Array([vec![code, Value::Int(NOW)], rest.clone()].concat()))
        })
    };
    let all = values();
    // A grant has four values behind the clock. Here only those that it is made of, and others of their types.
    let few: Vec<Value> = all[..11].iter().chain(&all[13..15]).cloned().collect();
    let short = (0..=3).flat_map(|length| arrays(length, &all)).map(Value::Array);
    let long = long(2, &all).chain(long(3, &all)).chain(long(4, &few));
    values().into_iter().chain(short.collect::<Vec<_>>()).chain(long.collect::<Vec<_>>())
}

fn is_clock(value: Option<&Value>) -> bool {
    matches!(value, Some(Value::Int(clock)) if (0..1 << 53).contains(clock))
}

fn is_granted(reply: &Result<Reply, NodeError>) -> bool {
    matches!(reply, Ok(Reply::Granted(_)))
}

#[test]
fn no_reply_makes_it_panic_or_is_a_grant_that_no_script_has_said() {
    let token = FencingToken::new(9);
    let (mut granted, mut seen) = (0, 0);
    for reply in replies() {
        seen += 1;
        let bare = |value: &Value| matches!(value, Value::Int(1 | NOW | 2));
        let form: &[Value] = match &reply {
            Value::Array(told) => told,
            _ => &[],
        };
        let Ok((answer, _)) = Answer::read(reply.clone()) else {
            assert!(!is_clock(form.get(1)) && !bare(&reply), "{reply:?}");
            continue;
        };
        let again = || Answer::read(reply.clone()).unwrap().0;
        let yes = matches!(form, [Value::Int(1), _]);
        assert_eq!(is_granted(&confirmed(&answer, token)), yes, "{reply:?}");
        assert_eq!(is_granted(&restored(&answer)), yes, "{reply:?}");
        assert_eq!(admitted(&answer) == Ok(true), yes, "{reply:?}");

        let told = |target: &Target, first| {
            acquired(again(), (target, first), 9).map(|acquired| acquired.reply)
        };
        // Behind the counter: the head or none, how many wait, and which was granted.
        let counted = |which: &dyn Fn(i64) -> bool| {
            matches!(
                form,
                [
                    Value::Int(1),
                    _,
                    Value::Int(1 | 2 | NOW),
                    Value::BulkString(_) | Value::Nil,
                    Value::Int(_),
                    Value::Int(at)
                ] if which(*at)
            )
        };
        let acquired = told(&Resource::new("r").unwrap().into(), 0);
        assert_eq!(is_granted(&acquired), counted(&|_| true) || bare(&reply), "{reply:?}");
        if let Ok(Reply::Granted(Granted { token, .. })) = acquired {
            assert!(token.is_some_and(|token| token <= FencingToken::MAX), "{reply:?}");
            granted += 1;
        }
        let taken = told(&Slots::new(b"", "s", 2).unwrap().into(), 1);
        let is_there = counted(&|at| (1..=2).contains(&at));
        assert_eq!(is_granted(&taken), is_there || bare(&reply), "{reply:?}");
        for count in 0..4 {
            let keys = std::iter::repeat_n(1, count);
            let Ok(extended) = extended(&answer, keys) else { continue };
            assert_eq!((&form[0], form.len()), (&Value::Int(1), count + 2), "{reply:?}");
            for (answer, told) in extended.iter().zip(&form[2..]) {
                assert_eq!(is_granted(answer), *told == Value::Int(1), "{reply:?}");
            }
        }
        // No marker has as few fields as these.
        assert!(!matches!(looked(&answer), Ok(Looked::Marker(_))), "{reply:?}");
    }
    assert!(seen > 40_000 && granted > 10, "{seen} replies, {granted} of them grants");
}

#[test]
fn no_plain_reply_is_a_grant_that_the_server_has_not_said() {
    for reply in values() {
        assert_eq!(is_granted(&released(&reply)), reply == Value::Int(1), "{reply:?}");
        assert_eq!(acquired_classic(&reply) == Ok(true), reply == Value::Okay, "{reply:?}");
        let _ = denial(Some(reply.clone()), Some(&reply));
    }
}

#[test]
fn what_was_not_understood_may_have_been_executed() {
    let error = Answer::read(Value::Nil).unwrap_err();
    assert!(error.sent());
    assert_eq!(discriminant(&error), discriminant(&unexpected("")));
}

/// What it says may be text that no log should show.
#[test]
fn of_an_answer_that_is_none_its_kind_is_told_and_nothing_more() {
    for (answer, kind) in [
        (Value::Nil, "nil"),
        (Value::Int(-5), "an integer"),
        (Value::BulkString(b"hunter2".to_vec()), "a string"),
        (Value::SimpleString("hunter2".to_owned()), "a string"),
        (Value::Okay, "OK"),
        (Value::Boolean(true), "another type"),
    ] {
        let told = Answer::read(answer).unwrap_err();
        assert_eq!(told, NodeError::Unexpected { message: Arc::from(kind) });
    }
    assert_eq!(kind(&Value::Array(Vec::new())), "an array");
}
