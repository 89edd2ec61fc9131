//! Goal: a reader whose entry a server has lost is told so by its release, and takes nothing away from other readers.
//!
//! Method: the script of a reader's release, on a real server whose key and readers are set by hand.

use quorlock_harness::redis::{Value, from_redis_value};

use super::{
    scripts::{Node, RESOURCE},
    texts::RELEASE_READ,
};

const READERS: &str = "quorlock:readers:r";
const SHARED: &str = "shared by readers, see quorlock.";
const OWNER: &str = "11111111111111111111111111111111";
const OTHER: &str = "22222222222222222222222222222222";

/// A node on which readers have the key, and these have entries.
fn read_by(entries: &[&str]) -> Node {
    let node = Node::admitted();
    node.server.set(RESOURCE, SHARED, Some(60_000));
    let ends = (node.now_us() / 1_000 + 60_000).to_string();
    for entry in entries {
        node.server.run(&["ZADD", READERS, &ends, entry]);
    }
    node
}

/// What the release of one of them says, and who is left.
fn release(node: &Node, keep: Option<&str>) -> (Value, bool, Vec<String>) {
    let args = ["EVAL", RELEASE_READ, "2", RESOURCE, READERS, OWNER];
    let said = node.server.run(&args.into_iter().chain(keep).collect::<Vec<_>>());
    let left = from_redis_value(node.server.run(&["ZRANGE", READERS, "0", "-1"])).unwrap();
    (said, node.server.get(RESOURCE).is_some(), left)
}

#[test]
fn the_release_of_a_reader_whose_entry_is_gone_leaves_the_key_to_the_others() {
    let (gone, there) = (Value::Int(0), Value::Int(1));
    let none: [String; 0] = [];
    for keep in [None, Some("20000")] {
        assert_eq!(release(&read_by(&[OTHER]), keep), (gone.clone(), true, vec![OTHER.to_owned()]));
        // All entries were lost, and those of others may be set again: the key still keeps writers out.
        assert_eq!(release(&read_by(&[]), keep), (gone.clone(), true, none.to_vec()));
    }
    assert_eq!(release(&read_by(&[OWNER]), None), (there.clone(), false, none.to_vec()));
    let both = read_by(&[OWNER, OTHER]);
    assert_eq!(release(&both, None), (there.clone(), true, vec![OTHER.to_owned()]));
    let kept = release(&read_by(&[OWNER]), Some("20000"));
    assert_eq!(kept, (there, true, vec![OWNER.to_owned()]));
}
