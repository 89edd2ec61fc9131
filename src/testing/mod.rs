//! For tests of code that uses this crate: a fleet in memory, whose clock can be moved on.
//!
//! It decides which nodes answer. Everything else is the crate itself: the engine of production, on a clock of its own.
//! It must never wait in real time. Where a test asks for the impossible, it panics and says so.

mod held;
mod which;

use std::{fmt, panic::Location, sync::Arc, time::Duration};

pub use self::{held::Held, which::Which};
use crate::{
    builder::Builder,
    node::MemoryNode,
    protocol::Resource,
    redlock::Redlock,
    runtime::{Runtime, VirtualTime, block_on},
};

/// Nodes in memory for a test, with the clock that they and their clients go by. A clone is the same fleet.
///
/// ```
/// use std::time::Duration;
/// use quorlock::testing::Fleet;
///
/// #[tokio::test(start_paused = true)]
/// # async fn shown() {}
/// async fn an_invoice_is_charged_by_one() {
///     let fleet = Fleet::new(5);
///     let redlock = fleet.redlock(); // what the service under test is given
///
///     let other = fleet.hold("invoice:42").await;
///     assert!(redlock.try_acquire("invoice:42").await.unwrap_err().is_contended());
///     drop(other);
///     let lease = redlock.acquire("invoice:42").await.unwrap();
///
///     fleet.fail(0..3);
///     fleet.advance(Duration::from_secs(60)).await; // it cannot be renewed
///     assert!(lease.check().is_err());
/// }
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
/// #     .block_on(an_invoice_is_charged_by_one());
/// ```
///
/// Every [`Redlock`] made by [`redlock`](Fleet::redlock) or [`builder`](Fleet::builder) is a service of its own: they
/// exclude each other, as processes that share servers do. All nodes may vote from the start, without a quarantine.
/// They answer in no time at all.
///
/// # Time
///
/// Leases, renewals, waiting, time limits, quarantines and the nodes' expiry all go by one clock, which
/// [`advance`](Fleet::advance) moves. The place where the fleet is made decides which clock that is:
///
/// | made in | its clock is | the engine runs | blocking forms |
/// | --- | --- | --- | --- |
/// | a tokio runtime with one thread, as in `#[tokio::test]` | that runtime's | there | on other threads, as in `spawn_blocking`; on the runtime's own they end with `WouldDeadlock` |
/// | one with several threads; another executor; no runtime at all, as in `#[test]` | its own | on a thread of its own | anywhere |
///
/// In the first case tokio's clock is the only one. With `start_paused = true` no real time passes:
/// `tokio::time::sleep` in a test or in the code under test makes leases expire just as `advance` does, and `timeout`
/// around an acquire ends it when it should. Otherwise the clock follows real time, and `advance` moves tokio's clock
/// too.
///
/// In the second case the clock follows real time as well, and `advance` moves it further; the timers of the test's own
/// runtime stay where they are. The clock does not wait for tasks of the test, which run on other threads: where they
/// have to act half-way, advance to there first.
///
/// Owners and random pauses are the same in each run, so that under `start_paused` a test does the same each time.
#[derive(Clone)]
pub struct Fleet {
    time: VirtualTime,
    nodes: Arc<[MemoryNode]>,
}

impl Fleet {
    /// A fleet of `nodes` nodes: one, or three, or five.
    ///
    /// Make it inside the tokio runtime of the test, if there is one: it looks for a clock there, and ends with that
    /// runtime. A fleet that several tests share, as in a `static`, would outlive the runtime.
    ///
    /// # Panics
    ///
    /// Where the operating system gives no thread.
    #[must_use]
    #[track_caller]
    pub fn new(nodes: usize) -> Self {
        Self::in_time(nodes, VirtualTime::here_or_on_thread())
    }

    /// A fleet with a thread and a clock of its own wherever it is made, for tests of blocking code inside a tokio
    /// runtime with one thread. The time of that runtime must not be paused.
    ///
    /// # Panics
    ///
    /// Where the operating system gives no thread.
    #[must_use]
    #[track_caller]
    pub fn on_thread(nodes: usize) -> Self {
        Self::in_time(nodes, VirtualTime::on_thread())
    }

    #[track_caller]
    fn in_time(nodes: usize, time: std::io::Result<VirtualTime>) -> Self {
        let time = time.unwrap_or_else(|error| panic!("no thread for the fleet: {error}"));
        let node = |place| {
            let time = time.clone();
            MemoryNode::at_place(place, move || time.now())
        };
        Self { nodes: (0..nodes).map(node).collect(), time }
    }

    /// A client of the fleet with the default settings, for the code under test.
    ///
    /// # Panics
    ///
    /// Where a fleet of this size is refused, as one of two nodes is, or as [`builder`](Fleet::builder) does.
    #[must_use]
    #[track_caller]
    pub fn redlock(&self) -> Redlock {
        self.builder().build().unwrap_or_else(|error| panic!("{error}"))
    }

    /// A builder with the nodes and the clock of this fleet, to change settings.
    ///
    /// # Panics
    ///
    /// In a tokio runtime whose time is paused, where the fleet was made outside of it: no answer would come in time
    /// there.
    #[track_caller]
    pub fn builder(&self) -> Builder {
        assert!(
            !self.time.is_left_behind(),
            "tokio's time is paused here and the fleet has another clock: make it inside this runtime, by Fleet::new"
        );
        Redlock::builder().nodes(self.nodes.iter()).runtime(self.time.clone())
    }

    /// A simulated other client takes `resource`, and keeps it until the returned [`Held`] is dropped: other requests
    /// for it are refused, or wait. Dropping it releases the resource at once, so that a waiter gets it.
    ///
    /// Where a [`key_prefix`](Builder::key_prefix) is configured, it is part of the name here.
    ///
    /// # Panics
    ///
    /// Where the resource is still held after a second, or fewer than a quorum of the nodes can grant it.
    #[track_caller]
    pub fn hold(&self, resource: impl AsRef<[u8]>) -> impl Future<Output = Held> + Send + 'static {
        self.held(resource.as_ref(), None)
    }

    /// A simulated other client has `resource` for `ttl` and does not renew it, as after a crash. Dropping it earlier
    /// releases the resource.
    ///
    /// # Panics
    ///
    /// As [`hold`](Fleet::hold) does.
    #[track_caller]
    pub fn hold_for(
        &self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> impl Future<Output = Held> + Send + 'static {
        self.held(resource.as_ref(), Some(ttl))
    }

    /// [`hold`](Fleet::hold), blocking this thread. No runtime is needed.
    ///
    /// # Panics
    ///
    /// As [`hold`](Fleet::hold) does, and on the thread that the clock belongs to.
    #[track_caller]
    pub fn blocking_hold(&self, resource: impl AsRef<[u8]>) -> Held {
        self.block_on("Fleet::hold", self.held(resource.as_ref(), None))
    }

    /// [`hold_for`](Fleet::hold_for), blocking this thread. No runtime is needed.
    ///
    /// # Panics
    ///
    /// As [`blocking_hold`](Fleet::blocking_hold) does.
    #[track_caller]
    pub fn blocking_hold_for(&self, resource: impl AsRef<[u8]>, ttl: Duration) -> Held {
        self.block_on("Fleet::hold_for", self.held(resource.as_ref(), Some(ttl)))
    }

    #[track_caller]
    fn held(
        &self,
        resource: &[u8],
        ttl: Option<Duration>,
    ) -> impl Future<Output = Held> + Send + use<> {
        let resource = Resource::new(resource).unwrap_or_else(|error| panic!("{error}"));
        let (time, nodes) = (self.time.clone(), Arc::clone(&self.nodes));
        Held::acquire(time, nodes, resource, ttl, Location::caller())
    }

    /// Cuts nodes off: no client reaches them, and they keep what they have. [`restore`](Fleet::restore) undoes it.
    /// `nodes` is a number, counted from zero, or a range or an array of them; `..` is all.
    ///
    /// # Panics
    ///
    /// Where there is no such node.
    #[track_caller]
    pub fn fail(&self, nodes: impl Which) {
        self.each(nodes, MemoryNode::disconnect);
    }

    /// Stops nodes, as SIGSTOP would: they take commands and do not answer. [`restore`](Fleet::restore) undoes it, and
    /// then they execute what has arrived. A failed node stays failed.
    ///
    /// # Panics
    ///
    /// Where there is no such node.
    #[track_caller]
    pub fn stop(&self, nodes: impl Which) {
        self.each(nodes, MemoryNode::pause);
    }

    /// Undoes [`fail`](Fleet::fail) and [`stop`](Fleet::stop): the nodes answer again, with what they had.
    ///
    /// # Panics
    ///
    /// Where there is no such node.
    #[track_caller]
    pub fn restore(&self, nodes: impl Which) {
        self.each(nodes, |node| {
            node.reconnect();
            node.resume();
        });
    }

    /// Restarts nodes without their data, whatever their state. They have forgotten what they granted, so they wait a
    /// quarantine before they vote again, 11.2 s with the default settings.
    ///
    /// # Panics
    ///
    /// Where there is no such node.
    #[track_caller]
    pub fn restart(&self, nodes: impl Which) {
        self.each(nodes, MemoryNode::restart);
    }

    /// Lets time pass, without waiting for it. When this ends, everything that was due by then has been done, in its
    /// order: leases were renewed or are lost, [`lost`](crate::Lease::lost) wakes, waiting acquires have ended. The
    /// clock then stands up to two milliseconds further, the time that this took.
    ///
    /// Requests that were polled before are under way in that time. A request to be made meanwhile is joined with it:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use quorlock::testing::Fleet;
    /// # async fn example() {
    /// # let (fleet, second) = (Fleet::new(3), Duration::from_secs(1));
    /// let redlock = fleet.redlock();
    /// let _other = fleet.hold("invoice:42").await;
    /// let asked = async { redlock.acquire("invoice:42").wait(3 * second).await };
    /// let (refused, ()) = tokio::join!(asked, fleet.advance(3 * second));
    /// assert!(refused.unwrap_err().is_contended());
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(example());
    /// ```
    ///
    /// In a tokio runtime with one thread the clock waits for all its tasks, and for code in `spawn_blocking`. Where
    /// one of those does not come to rest within a fifth of a second of real time, such as a blocking acquire that
    /// waits for this very time to pass, the clock is moved all the same, in steps of 10 ms.
    ///
    /// # Panics
    ///
    /// Where the runtime in which the fleet was made has ended.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped the clock stays where it is by then, and runs on as before.
    pub async fn advance(&self, time: Duration) {
        assert!(self.time.advance(time).await, "the runtime in which the fleet was made has ended");
    }

    /// [`advance`](Fleet::advance), blocking this thread. No runtime is needed.
    ///
    /// # Panics
    ///
    /// On the thread that the clock belongs to, which would wait for itself; and as [`advance`](Fleet::advance) does.
    #[track_caller]
    pub fn blocking_advance(&self, time: Duration) {
        self.block_on("Fleet::advance", self.advance(time));
    }

    #[track_caller]
    fn block_on<T>(&self, instead: &str, future: impl Future<Output = T>) -> T {
        assert!(
            !self.time.runs_here(),
            "the clock of the fleet is that of the runtime on this thread: await {instead} instead"
        );
        block_on(future)
    }

    /// The nodes, in order: to look at their keys, or to set some as another program would.
    #[must_use]
    pub fn nodes(&self) -> &[MemoryNode] {
        &self.nodes
    }

    #[track_caller]
    fn each(&self, which: impl Which, change: impl Fn(&MemoryNode)) {
        let count = self.nodes.len();
        for place in which.places(count) {
            let node = self.nodes.get(place);
            change(node.unwrap_or_else(|| panic!("there is no node {place}, of {count}")));
        }
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}
