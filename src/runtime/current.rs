//! The engine inside the caller's own runtime: no thread beside the one that there is.
//!
//! It decides whether that runtime will do. It must never take one that runs tasks at the same time as each other.
#![allow(clippy::disallowed_methods, reason = "the list points to this folder")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::{
    TokioRuntime,
    arrivals::Arrivals,
    tokio::{Arrival, begin},
};
use crate::shield::discard;

/// Why the engine cannot run where [`TokioRuntime::current`] was called.
#[derive(Clone, Copy, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum CurrentRuntimeError {
    /// There is no tokio runtime here. Call it in a task or within `block_on`, or use [`TokioRuntime::shared`].
    #[error("there is no tokio runtime here, call it inside one or use TokioRuntime::shared")]
    Outside,
    /// The tokio runtime here has several threads, on which tasks would overtake each other. Use one that was made by
    /// `new_current_thread`, or [`TokioRuntime::shared`].
    #[error(
        "the tokio runtime here has several threads, use a current-thread one or TokioRuntime::shared"
    )]
    SeveralThreads,
    /// The tokio runtime here has no timer. Call `enable_all` on its builder.
    #[error("the tokio runtime here has no timer, call enable_all on its builder")]
    NoTimer,
    /// The tokio runtime here has no sockets. Call `enable_all` on its builder.
    #[error("the tokio runtime here has no sockets, call enable_all on its builder")]
    NoSockets,
}

debug_is_text! { enum CurrentRuntimeError {
    Outside,
    SeveralThreads,
    NoTimer,
    NoSockets,
} }

impl TokioRuntime {
    /// The tokio runtime that the caller is in, which must have one thread: for servers with a thread per core, and for
    /// small programs. There is no other thread then, and none to be woken, but for the look-up of names, which tokio
    /// leaves to threads of its own. A `LocalSet` and a `LocalRuntime` will do, and so will
    /// `#[tokio::main(flavor = "current_thread")]`.
    ///
    /// ```
    /// use quorlock::{Redlock, node::MemoryNode, runtime::TokioRuntime};
    ///
    /// #[tokio::main(flavor = "current_thread")]
    /// async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let redlock = Redlock::builder()
    ///         .node(MemoryNode::new())
    ///         .runtime(TokioRuntime::current()?)
    ///         .connect()
    ///         .await?;
    ///     redlock.acquire("invoice:42").await?.release().await?;
    ///     redlock.close().await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// What is given up: the engine runs only while that thread is free and inside the runtime. While a task of yours
    /// blocks it, nothing is renewed, released, reported lost or answered, and time limits are noticed late.
    /// [`Lease::check`](crate::Lease::check) reads the clock and tells the truth all the same. A ttl must exceed the
    /// longest such time by far.
    ///
    /// It may be used from other threads too. When the runtime ends, requests end with `RuntimeEnded`, leases are not
    /// released any more and expire, and their [`lost`](crate::Lease::lost) does not end, so close the
    /// [`Redlock`](crate::Redlock) before. While nobody runs the runtime, outside of its `block_on`, nothing goes on,
    /// and whoever waits, waits. A runtime whose time is paused, as in tests, is kept busy until the time has come.
    ///
    /// The blocking forms cannot work on the thread itself, and end with `WouldDeadlock` there. That is noticed
    /// within the runtime; outside of its `block_on`, and inside another runtime that this thread has entered, they
    /// hang.
    ///
    /// # Errors
    ///
    /// [`CurrentRuntimeError`] says what to change. Whether there is a timer, and sockets, is told by tokio with a
    /// panic alone; it is caught here, and the panic hook reports it.
    pub fn current() -> Result<Self, CurrentRuntimeError> {
        let handle = Handle::try_current().map_err(|_| CurrentRuntimeError::Outside)?;
        if handle.runtime_flavor() != RuntimeFlavor::CurrentThread {
            return Err(CurrentRuntimeError::SeveralThreads);
        }
        if panics(|| drop(tokio::time::sleep(Duration::ZERO))) {
            return Err(CurrentRuntimeError::NoTimer);
        }
        if panics(open_socket) {
            return Err(CurrentRuntimeError::NoSockets);
        }
        let arrivals = Arrivals::<Arrival>::new();
        // Wrong only where this is called on one of the runtime's blocking threads; the first task corrects it.
        arrivals.claim_thread();
        drop(handle.spawn(Arc::clone(&arrivals).attend(begin)));
        Ok(Self::new(handle, arrivals, true))
    }
}

/// Registers a socket with the runtime. That there may be none to be had is for the nodes to say.
fn open_socket() {
    #[cfg(unix)]
    drop(tokio::net::UnixDatagram::unbound());
    #[cfg(not(unix))]
    drop(std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).and_then(|socket| {
        socket.set_nonblocking(true)?;
        tokio::net::UdpSocket::from_std(socket)
    }));
}

fn panics(run: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(run)).map_err(discard).is_err()
}
