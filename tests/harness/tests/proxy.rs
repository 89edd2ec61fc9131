//! The proxy between a real client and a real server: each fault does what it says, and no more.
#![allow(clippy::disallowed_methods, reason = "the ban is for the library")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use quorlock_harness::{Proxy, Server, eventually};

const SHORT: Duration = Duration::from_millis(200);
/// For what certainly happens, on however busy a machine.
const LONG: Duration = Duration::from_secs(60);

/// A raw client, because the tests look at when bytes arrive.
struct Raw(TcpStream);

impl Raw {
    fn connect(proxy: &Proxy) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    fn send(&mut self, line: &str) {
        self.0.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    /// Reads exactly what is expected, or says that nothing came.
    fn expect(&mut self, expected: &str) {
        self.0.set_read_timeout(Some(LONG)).unwrap();
        let mut got = vec![0; expected.len()];
        self.0.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8_lossy(&got), expected);
    }

    fn expect_silence(&mut self) {
        self.0.set_read_timeout(Some(SHORT)).unwrap();
        let kind = self.0.read(&mut [0]).map_err(|error| error.kind());
        let silent = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
        assert!(kind.is_err_and(|kind| silent.contains(&kind)), "not silent: {kind:?}");
    }

    fn expect_closed(&mut self) {
        self.0.set_read_timeout(Some(LONG)).unwrap();
        match self.0.read(&mut [0]) {
            Ok(0) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            other => panic!("not closed: {other:?}"),
        }
    }
}

fn start() -> (Server, Proxy) {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    (server, proxy)
}

#[test]
fn it_forwards_and_counts_its_connections() {
    let (_server, proxy) = start();
    let mut raw = Raw::connect(&proxy);
    raw.send("PING");
    raw.expect("+PONG\r\n");
    let client = redis::Client::open(proxy.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let big = vec![b'x'; 1 << 20];
    redis::cmd("SET").arg("big").arg(&big).exec(&mut connection).unwrap();
    assert_eq!(redis::cmd("GET").arg("big").query::<Vec<u8>>(&mut connection).unwrap(), big);
    assert_eq!(proxy.connections(), 2);
    drop(raw);
    eventually("a closed connection is not counted", LONG, || proxy.connections() == 1);
}

#[test]
fn it_can_be_sent_to_another_server() {
    let (server, proxy) = start();
    let other = Server::start();
    server.run(&["SET", "who", "server"]);
    other.run(&["SET", "who", "other!"]);
    let mut old = Raw::connect(&proxy);
    old.send("GET who");
    old.expect("$6\r\nserver\r\n");
    proxy.retarget(other.port());
    let mut new = Raw::connect(&proxy);
    new.send("GET who");
    new.expect("$6\r\nother!\r\n");
    old.send("GET who");
    old.expect("$6\r\nserver\r\n");
}

#[test]
fn a_delay_holds_for_both_directions_and_does_not_add_up() {
    let (_server, proxy) = start();
    let mut raw = Raw::connect(&proxy);
    raw.send("PING");
    raw.expect("+PONG\r\n");
    proxy.delay(SHORT);
    let start = Instant::now();
    for _ in 0..300 {
        // Nagle is off, so these are separate chunks unless the proxy is slow to read.
        raw.send("INCR n");
        std::thread::sleep(Duration::from_millis(2));
    }
    for i in 1..=300 {
        raw.expect(&format!(":{i}\r\n"));
    }
    let elapsed = start.elapsed();
    assert!(elapsed >= 2 * SHORT, "too early: {elapsed:?}");
    assert!(elapsed < 300 * SHORT / 2, "the delays add up: {elapsed:?}");
    // It would be longer than the answer is waited for.
    proxy.delay(2 * LONG);
    proxy.heal();
    raw.send("PING");
    raw.expect("+PONG\r\n");
}

#[test]
fn a_blackhole_keeps_everything_and_delivers_it_in_order() {
    let (server, proxy) = start();
    let mut old = Raw::connect(&proxy);
    old.send("PING");
    old.expect("+PONG\r\n");
    proxy.blackhole(true);
    let mut new = Raw::connect(&proxy);
    for i in 0..50 {
        old.send(&format!("RPUSH list {i}"));
    }
    new.send("SET new 1");
    old.expect_silence();
    new.expect_silence();
    assert_eq!(server.keys(), Vec::<Vec<u8>>::new());
    assert_eq!(proxy.connections(), 2);

    proxy.blackhole(false);
    for i in 1..=50 {
        old.expect(&format!(":{i}\r\n"));
    }
    new.expect("+OK\r\n");
    let list = server.run(&["LRANGE", "list", "0", "-1"]);
    let list: Vec<usize> = redis::from_redis_value(list).unwrap();
    assert_eq!(list, (0..50).collect::<Vec<_>>());
}

#[test]
fn a_blackhole_hides_the_death_of_the_server() {
    let (server, proxy) = start();
    let mut raw = Raw::connect(&proxy);
    raw.send("PING");
    raw.expect("+PONG\r\n");
    proxy.blackhole(true);
    server.kill();
    let mut new = Raw::connect(&proxy);
    raw.expect_silence();
    new.expect_silence();
    proxy.heal();
    raw.expect_closed();
    new.expect_closed();
}

#[test]
fn dropped_replies_are_never_made_up_for_by_later_ones() {
    let (server, proxy) = start();
    let mut raw = Raw::connect(&proxy);
    raw.send("SET k old");
    raw.expect("+OK\r\n");
    proxy.drop_replies(true);
    raw.send("SET k new");
    eventually("the request is carried out", LONG, || server.get("k") == Some(b"new".to_vec()));
    raw.expect_silence();
    raw.send("INCR n");
    eventually("so is the next one", LONG, || server.get("n") == Some(b"1".to_vec()));
    raw.expect_silence();

    let mut fresh = Raw::connect(&proxy);
    proxy.drop_replies(false);
    raw.expect_closed();
    // A connection that has lost nothing stays.
    fresh.send("GET k");
    fresh.expect("$3\r\nnew\r\n");
}

#[test]
fn a_cut_closes_old_and_new_connections_until_it_is_healed() {
    let (server, proxy) = start();
    let mut raw = Raw::connect(&proxy);
    raw.send("PING");
    raw.expect("+PONG\r\n");
    proxy.cut();
    assert_eq!(proxy.connections(), 0);
    raw.expect_closed();
    Raw::connect(&proxy).expect_closed();
    assert!(server.is_running());
    proxy.heal();
    let mut raw = Raw::connect(&proxy);
    raw.send("PING");
    raw.expect("+PONG\r\n");
    // A server that cannot be reached ends the connection, and a dropped proxy refuses new ones.
    // A process that another test forks has a copy of the listener until it becomes a server.
    server.kill();
    raw.expect_closed();
    Raw::connect(&proxy).expect_closed();
    let port = proxy.port();
    drop(proxy);
    eventually("the port of a dropped proxy is closed", LONG, || {
        TcpStream::connect(("127.0.0.1", port)).is_err()
    });
}

#[test]
fn a_cut_ends_connections_that_are_stuck_in_another_fault() {
    let (server, proxy) = start();
    proxy.blackhole(true);
    let mut raw = Raw::connect(&proxy);
    raw.send("SET k v");
    eventually("the connection is accepted", LONG, || proxy.connections() == 1);
    proxy.cut();
    raw.expect_closed();
    proxy.heal();
    assert_eq!(server.get("k"), None);
}

/// As the kernel of a client may do, which sends once more what a server has not taken.
#[test]
fn what_is_held_back_is_executed_behind_the_end_of_its_connection() {
    let (server, proxy) = start();
    for severed in [false, true] {
        let mut old = Raw::connect(&proxy);
        old.send("SET k old");
        old.expect("+OK\r\n");
        proxy.hold_back();
        old.send("SET k late");
        old.send("INCR n");
        eventually("it is held back", LONG, || {
            proxy.held_back() == "SET k late\r\nINCR n\r\n".len()
        });
        let mut new = Raw::connect(&proxy);
        new.send("SET k new");
        new.expect("+OK\r\n");
        if severed {
            proxy.sever();
            old.expect_closed();
        }
        drop(old);
        new.send("GET k");
        new.expect("$3\r\nnew\r\n");
        // The client is gone, and to the server it is not.
        assert_eq!((proxy.late_connections(), proxy.made_anew()), (1, 1));
        proxy.deliver();
        eventually("the server has ended it", LONG, || proxy.late_connections() == 0);
        assert_eq!(server.get("k"), Some(b"late".to_vec()));
        new.send("GET k");
        new.expect("$4\r\nlate\r\n");
    }
    assert_eq!(server.get("n"), Some(b"2".to_vec()));
}

#[test]
fn a_script_is_exchanged_for_another_and_nothing_else_is() {
    let (server, proxy) = start();
    proxy.exchange_script("return 'the one'", "return 'the other'");
    let client = redis::Client::open(proxy.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let said = |script: &str, connection: &mut redis::Connection| -> String {
        redis::Script::new(script).invoke(connection).unwrap()
    };
    for _ in 0..2 {
        assert_eq!(said("return 'the one'", &mut connection), "the other");
        assert_eq!(said("return 'a third'", &mut connection), "a third");
    }
    let direct = redis::Client::open(server.url()).unwrap();
    assert_eq!(said("return 'the one'", &mut direct.get_connection().unwrap()), "the one");
}
