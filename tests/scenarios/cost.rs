//! Goal: fencing and admission cost no round trip, and renewal is cheap.
//!
//! Method: the commands that the servers have counted, and the CPU time of this process. `QUORLOCK_HELD` and
//! `QUORLOCK_HELD_SECONDS` set how many leases are held, and for how long.

use std::time::{Duration, Instant};

use quorlock::{Lease, Redlock};
use quorlock_harness::{Cluster, Server, eventually};

use super::{MS, SECOND, SOON, admitted, ready, settings};

const NODES: usize = 5;

fn calls(cluster: &Cluster, command: &str) -> Vec<u64> {
    cluster.iter().map(|server| server.command_calls(command)).collect()
}

fn more(before: &[u64], by: u64) -> Vec<u64> {
    before.iter().map(|calls| calls + by).collect()
}

#[test]
fn an_acquire_is_one_command_to_each_node_and_a_release_another() {
    const ACQUIRES: u64 = 100;
    let cluster = admitted(NODES, 120 * SECOND);
    let redlock = ready(settings(&cluster, 120 * SECOND));
    // Another client loads the scripts, and leaves nothing under way.
    let other = ready(settings(&cluster, 120 * SECOND));
    other.acquire("warm").blocking().unwrap().blocking_release().unwrap();
    other.blocking_close().unwrap();
    let began = Instant::now();
    let (evalsha, eval) = (calls(&cluster, "evalsha"), calls(&cluster, "eval"));
    // Every ten seconds it looks at each node, by a script too.
    let as_many = |acquires_and_releases: u64| {
        let looks = began.elapsed().as_secs() / 10 + 1;
        calls(&cluster, "evalsha").into_iter().zip(&evalsha).all(|(now, before)| {
            (acquires_and_releases..=acquires_and_releases + looks).contains(&(now - before))
        })
    };
    let (set, hset) = (calls(&cluster, "set"), calls(&cluster, "hset"));
    let leases: Vec<Lease> = (0..ACQUIRES)
        .map(|n| redlock.acquire(format!("r{n}")).without_renewal().blocking().unwrap())
        .collect();
    eventually("every node has them", SOON, || {
        leases.iter().all(|lease| cluster.iter().all(|server| super::has_key(server, lease)))
    });
    assert!(as_many(ACQUIRES), "no confirm, no second round: {:?}", calls(&cluster, "evalsha"));
    assert_eq!(calls(&cluster, "set"), more(&set, ACQUIRES), "the key");
    for (now, before) in calls(&cluster, "hset").into_iter().zip(hset) {
        let counters = now - before;
        assert!((ACQUIRES..ACQUIRES + 3).contains(&counters), "its counter: {counters}");
    }
    for lease in leases {
        lease.blocking_release().unwrap();
    }
    redlock.blocking_close().unwrap();
    assert!(as_many(2 * ACQUIRES), "{:?}", calls(&cluster, "evalsha"));
    assert_eq!(calls(&cluster, "eval"), eval, "never in full");
}

/// How many scripts the server's log of commands has, whose arguments have the key.
fn scripts_with_key(server: &Server, key: &str) -> usize {
    type Entry =
        (redis::Value, redis::Value, redis::Value, Vec<String>, redis::Value, redis::Value);
    let log = server.run(&["SLOWLOG", "GET", "1000"]);
    let log: Vec<Entry> = redis::from_redis_value(log).unwrap();
    let commands = log.iter().map(|(_, _, _, arguments, _, _)| arguments);
    commands.filter(|command| command[0] == "EVALSHA" && command.iter().any(|a| a == key)).count()
}

#[test]
fn a_refused_acquire_is_one_command_and_its_undoing_at_most() {
    let cluster = admitted(NODES, 10 * SECOND);
    let holder = ready(settings(&cluster, 10 * SECOND));
    let held = holder.acquire("r").without_renewal().blocking().unwrap();
    let redlock = ready(settings(&cluster, 10 * SECOND));
    eventually("every node has it", SOON, || {
        cluster.iter().all(|server| super::has_key(server, &held))
    });
    // Scripts that look at the nodes may still run: those of the resource are counted.
    for server in cluster.iter() {
        server.run(&["CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "1000"]);
    }
    assert!(redlock.try_acquire("r").blocking().unwrap_err().is_contended());
    redlock.blocking_close().unwrap();
    for server in cluster.iter() {
        let scripts = scripts_with_key(server, "r");
        assert!((1..=2).contains(&scripts), "{scripts}");
    }
    assert!(cluster.iter().all(|server| super::has_key(server, &held)));
}

/// The CPU time of this process so far, in all its threads.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The name of the program stands in parentheses, and may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// What keeping leases cost.
struct Cost {
    cpu: Duration,
    scripts: u64,
    took: Duration,
}

impl Cost {
    fn of(cluster: &Cluster, what: &str, work: impl FnOnce()) -> Self {
        let scripts = |cluster: &Cluster| calls(cluster, "evalsha").iter().sum::<u64>();
        let processed = |server: &Server| -> u64 {
            let info = server.run(&["INFO", "stats"]);
            let info: String = redis::from_redis_value(info).unwrap();
            let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
            line.unwrap().trim().parse().unwrap()
        };
        let commands = |cluster: &Cluster| cluster.iter().map(processed).sum::<u64>();
        let (start, cpu) = (Instant::now(), cpu_time());
        let (scripts_before, commands_before) = (scripts(cluster), commands(cluster));
        work();
        let cost = Self {
            cpu: cpu_time() - cpu,
            scripts: scripts(cluster) - scripts_before,
            took: start.elapsed(),
        };
        let per_second = |count: u64| {
            count * 1000 / u64::try_from(cost.took.as_millis()).unwrap() / NODES as u64
        };
        println!(
            "{what}: {:?} of CPU in {:?}; per node and second {} requests, {} commands with those inside scripts",
            cost.cpu,
            cost.took,
            per_second(cost.scripts),
            per_second(commands(cluster) - commands_before),
        );
        cost
    }
}

fn hold(redlock: &Redlock, leases: usize, renewed: bool) -> Vec<Lease> {
    (0..leases)
        .map(|n| {
            let request = redlock.acquire(format!("r{n}")).wait(SOON);
            let request = if renewed { request } else { request.without_renewal() };
            request.blocking().unwrap()
        })
        .collect()
}

fn all_held(leases: &[Lease]) {
    for lease in leases {
        lease.check().unwrap_or_else(|lost| panic!("{}: {lost}", lease.resource()));
    }
}

#[test]
fn renewals_share_their_commands_and_no_lease_is_lost() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |n| n.parse().unwrap());
    let held = number("QUORLOCK_HELD", 1000);
    let duration = Duration::from_secs(number("QUORLOCK_HELD_SECONDS", 5) as u64);
    // Long enough that no lease ends while the others are still being acquired.
    let ttl = if held > 2000 { 30 * SECOND } else { 3 * SECOND };
    // One by one a busy machine may need longer than the ttl for all of them.
    let max_ttl = 30 * SECOND;
    let cluster = admitted(NODES, max_ttl);
    let settings = || settings(&cluster, max_ttl).node_timeout(SECOND);
    let client = |ttl| ready(settings().close_timeout(20 * SECOND).ttl(ttl));
    let redlock = client(ttl);
    let leases = hold(&redlock, held, true);
    let together = Cost::of(&cluster, &format!("{held} leases of {ttl:?} renewed"), || {
        let start = Instant::now();
        while start.elapsed() < duration {
            all_held(&leases);
            std::thread::sleep(100 * MS);
        }
    });
    all_held(&leases);
    drop(leases);
    redlock.blocking_close().unwrap();

    let redlock = client(max_ttl);
    let leases = hold(&redlock, held, false);
    let alone =
        Cost::of(&cluster, &format!("{held} leases of {ttl:?} extended one by one"), || {
            let start = Instant::now();
            // As often as the renewal does it: every third of the ttl.
            while start.elapsed() < duration {
                let round = Instant::now();
                for lease in &leases {
                    futures::executor::block_on(lease.extend()).unwrap();
                }
                std::thread::sleep((ttl / 3).saturating_sub(round.elapsed()));
            }
        });
    all_held(&leases);
    drop(leases);
    redlock.blocking_close().unwrap();
    assert!(together.scripts > 0, "they were renewed");
    let rate = |cost: &Cost| cost.scripts as f64 / cost.took.as_secs_f64();
    println!(
        "one by one costs {:.1} times the requests and {:.1} times the CPU",
        rate(&alone) / rate(&together),
        alone.cpu.as_secs_f64()
            / alone.took.as_secs_f64()
            / (together.cpu.as_secs_f64() / together.took.as_secs_f64()).max(1e-9),
    );
    assert!(rate(&alone) > 5.0 * rate(&together), "renewals travel together");
    assert!(alone.cpu > together.cpu, "and cost less");
}
