//! What each operation sends to a server, as the server counts it; and what it allocates on the way there.

use allocation_counter::measure;
use quorlock::{Redlock, runtime::TokioRuntime};
use quorlock_harness::{Cluster, Server, all_ready, eventually, redis};

use super::{Figure, Operation, SECOND, admitted, as_written, settings};

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
fn operations(
    operation: Operation,
    [scripts, commands, input, output, allocations, bytes]: [f64; 6],
) {
    const TIMES: u32 = 200;
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
    let settled = || {
        eventually("every server has had all of it", 20 * SECOND, || {
            // The engine runs here.
            runtime.block_on(async { tokio::time::sleep(SECOND / 100).await });
            cluster.locks_left().is_empty()
        });
    };
    // A run that takes long meets a few looks at the nodes, hence the percents of what is exact.
    // The scripts are loaded, and tables have grown.
    times(20);
    settled();
    let all = || cluster.iter().map(Counted::of).collect::<Vec<_>>();
    // What it costs to ask.
    let (first, before) = (all(), all());
    let allocated = measure(|| times(TIMES));
    settled();
    let after = all();
    for (server, now) in after.iter().enumerate() {
        let asking = before[server].since(first[server]);
        let by_one = |total: f64| total / f64::from(TIMES);
        let more = now.since(before[server]).since(asking);
        let figure =
            |name, total, written, percent| Figure { name, is: by_one(total), written, percent };
        #[allow(clippy::cast_precision_loss, reason = "they are small")]
        let figures = [
            figure("scripts", more.scripts, scripts, 4.0),
            figure("commands", more.commands, commands, 4.0),
            figure("bytes in", more.input, input, 5.0),
            figure("bytes out", more.output, output, 20.0),
            figure("allocations", allocated.count_total as f64, allocations, 15.0),
            figure("bytes allocated", allocated.bytes_total as f64, bytes, 15.0),
        ];
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
    a_lease_sends_what_is_written: Lease [2.0, 10.0, 525.0, 23.4, 84.0, 22_400.0];
    an_extension_sends_what_is_written: Extended [3.0, 15.5, 787.0, 54.4, 147.5, 37_700.0];
    a_set_sends_what_is_written: Set [2.0, 14.0, 720.0, 23.4, 118.5, 27_600.0];
    a_permit_sends_what_is_written: Permit [2.0, 11.0, 695.0, 23.4, 140.5, 29_300.0];
    a_reader_sends_what_is_written: Read [2.0, 12.0, 567.0, 129.4, 100.4, 24_900.0];
}
