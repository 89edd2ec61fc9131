//! Plain values: how they are read and written, and what follows from them alone.
//!
//! Goal: what is stored, logged or sent says what it did before. Method: one value of each kind, written out.

use quorlock_core::{
    Admission, AdmissionPolicy, ClientId, Errand, Join, KeyHolder, Label, LeaderText, LossReason,
    Marker, Nanos, Note, ReadToken, Record, Slots, Ticket, lateness::taken_for,
    validity::whole_millis,
};

use super::*;

#[test]
fn of_the_random_bytes_of_an_owner_six_bits_say_that_they_are_random() {
    for (byte, text) in [
        (0x00, "00000000000040008000000000000000"),
        (0xff, "ffffffffffff4fffbfffffffffffffff"),
        (0x5a, "5a5a5a5a5a5a4a5a9a5a5a5a5a5a5a5a"),
    ] {
        let owner = Owner::from_random([byte; 16]);
        assert_eq!(owner.to_string(), text);
        assert_eq!(owner.to_hex(), text.as_bytes());
        assert_eq!(format!("{owner:?}"), format!("Owner({text})"));
        assert_eq!(Owner::from_hex(text.as_bytes()), Some(owner));
        assert_eq!(text.parse(), Ok(owner));
    }
    let nobody = "00000000000040000000000000000000";
    assert_eq!((Owner::from_hex(nobody.as_bytes()), nobody.parse::<Owner>().ok()), (None, None));
    for text in ["4", "000000000000400080000000000000001", "0000000000004000800000000000000"] {
        let read = (Owner::from_hex(text.as_bytes()), text.parse::<Owner>().ok());
        assert_eq!(read, (None, None), "{text}");
    }
    let error = nobody.parse::<Owner>().unwrap_err();
    assert!(error.to_string().contains("32 lower-case hexadecimal digits"));
}

#[test]
fn a_client_in_the_line_is_written_as_its_bytes() {
    let client = ClientId::new([0x00, 0x19, 0x2a, 0x9a, 0xaf, 0xf0, 0xc3, 0x5e]);
    assert_eq!(client.to_string(), "00192a9aaff0c35e");
    assert_eq!(client.to_hex(), *b"00192a9aaff0c35e");
    assert_eq!(format!("{client:?}"), "ClientId(00192a9aaff0c35e)");
    assert_eq!(ClientId::from_hex(b"00192a9aaff0c35e"), Some(client));
    for text in ["", "00192a9aaff0c35", "00192a9aaff0c35e0", "00192a9aaff0c35e00"] {
        assert_eq!(ClientId::from_hex(text.as_bytes()), None, "{text}");
    }
    let error = "00192a9aaff0c35E".parse::<ClientId>().unwrap_err();
    assert!(error.to_string().contains("16 lower-case hexadecimal digits"));
}

#[test]
fn tokens_are_numbers_wherever_they_are_stored() {
    let token = FencingToken::new(42);
    assert_eq!((u64::from(token), i64::from(token), String::from(token)), (42, 42, "42".into()));
    assert_eq!((token.to_string(), format!("{token:?}")), ("42".into(), "FencingToken(42)".into()));
    assert!("x".parse::<FencingToken>().unwrap_err().to_string().contains("9007199254740991"));
    let read = ReadToken::from(token);
    assert_eq!(read.get(), 42);
    assert_eq!((u64::from(read), i64::from(read), String::from(read)), (42, 42, "42".into()));
    assert_eq!(read.to_string(), "42");
    assert_eq!(
        [41, 42, 43].map(|written| read.covers(FencingToken::new(written))),
        [true, true, false]
    );
    assert_eq!(node(3).to_string(), "node 3");
}

#[test]
fn a_lease_is_lost_by_what_comes_over_its_holder() {
    use LossReason::{
        Forked, Gone, LeftToExpire, MaxHold, NoHeartbeat, NotRenewed, Released, RenewalFailed,
        ShutDown,
    };
    let lost = [NotRenewed, RenewalFailed, Gone, MaxHold, NoHeartbeat];
    assert!(lost.into_iter().all(LossReason::is_loss));
    assert!(![Released, LeftToExpire, ShutDown, Forked].into_iter().any(LossReason::is_loss));
}

#[test]
fn a_key_is_shown_as_text_and_says_whether_readers_have_it() {
    let holder = |value: &[u8]| KeyHolder::new(Some(Box::from(value)), None);
    assert!(holder(KeyHolder::SHARED).is_shared());
    assert!(!holder(b"x").is_shared() && !KeyHolder::new(None, None).is_shared());
    assert_eq!(
        format!("{:?}", holder(b"a\xff\"")),
        r#"KeyHolder { value: Some("a\xff\""), remaining: None, counter: None, note: None }"#
    );
}

#[test]
fn no_number_is_larger_than_a_node_counts_exactly_and_no_note_longer_than_it_is_read() {
    assert_eq!(FencingToken::MAX.get(), 9_007_199_254_740_991);
    assert_eq!(Ticket::MAX.get(), 9_007_199_254_740_991);
    let (label, text) = ([b'l'; Label::MAX_BYTES], [b't'; LeaderText::MAX_BYTES]);
    let most = 10_u64.pow(16) - 1;
    let record = Record::new(FencingToken::MAX, most, LeaderText::new(text).unwrap());
    let longest = Note::of_leader(most, Label::new(label), record);
    assert_eq!((longest.to_bytes().len(), Note::MAX_BYTES), (1_204, 1_204));
}

/// The scripts count in doubles, and a sorted set keeps tickets as such.
#[test]
fn the_largest_token_and_ticket_are_the_last_that_a_node_takes_for_no_other() {
    let by_node = |number: u64| (number as f64) as u64;
    for most in [FencingToken::MAX.get(), Ticket::MAX.get()] {
        assert_eq!([most - 1, most].map(by_node), [most - 1, most]);
        assert_eq!(by_node(most + 1), by_node(most + 2), "these are one");
    }
}

#[test]
fn what_holders_leave_is_shown_as_text() {
    let label = Label::new(*b"host \x01").unwrap();
    let text = LeaderText::new(*b"10.0.0.1").unwrap();
    assert_eq!(
        (label.to_string(), format!("{label:?}")),
        (r"host \x01".into(), r"Label(host \x01)".into())
    );
    assert_eq!(format!("{text:?}"), "LeaderText(10.0.0.1)");
    let note = Note::new(5, label);
    assert_eq!(format!("{note:?}"), r"Note { since: 5µs, label: Some(Label(host \x01)) }");
    let record = Record::new(FencingToken::new(7), 2, text);
    let shown = format!("{:?}", Note::of_leader(5, None, record.clone()));
    assert_eq!(shown, format!("Note {{ since: 5µs, label: None, record: {record:?} }}"));
}

#[test]
fn what_a_look_asks_for_adds_up_and_a_floor_is_below_no_mark() {
    let join = Join::look(TTL).force(Some(3)).after(5).after(4).lost().orphaned().seal();
    assert_eq!((join.force, join.after, join.max_ttl), (Some(3), 5, TTL));
    assert!(join.lost && join.orphaned && join.seal);
    assert_eq!(Join::look(TTL).after(4).after(5).after, 5);
    assert_eq!(join.errand(Errand::TakeOver).errand, Some(Errand::TakeOver));
    assert_eq!(join.errand(Errand::TakeOver).force, Some(3));
    let marker = Marker::new(true, TTL, 10).in_epoch(2);
    let [above, below] = [11, 9].map(|floor| marker.above(floor));
    assert_eq!((above.floor, above.high_water, above.epoch), (11, 11, 2));
    assert_eq!((below.floor, below.high_water), (9, 10));
}

/// Or what has counted wrongly would be followed by all hints for half a minute.
#[test]
fn a_counter_that_is_half_a_minute_ahead_of_the_wall_clock_is_not_followed() {
    let hint_behind = |ahead_us: u64| {
        let policy = AdmissionPolicy::Quarantine;
        let mut admission = Admission::new(Quorum::of(3), policy, TTL, TTL);
        admission.handle_counter(1_000 + ahead_us, 1_000);
        admission.hint(1_001, 1) - 1_000
    };
    assert_eq!([29_999_999, 30_000_000].map(hint_behind), [30_000_000, 1]);
}

#[test]
fn times_for_nodes_are_rounded_so_that_none_is_told_of_too_much() {
    // 100 ms and 100 ms, and a tenth of that and of the 10 s since the clock was read.
    assert_eq!(taken_for(Duration::from_millis(100)), Duration::from_millis(1_220));
    assert_eq!(whole_millis(Duration::from_micros(7_999)), 7);
    assert_eq!(whole_millis(Duration::MAX), u64::MAX);
}

#[test]
fn a_denial_tells_what_the_holder_calls_itself() {
    let label = Label::new("backup of 3 am").unwrap();
    let denial = Denial::new(Some(b"x".as_slice().into()), Some(TTL));
    let labelled = denial.clone().labelled(Some(label.clone()));
    assert_eq!(
        (labelled.label.clone(), labelled.holder.clone()),
        (Some(label), denial.holder.clone())
    );
    assert_eq!(labelled.labelled(None), denial);
}

#[test]
fn semaphores_have_an_order_by_their_names_and_their_numbers() {
    let slots = |name: &str, count| Slots::new(b"", name, count).unwrap();
    let less = Some(std::cmp::Ordering::Less);
    assert_eq!(slots("a", 3).partial_cmp(&slots("b", 2)), less);
    assert_eq!(slots("a", 2).partial_cmp(&slots("a", 3)), less);
    assert!(slots("a", 2) == slots("a", 2) && slots("a", 2) != slots("a", 3));
}

#[test]
fn a_time_is_written_as_any_other() {
    let time = Duration::from_millis(1_500);
    assert_eq!(format!("{:?}", Nanos::new(time)), format!("{time:?}"));
}
