//! The signals that are passed on to the command.

use nix::sys::signal::Signal;
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

pub(crate) struct Signals(Vec<(Signal, Listener)>);

impl Signals {
    /// From now on none of them ends this process by itself.
    pub(crate) fn listen() -> std::io::Result<Self> {
        let kinds = [
            (Signal::SIGHUP, SignalKind::hangup()),
            (Signal::SIGINT, SignalKind::interrupt()),
            (Signal::SIGQUIT, SignalKind::quit()),
            (Signal::SIGTERM, SignalKind::terminate()),
            (Signal::SIGUSR1, SignalKind::user_defined1()),
            (Signal::SIGUSR2, SignalKind::user_defined2()),
        ];
        let listen = |(name, kind)| Ok((name, signal(kind)?));
        kinds.into_iter().map(listen).collect::<Result<_, std::io::Error>>().map(Self)
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|cx| {
            for (name, listener) in &mut self.0 {
                if listener.poll_recv(cx).is_ready() {
                    return std::task::Poll::Ready(*name);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}
