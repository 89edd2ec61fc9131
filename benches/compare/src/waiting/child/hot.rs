//! Many tasks that want the same few resources, hold each for a while, and come again at once.

use std::{sync::Arc, time::Duration};

use super::{Worker, rounds};
use crate::{
    cpu,
    waiting::{
        orders::Hot,
        own::{self, micros},
    },
};

/// A task that waits at the end may wait for this long beyond it.
const DRAIN: Duration = Duration::from_secs(3);

impl Worker {
    /// Runs the tasks to their end, and tells of each grant, of processor time and of errors.
    pub(super) async fn hot(self: Arc<Self>, hot: Hot) {
        let task = |task| tokio::spawn(Arc::clone(&self).fight(task, hot.clone()));
        let tasks: Vec<_> = (0..hot.tasks).map(task).collect();
        tokio::time::sleep(own::until(hot.from)).await;
        let (before, rounds_before) = (cpu::used(), rounds::so_far());
        tokio::time::sleep(own::until(hot.until)).await;
        let (used, rounds) = (cpu::used() - before, rounds::so_far());
        for task in tasks {
            if let Err(panic) = task.await {
                self.say(format!("failed {panic}"));
            }
        }
        self.number("cpu", used.as_secs_f64() * 1e6);
        for (name, count, before) in [
            ("rounds_won", rounds.won, rounds_before.won),
            ("rounds_split", rounds.split, rounds_before.split),
            ("rounds_denied", rounds.denied, rounds_before.denied),
        ] {
            self.number(name, f64::from(count - before));
        }
    }

    async fn fight(self: Arc<Self>, task: usize, hot: Hot) {
        let locker = Arc::clone(self.locker(task));
        let resource = format!("{}:{}", hot.prefix, task % hot.resources);
        let hold = Duration::from_micros(hot.hold);
        loop {
            let asked = own::now();
            if asked >= hot.until {
                return;
            }
            let asking =
                tokio::time::timeout(own::until(hot.until) + DRAIN, locker.lock(&resource));
            let held = match asking.await {
                Ok(Ok(held)) => held,
                Ok(Err(error)) => {
                    self.say(format!("failed {error}"));
                    return;
                }
                Err(_) => {
                    self.number("starved", micros(own::now() - asked));
                    return;
                }
            };
            let got = own::now();
            // The timers of tokio go by the millisecond. One thread sleeps at a time: the others wait.
            let _ = tokio::task::spawn_blocking(move || std::thread::sleep(hold)).await;
            let called = own::now();
            if let Err(error) = held().await {
                self.say(format!("failed {error}"));
            }
            self.say(format!("grant {task} {asked} {got} {called}"));
        }
    }
}
