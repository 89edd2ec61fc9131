//! Every form in which a vote is asked for, and every form of its reply.

use super::{super::acquiring::*, *};
use crate::protocol::{Label, LeaderText, Record, Slots, Stand};

const HEAD: &str = "77.1/abc/0/0 0000000000000200 0000000000000150";
const NOW: i64 = 1_795_170_000_123_456;

fn head() -> Head {
    Head::read(HEAD.as_bytes()).unwrap()
}

fn resource() -> Resource {
    Resource::new("r").unwrap()
}

fn owner() -> Owner {
    Owner::from_random([7; 16])
}

fn text(text: &str) -> Value {
    Value::BulkString(text.into())
}

/// An answer that tells the clock.
fn told(code: i64, rest: impl IntoIterator<Item = Value>) -> Answer {
    let reply = [Value::Int(code), Value::Int(NOW)].into_iter().chain(rest).collect();
    Answer::read(Value::Array(reply)).unwrap().0
}

fn wire(write: impl FnOnce(&mut Cmd)) -> Vec<Vec<u8>> {
    let mut command = Cmd::new();
    write(&mut command);
    let argument = |arg: redis::Arg<&[u8]>| match arg {
        redis::Arg::Simple(bytes) => bytes.to_vec(),
        _ => panic!("a cursor"),
    };
    command.args_iter().map(argument).collect()
}

const fn one(hint: u64) -> Wanted {
    Wanted { hint, count: 1 }
}

/// An answer to an acquire of one resource, with the hint 9.
fn acquired_one(answer: Answer) -> Result<Acquired, NodeError> {
    acquired(answer, (&resource().into(), 0), 9)
}

#[test]
fn a_counter_is_written_with_sixteen_digits() {
    assert_eq!(&digits(0), b"0000000000000000");
    assert_eq!(&digits(1_795_170_000_123_456), b"1795170000123456");
    assert_eq!(digits(u64::MAX), digits(FencingToken::MAX.get()));
}

#[test]
fn an_acquire_is_asked_for_under_the_head_that_its_round_knew() {
    let (head, target, ttl) = (head(), Target::from(resource()), Duration::from_micros(9_999_500));
    let script = acquire(&head, (&target, 0), owner(), ttl, one(180), 5, None);
    assert_eq!(script.keys, [OWN[0], OWN[1], OWN[2], b"r"]);
    let within = Arg::Count(1);
    let counter = Arg::Counter(*b"0000000000000180");
    let (ttl, latest) = (Arg::Number(10_000), Arg::Number(5));
    let head_text = Arg::Bytes(HEAD.as_bytes());
    assert_eq!(script.args, [head_text, Arg::Owner(owner()), ttl, counter, latest, within]);
    let above = acquire(&head, (&target, 0), owner(), Duration::ZERO, one(201), 0, None);
    assert_eq!(above.args.last(), Some(&Arg::Count(-1)), "the node has to look at its numbers");
}

/// The head says that counters of the generation before are at most 150, and that none is above 200.
#[test]
fn a_count_goes_out_as_it_is_where_the_whole_range_is_new_and_issued_and_with_a_minus_elsewhere() {
    let (head, target) = (head(), Target::from(resource()));
    let asked = |hint, count| {
        let wanted = Wanted { hint, count };
        let script = acquire(&head, (&target, 0), owner(), Duration::ZERO, wanted, 0, None);
        wire(|to| script.evalsha(to)).pop().map(|arg| String::from_utf8(arg).unwrap()).unwrap()
    };
    let cases = [(151, 1, "1"), (150, 1, "-1"), (200, 50, "50"), (200, 51, "-51"), (201, 2, "-2")];
    for (hint, count, sent) in cases {
        assert_eq!(asked(hint, count), sent);
    }
    assert_eq!(asked(180, 0), "1", "no node counts by nothing");
    assert_eq!(asked(180, u64::MAX), format!("-{}", i64::MAX));
}

#[test]
fn a_script_goes_out_by_its_digest_or_in_full_with_the_same_arguments() {
    let target = Target::from(resource());
    let script = release(&target, owner(), None, false);
    let (by_digest, in_full) = (wire(|to| script.evalsha(to)), wire(|to| script.eval(to)));
    let rest = [b"1".to_vec(), b"r".to_vec(), owner().to_hex().to_vec()];
    assert_eq!((&by_digest[0][..], &by_digest[2..]), (&b"EVALSHA"[..], &rest[..]));
    assert_eq!((&in_full[0][..], &in_full[2..]), (&b"EVAL"[..], &rest[..]));
    assert_eq!(in_full[1], script::RELEASE.text().as_bytes());
}

#[test]
fn a_release_that_keeps_the_key_says_for_how_long_in_milliseconds_rounded_up() {
    let target = Target::from(resource());
    let keep = release(&target, owner(), Some(Duration::from_micros(1_500_001)), false);
    assert_eq!(keep.args, [Arg::Owner(owner()), Arg::Number(1501)]);
    assert_eq!(release(&target, owner(), None, false).args, [Arg::Owner(owner())]);
}

#[test]
fn arguments_are_written_as_the_scripts_read_them() {
    let (head, resource) = (head(), resource());
    let target = Target::from(resource.clone());
    let confirm = confirm(&head, &target, owner(), FencingToken::new(42));
    let confirm = wire(|to| confirm.evalsha(to));
    let hex = owner().to_hex();
    assert_eq!(confirm[2], b"4", "so many keys");
    assert_eq!(
        confirm[7..],
        [b"77.1/abc/0/0".to_vec(), hex.to_vec(), b"0000000000000042".to_vec()]
    );
    let second = Duration::from_secs(1);
    let restore = restore(Some(b"abc/0/0"), &target, owner(), second, 9, None);
    let args = [b"abc/0/0".to_vec(), hex.to_vec(), b"1000".to_vec(), b"9".to_vec()];
    assert_eq!(wire(|to| restore.evalsha(to))[7..], args);
}

#[test]
fn a_note_stands_behind_the_other_arguments_and_never_in_classic_mode() {
    let note = Note::new(42, Label::new("web-1").unwrap());
    let (head, second) = (head(), Duration::from_secs(1));
    let target = Target::from(resource());
    let with = |note| acquire(&head, (&target, 0), owner(), second, one(180), 5, note).args;
    let (plain, noted) = (with(None), with(Some(&note)));
    assert!(matches!(plain, List::Six(_)), "no memory of its own");
    assert_eq!(plain[..], noted[..6]);
    assert_eq!(noted[6..], [Arg::Owned(b"0000000000000042web-1".to_vec())]);
    let with = |identity, note| restore(identity, &target, owner(), second, 9, note).args;
    let (plain, noted) = (with(Some(b"abc/0/0"), None), with(Some(b"abc/0/0"), Some(&note)));
    assert!(matches!(plain, List::Four(_)), "no memory of its own");
    assert_eq!(plain[..], noted[..4]);
    assert_eq!(noted[4..], [Arg::Owned(note.to_bytes())]);
    assert_eq!(with(None, Some(&note)).len(), 4);
}

#[test]
fn extensions_travel_together_and_classic_ones_touch_no_key_of_the_nodes() {
    let extension = |name: &str| Command::Extend {
        target: Resource::new(name).unwrap().into(),
        owner: owner(),
        ttl: Duration::from_secs(1),
        fenced: false,
    };
    let release = Command::Release { target: resource().into(), owner: owner(), keep: None };
    let commands = [extension("a"), release, extension("b")];
    let pair = [Arg::Owner(owner()), Arg::Number(1000)];
    let fenced = extend(Some(b"abc/0/0"), &commands);
    assert_eq!(fenced.keys, [OWN[0], OWN[1], OWN[2], b"a", b"b"]);
    assert_eq!(fenced.args[0], Arg::Bytes(b"abc/0/0"));
    assert_eq!((&fenced.args[1..3], &fenced.args[3..]), (&pair[..], &pair[..]));
    let classic = extend(None, &commands);
    assert_eq!(*classic.keys, [b"a", b"a", b"a", b"a", b"b"]);
    assert_eq!(classic.args[0], Arg::Bytes(b""));
    assert!(std::ptr::eq(classic.source, &raw const *script::EXTEND_CLASSIC));
    let resource = resource();
    let target = Target::from(resource.clone());
    let classic = restore(None, &target, owner(), Duration::from_secs(1), 9, None);
    assert_eq!(*classic.keys, [b"r"; 4]);
    assert_eq!(classic.args[3], Arg::Number(0), "it reads no clock");
    assert!(std::ptr::eq(classic.source, &raw const *script::RESTORE_CLASSIC));
}

#[test]
fn an_acquire_is_granted_with_the_counter_that_was_told_or_the_hint() {
    let granted = |token| Reply::Granted(Granted::at(FencingToken::new(token)));
    let (answer, clock) = Answer::read(Value::Int(NOW)).unwrap();
    assert_eq!(clock, u64::try_from(NOW).ok());
    assert_eq!(acquired_one(answer).unwrap().reply, granted(9));
    for (waiting, others_wait) in [(-1, None), (0, Some(false)), (1, Some(true)), (7, Some(true))] {
        for (head, told_head) in [(text(HEAD), Some(HEAD.into())), (Value::Nil, None)] {
            let answer = told(1, [Value::Int(12), head, Value::Int(waiting), Value::Int(1)]);
            let acquired = acquired_one(answer).unwrap();
            assert_eq!(acquired.reply, granted(12));
            assert_eq!((acquired.others_wait, acquired.head), (others_wait, told_head));
        }
    }
}

#[test]
fn an_acquire_is_denied_with_what_is_known_of_the_holder() {
    let denied =
        |left, holder| match acquired_one(told(0, [Value::Int(left), holder, Value::Int(2)])) {
            Ok(Acquired { reply: Reply::Denied(denial), .. }) => {
                assert_eq!(denial.which, Some(1), "the script counts from one");
                (denial.holder, denial.remaining)
            }
            other => panic!("{other:?}"),
        };
    let ms = Duration::from_millis;
    assert_eq!(denied(5, text("x")), (Some(Box::from(*b"x")), Some(ms(5))));
    assert_eq!(denied(-1, text("x")), (Some(Box::from(*b"x")), None));
    assert_eq!(denied(-2, Value::Nil), (None, None));
    assert_eq!(denied(5, Value::Int(1)), (None, Some(ms(5))));
}

#[test]
fn a_stand_is_said_behind_the_note_and_the_line_is_a_key_behind_the_others() {
    let (head, second) = (head(), Duration::from_secs(1));
    let target = Target::from(resource());
    let client = ClientId::new([0xab; 8]);
    let asked = |note, stand| {
        let script = acquire(&head, (&target, 0), owner(), second, one(180), 5, note);
        wire(|to| in_line(script, target.lines(), stand).evalsha(to))
    };
    let note = Note::new(42, Label::new("web-1").unwrap());
    let unnamed = asked(None, None);
    assert_eq!((&unnamed[2][..], &unnamed[7][..]), (&b"5"[..], &b"quorlock:line:r"[..]));
    assert_eq!(unnamed.len(), 14, "six arguments, as without a line");
    let named = asked(None, Some(Stand::named(client)));
    assert_eq!(named[14..], [&b""[..], b"abababababababab", b"", b""]);
    let other = ClientId::new([1; 8]);
    let stand = Stand::with(client, Ticket::new(77)).skipping(Some(other));
    let standing = asked(Some(&note), Some(stand));
    let behind = [&b"0000000000000042web-1"[..], b"abababababababab", b"77", b"0101010101010101"];
    assert_eq!(standing[14..], behind);
    let release = release(&target, owner(), None, true);
    assert_eq!(wire(|to| release.evalsha(to))[2..5], [&b"2"[..], b"r", b"quorlock:line:r"]);
}

#[test]
fn a_denial_by_a_node_with_a_line_tells_its_clock_and_the_place_there() {
    let at = u64::try_from(NOW).unwrap();
    let acquired = |left, holder, [first, before, is_foreign]: [Value; 3]| {
        let which = Value::Int(1);
        acquired_one(told(0, [Value::Int(left), holder, which, first, before, is_foreign])).unwrap()
    };
    let denial = Denial::new(Some(Box::from(*b"x")), Some(Duration::from_millis(5))).of(0);
    for (before, rank, is_foreign) in [(-1, None, 0), (0, Some(0), 1), (3, Some(3), 0)] {
        let line = [Value::Nil, Value::Int(before), Value::Int(is_foreign)];
        let answer = acquired(5, text("x"), line);
        assert_eq!(answer.reply, Reply::Denied(denial.clone().in_line(at, rank)));
        assert_eq!(answer.is_foreign, is_foreign == 1);
    }
    let first = ClientId::new([0xab; 8]);
    let line = [text("abababababababab"), Value::Int(1), Value::Int(0)];
    let reply = Reply::Denied(Denial::behind(first).of(0).in_line(at, Some(1)));
    assert_eq!(acquired(-2, Value::Nil, line).reply, reply);
}

#[test]
fn a_denial_tells_the_label_of_a_holder_whose_note_it_has() {
    let owner = owner().to_string();
    let denied = |note: &[u8]| {
        let holder = Value::Array(vec![text(&owner), Value::BulkString(note.to_vec())]);
        match acquired_one(told(0, [Value::Int(5), holder, Value::Int(1)])).unwrap().reply {
            Reply::Denied(denial) => denial,
            granted @ Reply::Granted(_) => panic!("{granted:?}"),
        }
    };
    let label = || Label::new("web-1");
    let leader = Record::new(FencingToken::new(7), 1, LeaderText::new([b'x'; 1024]).unwrap());
    let mut of_leader = Note::of_leader(42, label(), leader).to_bytes();
    of_leader.truncate(181);
    for note in [&b"0000000000000042web-1"[..], b"r0000000000000042web-1", &of_leader] {
        let denial = denied(note);
        assert_eq!(denial.label, label(), "{note:?}");
        assert_eq!(denial.holder.as_deref(), Some(owner.as_bytes()), "{note:?}");
    }
    for note in [&b""[..], b"r", b"x", b"0000000000000042", &of_leader[..55]] {
        let denial = denied(note);
        assert_eq!((denial.label, denial.holder.is_some()), (None, true), "{note:?}");
    }
    for other in [Value::Array(vec![text("x")]), Value::Array(vec![Value::Nil, text("x")])] {
        let denied = acquired_one(told(0, [Value::Int(5), other, Value::Int(1)])).unwrap();
        let unknown = Denial::new(None, Some(Duration::from_millis(5))).of(0);
        assert_eq!(denied.reply, Reply::Denied(unknown));
    }
}

#[test]
fn a_refusal_is_told_by_its_number_whatever_was_asked() {
    let refusals = [
        (-1, NodeError::NotAdmitted),
        (-3, NodeError::ArrivedLate),
        (-4, NodeError::CounterExhausted),
    ];
    for (code, error) in refusals {
        assert_eq!(acquired_one(told(code, [])), Err(error.clone()));
        assert_eq!(confirmed(&told(code, []), FencingToken::new(9)), Err(error.clone()));
        assert_eq!(restored(&told(code, [])), Err(error.clone()));
        assert_eq!(extended(&told(code, []), [1].into_iter()), Err(error.clone()));
    }
}

#[test]
fn yes_and_no_are_one_and_zero() {
    let token = FencingToken::new(9);
    let no = || Ok(Reply::Denied(Denial::default()));
    assert_eq!(confirmed(&told(1, []), token), Ok(Reply::Granted(Granted::at(token))));
    assert_eq!(confirmed(&told(0, []), token), no());
    assert_eq!(restored(&told(1, [])), Ok(Reply::Granted(Granted::DONE)));
    assert_eq!(restored(&told(0, [])), no());
    assert_eq!(released(&Value::Int(1)), Ok(Reply::Granted(Granted::DONE)));
    assert_eq!(released(&Value::Int(0)), Ok(Reply::Denied(Denial::gone())));
    assert_eq!(released(&Value::Int(2)), no());
    assert_eq!(acquired_classic(&Value::Okay), Ok(true));
    assert_eq!(acquired_classic(&Value::Nil), Ok(false));
}

#[test]
fn each_extension_has_an_answer_of_its_own() {
    let answers = [1, 0, 2, 7].map(Value::Int);
    let extended = extended(&told(1, answers), [1; 4].into_iter()).unwrap();
    let gone = Reply::Denied(Denial::gone());
    let foreign = Reply::Denied(Denial::default());
    assert_eq!(extended[..3], [Ok(Reply::Granted(Granted::DONE)), Ok(gone), Ok(foreign)]);
    assert!(matches!(extended[3], Err(NodeError::Unexpected { .. })), "{extended:?}");
}

#[test]
fn too_few_answers_to_extensions_are_none() {
    for count in [0, 1, 3] {
        let answers = extended(&told(1, vec![Value::Int(1); count]), [1; 2].into_iter());
        assert!(matches!(answers, Err(NodeError::Unexpected { .. })), "{answers:?}");
    }
}

#[test]
fn classic_mode_tells_no_clock() {
    let reply = Value::Array([1, 0, 1].map(Value::Int).to_vec());
    let (answer, clock) = Answer::read(reply).unwrap();
    assert_eq!(clock, None);
    assert_eq!(extended(&answer, [1].into_iter()), Ok(vec![Ok(Reply::Granted(Granted::DONE))]));
    assert!(Answer::read(Value::Int(0)).is_err(), "only a script that reads it tells it alone");
}

#[test]
fn who_holds_a_key_is_asked_without_its_whole_value() {
    let get = wire(|to| holder(&resource(), to));
    let pttl = wire(|to| remaining(&resource(), to));
    assert_eq!(get, [&b"GETRANGE"[..], b"r", b"0", b"63"]);
    assert_eq!(pttl, [&b"PTTL"[..], b"r"]);
    assert_eq!(denial(None, None), Denial::default());
    let acquire = wire(|to| acquire_classic(&resource(), owner(), Duration::from_secs(1), to));
    let hex = owner().to_hex();
    assert_eq!(acquire, [&b"SET"[..], b"r", &hex[..], b"NX", b"PX", b"1000"]);
}

#[test]
fn any_slot_is_asked_for_in_the_order_of_the_client_and_told_by_its_number() {
    let target = Target::AnyOf(Slots::new(b"", "s", 3).unwrap());
    let (head, second) = (head(), Duration::from_secs(1));
    let acquire_any = || acquire(&head, (&target, 2), owner(), second, one(180), 5, None);
    let script = acquire_any();
    let asked = wire(|to| script.evalsha(to));
    assert_eq!(
        asked[2..9],
        [
            &b"6"[..],
            b"quorlock:node",
            b"quorlock:counters",
            b"quorlock:older",
            b"s/2",
            b"s/0",
            b"s/1"
        ]
    );
    assert_eq!(asked[14..], [&b"1"[..], b"3", b""]);
    let stand = Some(Stand::with(ClientId::new([1; 8]), Ticket::new(77)));
    let standing = wire(|to| in_line(acquire_any(), target.lines(), stand).evalsha(to));
    assert_eq!(
        (&standing[2][..], &standing[9][..]),
        (&b"7"[..], &b"quorlock:line:quorlock:slots:s"[..])
    );
    assert_eq!(standing[18..], [&b"0101010101010101"[..], b"77", b""]);

    let as_asked = acquired(Answer::AsAsked, (&target, 2), 180).unwrap();
    let granted = Granted::at(FencingToken::new(180)).in_slot(2);
    assert_eq!(as_asked.reply, Reply::Granted(granted), "the first that was asked for");
    let taken = |at| {
        let answer = told(1, [Value::Int(180), Value::Nil, Value::Int(1), Value::Int(at)]);
        acquired(answer, (&target, 2), 180)
    };
    for (at, slot) in [(1, 2), (2, 0), (3, 1)] {
        let granted = Granted::at(FencingToken::new(180)).in_slot(slot);
        assert_eq!(taken(at).unwrap().reply, Reply::Granted(granted));
    }
    // A grant without a slot cannot be undone by its name.
    for at in [0, 4, -1] {
        assert!(taken(at).is_err(), "{at}");
    }

    let release = release(&target, owner(), None, true);
    let released = wire(|to| release.evalsha(to));
    assert_eq!(
        released[2..7],
        [&b"4"[..], b"s/0", b"s/1", b"s/2", b"quorlock:line:quorlock:slots:s"]
    );
}
