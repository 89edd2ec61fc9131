//! The signals by which a command ends that would go on for ever.
//!
//! It decides nothing.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Interrupt, terminate, and the end of the terminal.
pub(crate) struct Ended {
    #[cfg(unix)]
    signals: [Signal; 3],
}

impl Ended {
    #[cfg(unix)]
    pub(crate) fn listen() -> std::io::Result<Self> {
        let signals = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ];
        Ok(Self { signals })
    }

    #[cfg(not(unix))]
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(unix)]
    pub(crate) async fn wait(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub(crate) async fn wait(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
