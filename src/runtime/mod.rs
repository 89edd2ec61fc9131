//! The seam to everything that is not deterministic: time, sleep, tasks, randomness.
//!
//! It decides nothing. Only the files of this folder read a clock, sleep, spawn or draw randomness. The rest of the
//! crate reaches the outside only through [`Runtime`], or through a [`Node`](crate::node::Node).

mod arrivals;
mod blocking;
#[cfg(test)]
mod by_hand;
mod clock;
mod current;
#[cfg(feature = "testing")]
mod nudge;
mod process;
mod thread;
mod tokio;
#[cfg(feature = "testing")]
mod virtual_time;
mod wall;

use std::{fmt, future::Future, pin::Pin, sync::Arc};

#[cfg(test)]
pub(crate) use self::by_hand::ByHand;
#[cfg(feature = "testing")]
pub(crate) use self::virtual_time::VirtualTime;
pub(crate) use self::{
    blocking::block_on,
    clock::{system_now, system_wall_us},
    process::{Process, process_label},
};
pub use self::{current::CurrentRuntimeError, tokio::TokioRuntime};
use crate::protocol::Timestamp;

/// A task to run, or a sleep to await.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The source of a [`Redlock`](crate::Redlock)'s time, tasks and randomness.
///
/// The default is [`TokioRuntime::shared`]. [`Builder::runtime`](crate::Builder::runtime) sets another one, such as one
/// with virtual time in a simulation.
pub trait Runtime: Send + Sync + fmt::Debug + 'static {
    /// The current time. It never goes back, counts while the machine sleeps, and may err only by running ahead.
    fn now(&self) -> Timestamp;

    /// Like [`now`](Runtime::now), but with its own origin and without the wall-clock correction: it may lag real time,
    /// never lead it. It times quarantines and is compared with the nodes' clocks. The default returns `now`, which is
    /// right where `now` never runs ahead.
    fn steady(&self) -> Timestamp {
        self.now()
    }

    /// The wall clock, in microseconds since 1970. It is only a hint: fencing tokens start from it, and
    /// nothing breaks when it is wrong.
    fn wall_us(&self) -> u64;

    /// A future that ends when [`now`](Runtime::now) has reached `at`, or a little later.
    fn sleep_until(&self, at: Timestamp) -> Task;

    /// Runs a task in the background. Tasks of one runtime must not run in parallel, and this call must not poll them:
    /// the order in which they send is the order of the locks. It must work from any thread, inside or outside an
    /// asynchronous runtime.
    fn spawn(&self, task: Task);

    /// Whether the runtime will run the tasks it is given now. Return `false` where it is known that it will not, as in
    /// a forked child, which lacks the runtime's threads: requests then end with `RuntimeEnded` before they wait for
    /// anything. The default is `true`; a runtime that passes its tasks on to another asks that one.
    fn serves(&self) -> bool {
        true
    }

    /// Whether the calling thread is the one that runs the tasks. Blocking that thread would deadlock, so the blocking
    /// forms end with `WouldDeadlock` there. The default is `false`: not known.
    fn runs_here(&self) -> bool {
        false
    }

    /// Sixteen bytes from a cryptographic source; each owner is made of them. They must not repeat in a forked child,
    /// nor after a snapshot of the machine: draw them from the operating system each time.
    fn random(&self) -> [u8; 16];
}

/// Lets the caller keep the runtime that it gives to a [`Redlock`](crate::Redlock).
impl<R: Runtime + ?Sized> Runtime for Arc<R> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn steady(&self) -> Timestamp {
        (**self).steady()
    }

    fn wall_us(&self) -> u64 {
        (**self).wall_us()
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        (**self).sleep_until(at)
    }

    fn spawn(&self, task: Task) {
        (**self).spawn(task);
    }

    fn serves(&self) -> bool {
        (**self).serves()
    }

    fn runs_here(&self) -> bool {
        (**self).runs_here()
    }

    fn random(&self) -> [u8; 16] {
        (**self).random()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Overrides every default.
    #[derive(Debug)]
    struct Odd;

    impl Runtime for Odd {
        fn now(&self) -> Timestamp {
            Timestamp::from_origin(std::time::Duration::from_secs(1))
        }

        fn steady(&self) -> Timestamp {
            Timestamp::ORIGIN
        }

        fn wall_us(&self) -> u64 {
            2
        }

        fn sleep_until(&self, _at: Timestamp) -> Task {
            Box::pin(std::future::ready(()))
        }

        fn spawn(&self, task: Task) {
            block_on(task);
        }

        fn serves(&self) -> bool {
            false
        }

        fn runs_here(&self) -> bool {
            true
        }

        fn random(&self) -> [u8; 16] {
            [3; 16]
        }
    }

    #[test]
    fn a_runtime_in_an_arc_is_that_runtime() {
        let odd: Arc<dyn Runtime> = Arc::new(Odd);
        fn of(runtime: &impl Runtime) -> (Timestamp, Timestamp, u64, bool, bool, [u8; 16]) {
            let (now, steady) = (runtime.now(), runtime.steady());
            let (serves, runs_here) = (runtime.serves(), runtime.runs_here());
            (now, steady, runtime.wall_us(), serves, runs_here, runtime.random())
        }
        assert_eq!(of(&odd), of(&Odd));
        let ran = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (task, sleep) = (Arc::clone(&ran), Runtime::sleep_until(&odd, Timestamp::ORIGIN));
        Runtime::spawn(
            &odd,
            Box::pin(async move {
                sleep.await;
                task.store(true, std::sync::atomic::Ordering::SeqCst);
            }),
        );
        assert!(ran.load(std::sync::atomic::Ordering::SeqCst));
    }
}
