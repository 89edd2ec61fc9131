//! Goal: a user who connects to the wrong place is told which place that is, what is wrong with it and what to do; and
//! a setting for throwaway nodes admits no other machine's server for everybody.
//!
//! Method: real servers that are of the wrong kind; addresses where nothing listens; and this machine's own address in
//! the network, behind which a server looks like that of another machine.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, TcpListener, UdpSocket},
};

use quorlock::{
    Builder, ConnectError, Redlock,
    node::{NodeSpec, NodeState, Refusal},
};
use quorlock_harness::{Cluster, Server, connected, eventually};

use super::{MS, SECOND, SOON, chain, patient, plain};

/// The text of a connect that must fail, and how its only node was.
#[track_caller]
fn failed(builder: Builder) -> (NodeState, String) {
    let error = builder.blocking_connect().expect_err("nobody can connect there");
    let text = chain(&error);
    let (ConnectError::Refused { nodes } | ConnectError::NoQuorum { nodes, .. }) = error else {
        panic!("{text}")
    };
    let (_, state) = nodes.iter().next().expect("a node");
    println!("{text}");
    (state.clone(), text)
}

#[track_caller]
fn refused(builder: Builder) -> (Refusal, String) {
    match failed(builder) {
        (NodeState::Refused(refusal), text) => (refusal, text),
        (state, text) => panic!("{state:?}: {text}"),
    }
}

/// This machine's address in its network, if it is in one. Nothing is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// A server at this machine's address in its network, and its URL there.
fn in_the_network() -> Option<(Server, String)> {
    let Some(ip) = own_address() else {
        println!("this machine is in no network: the decision is tested alone, in node/redis");
        return None;
    };
    let server = Server::start();
    server.run(&["CONFIG", "SET", "bind", &format!("127.0.0.1 {ip}")]);
    let url = format!("redis://{ip}:{}", server.port());
    Some((server, url))
}

#[test]
fn a_database_that_does_not_exist_is_refused() {
    let server = Server::start();
    let (refusal, text) = refused(patient().node(format!("{}/99", server.url())));
    assert!(matches!(refusal, Refusal::NoSuchDatabase { database: 99, .. }), "{text}");
    assert!(text.contains("no database 99") && text.contains("the end of the URL"), "{text}");
}

#[test]
fn a_server_in_cluster_mode_is_refused_with_and_without_a_database() {
    let server = Server::builder().arg("cluster-enabled", "yes").start();
    for url in [server.url(), format!("{}/1", server.url())] {
        let (refusal, text) = refused(patient().node(url));
        assert_eq!(refusal, Refusal::Cluster, "{text}");
        assert!(text.contains("configure independent masters"), "{text}");
    }
}

#[test]
fn a_sentinel_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut sentinel = std::process::Command::new("redis-server")
        .arg(file.path())
        .args(["--sentinel", "--port", &port.to_string(), "--bind", "127.0.0.1"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("the sentinel answers", SOON, || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let (refusal, text) = refused(patient().node(format!("redis://127.0.0.1:{port}")));
    sentinel.kill().unwrap();
    sentinel.wait().unwrap();
    assert_eq!(refusal, Refusal::Sentinel, "{text}");
}

#[test]
fn a_command_that_was_switched_off_is_named() {
    for command in ["EVAL", "INFO"] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("rename-command {command} \"\"\n")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = std::process::Command::new("redis-server")
            .arg(file.path())
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        eventually("it answers", SOON, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let (refusal, text) = refused(patient().node(format!("redis://127.0.0.1:{port}")));
        server.kill().unwrap();
        server.wait().unwrap();
        let named = command.to_ascii_lowercase();
        assert!(
            matches!(&refusal, Refusal::MissingCommand { command, .. } if **command == *named),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_redis_is_refused() {
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", web.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in web.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    let (refusal, text) = refused(patient().node(url));
    assert!(matches!(refusal, Refusal::NotRedis { .. }), "{text}");
    assert!(text.contains("correct the port"), "{text}");
}

/// An address where nothing listens is no refusal: a server may come.
#[test]
fn nobody_at_an_address_is_told_with_the_address_and_what_the_system_said() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (url, address, says) in [
        (format!("redis://127.0.0.1:{port}"), format!("127.0.0.1:{port}"), "refused"),
        ("redis://no-such-host.invalid".to_owned(), "no-such-host.invalid:6379".to_owned(), ""),
    ] {
        let (state, text) = failed(patient().node(url).connect_timeout(5 * SECOND));
        assert!(matches!(state, NodeState::Down { .. }), "{text}");
        assert!(text.contains(&address) && text.contains("down, "), "{text}");
        assert!(text.contains("os error") || text.contains("lookup"), "{text}");
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn a_minority_that_is_missing_fails_only_those_who_ask_for_all_nodes() {
    let cluster = Cluster::start(2);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let builder = || patient().nodes(cluster.urls()).node(format!("redis://127.0.0.1:{port}"));
    builder().blocking_connect().unwrap();
    let error = builder().require_all_nodes().blocking_connect().unwrap_err();
    let text = chain(&error);
    let ConnectError::NotAllNodes { ready: 2, needed: 3, nodes } = error else { panic!("{text}") };
    assert!(text.contains(&format!("127.0.0.1:{port}")) && text.contains("os error"), "{text}");
    assert_eq!(nodes.iter().count(), 3);
    // One that is in quarantine is there.
    let third = Server::start();
    let third = NodeSpec::from(third.url()).named(format!("127.0.0.1:{port}"));
    let all = plain().nodes(cluster.urls()).node(third).require_all_nodes();
    let redlock = all.blocking_connect().unwrap();
    assert!(matches!(redlock.nodes()[2].state, NodeState::Quarantined { .. }));
}

#[test]
fn who_waits_through_outages_connects_to_servers_that_start_later() {
    let cluster = Cluster::start(3);
    cluster.iter().for_each(Server::kill);
    let builder = patient().nodes(cluster.urls()).connect_timeout(100 * MS);
    let error = builder.clone().wait(20 * SECOND).blocking_connect().unwrap_err();
    assert!(matches!(error, ConnectError::NoQuorum { ready: 0, .. }), "{error}");
    let error = builder.clone().wait_through_outages().wait(300 * MS).blocking_connect();
    assert!(matches!(error, Err(ConnectError::NoQuorum { ready: 0, .. })), "its wait is over");
    let (begun, has_begun) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        begun.send(()).unwrap();
        let redlock = builder.wait_through_outages().wait(SOON).blocking_connect().unwrap();
        redlock.acquire("r").blocking().unwrap().blocking_release().unwrap();
    });
    has_begun.recv().unwrap();
    cluster[0].restart();
    assert!(!waiting.is_finished(), "one is no quorum");
    cluster[2].restart();
    waiting.join().unwrap();
}

#[test]
fn an_acquire_that_waits_through_an_outage_is_granted_when_it_is_over() {
    let cluster = Cluster::start(3);
    let redlock = connected(patient().nodes(cluster.urls()));
    cluster.iter().for_each(Server::kill);
    // By default it is reported after a quarter of the wait, or a node timeout.
    let error = redlock.acquire("r").wait(SECOND).blocking().unwrap_err();
    assert!(!error.is_contended(), "{error}");
    let clone = redlock.clone();
    let waiting = std::thread::spawn(move || {
        clone.acquire("r").wait(SOON).wait_through_outages().blocking().map(drop)
    });
    // Longer than a quarter of its wait, in which it would give up otherwise.
    let began = std::time::Instant::now();
    eventually("it still waits", SOON, || began.elapsed() > SOON / 4 + SECOND);
    assert!(!waiting.is_finished());
    cluster.iter().for_each(Server::restart);
    waiting.join().unwrap().unwrap();
}

#[test]
fn a_server_of_another_machine_votes_at_once_only_if_it_says_that_it_may_be_thrown_away() {
    let Some((server, url)) = in_the_network() else { return };
    server.run(&["CONFIG", "SET", "protected-mode", "no"]);
    let (refusal, text) = refused(patient().node(&url));
    assert_eq!(refusal, Refusal::NotThrowaway, "{text}");
    assert!(text.contains("SET quorlock:throwaway yes"), "{text}");
    assert_eq!(server.keys(), Vec::<Vec<u8>>::new(), "nobody has been admitted");
    // Without the setting it waits like any other; and the same server by its local address is one of this machine.
    let redlock = plain().node(&url).blocking_connect().unwrap();
    assert!(matches!(redlock.nodes()[0].state, NodeState::Quarantined { .. }));
    drop(redlock);
    drop(connected(patient().node(NodeSpec::from(server.url()).named(&url["redis://".len()..]))));
    server.flush();
    // In the database of the URL, and read with the rights that there are.
    let app = ["ACL", "SETUSER", "app", "on", ">sesame", "~lock:*", "~quorlock:*", "-@all"];
    let rights = ["+set", "+getrange", "+del", "+pttl", "+pexpire", "+hget", "+hmget", "+hset"];
    let more = ["+time", "+unlink", "+rename", "+eval", "+evalsha", "+info", "+client|tracking"];
    server.run(&[&app[..], &rights, &more].concat());
    let url = url.replace("//", "//app:sesame@");
    assert_eq!(refused(patient().node(&url)).0, Refusal::NotThrowaway);
    server.set("quorlock:throwaway", "yes", None);
    let redlock = connected(patient().node(&url));
    redlock.try_acquire("lock:r").blocking().unwrap().blocking_release().unwrap();
    // In classic mode there is no quarantine to skip.
    server.del("quorlock:throwaway");
    connected(patient().classic().node(&url)).blocking_close().unwrap();
}

/// A unix socket is on this machine.
#[test]
fn a_unix_socket_may_be_thrown_away() {
    let server = Server::builder().unix_socket(true).start();
    let redlock: Redlock = connected(patient().node(server.unix_url()));
    redlock.try_acquire("r").blocking().unwrap().blocking_release().unwrap();
}
