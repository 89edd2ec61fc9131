//! What each operation sends to a server, as the server counts it; and what it allocates on the way there.
//!
//! Commands and bytes are the same in each run, but for an extension: whether a key needs a longer life hangs on a millisecond.

use allocation_counter::measure;
use quorlock::{Redlock, runtime::TokioRuntime};
use quorlock_harness::{Cluster, Server, all_ready, eventually, redis};

use super::{Figure, NODES, Operation, SECOND, admitted, as_written, settings};

/// What one server has counted.
#[derive(Clone, Copy, Debug)]
struct Counted {
    scripts: f64,
    commands: f64,
    input: f64,
    output: f64,
}

impl Counted {
    fn of(server: &Server) -> Self {
        let scripts = server.command_calls("evalsha") + server.command_calls("eval");
        let info: String = redis::from_redis_value(server.run(&["INFO", "stats"])).unwrap();
        let number = |name: &str| -> f64 {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim_start_matches(':').trim().parse().unwrap()
        };
        Self {
            #[allow(clippy::cast_precision_loss, reason = "they are small")]
            scripts: scripts as f64,
            commands: number("total_commands_processed"),
            input: number("total_net_input_bytes"),
            output: number("total_net_output_bytes"),
        }
    }

    fn times(self, times: f64) -> Self {
        Self {
            scripts: self.scripts * times,
            commands: self.commands * times,
            input: self.input * times,
            output: self.output * times,
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            scripts: self.scripts - before.scripts,
            commands: self.commands - before.commands,
            input: self.input - before.input,
            output: self.output - before.output,
        }
    }
}

/// A client on the thread of the caller, who is in a runtime with this thread alone.
async fn here(cluster: &Cluster) -> Redlock {
    let builder = settings(cluster).runtime(TokioRuntime::current().unwrap());
    let redlock = builder.connect().await.unwrap();
    redlock.ready(20 * SECOND).await.unwrap();
    all_ready(&redlock);
    redlock
}

#[track_caller]
fn operations(operation: Operation, written: [f64; 6]) {
    const PARTS: u32 = 6;
    const TIMES: u32 = 20;
    let cluster = admitted();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (redlock, other) = runtime.block_on(async { (here(&cluster).await, here(&cluster).await) });
    let times = |times| {
        runtime.block_on(async {
            for _ in 0..times {
                operation.run(&redlock, &other).await;
            }
        });
    };
    // Says how often it has asked.
    let settled = || {
        let mut asked = 0.0;
        eventually("every server has had all of it", 20 * SECOND, || {
            // The engine runs here.
            runtime.block_on(async { tokio::time::sleep(SECOND / 100).await });
            asked += 1.0;
            cluster.locks_left().is_empty()
        });
        asked
    };
    // The scripts are loaded, and tables have grown.
    times(20);
    settled();
    let all = || cluster.iter().map(Counted::of).collect::<Vec<_>>();
    // Each node is looked at every few seconds; the least of several parts is without such a look.
    let mut least = [[f64::INFINITY; 6]; NODES];
    for _ in 0..PARTS {
        // What it costs to read the counts, and to ask once whether there are any locks.
        let (first, second) = (all(), all());
        assert!(cluster.locks_left().is_empty());
        let before = all();
        let allocated = measure(|| times(TIMES));
        let asked = settled();
        for (server, now) in all().iter().enumerate() {
            let reading = second[server].since(first[server]);
            let asking = before[server].since(second[server]).since(reading);
            let more = now.since(before[server]).since(reading).since(asking.times(asked));
            #[allow(clippy::cast_precision_loss, reason = "they are small")]
            let allocated = [allocated.count_total as f64, allocated.bytes_total as f64];
            let [count, total] = allocated;
            let part = [more.scripts, more.commands, more.input, more.output, count, total];
            for (least, is) in least[server].iter_mut().zip(part) {
                *least = least.min(is / f64::from(TIMES));
            }
        }
    }
    for (server, is) in least.iter().enumerate() {
        let names =
            ["scripts", "commands", "bytes in", "bytes out", "allocations", "bytes allocated"];
        let percents = [0.0, 5.0, 5.0, 15.0, 15.0, 15.0];
        let figures: [Figure; 6] = std::array::from_fn(|at| {
            let (name, percent) = (names[at], percents[at]);
            Figure { name, is: is[at], written: written[at], percent }
        });
        as_written(&format!("{operation:?}, server {server}"), &figures);
    }
    runtime.block_on(async {
        redlock.close().await.unwrap();
        other.close().await.unwrap();
    });
}

macro_rules! costs {
    ($($name:ident: $operation:ident $written:expr;)+) => {$(
        #[test]
        fn $name() {
            operations(Operation::$operation, $written);
        }
    )+};
}

costs! {
    a_lease_sends_what_is_written: Lease [2.0, 10.0, 525.0, 23.0, 86.0, 20_830.0];
    an_extension_sends_what_is_written: Extended [3.0, 15.4, 787.0, 54.0, 150.5, 33_290.0];
    a_set_sends_what_is_written: Set [2.0, 14.0, 720.0, 23.0, 118.5, 25_860.0];
    a_permit_sends_what_is_written: Permit [2.0, 11.0, 695.0, 23.0, 144.0, 27_070.0];
    a_reader_sends_what_is_written: Read [2.0, 12.0, 567.0, 129.0, 103.0, 23_950.0];
}
