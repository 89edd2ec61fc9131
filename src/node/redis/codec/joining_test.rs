//! Every form of a look and of an admission, and of their answers.

use std::time::Duration;

use super::*;
use crate::protocol::{Claim, Marker};

const HEAD: &str = "77.1/abc/0/0 0000000000000200 0000000000000150";

fn process() -> Process {
    Process {
        run_id: "abc".to_owned(),
        database: "3".to_owned(),
        members: Members::from_text("1 a,b default"),
        generation: Arc::default(),
        counter_retention: Duration::from_secs(60),
    }
}

fn text(text: &str) -> Value {
    Value::BulkString(text.into())
}

fn told(code: i64, rest: impl IntoIterator<Item = Value>) -> Answer {
    let reply = [Value::Int(code), Value::Int(5)].into_iter().chain(rest).collect();
    Answer::read(Value::Array(reply)).unwrap().0
}

fn fields(head: &str) -> [Value; 9] {
    let [floor, flags] = ["0000000000000100", ""].map(text);
    let [identity, head] = ["abc/0/0", head].map(text);
    let [epoch, seal, max_ttl, waited] = ["77", "1", "5000", "1500"].map(text);
    [identity, head, epoch, seal, floor, Value::Int(200), max_ttl, flags, waited]
}

#[test]
fn a_look_says_who_the_server_is_taken_for_and_what_is_asked_of_it() {
    let process = process();
    let args = |join| look(&process, join, 17, 5).args;
    let ttl = Duration::from_secs(30);
    let plain = args(Join::look(ttl));
    let who =
        [Arg::Bytes(b"abc"), Arg::Text("3".to_owned()), Arg::Text("1 a,b default".to_owned())];
    assert_eq!(plain[..3], who);
    let nothing = [
        Arg::Number(30_000),
        Arg::Number(0),
        Arg::Text(String::new()),
        Arg::Number(17),
        Arg::Number(60_000),
        Arg::Number(0),
        Arg::Number(0),
        Arg::Number(0),
        Arg::Number(5),
    ];
    assert_eq!(plain[3..], nothing);
    let all = args(Join::look(ttl).force(Some(77)).lost().orphaned().seal());
    assert_eq!(all[4..6], [Arg::Number(77), Arg::Text("slo".to_owned())]);
    for (errand, letter) in [
        (Errand::Withdraw, "w"),
        (Errand::MeanNothing, "n"),
        (Errand::TakeOver, "t"),
        (Errand::WatchMaxTtl(4), "x4"),
        (Errand::LowerMaxTtl(70), "d70"),
    ] {
        assert_eq!(args(Join::look(ttl).errand(errand))[5], Arg::Text(letter.to_owned()));
    }
    let waited = Duration::from_micros(2_999);
    let told = args(Join::look(ttl).after(78).after(76).waited(Some((77, waited))));
    let numbers = [78, 77, 2, 5].map(Arg::Number);
    assert_eq!(told[8..], numbers, "no longer than it was");
}

#[test]
fn a_look_shows_a_marker_or_why_there_is_none_for_us() {
    let Ok(Looked::Marker(ready)) = looked(&told(1, fields(HEAD))) else { panic!("no marker") };
    let expected = Marker::new(true, Duration::from_secs(5), 200).above(100).in_epoch(77).sealed(1);
    let expected = expected.serving(Serves::After, false);
    assert_eq!(ready.marker(), expected.waited(Duration::from_millis(1_500)));
    let Ok(Looked::Marker(joining)) = looked(&told(0, fields(""))) else { panic!("no marker") };
    assert!(!joining.marker().ready);
    for (seconds, expected) in [("90", Some(Duration::from_secs(90))), ("-1", None)] {
        let Ok(Looked::OtherMembers { other, age, .. }) =
            looked(&told(-5, [text("1 a,c other"), text(seconds)]))
        else {
            panic!("it is ours")
        };
        assert_eq!((other, age), (Members::new("other", ["c", "A"]), expected));
    }
    for (flags, claim) in [("", Claim::Made), ("om", Claim::Meant), ("kh", Claim::Held)] {
        let mut fields = fields("");
        fields[7] = text(flags);
        let Ok(Looked::Marker(joining)) = looked(&told(0, fields)) else { panic!("no marker") };
        assert_eq!(joining.marker().claim, claim);
    }
    assert!(matches!(looked(&told(-6, [])), Ok(Looked::Replica)));
}

#[test]
fn a_marker_with_a_field_of_another_form_is_none() {
    for place in 0..9 {
        let mut broken = fields(HEAD);
        broken[place] = Value::Nil;
        let looked = looked(&told(1, broken));
        assert!(matches!(looked, Err(NodeError::Unexpected { .. })), "{place}: {looked:?}");
    }
}

#[test]
fn an_admission_is_asked_for_in_the_epoch_that_was_seen_and_is_made_or_not() {
    let process = process();
    let script = admit(&process, b"abc/0/0", 77, Floor::new(200, 300), Serves::After);
    let numbers = [77, 200, 300].map(Arg::Number);
    assert_eq!((&script.args[0], &script.args[1..4]), (&Arg::Bytes(b"abc/0/0"), &numbers[..]));
    let members = Arg::Text("1 a,b default".to_owned());
    assert_eq!(script.args[4..], [members.clone(), members]);
    assert_eq!(admitted(&told(1, [])), Ok(true));
    assert_eq!(admitted(&told(0, [])), Ok(false));
    assert!(admitted(&told(2, [])).is_err() && admitted(&told(1, [Value::Nil])).is_err());
}
