//! One command and its reply, in memory that is reused for the next one.
//!
//! It decides nothing. The client library's future for one reply takes more than a kilobyte, and each command needs a
//! cloned connection and buffers. A link reuses what earlier commands used, so in a steady state a command allocates
//! none of it.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use redis::{Arg, Cmd, RedisResult, Value, aio::MultiplexedConnection};

use crate::lock::Lock;

/// How many dispatches a link keeps after a burst. Each takes about two kilobytes, and what its largest command took.
const MOST_IDLE: usize = 256;

/// A dispatch that has carried a command with more bytes than this is not kept, since it keeps their room.
const LARGE: usize = 4096;

/// A command under way, or none.
pub(super) type Dispatch = Box<dyn Slot>;

/// Holds a command and its reply.
pub(super) trait Slot: Send {
    /// Writes a command, which is sent at the first poll.
    fn begin(&mut self, write: &mut dyn FnMut(&mut Cmd));

    /// Whether it has carried a large command.
    fn is_large(&self) -> bool;

    /// The reply. After it, the dispatch may begin again.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<RedisResult<Value>>;
}

/// The dispatches of one connection that are not in use.
pub(super) struct Idle {
    connection: MultiplexedConnection,
    dispatches: Lock<Vec<Dispatch>>,
}

impl Idle {
    pub(super) fn new(connection: MultiplexedConnection) -> Self {
        Self { connection, dispatches: Lock::default() }
    }

    pub(super) fn take(&self) -> Dispatch {
        let idle = self.dispatches.lock().pop();
        idle.unwrap_or_else(|| new(self.connection.clone()))
    }

    /// Takes back a dispatch whose reply has come.
    pub(super) fn give_back(&self, dispatch: Dispatch) {
        if dispatch.is_large() {
            return;
        }
        let mut dispatches = self.dispatches.lock();
        if dispatches.len() < MOST_IDLE {
            dispatches.push(dispatch);
        } else {
            drop(dispatches);
            drop(dispatch);
        }
    }
}

/// What a command needs and gives back.
type Tools = (MultiplexedConnection, Cmd);

fn new(connection: MultiplexedConnection) -> Dispatch {
    let send = |(mut connection, command): Tools| async move {
        let reply = connection.send_packed_command(&command).await;
        (reply, (connection, command))
    };
    Box::new(Reused {
        tools: Some((connection, Cmd::new())),
        send,
        large: false,
        reply: Box::pin(None),
    })
}

struct Reused<S, F> {
    /// `None` while they are in use.
    tools: Option<Tools>,
    send: S,
    large: bool,
    reply: Pin<Box<Option<F>>>,
}

impl<S, F> Slot for Reused<S, F>
where
    S: Fn(Tools) -> F + Send,
    F: Future<Output = (RedisResult<Value>, Tools)> + Send,
{
    fn begin(&mut self, write: &mut dyn FnMut(&mut Cmd)) {
        if let Some((connection, mut command)) = self.tools.take() {
            command.clear();
            write(&mut command);
            let bytes: usize = command.args_iter().map(|arg| arg_len(&arg)).sum();
            self.large |= bytes > LARGE;
            self.reply.set(Some((self.send)((connection, command))));
        }
    }

    fn is_large(&self) -> bool {
        self.large
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<RedisResult<Value>> {
        let Some(reply) = self.reply.as_mut().as_pin_mut() else { return Poll::Pending };
        let (reply, tools) = ready!(reply.poll(cx));
        self.reply.set(None);
        self.tools = Some(tools);
        Poll::Ready(reply)
    }
}

const fn arg_len(arg: &Arg<&[u8]>) -> usize {
    match arg {
        Arg::Simple(bytes) => bytes.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join;
    use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// The dispatches of a connection that answers nothing but the greeting.
    async fn idle() -> Idle {
        let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        let (near, mut server) = tokio::io::duplex(1 << 12);
        let greeting = async {
            assert!(server.read(&mut [0; 1 << 12]).await.unwrap() > 0);
            server.write_all(b"%1\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n").await.unwrap();
        };
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connected = MultiplexedConnection::new_with_config(&info, near, config);
        // Its driver is dropped here: only the greeting needs it.
        let (connected, ()) = join(connected, greeting).await;
        Idle::new(connected.unwrap().0)
    }

    /// A dispatch that has carried so many bytes.
    fn used(idle: &Idle, bytes: usize) -> Dispatch {
        let mut dispatch = new(idle.connection.clone());
        dispatch.begin(&mut |command| {
            command.arg(vec![b'x'; bytes]);
        });
        dispatch
    }

    #[tokio::test]
    async fn what_a_burst_has_used_is_kept_up_to_a_limit_and_nothing_that_took_much_room() {
        let idle = idle().await;
        let kept = || idle.dispatches.lock().len();
        idle.give_back(used(&idle, LARGE + 1));
        assert_eq!(kept(), 0);
        idle.give_back(used(&idle, LARGE));
        assert_eq!(kept(), 1);
        drop(idle.take());
        assert_eq!(kept(), 0, "it is taken again");
        (0..MOST_IDLE + 8).for_each(|_| idle.give_back(used(&idle, 1)));
        assert_eq!(kept(), MOST_IDLE);
    }
}
