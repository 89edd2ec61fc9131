//! Goal: `examples/service.rs` charges an invoice once, however often it is asked, and whichever instance stands still.
//!
//! Method: three instances as processes, on three real servers and one file of SQLite. Requests come over HTTP, and
//! what was charged is read from the file.
#![cfg(feature = "redis")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod http;

use std::{
    io::{BufRead, BufReader, Lines},
    net::SocketAddr,
    process::ChildStdout,
    thread,
    time::Duration,
};

use quorlock_harness::{Cluster, Companion};
use rusqlite::Connection;

use self::http::post;

const PAYMENT: &str = "/invoices/42/payment";

/// The servers, and the file that all instances write to.
struct World {
    cluster: Cluster,
    directory: tempfile::TempDir,
}

/// One instance of the service, and what it prints.
struct Instance {
    process: Companion,
    output: Lines<BufReader<ChildStdout>>,
    address: SocketAddr,
}

impl World {
    fn new() -> Self {
        Self { cluster: Cluster::start(3), directory: tempfile::tempdir().unwrap() }
    }

    fn instance(&self, bank: Duration) -> Instance {
        let database = self.directory.path().join("invoices.sqlite");
        let env = [
            ("QUORLOCK_NODES", self.cluster.urls().join(",")),
            ("QUORLOCK_TTL", "1s".to_owned()),
            // New servers keep all clients waiting for a little longer than this.
            ("QUORLOCK_MAX_TTL", "1s".to_owned()),
            ("DATABASE", database.display().to_string()),
            ("BANK_MS", bank.as_millis().to_string()),
            ("LISTEN", "127.0.0.1:0".to_owned()),
        ];
        let mut process = Companion::example("service", env);
        let mut output = BufReader::new(process.output()).lines();
        let line = output.next().expect("it says where it listens").unwrap();
        let address = line.strip_prefix("listening on ").expect(&line).parse().unwrap();
        Instance { process, output, address }
    }

    /// The tokens under which something was charged.
    fn charges(&self) -> Vec<i64> {
        let database = Connection::open(self.directory.path().join("invoices.sqlite")).unwrap();
        let mut query = database.prepare("SELECT token FROM charge WHERE invoice = 42").unwrap();
        query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

impl Instance {
    /// The next line that begins so, and what follows there.
    fn line(&mut self, begin: &str) -> String {
        let mut lines = self.output.by_ref().map(Result::unwrap);
        let line = lines.find(|line| line.starts_with(begin)).expect(begin);
        line[begin.len()..].to_owned()
    }
}

#[test]
fn sixty_requests_at_three_instances_charge_once() {
    let world = World::new();
    let bank = Duration::from_millis(100);
    let instances: [Instance; 3] = std::array::from_fn(|_| world.instance(bank));
    let answers: Vec<(u16, String)> = thread::scope(|scope| {
        let ask = |request: usize| {
            let address = instances[request % 3].address;
            scope.spawn(move || post(address, PAYMENT))
        };
        let requests: Vec<_> = (0..60).map(ask).collect();
        requests.into_iter().map(|request| request.join().unwrap()).collect()
    });
    assert_eq!(world.charges().len(), 1, "{answers:?}");
    let charged =
        |body: &str| answers.iter().filter(|answer| **answer == (200, body.to_owned())).count();
    assert_eq!((charged("charged\n"), charged("paid before\n")), (1, 59), "{answers:?}");
}

#[test]
fn an_instance_that_is_stopped_between_check_and_write_does_not_charge_again() {
    let world = World::new();
    let slow = Duration::from_secs(1);
    let (mut first, mut second) = (world.instance(slow), world.instance(Duration::from_millis(50)));
    thread::scope(|scope| {
        let (to_first, to_second) = (first.address, second.address);
        let asked_first = scope.spawn(move || post(to_first, PAYMENT));
        let early = first.line("invoice 42: paying, token ");
        first.process.pause();
        assert!(world.charges().is_empty(), "it was stopped before its write");

        // It is waited for until its lease has run out.
        let (status, body) = post(to_second, PAYMENT);
        assert_eq!((status, body.as_str()), (200, "charged\n"));
        let later = second.line("invoice 42: charged, token ");

        first.process.resume();
        assert_eq!(first.line("invoice 42: not written, token "), early, "it has tried");
        let (status, body) = asked_first.join().unwrap();
        assert_ne!(body, "charged\n", "{status}");
        let (early, later): (i64, i64) = (early.parse().unwrap(), later.parse().unwrap());
        assert!(early < later, "tokens rise");
        assert_eq!(world.charges(), [later]);
    });
}
