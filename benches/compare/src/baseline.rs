//! The baseline for a change of structure: the server's time, bytes and commands of each operation for each kind of
//! lease, and what the client pays for it. One server, so that each operation is one script there.
//!
//! It measures, and judges nothing. Server time is that of scripts in `INFO commandstats`. It depends on the machine,
//! so only figures of alternating runs are comparable. Bytes and commands do not depend on it.

use std::{collections::BTreeMap, future::Future, time::Duration};

use futures::future::{BoxFuture, join_all};
use quorlock::{Lease, Permit, ReadLease, Redlock};
use quorlock_harness::Server;
use serde_json::{Value, json};

use crate::{
    contenders::{TTL, fenced, three},
    cpu,
    waiting::resident,
};

/// The number of each operation.
const TIMES: usize = 2_000;
const DENIALS: usize = 500;
const HAND_OVERS: usize = 300;
const HELD: usize = 5_000;
const PERMITS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    One,
    Three,
    Permit,
    Read,
}

const KINDS: [(&str, Kind); 4] =
    [("one", Kind::One), ("three", Kind::Three), ("permit", Kind::Permit), ("read", Kind::Read)];

enum Held {
    Lease(Lease),
    Permit(Permit),
    Read(ReadLease),
}

impl Held {
    async fn release(self) {
        let released = match self {
            Self::Lease(lease) => lease.release().await,
            Self::Permit(permit) => permit.release().await,
            Self::Read(lease) => lease.release().await,
        };
        released.expect("a server that answers");
    }
}

impl Kind {
    /// One round, or, if it waits, until it is granted.
    fn ask(self, redlock: &Redlock, name: &str, waits: bool) -> BoxFuture<'static, Asked> {
        macro_rules! held {
            ($what:ident, $once:expr, $waiting:expr) => {{
                let asked = if waits { $waiting.wait(PATIENCE) } else { $once };
                let asked = asked.ttl(TTL).into_future();
                Box::pin(
                    async move { asked.await.map(Held::$what).map_err(|error| error.to_string()) },
                )
            }};
        }
        match self {
            Self::One => held!(Lease, redlock.try_acquire(name), redlock.acquire(name)),
            Self::Three => {
                let names = three(name);
                held!(Lease, redlock.try_acquire_all(&names), redlock.acquire_all(&names))
            }
            Self::Read => held!(Read, redlock.try_read(name), redlock.read(name)),
            Self::Permit => {
                let permits = redlock.semaphore(name, PERMITS).expect("so many are few");
                held!(Permit, permits.try_acquire(), permits.acquire())
            }
        }
    }

    /// Takes all permits or locks of it, so that the next is denied.
    async fn fill(self, redlock: &Redlock, name: &str) -> Vec<Held> {
        let (kind, many) = match self {
            Self::Read => (Self::One, 1),
            Self::Permit => (Self::Permit, PERMITS),
            kind => (kind, 1),
        };
        let all = join_all((0..many).map(|_| kind.ask(redlock, name, false))).await;
        all.into_iter().map(|held| held.expect("nobody else is here")).collect()
    }
}

type Asked = Result<Held, String>;

/// What the server has counted.
#[derive(Clone, Copy)]
struct Counted {
    micros: u64,
    calls: u64,
    bytes_in: u64,
    bytes_out: u64,
}

fn counted(server: &Server) -> Counted {
    let text = |section| -> String {
        redis::from_redis_value(server.run(&["INFO", section])).expect("a text")
    };
    let (commands, stats) = (text("commandstats"), text("stats"));
    let field = |text: &str, name: &str| -> u64 {
        let at = text.split_once(name).map(|(_, rest)| rest);
        let digits = at.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        digits.flatten().and_then(|digits| digits.parse().ok()).unwrap_or_default()
    };
    let script = |name: &str| {
        let line = commands.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        (field(line, "calls="), field(line, "usec="))
    };
    let all = ["cmdstat_evalsha:", "cmdstat_eval:"].map(script);
    Counted {
        calls: all.iter().map(|(calls, _)| calls).sum(),
        micros: all.iter().map(|(_, micros)| micros).sum(),
        bytes_in: field(&stats, "total_net_input_bytes:"),
        bytes_out: field(&stats, "total_net_output_bytes:"),
    }
}

/// Does something so many times, and says what each cost the server.
async fn each<T>(server: &Server, times: usize, work: impl Future<Output = T>) -> (T, Value) {
    let before = counted(server);
    let done = work.await;
    let after = counted(server);
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let per = |of: fn(&Counted) -> u64| (of(&after) - of(&before)) as f64 / times as f64;
    let round = |number: f64| (number * 100.0).round() / 100.0;
    let told = json!({
        "us": round(per(|it| it.micros)),
        "scripts": round(per(|it| it.calls)),
        "bytes in": round(per(|it| it.bytes_in)),
        "bytes out": round(per(|it| it.bytes_out)),
    });
    (done, told)
}

async fn connect(server: &Server) -> Redlock {
    fenced(&[server.url()]).connect().await.expect("a server that may vote")
}

async fn of_kind(server: &Server, kind: Kind, name: &str) -> Value {
    let redlock = connect(server).await;
    let mut told = BTreeMap::new();
    let fresh = |number: usize| format!("baseline:{name}:{number}");
    // The texts are there, and buffers have grown.
    for number in 0..100 {
        if let Ok(held) = kind.ask(&redlock, &fresh(TIMES + number), false).await {
            held.release().await;
        }
    }
    let (held, acquire) = each(server, TIMES, async {
        let mut all = Vec::with_capacity(TIMES);
        for number in 0..TIMES {
            all.push(kind.ask(&redlock, &fresh(number), false).await.expect("it is free"));
        }
        all
    })
    .await;
    told.insert("acquire", acquire);
    let ((), release) = each(server, TIMES, async {
        for held in held {
            held.release().await;
        }
    })
    .await;
    told.insert("release", release);
    for (waiters, denial, hand_over) in [
        (0, "denial", ""),
        (1, "denial, 1 waits", "hand-over, 1 waits"),
        (16, "denial, 16 wait", "hand-over, 16 wait"),
    ] {
        let name = format!("baseline:{name}:busy:{waiters}");
        let full = kind.fill(&redlock, &name).await;
        let waiting = join_all((0..waiters).map(|_| connect(server))).await;
        let all = waiting.iter().map(|client| {
            let (client, name) = (client.clone(), name.clone());
            // Each comes back, until there were enough hand-overs.
            tokio::spawn(async move {
                for _ in 0..HAND_OVERS / waiters.max(1) {
                    let held = kind.ask(&client, &name, true).await.expect("its turn comes");
                    held.release().await;
                }
            })
        });
        let all: Vec<_> = all.collect();
        stand(server, waiters).await;
        let stranger = connect(server).await;
        let ((), cost) = each(server, DENIALS, async {
            for _ in 0..DENIALS {
                assert!(kind.ask(&stranger, &name, false).await.is_err(), "it is held");
            }
        })
        .await;
        told.insert(denial, cost);
        let ((), cost) = each(server, HAND_OVERS / waiters.max(1) * waiters.max(1), async {
            join_all(full.into_iter().map(Held::release)).await;
            for one in join_all(all).await {
                one.expect("a waiter to its end");
            }
        })
        .await;
        if waiters > 0 {
            told.insert(hand_over, cost);
        }
    }
    json!(told)
}

/// Until so many stand in a line.
async fn stand(server: &Server, waiters: usize) {
    let stands = || -> usize {
        let lines = server.run(&["KEYS", "quorlock:line:*"]);
        let lines: Vec<String> = redis::from_redis_value(lines).expect("names");
        let of = |line: &String| -> usize {
            redis::from_redis_value(server.run(&["ZCARD", line])).expect("a number")
        };
        lines.iter().map(of).max().unwrap_or_default()
    };
    while waiters > 0 && stands() < waiters {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What the client pays: processor time by pair, and memory by lease that is held.
async fn of_client(server: &Server) -> Value {
    let redlock = connect(server).await;
    let before = resident().unwrap_or_default();
    let mut held = Vec::with_capacity(HELD);
    for number in 0..HELD {
        let name = format!("baseline:held:{number}");
        held.push(Kind::One.ask(&redlock, &name, false).await.expect("it is free"));
    }
    let bytes =
        resident().unwrap_or_default().saturating_sub(before) / u64::try_from(HELD).unwrap_or(1);
    join_all(held.into_iter().map(Held::release)).await;
    let before = cpu::used();
    for number in 0..TIMES {
        let name = format!("baseline:client:{number}");
        Kind::One.ask(&redlock, &name, false).await.expect("it is free").release().await;
    }
    let pair = (cpu::used() - before) / u32::try_from(TIMES).unwrap_or(1);
    json!({ "us of a processor by pair": pair.as_micros() as u64, "bytes by lease": bytes })
}

/// All of it, as JSON.
pub(crate) async fn measure() -> Value {
    let server = Server::start();
    // First, while no memory of the process is free to be used again.
    let client = of_client(&server).await;
    let mut kinds = BTreeMap::new();
    for (name, kind) in KINDS {
        kinds.insert(name, of_kind(&server, kind, name).await);
    }
    json!({ "kinds": kinds, "client": client })
}
