//! One connection: commands out, replies back, including replies whose caller has gone.
//!
//! Every reply is a sign of life; `liveness` decides when there were too few, and `errors` which of them end the
//! connection. It never replaces itself; that is the supervisor's work.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::stream::{FuturesUnordered, Stream};
use redis::{Cmd, RedisError, Value, aio::MultiplexedConnection};
use tokio::sync::mpsc;

use super::{
    dispatch::{Dispatch, Idle},
    errors,
    liveness::{Down, Liveness, Room, Unanswered},
};
use crate::{
    lock::Lock,
    node::{NodeContext, NodeError},
};

/// A connection in use.
pub(super) struct Link {
    idle: Idle,
    liveness: Arc<Liveness>,
    /// Takes the replies whose caller has gone.
    late: mpsc::UnboundedSender<Late>,
    /// The task that waits for the end of the link awaits them, and drops them when it ends.
    arriving: Lock<Option<mpsc::UnboundedReceiver<Late>>>,
}

impl Link {
    pub(super) fn new(
        connection: MultiplexedConnection,
        down: Arc<Down>,
        context: &NodeContext,
    ) -> Self {
        let liveness = Liveness::new(down, Arc::clone(context.runtime()), context.node_timeout());
        let (late, arriving) = mpsc::unbounded_channel();
        let (idle, arriving) = (Idle::new(connection), Lock::new(Some(arriving)));
        Self { idle, liveness: Arc::new(liveness), late, arriving }
    }

    pub(super) fn is_down(&self) -> bool {
        self.liveness.down.is_down()
    }

    /// Ends the link, because the server behind it must not be used any more.
    pub(super) fn give_up(&self, reason: &str) {
        self.liveness.down.trip(reason);
    }

    /// Ends when the connection has ended. Until then it takes the replies whose caller has gone. For one waiter only.
    pub(super) async fn ended(&self) -> Arc<str> {
        let arriving = self.arriving.lock().take();
        let mut late = LateReplies { arriving, waiting: FuturesUnordered::new() };
        let mut down = std::pin::pin!(self.liveness.down.wait());
        poll_fn(|cx| {
            late.poll(cx);
            down.as_mut().poll(cx)
        })
        .await
    }

    /// Sends one command, once, and waits for its reply. A caller whose time is up drops the future, which counts
    /// as a timeout; the reply is awaited all the same.
    pub(super) async fn send(
        &self,
        room: Room,
        write: impl FnMut(&mut Cmd),
    ) -> Result<Value, NodeError> {
        self.begin(room, write)?.await
    }

    /// The same without waiting. The caller must await the result at once, so that commands are sent in order.
    pub(super) fn begin(
        &self,
        room: Room,
        mut write: impl FnMut(&mut Cmd),
    ) -> Result<Sent<'_>, NodeError> {
        // Counted before it is sent, and until its reply comes: dropping the caller's future does not end it.
        let unanswered = Liveness::begin(&self.liveness, room)?;
        let mut dispatch = self.idle.take();
        dispatch.begin(&mut write);
        Ok(Sent { link: self, dispatch: Some((dispatch, unanswered)) })
    }

    fn judge(&self, error: &RedisError) -> NodeError {
        let error = errors::of_command(error);
        if let Some(reason) = errors::ends_connection(&error) {
            self.liveness.down.trip(reason);
        }
        error
    }
}

/// A command and its reply. The command has been sent, since it is polled as soon as it is made.
pub(super) struct Sent<'a> {
    link: &'a Link,
    /// `None` once the reply has come.
    dispatch: Option<(Dispatch, Unanswered)>,
}

impl Future for Sent<'_> {
    type Output = Result<Value, NodeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((dispatch, _)) = &mut self.dispatch else { return Poll::Pending };
        let result = ready!(dispatch.poll(cx));
        if let Some((dispatch, unanswered)) = self.dispatch.take() {
            unanswered.answered();
            self.link.idle.give_back(dispatch);
        }
        // A raw reply carries the server's errors as values.
        let result = result.and_then(Value::extract_error);
        Poll::Ready(result.map_err(|error| self.link.judge(&error)))
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if let Some((dispatch, unanswered)) = self.dispatch.take() {
            // Count the timeout first, which may end the link, and then wait for the late reply.
            unanswered.timed_out();
            // Once no task waits for the end of the link, none waits for its replies either.
            let _ = self.link.late.send(Late { dispatch, unanswered: Some(unanswered) });
        }
    }
}

/// The reply to a command whose caller has gone. It counts as unanswered until it comes.
struct Late {
    dispatch: Dispatch,
    unanswered: Option<Unanswered>,
}

impl Future for Late {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let _ = ready!(self.dispatch.poll(cx));
        if let Some(unanswered) = self.unanswered.take() {
            unanswered.answered();
        }
        Poll::Ready(())
    }
}

/// All late replies of a connection.
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
        // Also for those that are new: until they are polled, their replies wake nobody.
        while let Poll::Ready(Some(())) = Pin::new(&mut self.waiting).poll_next(cx) {}
    }
}
