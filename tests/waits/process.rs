//! A waiter in a process of its own: this test binary, run again, that does what it is told line by line.
//!
//! | order | what it does |
//! | --- | --- |
//! | `acquire ID` | waits for the resource, and holds it until it is told to release |
//! | `permit ID`, `set ID` | the same of a semaphore of one permit, and of the resource together with another one |
//! | `release ID` | releases what that acquire got |
//! | `linger ID MS` | takes it, and releases it at once, so that it lingers for so long |
//! | `work TASKS HOLD_US` | so many tasks acquire, hold for so long and release, over and over |
//!
//! It says each thing that happens in a line, with the time of a clock that all processes of the machine share. It ends with
//! its input. It judges nothing.

use std::{
    collections::HashMap,
    fmt,
    future::{Future, IntoFuture as _, poll_fn},
    pin::pin,
    str::FromStr,
    time::Duration,
};

use futures::{FutureExt as _, TryFutureExt as _, future::LocalBoxFuture};
use quorlock::{AcquireError, Lease, Permit, Redlock};
use tokio::{
    sync::{mpsc, oneshot},
    task::LocalSet,
};

use super::{RESOURCE, settings};

/// The variable that tells a process its part.
pub(crate) const PART: &str = "QUORLOCK_WAITS_PART";
/// The test that plays it.
pub(crate) const TEST: &str = "process::lines_survive_and_half_a_line_is_none";

/// Before each line, so that those of the test runner are not taken for one.
const PREFIX: &str = "waits-event";

/// The time since the machine was started.
pub(crate) fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    /// It is connected.
    Ready,
    /// The request of this number is under way.
    Asked(usize),
    Granted {
        id: usize,
        token: u64,
        at: Duration,
    },
    /// Just before it is released.
    Ended {
        id: usize,
        at: Duration,
    },
    Failed {
        id: usize,
        text: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => write!(f, "{PREFIX} ready"),
            Self::Asked(id) => write!(f, "{PREFIX} asked {id}"),
            Self::Granted { id, token, at } => {
                write!(f, "{PREFIX} granted {id} {token} {}", at.as_nanos())
            }
            Self::Ended { id, at } => write!(f, "{PREFIX} ended {id} {}", at.as_nanos()),
            Self::Failed { id, text } => write!(f, "{PREFIX} failed {id} {text}"),
        }
    }
}

impl FromStr for Event {
    type Err = ();

    /// Anything else than such a line is an error.
    fn from_str(line: &str) -> Result<Self, ()> {
        let number = |word: &str| word.parse().map_err(drop);
        let time = |word: &str| word.parse().map(Duration::from_nanos).map_err(drop);
        match *line.splitn(4, ' ').collect::<Vec<_>>() {
            [PREFIX, "ready"] => Ok(Self::Ready),
            [PREFIX, "asked", id] => Ok(Self::Asked(number(id)?)),
            [PREFIX, "granted", id, rest] => {
                let (token, at) = rest.split_once(' ').ok_or(())?;
                let token = token.parse().map_err(drop)?;
                Ok(Self::Granted { id: number(id)?, token, at: time(at)? })
            }
            [PREFIX, "ended", id, at] => Ok(Self::Ended { id: number(id)?, at: time(at)? }),
            [PREFIX, "failed", id, text] => {
                Ok(Self::Failed { id: number(id)?, text: text.to_owned() })
            }
            _ => Err(()),
        }
    }
}

/// What a process is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Part {
    pub(crate) nodes: Vec<String>,
    /// Of every lease.
    pub(crate) ttl: Duration,
}

impl Part {
    pub(crate) fn to_text(&self) -> String {
        format!("{} {}", self.ttl.as_millis(), self.nodes.join(","))
    }

    fn from_text(text: &str) -> Self {
        let (ttl, nodes) = text.split_once(' ').expect("a part");
        Self {
            nodes: nodes.split(',').map(str::to_owned).collect(),
            ttl: Duration::from_millis(ttl.parse().unwrap()),
        }
    }
}

/// What a request is answered.
type Asked = Result<Lease, AcquireError>;

/// The runner may have begun a line.
fn say(event: &Event) {
    println!("\n{event}");
}

/// Acquires, says so, and gives the lease; or says why not.
async fn acquire(request: impl Future<Output = Asked>, id: usize) -> Option<Lease> {
    let mut acquiring = pin!(request);
    let mut first = true;
    let answer = poll_fn(|cx| {
        let answer = acquiring.as_mut().poll(cx);
        // The test waits for this event, also where the answer is there at once: a thread that stands still for a while
        // in this poll finds the nodes' answers before it returns.
        if std::mem::take(&mut first) {
            say(&Event::Asked(id));
        }
        answer
    });
    match answer.await {
        Ok(lease) => {
            let at = now();
            say(&Event::Granted { id, token: lease.token().unwrap().get(), at });
            Some(lease)
        }
        Err(error) => {
            say(&Event::Failed { id, text: error.to_string().replace('\n', " ") });
            None
        }
    }
}

async fn end(lease: Lease, id: usize) {
    say(&Event::Ended { id, at: now() });
    // Where a node has just been killed it may not be confirmed; the lease is over all the same.
    let _ = lease.release().await;
}

async fn hold(request: impl Future<Output = Asked>, id: usize, told: oneshot::Receiver<()>) {
    if let Some(lease) = acquire(request, id).await {
        let _ = told.await;
        end(lease, id).await;
    }
}

async fn work(redlock: Redlock, id: usize, hold: Duration) {
    while let Some(lease) = acquire(redlock.acquire(RESOURCE).into_future(), id).await {
        tokio::time::sleep(hold).await;
        end(lease, id).await;
    }
}

async fn play(part: Part, mut orders: mpsc::UnboundedReceiver<String>) {
    let redlock = settings(&part.nodes, part.ttl).connect().await.unwrap();
    redlock.ready(super::SOON).await.unwrap();
    say(&Event::Ready);
    let mut held = HashMap::new();
    while let Some(order) = orders.recv().await {
        match *order.split(' ').collect::<Vec<_>>() {
            [kind @ ("acquire" | "permit" | "set"), id] => {
                let id: usize = id.parse().unwrap();
                let (tell, told) = oneshot::channel();
                held.insert(id, tell);
                let request: LocalBoxFuture<'_, Asked> = match kind {
                    "permit" => {
                        let permit = redlock.semaphore(RESOURCE, 1).unwrap().acquire();
                        permit.into_future().map_ok(Permit::into_lease).boxed_local()
                    }
                    "set" => redlock.acquire_all([RESOURCE, "other"]).into_future().boxed_local(),
                    _ => redlock.acquire(RESOURCE).into_future().boxed_local(),
                };
                tokio::task::spawn_local(hold(request, id, told));
            }
            ["linger", id, time] => {
                let id: usize = id.parse().unwrap();
                let request = redlock.acquire(RESOURCE);
                let request = request.linger(Duration::from_millis(time.parse().unwrap()));
                let lease = acquire(request.into_future(), id).await.expect("it is free");
                lease.release().await.unwrap();
                say(&Event::Ended { id, at: now() });
            }
            ["release", id] => {
                let told = held.remove(&id.parse::<usize>().unwrap());
                told.expect("an acquire").send(()).unwrap();
            }
            ["work", tasks, hold] => {
                let hold = Duration::from_micros(hold.parse().unwrap());
                for id in 0..tasks.parse().unwrap() {
                    tokio::task::spawn_local(work(redlock.clone(), id, hold));
                }
            }
            _ => panic!("no order: {order}"),
        }
    }
    // Some nodes may be down at the end, and then a key stays for its ttl.
    let _ = redlock.shutdown().await;
}

/// Whether this process is one of those that wait; if so, it has played its part now.
fn played_a_part() -> bool {
    let Ok(part) = std::env::var(PART) else { return false };
    let (tell, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(LocalSet::new().run_until(play(Part::from_text(&part), orders)));
    true
}

#[test]
fn lines_survive_and_half_a_line_is_none() {
    if played_a_part() {
        return;
    }
    let at = Duration::from_nanos(3_000_000_000_333);
    let events = [
        Event::Ready,
        Event::Asked(7),
        Event::Granted { id: 7, token: 1_790_000_000_000_000, at },
        Event::Ended { id: 7, at },
        Event::Failed { id: 1, text: "somebody else holds it".to_owned() },
    ];
    for event in events {
        let line = event.to_string();
        assert_eq!(line.parse(), Ok(event));
        assert_eq!(line[1..].parse::<Event>(), Err(()));
    }
    assert_eq!(format!("{PREFIX} granted 7 17").parse::<Event>(), Err(()));
    let part = Part { nodes: vec!["redis://a".to_owned(), "redis://b".to_owned()], ttl: 3 * at };
    let part = Part { ttl: Duration::from_millis(9001), ..part };
    assert_eq!(Part::from_text(&part.to_text()), part);
}
