//! Goal: bytes that the kernel sends once more, after its client has closed the connection and made another, take
//! nothing from a later lease.
//!
//! Method: in a network of its own a rule drops what comes from the ports of the client's connections. The client gives them
//! up by itself, connects anew, and goes on with a longer lease under the same owner. When the rule is gone the kernel sends
//! what it has kept of the closed connections. This needs `ip`, and the right to make such a network. Where one of them is
//! missing the test is undecided.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use quorlock_harness::{Companion, Proxy, decided, undecided};

use super::{
    late_renewals::{Manner, Seen, Stage, of},
    *,
};

const ROLE: &str = "QUORLOCK_TEST_RETRANSMITTED";
const NAME: &str = "retransmitted::what_the_kernel_sends_once_more_behind_a_close_takes_nothing_from_a_later_lease";

/// The client gives up connections that are silent for more than a second: the first lease must outlive that.
const TTL: Duration = Duration::from_secs(3);
const LONGER: Duration = Duration::from_secs(5);
/// The kernel tries again within this time, however often it has before.
const TRIED_AGAIN: Duration = Duration::from_secs(15);

/// Runs a command to its end, and says why it failed if it did.
fn run(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.map_err(|error| format!("{}: {error}", words[0]))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{}: {said}", words.join(" "))) }
}

fn ip(words: &str) {
    let words: Vec<&str> = std::iter::once("ip").chain(words.split(' ')).collect();
    run(&words).expect("a rule of our own network");
}

/// How to get a network of one's own here.
fn unshare() -> Result<&'static [&'static str], String> {
    const WAYS: [&[&str]; 2] = [&["unshare", "--net"], &["unshare", "--map-root-user", "--net"]];
    run(&["ip", "-V"])?;
    let tried =
        WAYS.map(|way| run(&[way, &["ip", "link", "set", "lo", "up"]].concat()).map(|()| way));
    let [one, other] = tried;
    one.or_else(|reason| other.map_err(|other| format!("{reason}; {other}")))
}

/// The ports from which connections to this one come.
fn ports_to(port: u16) -> Vec<u16> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let port_of = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
    let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let is_open = |row: &Vec<&str>| row.get(3) == Some(&"01") && port_of(row[2]) == Some(port);
    rows.filter(is_open).filter_map(|row| port_of(row[1])).collect()
}

#[test]
fn what_the_kernel_sends_once_more_behind_a_close_takes_nothing_from_a_later_lease() {
    if std::env::var_os(ROLE).is_some() {
        return in_a_network_of_our_own();
    }
    let way = match unshare() {
        Ok(way) => way,
        Err(reason) => return undecided!(format!("there is no network of one's own: {reason}")),
    };
    decided!();
    let mut command = Command::new(way[0]);
    command.args(&way[1..]).arg(std::env::current_exe().unwrap());
    command.args([NAME, "--exact", "--nocapture"]).env(ROLE, "");
    let mut inside = Companion::run(command);
    let output = std::io::read_to_string(inside.output()).unwrap();
    println!("{output}");
    let status = inside.end(SOON);
    assert!(status.ends_with(": 0"), "it ended with {status}");
}

fn in_a_network_of_our_own() {
    ip("link set lo up");
    // Of these rules the first that says something counts, and that is the one for this machine's own addresses.
    ip("rule add pref 10 lookup local");
    ip("rule del pref 0");
    let both = Seen { shortened: true, beside: true };
    for (planted, expected) in [(false, Seen::default()), (true, both)] {
        let stage = Stage::new(Manner { classic: false, planted });
        let tries = (0..10).filter_map(|number| retransmitted(&stage, &format!("r{number}")));
        let mut tries = tries.inspect(|seen| println!("planted: {planted}; {seen:?}"));
        let seen = tries.find(|seen| !planted || *seen == both);
        assert_eq!(seen, Some(expected), "planted: {planted}");
    }
}

/// What is seen of it; nothing where the machine was too busy for the schedule.
fn retransmitted(stage: &Stage, resource: &str) -> Option<Seen> {
    let request = |ttl| stage.holder.acquire(resource).ttl(ttl).linger(SOON).without_renewal();
    let first = request(TTL).blocking().unwrap();
    let old: Vec<u16> = stage.proxies.iter().flat_map(|proxy| ports_to(proxy.port())).collect();
    assert_eq!(old.len(), stage.proxies.len(), "a connection to each");
    old.iter().for_each(|port| ip(&format!("rule add pref 1 ipproto tcp sport {port} blackhole")));
    let extended = || loop {
        match first.blocking_extend() {
            Ok(_) => return Some(()),
            Err(error) if first.check().is_err() => {
                println!("{error}");
                return None;
            }
            Err(_) => {}
        }
    };
    let extended = extended();
    all_ready(&stage.holder);
    old.iter().for_each(|_| ip("rule del pref 1"));
    let lost = |proxy: &Proxy| proxy.connections() == 1;
    let lease = extended.and_then(|()| {
        let owner = first.owner();
        first.blocking_release().ok()?;
        let lease = request(LONGER).blocking().ok().filter(|lease| lease.owner() == owner)?;
        let began = Instant::now();
        // The kernel tries again when it will: whenever that is, the lease was extended just before.
        while !stage.proxies.iter().all(lost) && began.elapsed() < TRIED_AGAIN {
            lease.blocking_extend().ok()?;
            std::thread::sleep(200 * MS);
        }
        println!("the kernel has tried again after {:?}", began.elapsed());
        Some(lease)
    });
    // Also where this is tried once more.
    eventually("the servers have got it", SOON, || stage.proxies.iter().all(lost));
    let lease = lease?;
    Some(stage.look_on(resource, &of(&lease), SOON))
}
