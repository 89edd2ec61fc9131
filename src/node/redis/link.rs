//! One connection that has been checked, and the moment at which it stops being usable.
//!
//! It decides when a connection is given up: when it is known to be dead, or when nothing has answered for a while.
//! Every reply is a sign of life, also one that nobody waits for any more. It never replaces itself; that is the
//! supervisor's work.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::stream::{FuturesUnordered, Stream};
use redis::{Cmd, RedisResult, Value, aio::MultiplexedConnection};
use tokio::sync::{Notify, mpsc};

use super::session;
use crate::{
    lock::Lock,
    node::{NodeContext, NodeError},
    protocol::Timestamp,
    runtime::Runtime,
};

/// After at least this many timeouts, with no reply in between, a connection is given up: neither TCP keepalive nor
/// the kernel sees a server that is stopped.
const TIMEOUTS_IN_A_ROW: u32 = 3;

/// They must also span this long, and two node timeouts: what was sent together is late together, and says no more
/// than one of them.
const SILENCE: Duration = Duration::from_secs(1);

/// The most acquires that may be unanswered on one connection.
const MOST_ACQUIRES: usize = 4096;

/// The most of all other commands. They have room of their own, so that a burst of acquires never keeps a held lease
/// from being renewed or released.
const MOST_OTHERS: usize = 8192;

/// The room in the queue of a connection. A command never waits for room there: one that did could be overtaken by
/// the release that undoes it.
pub(super) const MOST_UNANSWERED: usize = MOST_ACQUIRES + MOST_OTHERS;

/// Says that a connection has ended, to whoever asks and to the supervisor.
#[derive(Default)]
pub(super) struct Down {
    down: AtomicBool,
    reason: Lock<Option<Arc<str>>>,
    notify: Notify,
}

impl Down {
    pub(super) fn trip(&self, reason: &str) {
        if !self.down.swap(true, Ordering::AcqRel) {
            *self.reason.lock() = Some(Arc::from(reason));
            self.notify.notify_one();
        }
    }

    fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    /// Ends when the connection has ended. For one waiter only.
    async fn wait(&self) -> Arc<str> {
        while !self.is_down() {
            self.notify.notified().await;
        }
        let reason = self.reason.lock().clone();
        reason.unwrap_or_else(|| Arc::from("the connection has ended"))
    }
}

/// Whose limit a command counts against.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Room {
    /// That of the acquires.
    Acquires,
    /// That of everything else: what keeps leases, ends them, or looks at a node.
    Others,
}

/// A reply on its way.
type Reply = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// A connection in use.
pub(super) struct Link {
    connection: MultiplexedConnection,
    signs: Arc<Signs>,
    /// Takes the replies that nobody waits for any more.
    late: mpsc::UnboundedSender<Late>,
    /// They are awaited by whoever waits for the end of the link, and end with that.
    arriving: Lock<Option<mpsc::UnboundedReceiver<Late>>>,
}

/// What is known of a connection's life.
struct Signs {
    down: Arc<Down>,
    runtime: Arc<dyn Runtime>,
    /// How long the timeouts must span.
    silence: Duration,
    /// Timeouts since the last reply.
    timeouts: AtomicU32,
    /// The time of the first of them.
    first: Lock<Timestamp>,
    acquires: AtomicUsize,
    others: AtomicUsize,
}

impl Link {
    pub(super) fn new(
        connection: MultiplexedConnection,
        down: Arc<Down>,
        context: &NodeContext,
    ) -> Self {
        let signs = Signs::new(down, Arc::clone(context.runtime()), context.node_timeout());
        let (late, arriving) = mpsc::unbounded_channel();
        Self { connection, signs: Arc::new(signs), late, arriving: Lock::new(Some(arriving)) }
    }

    pub(super) fn is_down(&self) -> bool {
        self.signs.down.is_down()
    }

    /// Ends it, because what stands behind it must not be used any more.
    pub(super) fn give_up(&self, reason: &str) {
        self.signs.down.trip(reason);
    }

    /// Ends when the connection has ended. Until then it takes the replies that nobody waits for any more. For one
    /// waiter only.
    pub(super) async fn ended(&self) -> Arc<str> {
        let arriving = self.arriving.lock().take();
        let mut late = LateReplies { arriving, waiting: FuturesUnordered::new() };
        let mut down = std::pin::pin!(self.signs.down.wait());
        poll_fn(|cx| {
            late.poll(cx);
            down.as_mut().poll(cx)
        })
        .await
    }

    /// Sends one command, once, and waits for its reply. A caller whose time is up drops the future, which counts
    /// as a timeout; the reply is awaited all the same.
    pub(super) async fn send(&self, room: Room, command: Cmd) -> Result<Value, NodeError> {
        let unanswered = Signs::begin(&self.signs, room)?;
        let mut connection = self.connection.clone();
        let reply = async move { connection.send_packed_command(&command).await };
        let sent = Sent { late: &self.late, reply: Some((Box::pin(reply), unanswered)) };
        // A raw reply carries the server's errors as values.
        sent.await.and_then(Value::extract_error).map_err(|error| {
            let error = session::classify(&error);
            match &error {
                NodeError::ConnectionLost { reason } => self.signs.down.trip(reason),
                // The connection stays when a master becomes a replica. A new one is checked.
                NodeError::Rejected { code, .. } if &**code == "READONLY" => {
                    self.signs.down.trip("it has become a replica");
                }
                _ => {}
            }
            error
        })
    }
}

/// A command that has been sent, since it is polled as soon as it is made, and its reply.
struct Sent<'a> {
    late: &'a mpsc::UnboundedSender<Late>,
    /// `None` once it has come.
    reply: Option<(Reply, Unanswered)>,
}

impl Future for Sent<'_> {
    type Output = RedisResult<Value>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((reply, _)) = &mut self.reply else { return Poll::Pending };
        let result = std::task::ready!(reply.as_mut().poll(cx));
        if let Some((_, unanswered)) = self.reply.take() {
            unanswered.answered();
        }
        Poll::Ready(result)
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if let Some((reply, unanswered)) = self.reply.take() {
            unanswered.signs.timed_out();
            // Where nobody waits for the end of the link any more, nobody waits for its replies.
            let _ = self.late.send(Late { reply, unanswered: Some(unanswered) });
        }
    }
}

/// The reply to a command whose caller has gone. It counts as unanswered until it comes.
struct Late {
    reply: Reply,
    unanswered: Option<Unanswered>,
}

impl Future for Late {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let _ = std::task::ready!(self.reply.as_mut().poll(cx));
        if let Some(unanswered) = self.unanswered.take() {
            unanswered.answered();
        }
        Poll::Ready(())
    }
}

/// All replies of a connection that nobody waits for.
struct LateReplies {
    arriving: Option<mpsc::UnboundedReceiver<Late>>,
    waiting: FuturesUnordered<Late>,
}

impl LateReplies {
    fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(arriving) = &mut self.arriving {
            while let Poll::Ready(Some(late)) = arriving.poll_recv(cx) {
                self.waiting.push(late);
            }
        }
        while let Poll::Ready(Some(())) = Pin::new(&mut self.waiting).poll_next(cx) {}
    }
}

impl Signs {
    fn new(down: Arc<Down>, runtime: Arc<dyn Runtime>, node_timeout: Duration) -> Self {
        Self {
            down,
            runtime,
            silence: SILENCE.max(node_timeout.saturating_mul(TIMEOUTS_IN_A_ROW - 1)),
            timeouts: AtomicU32::new(0),
            first: Lock::new(Timestamp::ORIGIN),
            acquires: AtomicUsize::new(0),
            others: AtomicUsize::new(0),
        }
    }

    fn begin(signs: &Arc<Self>, room: Room) -> Result<Unanswered, NodeError> {
        let (count, most) = signs.room(room);
        if count.fetch_add(1, Ordering::AcqRel) >= most {
            count.fetch_sub(1, Ordering::AcqRel);
            // Where nothing more is sent, nothing times out any more.
            signs.give_up_if_silent(signs.runtime.now());
            return Err(NodeError::Overloaded);
        }
        Ok(Unanswered { signs: Arc::clone(signs), room })
    }

    const fn room(&self, room: Room) -> (&AtomicUsize, usize) {
        match room {
            Room::Acquires => (&self.acquires, MOST_ACQUIRES),
            Room::Others => (&self.others, MOST_OTHERS),
        }
    }

    /// A command got no reply while somebody waited for it.
    fn timed_out(&self) {
        let now = self.runtime.now();
        if self.timeouts.fetch_add(1, Ordering::AcqRel) == 0 {
            *self.first.lock() = now;
        }
        self.give_up_if_silent(now);
    }

    fn give_up_if_silent(&self, now: Timestamp) {
        let first = *self.first.lock();
        if self.timeouts.load(Ordering::Acquire) >= TIMEOUTS_IN_A_ROW
            && now.saturating_since(first) >= self.silence
        {
            self.down.trip("several commands in a row got no reply within the node timeout");
        }
    }
}

/// A command without a reply yet.
struct Unanswered {
    signs: Arc<Signs>,
    room: Room,
}

impl Unanswered {
    /// Its reply has come, or the connection has said that it is dead.
    fn answered(self) {
        self.signs.timeouts.store(0, Ordering::Relaxed);
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.signs.room(self.room).0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Task;

    const MS: Duration = Duration::from_millis(1);

    /// A clock to set, and nothing else.
    #[derive(Debug, Default)]
    struct Hands(Lock<Duration>);

    impl Runtime for Hands {
        fn now(&self) -> Timestamp {
            Timestamp::from_origin(*self.0.lock())
        }

        fn wall_us(&self) -> u64 {
            0
        }

        fn sleep_until(&self, _at: Timestamp) -> Task {
            Box::pin(std::future::pending())
        }

        fn spawn(&self, _task: Task) {}

        fn random(&self) -> [u8; 16] {
            [0; 16]
        }
    }

    fn signs() -> (Arc<Hands>, Arc<Signs>) {
        let hands = Arc::new(Hands::default());
        let runtime: Arc<dyn Runtime> = hands.clone();
        (hands, Arc::new(Signs::new(Arc::default(), runtime, 100 * MS)))
    }

    fn at(hands: &Hands, ms: u32) {
        *hands.0.lock() = ms * MS;
    }

    #[test]
    fn what_is_late_together_counts_once_and_silence_ends_the_connection() {
        let (hands, signs) = signs();
        at(&hands, 100);
        (0..1000).for_each(|_| signs.timed_out());
        at(&hands, 1099);
        signs.timed_out();
        assert!(!signs.down.is_down());
        at(&hands, 1100);
        signs.timed_out();
        assert!(signs.down.is_down());
    }

    #[test]
    fn a_reply_begins_the_count_anew_whoever_waits_for_it() {
        let (hands, signs) = signs();
        for round in 0..100 {
            at(&hands, 100 + 990 * round);
            (0..10).for_each(|_| signs.timed_out());
            at(&hands, 100 + 990 * round + 980);
            signs.timed_out();
            Signs::begin(&signs, Room::Others).unwrap().answered();
        }
        assert!(!signs.down.is_down());
    }

    #[test]
    fn the_room_of_acquires_is_not_that_of_others_and_is_given_back() {
        let (_, signs) = signs();
        let acquires: Vec<_> =
            (0..MOST_ACQUIRES).map(|_| Signs::begin(&signs, Room::Acquires).unwrap()).collect();
        assert!(matches!(Signs::begin(&signs, Room::Acquires), Err(NodeError::Overloaded)));
        drop(Signs::begin(&signs, Room::Others).unwrap());
        drop(acquires);
        drop(Signs::begin(&signs, Room::Acquires).unwrap());
    }

    /// Held leases need no more than that, and must not use up what acquires need.
    #[test]
    fn the_room_of_others_is_limited_too_and_is_not_that_of_acquires() {
        let (_, signs) = signs();
        let others: Vec<_> =
            (0..MOST_OTHERS).map(|_| Signs::begin(&signs, Room::Others).unwrap()).collect();
        assert!(matches!(Signs::begin(&signs, Room::Others), Err(NodeError::Overloaded)));
        let acquires: Vec<_> =
            (0..MOST_ACQUIRES).map(|_| Signs::begin(&signs, Room::Acquires).unwrap()).collect();
        assert!(others.len() + acquires.len() <= MOST_UNANSWERED, "room in the queue itself");
        drop(others);
        assert!(matches!(Signs::begin(&signs, Room::Acquires), Err(NodeError::Overloaded)));
        drop(Signs::begin(&signs, Room::Others).unwrap());
    }

    #[test]
    fn a_silent_connection_ends_also_when_nothing_more_can_be_sent_on_it() {
        let (hands, signs) = signs();
        let _full: Vec<_> =
            (0..MOST_ACQUIRES).map(|_| Signs::begin(&signs, Room::Acquires).unwrap()).collect();
        (0..MOST_ACQUIRES).for_each(|_| signs.timed_out());
        at(&hands, 999);
        assert!(Signs::begin(&signs, Room::Acquires).is_err());
        assert!(!signs.down.is_down());
        at(&hands, 1000);
        assert!(Signs::begin(&signs, Room::Acquires).is_err());
        assert!(signs.down.is_down());
    }
}
