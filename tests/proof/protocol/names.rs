//! What a command is for: one resource, a set, any slot, readers. How they are named, shown, counted and compared.
//!
//! Goal: a target stands for its keys and for nothing else. Method: one of each kind, and names at the limit.

use std::hash::{DefaultHasher, Hash, Hasher};

use quorlock_core::{Members, ResourceError, ResourceSet, Slots, Target};

use super::*;

fn named(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

fn set(names: &[&str]) -> Target {
    ResourceSet::new(names.iter().copied().map(named)).unwrap().into()
}

fn slots(name: &str, count: usize) -> Slots {
    Slots::new(b"", name, count).unwrap()
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn a_target_says_of_what_kind_it_is_and_which_keys_and_lines_it_has() {
    let slot = Target::Slot(slots("s", 3).slot(1).unwrap());
    for (target, shown, keys, lines, is) in [
        (Target::One(named("a")), "a", 1, "a", [false; 4]),
        (Target::Shared(named("a")), "a", 1, "a", [false, false, true, false]),
        (Target::Downgraded(named("a")), "a", 1, "a", [false, false, true, true]),
        (set(&["b", "a"]), "a, b", 2, "a, b", [false, true, false, false]),
        (set(&["a", "a"]), "a", 1, "a", [false; 4]),
        (slot, "s/1", 1, "quorlock:slots:s", [false; 4]),
        (slots("s", 3).into(), "s/*", 3, "quorlock:slots:s", [true, false, false, false]),
    ] {
        assert_eq!((target.to_string().as_str(), target.len()), (shown, keys), "{target:?}");
        let names: Vec<String> = target.lines().iter().map(Resource::to_string).collect();
        assert_eq!(names.join(", "), lines);
        let kinds = [target.is_any(), target.is_set(), target.is_shared(), target.is_downgraded()];
        assert_eq!(kinds, is, "{shown}");
        assert!(target.resources().iter().all(|key| target.covers(key)));
        assert!(!target.covers(&named("s/9")) && !target.covers(&named("c")));
    }
}

#[test]
fn slots_are_the_same_where_their_names_and_their_number_are() {
    let one = slots("s", 3);
    assert_eq!((one.clone(), hash(&one)), (slots("s", 3), hash(&slots("s", 3))));
    for other in [slots("s", 2), slots("t", 3), one.without(2).unwrap()] {
        assert!(one != other && hash(&one) != hash(&other), "{other:?}");
    }
    assert_ne!(one.without(0), one.without(1));
    assert_eq!(format!("{one:?}"), "Slots(s/*, 3)");
    let numbers: Vec<Option<u8>> =
        [0, 2, 3].map(|number| one.slot(number).map(|slot| slot.number())).into();
    assert_eq!(numbers, [Some(0), Some(2), None]);
}

#[test]
fn slots_are_asked_for_in_the_order_that_begins_with_any_of_them() {
    let three = slots("s", 3);
    for (first, order) in [(0, [0, 1, 2]), (1, [1, 2, 0]), (2, [2, 0, 1]), (4, [1, 2, 0])] {
        let from: Vec<_> = three.from(first).collect();
        let named = order.map(|number| (number, &three.all()[usize::from(number)]));
        assert_eq!(from, named, "{first}");
    }
}

#[test]
fn what_is_called_as_a_slot_has_the_line_of_its_semaphore() {
    for (name, semaphore) in [
        ("a/7", Some("a")),
        ("a/b/255", Some("a/b")),
        ("a//00", Some("a/")),
        ("a", None),
        ("a/", None),
        ("/1", None),
        ("a/x", None),
        ("a/1x", None),
        ("a/1000", None),
    ] {
        let line = semaphore.map(|semaphore| slots(semaphore, 3).line().clone());
        assert_eq!(Slots::line_of(&named(name)), line, "{name}");
    }
}

#[test]
fn the_longest_name_is_taken_and_a_longer_one_is_refused_with_its_length() {
    let long = |bytes: usize| Resource::new(vec![b'n'; bytes]);
    let most = Resource::MAX_BYTES;
    assert_eq!(long(most).unwrap().as_bytes().len(), most);
    assert_eq!(long(most + 1), Err(ResourceError::TooLong { bytes: most + 1 }));
    // Of a semaphore it is that of its line.
    let before = "quorlock:slots:".len();
    let of_slots = |bytes: usize| Slots::new(b"", vec![b'n'; bytes], 1).map(drop);
    assert_eq!(of_slots(most - before), Ok(()));
    let too_long = ResourceError::TooLong { bytes: most + 1 };
    assert_eq!(of_slots(most - before + 1), Err(too_long));
}

#[test]
fn a_name_is_shown_as_text_and_what_is_wrong_with_one_is_told() {
    let odd = Resource::new([b'a', 0xff]).unwrap();
    assert_eq!((odd.to_string(), format!("{odd:?}")), (r"a\xff".into(), r"Resource(a\xff)".into()));
    let error = |told: &dyn std::fmt::Display, says: &str| {
        assert!(told.to_string().contains(says), "{told}");
    };
    error(&Resource::new("").unwrap_err(), "name is empty");
    error(&Resource::new("quorlock:x").unwrap_err(), "`quorlock:`");
    error(&Resource::new(vec![0; 65_537]).unwrap_err(), "65537 bytes, at most 65536");
    error(&Slots::new(b"", "s", 257).unwrap_err(), "permits is 257; ask for 1 to 256");
    error(&Slots::new(b"", "", 1).unwrap_err(), "name is empty");
    error(&ResourceSet::new([]).unwrap_err(), "no resource");
    let many = (0..33).map(|number| named(&number.to_string()));
    error(&ResourceSet::new(many).unwrap_err(), "33 resources are named, at most 32");
}

#[test]
fn a_grant_says_its_counter_where_there_is_one() {
    let token = FencingToken::new(7);
    assert_eq!(Granted::from(Some(token)), Granted::at(token));
    assert_eq!((Granted::from(None), Granted::at(token).slot), (Granted::DONE, None));
    assert_eq!(Granted::at(token).in_slot(3).slot, Some(3));
}

#[test]
fn a_list_of_nodes_stands_in_a_marker_in_order_and_in_lower_case() {
    let ours = Members::new("Jobs", ["B.x:6379", "a_1:6379", "unix:/Run/B", "[::1]:6379/2"]);
    let text = "1 [::1]:6379/2,a_1:6379,b.x:6379,unix:/Run/B Jobs";
    assert_eq!((ours.text(), ours.fleet()), (text, "Jobs"));
    let names: Vec<&str> = ours.nodes().collect();
    assert_eq!(names, ["[::1]:6379/2", "a_1:6379", "b.x:6379", "unix:/Run/B"]);
    assert_eq!(Members::from_text(text), ours);
    assert_eq!(Members::name("A b,c%ü"), "a%20b%2cc%%c3%bc");
    assert_eq!(Members::name("unix:/A b"), "unix:/A%20b");
    let shown = "Jobs ([::1]:6379/2, a_1:6379, b.x:6379, unix:/Run/B)";
    assert_eq!((ours.to_string(), format!("{ours:?}")), (shown.into(), shown.into()));
}

#[test]
fn what_is_no_list_is_the_name_of_a_fleet_without_nodes() {
    for (text, fleet, nodes) in [
        ("", "", &[][..]),
        ("x", "x", &[]),
        ("x a f", "x a f", &[]),
        ("1 a", "1 a", &[]),
        ("2 a,b f g", "f g", &["a", "b"]),
        ("1 ,a, f", "f", &["a"]),
        ("1  f", "f", &[]),
    ] {
        let members = Members::from_text(text);
        assert_eq!((members.text(), members.fleet()), (text, fleet));
        assert_eq!(members.nodes().collect::<Vec<_>>(), nodes, "{text:?}");
    }
    assert_eq!(Members::from_text("x").to_string(), "x");
}

#[test]
fn how_two_lists_differ_is_said_in_words() {
    let of = |nodes: &[&str]| Members::new("f", nodes);
    for (ours, theirs, words) in [
        (of(&["a", "b", "c"]), of(&["a", "d", "e"]), "you have b, c, they have d, e"),
        (of(&["a", "b"]), of(&["a"]), "you have b, they do not"),
        (of(&["a"]), of(&["a", "b"]), "they have b, you do not"),
        (of(&["a"]), Members::from_text("2 a f"), "another generation"),
        (of(&["a"]), Members::new("g", ["a"]), "your fleet is called f, theirs g"),
    ] {
        assert_eq!(ours.difference(&theirs), words);
    }
}
