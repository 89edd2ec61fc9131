//! Goal: a name that a user has no right to costs a refusal, and nothing after it; and a user without the rights that
//! only waiting needs loses nothing but being woken.
//!
//! Method: real servers with a user that may touch some keys and no others, or may run some commands and no others.

use quorlock::{Redlock, node::LineState};
use quorlock_harness::{
    Cluster, LINE_RIGHTS, Server,
    redis::{self, from_redis_value},
};

use super::{SECOND, admitted, ready, texts};

/// What `docs/deploying.md` says that a user needs.
const RIGHTS: &str = "on >sesame ~lock:* ~quorlock:* resetchannels -@all +set +getrange +del +pttl +pexpire +hget +hmget \
                      +hset +time +unlink +rename +eval +evalsha +info +client|tracking";

fn grant(cluster: &Cluster, rights: &[&str]) {
    for server in cluster {
        let words = rights.iter().flat_map(|rights| rights.split_whitespace());
        let command: Vec<&str> = ["ACL", "SETUSER", "app"].into_iter().chain(words).collect();
        server.run(&command);
        server.run(&["ACL", "LOG", "RESET"]);
    }
}

fn client(cluster: &Cluster) -> Redlock {
    let urls =
        cluster.iter().map(|server| format!("redis://app:sesame@127.0.0.1:{}", server.port()));
    let builder = Redlock::builder().nodes(urls).connect_timeout(10 * SECOND);
    ready(builder.ttl(SECOND).max_ttl(SECOND))
}

fn lines(redlock: &Redlock) -> Vec<LineState> {
    redlock.nodes().into_iter().map(|node| node.line).collect()
}

/// But for `CLIENT SETINFO`, which a later server knows and which the client library sends.
#[track_caller]
fn denied_nothing(cluster: &Cluster) {
    for server in cluster {
        let denied: Vec<redis::Value> = from_redis_value(server.run(&["ACL", "LOG"])).unwrap();
        let of_ours = denied.iter().filter(|entry| !format!("{entry:?}").contains("setinfo"));
        assert_eq!(of_ours.collect::<Vec<_>>(), [&redis::Value::Nil; 0]);
    }
}

#[track_caller]
fn works(redlock: &Redlock) {
    for _ in 0..3 {
        let lease = redlock.acquire("lock:r").blocking().unwrap();
        assert!(redlock.try_acquire("lock:r").blocking().unwrap_err().is_contended());
        lease.blocking_release().unwrap();
    }
}

#[test]
fn a_user_with_the_rights_for_the_line_has_one_and_denies_nothing() {
    let cluster = admitted(3, SECOND);
    grant(&cluster, &[&[RIGHTS][..], &LINE_RIGHTS].concat());
    let redlock = client(&cluster);
    assert_eq!(lines(&redlock), vec![LineState::On; 3]);
    works(&redlock);
    denied_nothing(&cluster);
}

#[test]
fn a_user_without_one_of_them_has_no_line_and_locks_work_all_the_same() {
    let cluster = admitted(1, SECOND);
    for missing in LINE_RIGHTS {
        let rest: Vec<&str> = LINE_RIGHTS.into_iter().filter(|right| *right != missing).collect();
        grant(&cluster, &["reset", RIGHTS, &rest.join(" ")]);
        let redlock = client(&cluster);
        let [LineState::Off { reason }] = &lines(&redlock)[..] else {
            panic!("{missing}: {:?}", lines(&redlock))
        };
        assert!(reason.starts_with("its ACL rules do not allow `"), "{missing}: {reason}");
        works(&redlock);
        denied_nothing(&cluster);
        redlock.blocking_close().unwrap();
    }
}

/// The keys of the lines alone are not to be touched: the name of the command would not tell.
#[test]
fn a_user_that_may_not_touch_the_keys_of_lines_has_none() {
    let cluster = admitted(1, SECOND);
    let keys = RIGHTS.replace("~quorlock:*", "~quorlock:node ~quorlock:counters ~quorlock:older");
    grant(&cluster, &[&[&*keys][..], &LINE_RIGHTS].concat());
    let redlock = client(&cluster);
    assert!(matches!(lines(&redlock)[..], [LineState::Off { .. }]), "{:?}", lines(&redlock));
    works(&redlock);
}

#[test]
fn a_right_to_the_line_that_is_taken_away_costs_one_round_at_most() {
    let cluster = admitted(1, SECOND);
    grant(&cluster, &[&[RIGHTS][..], &LINE_RIGHTS].concat());
    let redlock = client(&cluster);
    works(&redlock);
    for taken in [
        "-publish",
        "-zcard",
        "-exists",
        "resetkeys ~lock:* ~quorlock:node ~quorlock:counters ~quorlock:older",
    ] {
        grant(&cluster, &[taken]);
        let _ = redlock.try_acquire("lock:r").blocking();
        works(&redlock);
    }
    assert!(matches!(lines(&redlock)[..], [LineState::Off { .. }]), "{:?}", lines(&redlock));
}

/// By the server's own rules, which the very first script asks about.
#[test]
fn each_right_that_is_missing_is_named_but_where_it_is_the_key_that_is_not_allowed() {
    let server = Server::start();
    let can_tell = server.run(&["EVAL", "return redis.acl_check_cmd and 1 or 0", "0"]);
    let named = |rights: &str, asked: &[&str]| -> Vec<String> {
        let url = server.user(rights.split_whitespace().chain(["+eval"]));
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let mut command = redis::cmd("EVAL");
        command.arg(texts::RIGHTS).arg(0).arg("lock:r").arg(asked);
        command.query(&mut connection).unwrap()
    };
    for (rights, asked, missing) in [
        ("~lock:* +set +hget +time", &["set", "hget", "time"][..], &[][..]),
        ("~lock:* +set +time", &["set", "hget", "time"], &["hget"]),
        ("~lock:* +hget", &["set", "hget", "time"], &["set", "time"]),
        ("~lock:* +set +hget", &["hget", "time", "evalsha", "set"], &["time", "evalsha"]),
        ("~lock:*", &["time"], &["time"]),
        // The name of a command would not help.
        ("~other:* +set +hget +time", &["set", "hget", "time"], &[]),
        ("~other:* +set +hget", &["set", "hget", "time"], &[]),
    ] {
        let expected = if can_tell == redis::Value::Int(1) { missing } else { &[] };
        assert_eq!(named(rights, asked), expected, "{rights}");
    }
}

/// Nothing was set, so that there is nothing to be released.
#[test]
fn an_acquire_that_was_not_allowed_leaves_nothing_to_wait_for() {
    let cluster = admitted(3, SECOND);
    for server in &cluster {
        server.run(&["ACL", "SETUSER", "app", "on", ">sesame", "~lock:*", "~quorlock:*", "+@all"]);
    }
    let urls =
        cluster.iter().map(|server| format!("redis://app:sesame@127.0.0.1:{}", server.port()));
    let builder = Redlock::builder().nodes(urls).connect_timeout(10 * SECOND);
    let builder = builder.close_timeout(60 * SECOND);
    let client = ready(builder.ttl(SECOND).max_ttl(SECOND));
    for _ in 0..10 {
        assert!(client.try_acquire("other").blocking().is_err());
    }
    client.blocking_close().unwrap();
}

/// What a writer holds is not lost because it says that it goes on as a reader.
#[test]
fn a_writer_that_reads_on_where_nodes_may_keep_no_readers_keeps_its_key() {
    let cluster = admitted(3, SECOND);
    grant(&cluster, &[RIGHTS]);
    let (redlock, key) = (client(&cluster), b"lock:r");
    let writer = redlock.write("lock:r").blocking().unwrap();
    let owner = writer.owner().to_string();
    let lease = writer.downgrade().unwrap();
    for _ in 0..3 {
        lease.blocking_extend().unwrap();
    }
    let held = |value: &str| {
        let all = cluster.iter().map(|node| node.get(key));
        all.filter(|held| held.as_deref() == Some(value.as_bytes())).count()
    };
    assert_eq!(held(&owner), 3, "and others out");
    grant(&cluster, &LINE_RIGHTS);
    lease.blocking_extend().unwrap();
    assert_eq!(held("shared by readers, see quorlock."), 3, "they follow when they may");
    lease.blocking_release().unwrap();
    assert!(cluster.locks_left().is_empty());
}
