//! The engine inside the caller's own runtime, without a thread of its own.
//!
//! It decides whether that runtime will do. It must never accept one that runs tasks in parallel.
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
    #[error("there is no tokio runtime here; call it inside one, or use TokioRuntime::shared")]
    Outside,
    /// The tokio runtime here has several threads, on which tasks would overtake each other. Use one made by
    /// `new_current_thread`, or [`TokioRuntime::shared`].
    #[error(
        "the tokio runtime here has several threads; use a current-thread one or TokioRuntime::shared"
    )]
    SeveralThreads,
    /// The tokio runtime here has no timer. Call `enable_all` on its builder.
    #[error("the tokio runtime here has no timer; call enable_all on its builder")]
    NoTimer,
    /// The tokio runtime here has no sockets. Call `enable_all` on its builder.
    #[error("the tokio runtime here has no sockets; call enable_all on its builder")]
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
    /// small programs. The engine then has no thread of its own and wakes none, except that tokio looks up host names
    /// on its own threads. A `LocalSet`, a `LocalRuntime` and `#[tokio::main(flavor = "current_thread")]` will do.
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
    /// The cost: the engine runs only while that thread is free and inside the runtime. While one of your tasks blocks
    /// it, no lease is renewed, released or reported lost, no request is answered, and time limits are noticed late.
    /// [`Lease::check`](crate::Lease::check) reads the clock and still tells the truth. A ttl must exceed the longest
    /// such block by far.
    ///
    /// Other threads may use it too. When the runtime ends, requests end with `RuntimeEnded`. Leases are no longer
    /// released; they expire, and their [`lost`](crate::Lease::lost) does not end. So close the
    /// [`Redlock`](crate::Redlock) first. While no thread runs the runtime, outside its `block_on`, nothing goes on,
    /// and pending calls wait. A sleep in a runtime with paused time, as in tests, keeps that runtime busy until the
    /// real time has come.
    ///
    /// The blocking forms cannot work on the thread itself, and end with `WouldDeadlock` there. They notice this only
    /// inside the runtime: outside its `block_on`, or inside another runtime that this thread has entered, they hang.
    ///
    /// # Errors
    ///
    /// [`CurrentRuntimeError`] says what to change. Tokio reports a missing timer or missing sockets only by a panic.
    /// The panic is caught here, and the panic hook reports it.
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

/// Registers a socket with the runtime. If none can be opened, the nodes report that.
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
