//! The signals that are passed on to the command, and those that are kept from a process while it cannot take them.
//!
//! A signal that was ignored when this process was started stays ignored, also for the command: as under `nohup`.
//! (SIGPIPE does not: a program in Rust is not told what it was before.) Processes started meanwhile inherit what is
//! blocked here; the command must never.

use std::task::Poll;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

pub(crate) struct Signals(Vec<(Signal, Listener)>);

const PASSED_ON: [(Signal, SignalKind); 7] = [
    (Signal::SIGHUP, SignalKind::hangup()),
    (Signal::SIGINT, SignalKind::interrupt()),
    (Signal::SIGQUIT, SignalKind::quit()),
    (Signal::SIGTERM, SignalKind::terminate()),
    (Signal::SIGUSR1, SignalKind::user_defined1()),
    (Signal::SIGUSR2, SignalKind::user_defined2()),
    (Signal::SIGWINCH, SignalKind::window_change()),
];

impl Signals {
    /// From now on none of them ends this process by itself.
    pub(crate) fn listen() -> std::io::Result<Self> {
        let ignored = ignored();
        let heard = PASSED_ON.into_iter().filter(|(name, _)| ignored & bit(*name) == 0);
        heard.map(|(name, kind)| Ok((name, signal(kind)?))).collect::<Result<_, _>>().map(Self)
    }

    /// The next signal of any kind.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|cx| {
            for (name, listener) in &mut self.0 {
                if listener.poll_recv(cx).is_ready() {
                    return Poll::Ready(*name);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next signal that asks this process to end: a new size of the window does not.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if signal != Signal::SIGWINCH {
                return signal;
            }
        }
    }
}

/// Does this while these signals are blocked in this thread, and in each process that it starts meanwhile.
pub(crate) fn blocked<T>(signals: SigSet, what: impl FnOnce() -> T) -> T {
    let was_set = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let answer = what();
    if let Ok(before) = was_set {
        let _ = before.thread_set_mask();
    }
    answer
}

const fn bit(signal: Signal) -> u64 {
    1 << (signal as u32 - 1)
}

/// Whether it was ignored when this process was started, as SIGHUP is under `nohup`.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    ignored() & bit(signal) != 0
}

/// The ignored signals, as the kernel tells them; where it does not, none.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
