//! The harness against real servers: a killed, restarted or paused server behaves as tests assume.
#![allow(clippy::disallowed_methods, reason = "the ban is for the library")]

use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

use quorlock_harness::redis::{self, Client, Value};
use quorlock_harness::{
    Cluster, Server, TestCa, WallClock, decided, eventually, ipv6_available, undecided,
};

/// For what certainly happens, on however busy a machine.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_killed_server_comes_back_on_its_port_without_its_keys() {
    let server = Server::start();
    assert!(server.is_running());
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
    server.set("k", "v", None);
    assert_eq!(server.get("k").as_deref(), Some(&b"v"[..]));
    let (port, pid) = (server.port(), server.pid());

    server.kill();
    assert!(!server.is_running());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(server.try_run(&["PING"]).is_err());

    server.restart();
    assert!(server.is_running());
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(server.get("k"), None);

    server.set("k", "v", None);
    server.restart();
    assert_eq!(server.get("k"), None);
}

#[test]
fn only_an_append_only_server_keeps_its_keys_and_only_until_it_is_emptied() {
    let server = Server::builder().append_only(true).start();
    server.set("k", "v", None);
    server.kill();
    server.restart();
    assert_eq!(server.get("k").as_deref(), Some(&b"v"[..]));
    server.restart_empty();
    assert_eq!(server.get("k"), None);
    assert_eq!(server.keys(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_paused_server_is_silent_and_answers_when_resumed() {
    let server = Server::start();
    let mut connection = server.control();
    connection.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    server.pause();
    assert!(server.is_paused() && server.is_running());
    // Pausing twice is the same as pausing once.
    server.pause();
    let error = redis::cmd("SET").arg("k").arg("v").exec(&mut connection).unwrap_err();
    assert!(error.is_timeout(), "{error}");
    server.resume();
    assert!(!server.is_paused());
    assert_eq!(server.run(&["PING"]), Value::SimpleString("PONG".to_owned()));
    eventually("the request sent to the paused server is carried out", secs(5), || {
        server.get("k").is_some()
    });
    // A paused server can be killed and restarted.
    server.pause();
    server.restart();
    assert_eq!(server.get("k"), None);
}

#[test]
fn the_control_helpers_say_what_the_server_does() {
    let server = Server::start();
    assert_eq!(server.pttl("k"), -2);
    server.set("k", [0, 255], None);
    assert_eq!(server.pttl("k"), -1);
    assert_eq!(server.get("k").as_deref(), Some(&[0, 255][..]));
    server.set("k", "v", Some(60_000));
    assert!((50_000..=60_000).contains(&server.pttl("k")));
    assert_eq!(server.command_calls("SET"), 2);
    assert_eq!(server.command_calls("getdel"), 0);
    assert!(server.del("k") && !server.del("k"));
    server.set("a", "", None);
    assert_eq!(server.keys(), [b"a".to_vec()]);
    server.flush();
    assert!(server.keys().is_empty());

    let mut other = server.control();
    // A client that listens is no `normal` client any more.
    let mut listens = server.control();
    let mut channel = listens.as_pubsub();
    channel.subscribe("channel").unwrap();
    assert_eq!(server.kill_clients(), 2);
    assert!(redis::cmd("PING").exec(&mut other).is_err());
    let gone = channel.get_message().unwrap_err();
    assert!(gone.is_connection_dropped(), "{gone}");
    drop(channel);
    assert_eq!(server.command_calls("client|kill"), 2, "one for each kind");
    assert!(server.try_run(&["NOSUCH"]).is_err());
    assert!(server.log().contains("Ready to accept connections"));
}

#[test]
fn a_server_that_does_not_start_says_why_and_does_not_hang() {
    let (said, saying) = std::sync::mpsc::channel();
    let start = move || {
        let started =
            std::panic::catch_unwind(|| Server::builder().arg("no-such-setting", "1").start());
        let _ = said.send(started.err().and_then(|panic| panic.downcast::<String>().ok()));
    };
    std::thread::spawn(start);
    let reason = saying.recv_timeout(secs(20)).expect("it hangs").expect("it does not start");
    assert!(reason.contains("redis-server exited with"), "{reason}");
}

#[test]
fn a_control_connection_that_was_closed_is_opened_again() {
    let server = Server::start();
    server.run(&["PING"]);
    let mut other = server.control();
    redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").exec(&mut other).unwrap();
    assert_eq!(server.run(&["PING"]), Value::SimpleString("PONG".to_owned()));
}

#[test]
fn passwords_sockets_and_settings_reach_the_server() {
    let server = Server::builder()
        .password("p@ss/word #1")
        .unix_socket(true)
        .arg("maxmemory", "50mb")
        .start();
    let bare = Client::open(format!("redis://127.0.0.1:{}", server.port())).unwrap();
    let refused = bare.get_connection().and_then(|mut c| redis::cmd("PING").exec(&mut c));
    assert_eq!(refused.unwrap_err().code(), Some("NOAUTH"));
    let set = server.run(&["CONFIG", "GET", "maxmemory"]);
    assert_eq!(redis::from_redis_value::<(String, u64)>(set).unwrap().1, 50 * 1024 * 1024);
    let mut socket = Client::open(server.unix_url()).unwrap().get_connection().unwrap();
    redis::cmd("PING").exec(&mut socket).unwrap();
}

#[test]
fn the_ipv6_address_answers() {
    if !ipv6_available() {
        return undecided!("there is no ::1 on this machine");
    }
    decided!();
    let server = Server::builder().ipv6(true).start();
    let mut connection = Client::open(server.ipv6_url()).unwrap().get_connection().unwrap();
    redis::cmd("PING").exec(&mut connection).unwrap();
}

/// The handshake itself is for the tests of the library, which have a TLS client.
#[test]
fn a_tls_server_takes_the_certificates_and_keeps_its_plain_port() {
    let ca = TestCa::new();
    assert!(ca.ca_pem().starts_with("-----BEGIN CERTIFICATE-----"));
    let server = Server::builder().tls(&ca).arg("tls-auth-clients", "yes").start();
    assert_eq!(server.tls_url(), format!("rediss://127.0.0.1:{}", server.tls_port()));
    TcpStream::connect(("127.0.0.1", server.tls_port())).unwrap();
    drop(ca);
    server.restart();
    server.set("k", "v", None);
    TcpStream::connect(("127.0.0.1", server.tls_port())).unwrap();
}

#[test]
fn a_cluster_has_independent_servers() {
    let cluster = Cluster::start(3);
    assert_eq!((cluster.len(), cluster.urls().len()), (3, 3));
    cluster[0].set("a", "", None);
    cluster[1].set("b", "", None);
    cluster[2].set("c", "", None);
    cluster[0].kill();
    cluster[1].pause();
    assert_eq!(cluster.keys_left(), [(2, b"c".to_vec())]);
    cluster[1].resume();
    assert_eq!(cluster.keys_left(), [(1, b"b".to_vec()), (2, b"c".to_vec())]);
    cluster.flush();
    assert!(cluster.keys_left().is_empty());
}

#[test]
fn a_dropped_server_is_gone_even_when_paused() {
    let server = Server::start();
    let port = server.port();
    server.pause();
    drop(server);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_server_dies_with_the_process_that_started_it() {
    const CHILD: &str = "QUORLOCK_HARNESS_DYING_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let server = Server::start();
        server.pause();
        println!("port={}", server.port());
        // No destructor runs, as after SIGKILL.
        std::process::abort();
    }
    let dir = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_server_dies_with_the_process_that_started_it", "--nocapture"])
        .env(CHILD, "1")
        // What the child leaves behind is removed with the parent's directory.
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let port = text.split("port=").nth(1).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let port: u16 = port.trim().parse().unwrap_or_else(|_| panic!("no port in {text}"));
    eventually("the server of a dead process is dead", secs(10), || {
        TcpStream::connect(("127.0.0.1", port)).is_err()
    });
}

#[test]
#[should_panic(expected = "not within 50ms: it rains")]
fn waiting_in_vain_panics_with_what_was_awaited() {
    let start = Instant::now();
    eventually("it rains", Duration::from_millis(50), || start.elapsed() > secs(60));
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn the_wall_clock_of_a_server_is_set_or_stands() {
    let time = |server: &Server| {
        let said = server.run(&["TIME"]);
        let (seconds, micros): (i64, i64) = redis::from_redis_value(said).unwrap();
        seconds * 1_000_000 + micros
    };
    let system = || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from(now.as_micros()).unwrap()
    };
    let (minute, at) = (60_000_000, 4_102_444_800_000_000);

    let (ahead, stands) = (WallClock::system(), WallClock::standing_at(at));
    let server = ahead.give_to(Server::builder()).start();
    let before = system();
    let said = time(&server);
    assert!((before..=system()).contains(&said), "{said} after {before}");
    ahead.set(minute);
    let before = system();
    eventually("the clock is ahead", SOON, || {
        let said = time(&server);
        (before + minute..=system() + minute).contains(&said)
    });

    let server = stands.give_to(Server::builder()).start();
    eventually("it stands", SOON, || time(&server) == at);
    stands.set(at + 1);
    eventually("it is set", SOON, || time(&server) == at + 1);
    assert_eq!(time(&server), at + 1);
}
