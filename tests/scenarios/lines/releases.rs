//! What a release says of the key that it finds, what becomes of a key that is kept, and which names have the line of a
//! semaphore beside their own. The scripts of all kinds of leases are run by hand.

use quorlock_harness::redis::Value;

use super::{A, B, C, Ear, READERS, owner};
use crate::{
    scripts::{Node, RESOURCE},
    texts::{RELEASE, RELEASE_READ},
};

const LINE: &str = super::LINE;
const OF_ONE: &[&str] = &[RESOURCE, LINE];
const OF_A_READER: &[&str] = &[RESOURCE, READERS, LINE];

/// The owner of C gives back the first of the keys, or keeps it for so many ms.
fn release(node: &Node, script: &str, keys: &[&str], keep: Option<&str>) -> Value {
    let (size, owner) = (keys.len().to_string(), owner(C));
    let mut args = vec!["EVAL", script, &size];
    args.extend(keys);
    args.push(&owner);
    args.extend(keep);
    node.server.run(&args)
}

/// Others may have set it to nothing, which is not the same.
#[test]
fn a_key_that_is_gone_is_told_from_one_of_somebody_else() {
    for (script, keys) in [(RELEASE, OF_ONE), (RELEASE_READ, OF_A_READER)] {
        for keep in [None, Some("1000")] {
            let node = Node::admitted();
            assert_eq!(release(&node, script, keys, keep), Value::Int(0), "{keys:?}");
            for value in [String::new(), "theirs".to_owned(), owner(A), owner(C) + "c"] {
                node.server.set(RESOURCE, &value, Some(60_000));
                assert_eq!(release(&node, script, keys, keep), Value::Int(2), "{value}");
                assert!(node.server.pttl(RESOURCE) > 30_000, "{value}");
            }
        }
    }
}

#[test]
fn a_key_that_is_kept_ends_in_time_also_where_it_reads_on_and_the_node_has_not_followed() {
    for (script, keys) in [(RELEASE, OF_ONE), (RELEASE_READ, OF_A_READER)] {
        let node = Node::admitted();
        node.server.set(RESOURCE, owner(C), Some(60_000));
        assert_eq!(release(&node, script, keys, Some("20000")), Value::Int(1));
        assert!((10_000..=20_000).contains(&node.server.pttl(RESOURCE)));
    }
}

/// No more than three digits.
#[test]
fn who_waits_for_any_slot_is_woken_by_a_release_of_each_that_there_may_be() {
    for (name, is_slot) in [("s/7", true), ("s/63", true), ("s/127", true), ("s/1270", false)] {
        let own_line = format!("quorlock:line:{name}");
        let of_one = [name, &own_line];
        let of_a_reader = [name, READERS, &own_line];
        for (script, keys) in [(RELEASE, &of_one[..]), (RELEASE_READ, &of_a_reader)] {
            let node = Node::admitted();
            node.server.set(name, owner(C), Some(60_000));
            node.server.run(&["ZADD", "quorlock:line:quorlock:slots:s", "1", A]);
            node.server.run(&["ZADD", &own_line, "1", B]);
            let [any, by_name] = [A, B].map(|client| Ear::of(&node, client));
            assert_eq!(release(&node, script, keys, None), Value::Int(1));
            by_name.hears(&format!("n{name}"));
            match is_slot {
                true => any.hears("nquorlock:slots:s"),
                false => any.hears_nothing(),
            }
        }
    }
}
