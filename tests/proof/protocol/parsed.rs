//! What is read from text or bytes that anybody may have written: owners, clients in a line, tokens, notes, names.
//!
//! Goal: nothing panics, what is accepted is what was written, and nothing else is accepted. Method: bytes at random, and
//! values written and altered a little. `PROPTEST_CASES` says how many of each kind.

use proptest::{collection::vec, prelude::*};
use quorlock_core::{
    ClientId, FencingToken, Label, LeaderText, Note, Owner, Record, Resource, ResourceError,
    ResourceSet, Slots, Ticket,
};

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(20_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Hexadecimal digits, nearly: some are capitals or none, and there may be one too few or too many.
fn nearly_hex(digits: usize) -> impl Strategy<Value = String> {
    let exact = format!("[0-9a-f]{{{digits}}}");
    let odd = format!("[0-9a-fA-Fg +é]{{{},{}}}", digits - 1, digits + 1);
    let regex = |text: &str| proptest::string::string_regex(text).unwrap();
    prop_oneof![regex(&exact), regex(&odd), regex("\\PC{0,40}")]
}

fn note() -> impl Strategy<Value = Note> {
    let label =
        || vec(any::<u8>(), 1..=Label::MAX_BYTES).prop_map(|text| Label::new(text).unwrap());
    let record = (1..=FencingToken::MAX.get(), 0..10_u64.pow(16), vec(any::<u8>(), 0..80))
        .prop_map(|(term, number, text)| {
            Record::new(FencingToken::new(term), number, LeaderText::new(text).unwrap())
        });
    let since = || 0..10_u64.pow(16);
    prop_oneof![
        (since(), label()).prop_map(|(since, label)| Note::new(since, label)),
        (since(), proptest::option::of(label()), record)
            .prop_map(|(since, label, record)| Note::of_leader(since, label, record)),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_owner_is_read_from_what_it_writes_and_from_nothing_else(text in nearly_hex(32)) {
        let read: Option<Owner> = text.parse().ok();
        prop_assert_eq!(read, Owner::from_hex(text.as_bytes()));
        match read {
            Some(owner) => prop_assert_eq!(owner.to_string(), text),
            None => prop_assert!(!is_owner(&text), "{}", text),
        }
    }

    #[test]
    fn a_client_is_read_from_what_it_writes_and_from_nothing_else(text in nearly_hex(16)) {
        let is_one = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let read: Option<ClientId> = text.parse().ok();
        prop_assert_eq!(read.is_some(), is_one);
        prop_assert_eq!(read, ClientId::from_hex(text.as_bytes()));
        prop_assert!(read.is_none_or(|client| client.to_string() == text));
    }

    #[test]
    fn a_token_is_a_number_below_2_to_the_53rd(number in prop_oneof![any::<u64>(), (1_u64 << 53) - 3..(1 << 53) + 3], text in "[+-]?0{0,2}[0-9]{0,20}|\\PC{0,8}") {
        let is_one = number < 1 << 53;
        prop_assert_eq!(FencingToken::try_from(number).is_ok(), is_one);
        prop_assert_eq!(number.to_string().parse::<FencingToken>().is_ok(), is_one);
        prop_assert_eq!(FencingToken::try_from(number.cast_signed()).is_ok(), is_one);
        prop_assert_eq!(FencingToken::new(number).get(), number.min((1 << 53) - 1));
        prop_assert_eq!(Ticket::new(number).get(), number.min((1 << 53) - 1));
        let read = text.parse::<FencingToken>().map(FencingToken::get).ok();
        prop_assert_eq!(read, text.parse::<u64>().ok().filter(|number| *number < 1 << 53));
    }

    #[test]
    fn a_note_is_read_as_it_was_written_whatever_is_in_it(note in note(), cut in any::<prop::sample::Index>()) {
        let text = note.to_bytes();
        prop_assert!(text.len() <= Note::MAX_BYTES);
        prop_assert_eq!(Note::read(&text), Some(note));
        // What is cut off, as by another program, reads as what is left or as nothing.
        let left = &text[..cut.index(text.len())];
        prop_assert!(Note::read(left).is_none_or(|read| read.to_bytes() == left));
    }

    #[test]
    fn bytes_are_a_note_only_if_they_would_be_written_so(text in prop_oneof![vec(any::<u8>(), 0..90), "p?[0-9]{0,70}.{0,9}".prop_map(String::into_bytes)]) {
        if let Some(read) = Note::read(&text) {
            prop_assert_eq!(read.to_bytes(), text);
        }
    }

    #[test]
    fn a_name_is_taken_as_it_is_or_refused(
        prefix in prop_oneof![Just(Vec::new()), vec(any::<u8>(), 0..12), Just(b"quor".to_vec()), Just(b"quorlock:".to_vec())],
        name in prop_oneof![vec(any::<u8>(), 0..20), Just(b"lock:x".to_vec()), Just(b"quorlock:x".to_vec()), Just(vec![b'n'; 65_536]), Just(vec![b'n'; 65_530])],
    ) {
        let key = [prefix.as_slice(), &name].concat();
        let expected = if name.is_empty() {
            Err(ResourceError::Empty)
        } else if key.len() > Resource::MAX_BYTES {
            Err(ResourceError::TooLong { bytes: key.len() })
        } else if key.starts_with(b"quorlock:") {
            Err(ResourceError::Reserved)
        } else {
            Ok(key.as_slice())
        };
        let read = Resource::behind(&prefix, &name);
        prop_assert_eq!(read.as_ref().map(Resource::as_bytes).map_err(Clone::clone), expected);
        if let Ok(resource) = &read {
            prop_assert_eq!(Resource::of_message(&key), Ok(resource.clone()));
            prop_assert!(ResourceSet::new([resource.clone(), resource.clone()]).is_ok());
        }
        if let Ok(slots) = Slots::new(&prefix, &name, 3) {
            // A message about the line names it again, and nobody can lock it.
            prop_assert_eq!(Resource::of_message(slots.line().as_bytes()), Ok(slots.line().clone()));
            prop_assert_eq!(Resource::new(slots.line().as_bytes()), Err(ResourceError::Reserved));
        }
    }
}

/// Owners are random, but for the bits that say so, as those of a UUID.
fn is_owner(text: &str) -> bool {
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let Some(value) =
            std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
        else {
            return false;
        };
        *byte = value;
    }
    Owner::from_random(bytes).to_string() == text
}
