//! The part of a worker process: this binary, run again with a hidden argument, which takes orders line by line.
//!
//! It ends with its input, whatever it is doing, so that none outlives the process that started it.

mod hot;
mod pairs;
mod queue;
mod rounds;

use std::{
    collections::HashMap,
    io::{BufRead as _, Write as _},
    process::{self, ExitCode},
    sync::{Arc, Mutex, PoisonError, mpsc},
};

use super::{
    locker::{self, Held, Locker},
    orders::Order,
    own,
    who::Who,
};

/// The hidden argument; after it the contender, how many sets of connections, the servers, and perhaps `rounds`.
pub(super) const ARGUMENT: &str = "--worker";

/// What the orders work on.
struct Worker {
    lockers: Vec<Arc<dyn Locker>>,
    held: Mutex<HashMap<usize, Held>>,
    answers: mpsc::Sender<String>,
}

/// Takes orders up to the end of the input.
pub(crate) fn serve(args: &[String]) -> ExitCode {
    let [who, clients, urls, rest @ ..] = args else { return ExitCode::FAILURE };
    let (Ok(who), Ok(clients)) = (who.parse::<Who>(), clients.parse()) else {
        return ExitCode::FAILURE;
    };
    if rest.iter().any(|word| word == "rounds") {
        rounds::count();
    }
    let urls: Vec<_> = urls.split(',').map(str::to_owned).collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a tokio runtime");
    // A writer of its own, so that no task waits for the pipe.
    let (answers, lines) = mpsc::channel::<String>();
    std::thread::spawn(move || {
        let mut output = std::io::stdout().lock();
        for line in lines {
            if writeln!(output, "{line}").and_then(|()| output.flush()).is_err() {
                process::exit(0);
            }
        }
    });
    let lockers = runtime.block_on(locker::connect(who, clients, &urls));
    let worker = Arc::new(Worker { lockers, held: Mutex::default(), answers });
    worker.say("ready");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.parse() {
            Ok(order) => drop(runtime.spawn(Arc::clone(&worker).carry_out(order))),
            Err(error) => worker.say(format!("failed {error}")),
        }
    }
    // Threads that block in a library would be waited for.
    process::exit(0)
}

impl Worker {
    fn say(&self, line: impl Into<String>) {
        let _ = self.answers.send(line.into());
    }

    fn number(&self, name: &str, value: f64) {
        self.say(format!("number {name} {value}"));
    }

    fn locker(&self, slot: usize) -> &Arc<dyn Locker> {
        &self.lockers[slot % self.lockers.len()]
    }

    async fn carry_out(self: Arc<Self>, order: Order) {
        let outcome = match order {
            Order::Take { slot, resource } => self.take(slot, &resource).await,
            Order::Give { slot } => self.give(slot).await,
            Order::Hot(hot) => {
                Arc::clone(&self).hot(hot).await;
                self.say("done");
                Ok(())
            }
            Order::Queue { waiters, resource, limit } => {
                let outcome = self.queue(waiters, &resource, limit).await;
                self.say("done");
                outcome
            }
            Order::Pairs { resource, from, until } => {
                let outcome = self.pairs(&resource, from, until).await;
                self.say("done");
                outcome
            }
        };
        if let Err(error) = outcome {
            self.say(format!("failed {error}"));
        }
    }

    async fn take(&self, slot: usize, resource: &str) -> Result<(), String> {
        let asked = own::now();
        let held = self.locker(slot).lock(resource).await?;
        let got = own::now();
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(slot, held);
        self.say(format!("got {slot} {asked} {got}"));
        Ok(())
    }

    async fn give(&self, slot: usize) -> Result<(), String> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&slot);
        let held = held.ok_or_else(|| format!("{slot} holds nothing"))?;
        let called = own::now();
        held().await?;
        let done = own::now();
        // A task that was woken on this thread goes on before this answer is sent.
        tokio::task::yield_now().await;
        self.say(format!("gave {slot} {called} {done}"));
        Ok(())
    }
}
