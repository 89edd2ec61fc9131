//! Tasks on their way to the one thread that runs them, in the order in which they were given.
//!
//! It decides nothing. It must never lose a task silently: a task that will not run is dropped, so that its waiter
//! notices.

use std::{
    ptr,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::sync::Notify;

use crate::lock::Lock;

/// Tasks that arrived and have not begun. A channel would fail at the end: a task sent while the receiver is dropped
/// stays in the channel as long as there are senders.
pub(super) struct Arrivals<T> {
    waiting: Lock<Waiting<T>>,
    wake: Notify,
    /// No task will begin any more.
    ended: AtomicBool,
    /// The thread that last began tasks, by [`this_thread`].
    thread: AtomicUsize,
}

struct Waiting<T> {
    tasks: Vec<T>,
    /// No more tasks will come.
    closed: bool,
}

impl<T> Arrivals<T> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            waiting: Lock::new(Waiting { tasks: Vec::new(), closed: false }),
            wake: Notify::new(),
            ended: AtomicBool::new(false),
            thread: AtomicUsize::new(0),
        })
    }

    /// Gives a task to the thread, or drops the task once `attend` has ended.
    pub(super) fn push(&self, task: T) {
        // Checked under the lock under which the end is set, so that no task stays in an ended list.
        let mut waiting = self.lock();
        if self.has_ended() {
            drop(waiting);
            drop(task);
            return;
        }
        let is_first = waiting.tasks.is_empty();
        waiting.tasks.push(task);
        drop(waiting);
        // The first push already woke the thread, which takes all tasks at once.
        if is_first {
            self.wake.notify_one();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().tasks.is_empty()
    }

    /// No more tasks will come: those that arrived still begin, then `attend` ends.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }

    /// Whether no task will begin any more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Records this thread as the one that runs the tasks.
    pub(super) fn claim_thread(&self) {
        self.thread.store(this_thread(), Ordering::Release);
    }

    /// Whether this is the thread that last began tasks.
    pub(super) fn is_claimed_here(&self) -> bool {
        self.thread.load(Ordering::Acquire) == this_thread()
    }

    /// Begins tasks as they arrive, until closed. All that have arrived begin before any of them goes on, so that their
    /// commands to one node leave together. Dropping this, as an ending runtime does, drops the remaining tasks.
    pub(super) fn attend(self: Arc<Self>, begin: impl Fn(T)) -> impl Future<Output = ()> {
        // Made before the first poll: a runtime may end without one.
        let attending = Attending(self);
        async move {
            let Attending(arrivals) = &attending;
            loop {
                arrivals.claim_thread();
                let (tasks, closed) = {
                    let mut waiting = arrivals.lock();
                    (std::mem::take(&mut waiting.tasks), waiting.closed)
                };
                tasks.into_iter().for_each(&begin);
                if closed {
                    return;
                }
                arrivals.wake.notified().await;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock()
    }
}

/// Marks the end when dropped.
struct Attending<T>(Arc<Arrivals<T>>);

impl<T> Drop for Attending<T> {
    fn drop(&mut self) {
        let Self(arrivals) = self;
        let left = {
            let mut waiting = arrivals.lock();
            arrivals.ended.store(true, Ordering::Release);
            std::mem::take(&mut waiting.tasks)
        };
        // Outside the lock: a task's drop may spawn another task.
        drop(left);
    }
}

/// A number that no other thread has while this one lives. The standard library's thread id does not fit into an
/// atomic.
fn this_thread() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.try_with(|place| ptr::from_ref(place).addr()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Waker},
    };

    use super::*;

    #[test]
    fn what_has_arrived_is_begun_in_order_and_what_comes_after_the_end_is_dropped() {
        let (arrivals, begun) = (Arrivals::new(), Lock::new(Vec::new()));
        let mut cx = Context::from_waker(Waker::noop());
        {
            let begin = |task: Arc<u8>| begun.lock().push(*task);
            let mut attending = pin!(Arc::clone(&arrivals).attend(begin));
            arrivals.push(Arc::new(1));
            arrivals.push(Arc::new(2));
            assert!(attending.as_mut().poll(&mut cx).is_pending());
            arrivals.push(Arc::new(3));
            assert!(attending.as_mut().poll(&mut cx).is_pending());
            assert_eq!(*begun.lock(), [1, 2, 3]);
            assert!(arrivals.is_empty() && !arrivals.has_ended());
        }
        assert!(arrivals.has_ended());
        let late = Arc::new(4);
        arrivals.push(Arc::clone(&late));
        assert_eq!(Arc::strong_count(&late), 1, "it is dropped");
    }

    #[test]
    fn what_has_not_been_begun_when_the_thread_ends_is_dropped() {
        let (arrivals, task) = (Arrivals::new(), Arc::new(()));
        let attending = Attending(Arc::clone(&arrivals));
        arrivals.push(Arc::clone(&task));
        drop(attending);
        assert_eq!(Arc::strong_count(&task), 1, "it is dropped");
    }

    #[test]
    fn when_it_is_closed_what_has_arrived_is_begun_first() {
        let (arrivals, begun) = (Arrivals::new(), Lock::new(0));
        arrivals.push(());
        arrivals.close();
        let mut attending = pin!(Arc::clone(&arrivals).attend(|()| *begun.lock() += 1));
        assert!(attending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert_eq!(*begun.lock(), 1);
    }

    #[test]
    fn a_thread_is_told_from_others() {
        let arrivals = Arrivals::<()>::new();
        assert!(!arrivals.is_claimed_here());
        arrivals.claim_thread();
        assert!(arrivals.is_claimed_here());
        std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| arrivals.is_claimed_here());
            assert!(!elsewhere.join().unwrap());
        });
    }

    #[test]
    fn an_end_without_a_first_poll_is_an_end() {
        let arrivals = Arrivals::new();
        let attending = Arc::clone(&arrivals).attend(|_: Arc<u8>| ());
        let task = Arc::new(1);
        arrivals.push(Arc::clone(&task));
        drop(attending);
        assert!(arrivals.has_ended());
        arrivals.push(Arc::clone(&task));
        assert_eq!(Arc::strong_count(&task), 1, "what will not be run is dropped");
    }
}
