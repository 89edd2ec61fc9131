//! Goal: a holder that was paused past its ttl knows it at its first look, and its late write is kept out.
//!
//! Method: a second process, which is this test binary run again for this one test, holds a hundred leases and is
//! stopped by SIGSTOP until another client holds them all. Then it goes on: it checks its leases, and writes to a
//! store as a holder would that had checked just before the pause. The store refuses a token smaller than the
//! largest it has seen; in classic mode there is none to refuse.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    time::Duration,
};

use quorlock::{Builder, Lease, Redlock};
use quorlock_harness::{
    Server, eventually,
    redis::{self, Client},
};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::{NODE_TIMEOUT, SECOND, SOON, admitted, ready};

const LEASES: usize = 100;
const TTL: Duration = Duration::from_secs(1);

/// The variables by which the second process knows what it is.
const NODES: &str = "QUORLOCK_TEST_NODES";
const STORE: &str = "QUORLOCK_TEST_STORE";
const CLASSIC: &str = "QUORLOCK_TEST_CLASSIC";

/// Writes unless a larger token has been here, atomically with the check. A write without a token is never refused.
const WRITE: &str = "
    local seen = tonumber(redis.call('HGET', KEYS[1], 'token') or 0)
    local token = tonumber(ARGV[2])
    if token > 0 and token < seen then return 0 end
    redis.call('HSET', KEYS[1], 'value', ARGV[1], 'token', string.format('%.0f', math.max(seen, token)))
    return 1";

fn client(nodes: &[String], classic: bool) -> Redlock {
    let builder: Builder = Redlock::builder()
        .nodes(nodes)
        .connect_timeout(10 * SECOND)
        .node_timeout(NODE_TIMEOUT)
        .ttl(TTL)
        .max_ttl(TTL);
    ready(if classic { builder.classic() } else { builder })
}

fn acquire_all(redlock: &Redlock) -> Vec<Lease> {
    (0..LEASES)
        .map(|n| redlock.acquire(format!("r{n}")).wait(SOON).blocking())
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Writes under each lease, and says how many writes the store took.
fn write_all(store: &str, leases: &[Lease], value: &str) -> usize {
    let mut connection = Client::open(store).unwrap().get_connection().unwrap();
    let mut written = 0;
    for (n, lease) in leases.iter().enumerate() {
        let token = lease.token().map_or(0, |token| token.get());
        let mut write = redis::cmd("EVAL");
        write.arg(WRITE).arg(1).arg(format!("data{n}")).arg(value).arg(token);
        written += write.query::<usize>(&mut connection).unwrap();
    }
    written
}

/// What the second process does. It speaks in lines, and goes on when it is spoken to.
fn act_as_the_paused_holder(nodes: &str) {
    let nodes: Vec<String> = nodes.split(',').map(str::to_owned).collect();
    let redlock = client(&nodes, std::env::var_os(CLASSIC).is_some());
    let leases = acquire_all(&redlock);
    let held = leases.iter().filter(|lease| lease.check().is_ok()).count();
    println!("\nholder: {held} held");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let lost = leases.iter().filter(|lease| lease.check().is_err()).count();
    let written = write_all(&std::env::var(STORE).unwrap(), &leases, "late");
    println!("\nholder: {lost} lost {written} written");
}

/// The second process.
struct Holder {
    child: Child,
    to: ChildStdin,
    from: BufReader<std::process::ChildStdout>,
}

impl Holder {
    fn start(test: &str, nodes: &[String], store: &Server, classic: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture"]).env(NODES, nodes.join(","));
        command.env(STORE, store.url()).stdin(Stdio::piped()).stdout(Stdio::piped());
        if classic {
            command.env(CLASSIC, "1");
        }
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, to, from: BufReader::new(from) }
    }

    /// The next line that it speaks.
    #[track_caller]
    fn says(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the holder has ended");
            if let Some(words) = line.strip_prefix("holder: ") {
                return words.trim().to_owned();
            }
        }
    }

    fn pause(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).unwrap();
        eventually("the holder has stopped", SOON, || {
            waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG)
                .unwrap()
                .is_some()
        });
    }

    fn go_on(&mut self) {
        // What it reads is there before it runs again.
        self.to.write_all(b"go on\n").unwrap();
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the schedule. `late` is the number of late writes that the store takes.
fn paused_past_its_ttl(test: &str, classic: bool, late: usize) {
    if let Ok(nodes) = std::env::var(NODES) {
        return act_as_the_paused_holder(&nodes);
    }
    let cluster = admitted(3, TTL);
    let store = Server::start();
    let other = client(&cluster.urls(), classic);
    let mut holder = Holder::start(test, &cluster.urls(), &store, classic);
    assert_eq!(holder.says(), format!("{LEASES} held"));
    holder.pause();
    let leases = acquire_all(&other);
    assert_eq!(write_all(&store.url(), &leases, "in time"), LEASES);
    assert!(leases.iter().all(Lease::is_valid), "they are held by somebody else now");
    holder.go_on();
    assert_eq!(holder.says(), format!("{LEASES} lost {late} written"));
    let values = (0..LEASES).map(|n| store.run(&["HGET", &format!("data{n}"), "value"]));
    let values: Vec<String> = values.map(|v| redis::from_redis_value(v).unwrap()).collect();
    assert_eq!(values.iter().filter(|value| *value == "late").count(), late);
    assert_eq!(values.iter().filter(|value| *value == "in time").count(), LEASES - late);
}

#[test]
fn in_classic_mode_the_late_write_of_a_paused_holder_lands() {
    let test = "client_pause::in_classic_mode_the_late_write_of_a_paused_holder_lands";
    paused_past_its_ttl(test, true, LEASES);
}

#[test]
fn by_default_the_late_write_of_a_paused_holder_is_refused() {
    let test = "client_pause::by_default_the_late_write_of_a_paused_holder_is_refused";
    paused_past_its_ttl(test, false, 0);
}
