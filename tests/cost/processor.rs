//! Processor time of a lease beside that of a bare fan-out with as many commands to the same servers.
//!
//! Both run on one thread, engine and connections with them, in small turns; of all turns the median counts. Whatever else
//! the machine does takes its time from both.

use std::time::Duration;

use futures::future::join_all;
use quorlock::runtime::TokioRuntime;
use quorlock_harness::redis::{self, aio::MultiplexedConnection};
use rustix::time::{ClockId, clock_gettime};

use super::{SECOND, admitted, lease, settings};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// The processor time of this thread.
fn spent() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.try_into().unwrap(), spent.tv_nsec.try_into().unwrap())
}

/// What any lock must do: the key set on all servers, and deleted by a script where it is one's own.
async fn fan_out(connections: &[MultiplexedConnection], sha: &str) {
    let mut set = redis::cmd("SET");
    set.arg("bare:42").arg("0123456789abcdef0123456789abcdef").arg("NX").arg("PX").arg(60_000);
    let mut delete = redis::cmd("EVALSHA");
    delete.arg(sha).arg(1).arg("bare:42").arg("0123456789abcdef0123456789abcdef");
    for command in [set, delete] {
        let sent = connections.iter().cloned().map(|mut connection| {
            let command = &command;
            async move { connection.send_packed_command(command).await }
        });
        for answer in join_all(sent).await {
            let answer = answer.unwrap();
            assert!(matches!(answer, redis::Value::Okay | redis::Value::Int(1)), "{answer:?}");
        }
    }
}

#[test]
fn a_lease_takes_the_processor_time_of_so_many_bare_fan_outs() {
    const TURNS: usize = 41;
    const IN_A_TURN: usize = 8;
    /// It takes twice as much as a bare fan-out, whether or not the machine is busy.
    const MOST: f64 = 2.5;
    let cluster = admitted();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut ratios = runtime.block_on(async {
        let builder = settings(&cluster).runtime(TokioRuntime::current().unwrap());
        let redlock = builder.connect().await.unwrap();
        redlock.ready(20 * SECOND).await.unwrap();
        let (mut connections, mut sha) = (Vec::new(), String::new());
        for url in cluster.urls() {
            let client = redis::Client::open(url).unwrap();
            let mut connection = client.get_multiplexed_async_connection().await.unwrap();
            let load = redis::cmd("SCRIPT").arg("LOAD").arg(RELEASE).to_owned();
            sha = load.query_async(&mut connection).await.unwrap();
            connections.push(connection);
        }
        let mut ratios = Vec::new();
        for _ in 0..TURNS {
            let began = spent();
            for _ in 0..IN_A_TURN {
                fan_out(&connections, &sha).await;
            }
            let bare = spent();
            for _ in 0..IN_A_TURN {
                lease(&redlock).await;
            }
            ratios.push((spent() - bare).as_secs_f64() / (bare - began).as_secs_f64());
        }
        redlock.close().await.unwrap();
        ratios
    });
    ratios.sort_by(f64::total_cmp);
    let [low, median, high] = [TURNS / 10, TURNS / 2, TURNS - 1 - TURNS / 10].map(|at| ratios[at]);
    println!("a lease takes {median:.2} times a bare fan-out ({low:.2} to {high:.2})");
    assert!(median <= MOST, "a lease takes {median:.2} times a bare fan-out, at most {MOST}");
}
