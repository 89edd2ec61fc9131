//! `doctor` finds what is planted, by its word and of its node, and nothing else.

use std::{process::Command, sync::OnceLock, time::Instant};

use quorlock_harness::{Cluster, Proxy, RIGHTS, Server, admit, connected};
use serde_json::Value;

use super::{admitted, code, on, patient, quorlock, quorlock_with, text};

/// What is said of these nodes, and with which status.
#[track_caller]
fn examine(urls: &[String], more: &[&str]) -> (i32, Value) {
    run(quorlock("doctor").args(["--over", "400ms"]).args(more), urls)
}

#[track_caller]
fn run(doctor: &mut Command, urls: &[String]) -> (i32, Value) {
    let output = doctor.arg("--json").args(on(urls)).output().unwrap();
    let said = text(&output.stdout);
    let said = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (code(&output), said)
}

/// The findings as words, each with its node.
fn ills(said: &Value) -> Vec<(String, Option<u64>)> {
    let findings = said["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| (finding["ill"].as_str().unwrap().to_owned(), finding["node"].as_u64()))
        .collect()
}

/// This one thing is found, of node 1, with its remedy; and the status says how bad it is.
#[track_caller]
fn only(urls: &[String], more: &[&str], ill: &str, status: i32) -> Value {
    is_only(examine(urls, more), ill, status)
}

#[track_caller]
fn is_only((code, said): (i32, Value), ill: &str, status: i32) -> Value {
    assert_eq!(ills(&said), [(ill.to_owned(), Some(1))], "{said:#}");
    assert_eq!(code, status, "{said:#}");
    assert_eq!(said["fit"], status == 0, "{said:#}");
    let finding = said["findings"][0].clone();
    println!("{}: {}; {}", finding["severity"], finding["cause"], finding["remedy"]);
    assert!(finding["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{finding}");
    finding
}

/// A server by the name of a node, so that the list stays the one of its fleet.
fn in_place_of(cluster: &Cluster, node: usize, url: &str) -> String {
    format!("{url}#127.0.0.1:{}", cluster[node].port())
}

const WARNING: i32 = 1;
const ERROR: i32 = 2;

#[test]
fn a_good_fleet_has_no_findings() {
    for nodes in [3, 5] {
        let cluster = admitted(nodes);
        let (status, said) = run(quorlock("doctor").args(["--over", "1s"]), &cluster.urls());
        assert_eq!((ills(&said), status), (Vec::new(), 0), "{said:#}");
        assert_eq!((&said["fit"], &said["worst"]), (&Value::Bool(true), &Value::Null));
        let node = &said["nodes"][0];
        assert_eq!(node["state"], "votes");
        assert!(node["round_trip"]["count"].as_u64().is_some_and(|count| count >= 2), "{node:#}");
        assert_eq!(node["server"]["marker"]["state"], "ready", "{node:#}");
        let rate = &node["clock"];
        println!("{} {} {}", node["round_trip"], rate["offset"], rate["rate_most"]);
        let (least, most) = (rate["rate_least"].as_f64(), rate["rate_most"].as_f64());
        assert!(least.is_some_and(|least| least < 1000.0), "{rate}");
        assert!(most.is_some_and(|most| most > -1000.0), "{rate}");
    }
}

#[test]
fn for_people_there_is_a_line_for_each_node_and_a_verdict() {
    let cluster = admitted(3);
    let ports = [0, 1, 2].map(|node| cluster[node].port());
    let mut doctor = quorlock("doctor");
    let output = doctor.args(["--over", "3s"]).args(on(&cluster.urls())).output().unwrap();
    let said = text(&output.stdout);
    println!("{said}");
    assert_eq!(code(&output), 0, "{said}");
    assert_eq!(said.matches("votes").count(), 3, "{said}");
    let has_line = |said: &str, node: usize| {
        let url = format!("127.0.0.1:{}", ports[node]);
        let is_its = |line: &str| line.starts_with(&format!("node {node} ")) && line.contains(&url);
        said.lines().any(is_its)
    };
    assert!((0..3).all(|node| has_line(&said, node)), "{said}");
    assert!(said.trim_end().ends_with("fit: no findings, 3 nodes"), "{said}");
    for node in 0..2 {
        cluster[node].run(&["SET", "quorlock:throwaway", "yes"]);
    }
    cluster[2].kill();
    let mut doctor = quorlock("doctor");
    let output = doctor.args(["--over", "3s"]).args(on(&cluster.urls())).output().unwrap();
    let said = text(&output.stdout);
    println!("{said}");
    assert_eq!(code(&output), ERROR, "{said}");
    assert!((0..3).all(|node| has_line(&said, node)), "{said}");
    // A finding that several nodes share is told once.
    assert_eq!(said.matches("do: DEL quorlock:throwaway").count(), 1, "{said}");
    assert!(said.contains("warning nodes 0, 1 (127.0.0.1:"), "{said}");
    assert!(said.trim_end().ends_with("not fit: 1 error, 2 warnings, 3 nodes"), "{said}");
    assert!(!said.contains('\u{1b}'), "no colours where it is no terminal");
}

#[test]
fn eviction() {
    let cluster = admitted(3);
    cluster[1].run(&["CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"]);
    only(&cluster.urls(), &[], "eviction", ERROR);
}

#[test]
fn a_replica() {
    let (cluster, master) = (admitted(3), Server::start());
    cluster[1].run(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    let (status, said) = examine(&cluster.urls(), &[]);
    assert_ne!(said["nodes"][1]["state"], "votes", "{said:#}");
    is_only((status, said), "replica", ERROR);
}

#[test]
fn a_node_with_replicas() {
    let (cluster, replica) = (admitted(3), Server::start());
    replica.run(&["REPLICAOF", "127.0.0.1", &cluster[1].port().to_string()]);
    quorlock_harness::eventually("it is connected", super::SOON, || {
        format!("{:?}", cluster[1].run(&["INFO", "replication"])).contains("connected_slaves:1")
    });
    only(&cluster.urls(), &[], "has-replicas", WARNING);
}

#[test]
fn the_same_server_twice() {
    let cluster = admitted(3);
    let again = in_place_of(&cluster, 1, &format!("redis://localhost:{}", cluster[0].port()));
    // The one that stands later is named.
    only(&[cluster[0].url(), again, cluster[2].url()], &[], "same-server", ERROR);
}

/// Five seconds ahead when it is first read, and then a twentieth too fast.
fn ahead_and_fast(reply: Vec<u8>) -> Vec<u8> {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let said = String::from_utf8_lossy(&reply).into_owned();
    let mut lines = said.split("\r\n");
    let (Some("*2"), Some("$10"), Some(seconds), Some(_), Some(micros)) =
        (lines.next(), lines.next(), lines.next(), lines.next(), lines.next())
    else {
        return reply;
    };
    let (Ok(seconds), Ok(micros)) = (seconds.parse::<u64>(), micros.parse::<u64>()) else {
        return reply;
    };
    let gained = BEGUN.get_or_init(Instant::now).elapsed() / 20;
    let now = seconds * 1_000_000 + micros + 5_000_000 + u64::try_from(gained.as_micros()).unwrap();
    let (seconds, micros) = (now / 1_000_000, (now % 1_000_000).to_string());
    format!("*2\r\n$10\r\n{seconds}\r\n${}\r\n{micros}\r\n", micros.len()).into_bytes()
}

#[test]
fn a_clock_that_is_off_and_drifts() {
    let cluster = admitted(3);
    let proxy = Proxy::start(cluster[1].port());
    proxy.alter_replies(ahead_and_fast);
    let urls = [cluster[0].url(), proxy.url(), cluster[2].url()];
    let (status, said) = run(quorlock("doctor").args(["--over", "2s"]), &urls);
    let expected = ["clock-off", "clock-drifts"].map(|ill| (ill.to_owned(), Some(1)));
    assert_eq!((ills(&said), status), (expected.to_vec(), ERROR), "{said:#}");
    let clock = &said["nodes"][1]["clock"];
    println!("{clock}");
    let offset = clock["offset"].as_f64().unwrap();
    assert!((4.9..5.3).contains(&offset), "{clock}");
    let rates = ["rate_least", "rate_most"].map(|rate| clock[rate].as_f64().unwrap());
    // The proxy adds its shift a little after the server has read its clock, so that the ends may cross.
    assert!(rates[0] > 10_000.0 && rates[1] < 100_000.0, "{clock}");
    assert!((40_000.0..60_000.0).contains(&f64::midpoint(rates[0], rates[1])), "{clock}");
}

#[test]
fn a_missing_right() {
    let cluster = admitted(3);
    let rights = RIGHTS.into_iter().filter(|right| *right != "+hset" && *right != "+unlink");
    let user = cluster[1].user(["~*"].into_iter().chain(rights));
    let finding = only(&[cluster[0].url(), user, cluster[2].url()], &[], "missing-right", ERROR);
    assert!(finding["remedy"].as_str().unwrap().contains("+hset +unlink"), "{finding}");
    assert_eq!(cluster[1].run(&["ACL", "LOG"]), redis::Value::Array(Vec::new()));
}

#[test]
fn a_wrong_password() {
    let cluster = admitted(3);
    let wrong = format!("redis://app:wrong@127.0.0.1:{}", cluster[1].port());
    only(&[cluster[0].url(), wrong, cluster[2].url()], &[], "wrong-credentials", ERROR);
}

#[test]
fn no_persistence_in_classic_mode() {
    let cluster = Cluster::start_with(3, |node, builder| builder.append_only(node != 1));
    only(&cluster.urls(), &["--classic"], "not-persistent", ERROR);
    cluster[1].run(&["CONFIG", "SET", "appendonly", "yes", "appendfsync", "everysec"]);
    only(&cluster.urls(), &["--classic"], "not-persistent", WARNING);
    cluster[1].run(&["CONFIG", "SET", "appendfsync", "always"]);
    let (status, said) = examine(&cluster.urls(), &["--classic"]);
    assert_eq!((ills(&said), status), (Vec::new(), 0), "{said:#}");
}

#[test]
fn a_node_in_quarantine() {
    let cluster = admitted(3);
    cluster[1].kill();
    cluster[1].restart();
    let finding = only(&cluster.urls(), &[], "quarantine", WARNING);
    assert!(finding["cause"].as_str().unwrap().contains("does not vote for"), "{finding}");
}

#[test]
fn new_servers() {
    let cluster = Cluster::start(3);
    let (status, said) = examine(&cluster.urls(), &[]);
    let of = |node| ("quarantine".to_owned(), Some(node));
    assert_eq!(ills(&said), [("no-quorum".to_owned(), None), of(0), of(1), of(2)], "{said:#}");
    assert_eq!(status, ERROR);
}

#[test]
fn a_node_that_is_not_reached() {
    let cluster = admitted(3);
    cluster[1].kill();
    only(&cluster.urls(), &[], "not-reached", ERROR);
}

#[test]
fn a_node_that_goes_away_while_it_is_looked_at() {
    let cluster = admitted(3);
    let proxy = Proxy::start(cluster[1].port());
    let urls = [cluster[0].url(), proxy.url(), cluster[2].url()];
    let mut doctor = quorlock("doctor");
    let doctor = doctor.args(["--over", "2s", "--json"]).args(on(&urls));
    let doctor = doctor.stdout(std::process::Stdio::piped()).spawn().unwrap();
    // That of the session, and one to look at it.
    quorlock_harness::eventually("it is looked at", super::SOON, || proxy.connections() == 2);
    cluster[1].kill();
    proxy.cut();
    let output = doctor.wait_with_output().unwrap();
    let said = serde_json::from_str(&text(&output.stdout)).unwrap();
    is_only((code(&output), said), "not-reached", ERROR);
}

#[test]
fn cluster_mode() {
    let cluster = admitted(3);
    let other = Server::builder().arg("cluster-enabled", "yes").start();
    let other = in_place_of(&cluster, 1, &other.url());
    only(&[cluster[0].url(), other, cluster[2].url()], &[], "cluster", ERROR);
}

/// The server says a version of before.
fn old(reply: Vec<u8>) -> Vec<u8> {
    let key = b"redis_version:";
    let Some(at) = reply.windows(key.len()).position(|window| window == key) else { return reply };
    let mut altered = reply;
    // As long as it was: the reply begins with its length.
    altered[at + key.len()] = b'5';
    altered
}

#[test]
fn an_old_version() {
    let cluster = admitted(3);
    let proxy = Proxy::start(cluster[1].port());
    proxy.alter_replies(old);
    only(&[cluster[0].url(), proxy.url(), cluster[2].url()], &[], "too-old", ERROR);
}

#[test]
fn full_memory() {
    let cluster = admitted(3);
    cluster[1].run(&["CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1"]);
    only(&cluster.urls(), &[], "memory-full", ERROR);
}

#[test]
fn a_slow_node() {
    let cluster = admitted(3);
    let proxy = Proxy::start(cluster[1].port());
    // Far more than a busy machine takes for the others.
    proxy.delay(std::time::Duration::from_millis(300));
    let urls = [cluster[0].url(), proxy.url(), cluster[2].url()];
    is_only(run(quorlock("doctor").args(["--over", "3s"]), &urls), "slow", WARNING);
    // Longer than the node may take: its votes come too late.
    let mut strict = quorlock_with("doctor", ["node_timeout=500ms", "connect_timeout=6s"]);
    is_only(run(strict.args(["--over", "3s"]), &urls), "slow", ERROR);
}

#[test]
fn a_database_that_differs() {
    let cluster = Cluster::start(3);
    let urls = [cluster[0].url(), format!("{}/1", cluster[1].url()), cluster[2].url()];
    admit(patient().nodes(&urls));
    only(&urls, &[], "database-differs", WARNING);
}

#[test]
fn a_danger_key() {
    let cluster = admitted(3);
    cluster[1].run(&["SET", "quorlock:throwaway", "yes"]);
    only(&cluster.urls(), &[], "danger-key", WARNING);
}

#[test]
fn a_longest_ttl_that_differs() {
    let cluster = admitted(3);
    cluster[1].run(&["HSET", "quorlock:node", "max_ttl", "60000"]);
    let finding = only(&cluster.urls(), &[], "max-ttl-differs", WARNING);
    assert!(finding["remedy"].as_str().unwrap().contains("quorlock fleet max-ttl"), "{finding}");
}

/// Beside a quorum it is a warning, and where none is left an error.
#[test]
fn nodes_of_other_members() {
    let cluster = admitted(3);
    let others = ["members", "1 127.0.0.1:1,127.0.0.1:2 default", "since", "1"];
    let give_away = |node: usize| {
        cluster[node].run(&["FLUSHALL"]);
        cluster[node].run(&[&["HSET", "quorlock:node"][..], &others].concat());
    };
    give_away(1);
    let finding = only(&cluster.urls(), &[], "other-members", WARNING);
    assert!(finding["cause"].as_str().unwrap().contains("quorlock fleet claim"), "{finding}");
    give_away(2);
    let (status, said) = examine(&cluster.urls(), &[]);
    let of = |node| ("other-members".to_owned(), Some(node));
    assert_eq!(ills(&said), [("no-quorum".to_owned(), None), of(1), of(2)], "{said:#}");
    assert_eq!(status, ERROR, "{said:#}");
    let marker = &said["nodes"][1]["server"]["marker"];
    assert_eq!(marker["fleet"], "default", "{marker}");
    assert_eq!(marker["members"], serde_json::json!(["127.0.0.1:1", "127.0.0.1:2"]), "{marker}");
}

/// As services do that take commands away: `CONFIG` is not needed, and without `CLIENT` a node is refused.
#[test]
fn commands_that_are_taken_away() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("commands.conf");
    for (command, found) in [("config", vec![]), ("client", vec![("refused".to_owned(), Some(1))])]
    {
        std::fs::write(&file, format!("rename-command {command} \"\"\n")).unwrap();
        let include = file.to_str().unwrap();
        let cluster = Cluster::start_with(3, |node, builder| {
            if node == 1 { builder.arg("include", include) } else { builder }
        });
        let other = if found.is_empty() { None } else { Some(Server::start()) };
        // It is admitted with a server of its own in the place of one that cannot be.
        let middle = other.as_ref().map_or_else(|| cluster[1].url(), Server::url);
        let middle = in_place_of(&cluster, 1, &middle);
        admit(patient().nodes([cluster[0].url(), middle, cluster[2].url()]));
        let (_, said) = examine(&cluster.urls(), &[]);
        assert_eq!(ills(&said), found, "{command}: {said:#}");
    }
}

/// What it asks leaves no trace: not in the log of denials, and not among the keys.
#[test]
fn a_user_with_the_rights_of_a_client_is_enough() {
    let cluster = admitted(3);
    let rights = || ["~*"].into_iter().chain(RIGHTS).chain(quorlock_harness::LINE_RIGHTS);
    let urls: Vec<String> = cluster.iter().map(|server| server.user(rights())).collect();
    drop(connected(patient().nodes(&urls)));
    let before: Vec<_> = cluster.iter().map(Server::keys).collect();
    let (status, said) = examine(&urls, &[]);
    assert_eq!((ills(&said), status), (Vec::new(), 0), "{said:#}");
    assert_eq!(said["nodes"][0]["server"]["save"], Value::Null, "it may not be asked");
    for (server, before) in cluster.iter().zip(before) {
        assert_eq!(server.run(&["ACL", "LOG"]), redis::Value::Array(Vec::new()));
        assert_eq!(server.keys().len(), before.len());
    }
}

/// In classic mode a client needs less, and its keys are those of its prefix alone.
#[test]
fn a_user_with_the_rights_of_classic_mode_is_enough() {
    let cluster = Cluster::start_with(3, |_, builder| builder.append_only(true));
    let rights =
        ["~lock:*", "+set", "+getrange", "+del", "+pttl", "+pexpire", "+eval", "+evalsha", "+info"];
    let urls: Vec<String> = cluster.iter().map(|server| server.user(rights)).collect();
    let (status, said) = examine(&urls, &["--classic"]);
    assert_eq!((ills(&said), status), (Vec::new(), 0), "{said:#}");
    let node = &said["nodes"][0];
    assert_eq!((&node["clock"], &node["server"]["append_fsync"]), (&Value::Null, &Value::Null));
    assert!(node["round_trip"]["count"].as_u64().is_some_and(|count| count >= 2), "{node:#}");
    for server in &cluster {
        assert_eq!(server.run(&["ACL", "LOG"]), redis::Value::Array(Vec::new()));
    }
}

#[test]
fn what_it_cannot_look_at_has_a_status_of_its_own() {
    let output = quorlock("doctor").args(["--nodes", "nonsense://"]).output().unwrap();
    assert_eq!(code(&output), 78, "{output:?}");
    let output = quorlock("doctor").args(["--over", "long"]).output().unwrap();
    assert_eq!(code(&output), 64, "{output:?}");
}
