//! Servers of others: what they are asked for, how often, and what is left on them.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    thread::JoinHandle,
};

use quorlock_harness::{Cluster, LINE_RIGHTS, RIGHTS, Server};

use crate::{ALL, program::bench};

/// How many scripts name a resource of the line `lease`.
const OF_LEASES: &str = "of leases";

/// Counts the commands that a server is sent, from any client.
struct Monitor {
    thread: JoinHandle<BTreeMap<String, usize>>,
}

impl Monitor {
    fn start(server: &Server) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        assert_eq!(lines.next().as_deref(), Some("+OK"));
        let thread = std::thread::spawn(move || {
            let mut seen = BTreeMap::new();
            for line in lines {
                if line.contains("\"end of the test\"") {
                    break;
                }
                // Commands inside scripts stand there too, marked `lua`.
                if let Some((_, rest)) = line.split_once("] \"").filter(|_| !line.contains(" lua]"))
                {
                    let word = rest.split('"').next().unwrap_or_default().to_lowercase();
                    if word == "evalsha" && rest.contains("/lease/") {
                        *seen.entry(OF_LEASES.to_owned()).or_default() += 1;
                    }
                    *seen.entry(word).or_default() += 1;
                }
            }
            seen
        });
        Self { thread }
    }

    /// All up to now.
    fn seen(self, server: &Server) -> BTreeMap<String, usize> {
        server.run(&["ECHO", "end of the test"]);
        self.thread.join().unwrap()
    }
}

/// All names that a server has, of locks and of counters.
fn names(server: &Server) -> Vec<String> {
    let names = server.keys().into_iter();
    names.map(|name| String::from_utf8_lossy(&name).into_owned()).collect()
}

#[test]
fn they_are_asked_for_what_a_client_asks_for_and_keep_nothing_but_counters() {
    let fleet = Cluster::start(3);
    let pids: Vec<u32> = fleet.iter().map(Server::pid).collect();
    fleet[0].set("of somebody", "value", None);
    let monitors: Vec<Monitor> = fleet.iter().map(Monitor::start).collect();
    let urls = fleet.urls().join(",");
    let (rate, seconds) = (100, 2);
    let ended = bench(&format!(
        "--nodes {urls} --danger-skip-quarantine --set linger=5s --seconds {seconds} --clients 3 --json"
    ));
    ended.is_consistent(&ALL);
    assert_eq!((&ended.found["own_servers"], &ended.found["rate"]), (&false.into(), &100.into()));
    let said = format!("at most {rate} operations a second");
    assert!(ended.err.contains(&said), "{}", ended.err);
    for (server, monitor) in fleet.iter().zip(monitors) {
        let mut seen = monitor.seen(server);
        // Each lease is asked for and given back, whatever the settings: a lingering one would cost nothing.
        let (scripts, leases) = (seen.remove(OF_LEASES), ended.line("lease")["count"].as_u64());
        assert!(
            scripts.unwrap_or_default() as u64 >= 2 * leases.unwrap(),
            "{scripts:?} {leases:?}"
        );
        let documented = [
            "auth",
            "client",
            "config",
            "del",
            "echo",
            "eval",
            "evalsha",
            "get",
            "getrange",
            "hello",
            "hget",
            "hmget",
            "hset",
            "info",
            "keys",
            "monitor",
            "ping",
            "pttl",
            "publish",
            "scan",
            "script",
            "select",
            "set",
            "subscribe",
            "time",
            "unlink",
        ];
        let other: Vec<_> = seen.keys().filter(|word| !documented.contains(&&***word)).collect();
        assert!(other.is_empty(), "{other:?} of {seen:?}");
        // Two commands an operation; beside that those of connections, of waiting in line, and two seconds of renewals.
        let all: usize = seen.values().sum();
        assert!(all <= 2 * rate * (seconds + 2) * 3 / 2 + 300, "{seen:?}");
        // Nothing but the marker and the counters of the crate, what ends by itself, and the key that was there.
        let stays = |name: &String| server.pttl(name) == -1;
        let mut left: Vec<String> = names(server).into_iter().filter(stays).collect();
        left.retain(|name| {
            !matches!(&**name, "quorlock:node" | "quorlock:counters" | "quorlock:older")
        });
        let ends: Vec<String> = names(server).into_iter().filter(|name| !stays(name)).collect();
        assert!(ends.iter().all(|name| name.starts_with("quorlock:line:")), "{ends:?}");
        let own: &[&str] = if server.pid() == pids[0] { &["of somebody"] } else { &[] };
        assert_eq!(left, own);
        assert!(server.is_running() && !server.is_paused());
    }
    assert_eq!(fleet.iter().map(Server::pid).collect::<Vec<_>>(), pids);
}

#[test]
fn a_node_that_is_away_is_away_and_a_user_may_have_no_more_rights_than_a_client() {
    let fleet = Cluster::start(3);
    let rights = || ["~lock:*", "~quorlock:*"].into_iter().chain(RIGHTS).chain(LINE_RIGHTS);
    let urls: Vec<String> = fleet.iter().map(|node| node.user(rights())).collect();
    fleet[2].kill();
    let ended = bench(&format!(
        "--nodes {} --set key_prefix=lock: --danger-skip-quarantine --seconds 1 --json",
        urls.join(",")
    ));
    assert_eq!(ended.code, 0, "{}", ended.err);
    for line in ["lease", "classic", "permit", "read", "renewal", "handover_processes", "fan_out"] {
        let line = ended.line(line);
        assert!(line["count"].as_u64().unwrap() > 0 && line["errors"] == 0, "{line}");
    }
    let ping = ended.line("ping");
    assert!(ping["count"] == 0 && ping["why"] == "NOPERM", "PING is no right of a client: {ping}");
    let down = ended.line("one_node_down");
    assert!(down["count"] == 0 && down["why"].as_str().unwrap().contains("already"), "{down}");
    // No address is shown that has a password in it.
    assert!(urls.iter().all(|url| url.contains("sesame")));
    assert!(!ended.out.contains("sesame") && !ended.err.contains("sesame"));
}
