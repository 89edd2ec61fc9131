//! A link whose server is known: which process and database it is, what its marker said, and its clock.
//!
//! It runs what `codec` has written down, and decides whether a reply counts: one that shows a jumped clock or
//! exchanged data is an error. Nothing is sent twice here, except a script that the server said it does not know.

use std::{
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{Cmd, Value};

use super::{
    codec::{Answer, Process},
    errors,
    link::{Link, Sent},
    liveness::Room,
    marker::CachedMarker,
    push::{Exchanges, Tracked},
    script::Script,
    sentinels::Master,
};
use crate::{
    lock::Lock,
    node::{ClockOffset, NodeError, Watcher},
    protocol::{NodeClock, Timestamp, lateness::LATE},
    runtime::Runtime,
};

/// A checked connection to a known process.
pub(super) struct Session {
    link: Link,
    /// Which master this is, if Sentinels have named it.
    master: Option<Master>,
    process: Process,
    runtime: Arc<dyn Runtime>,
    clock: Arc<Lock<NodeClock>>,
    exchanges: Arc<Exchanges>,
    node_timeout: Duration,
    /// What its marker said when it was last read on this connection, and after how many exchanges.
    known: Lock<Option<(u64, Arc<CachedMarker>)>>,
    lines: Lines,
}

/// The part of a session in the lines on its node.
pub(super) struct Lines {
    /// Whether the scripts look at them.
    are_on: AtomicBool,
    tracked: Arc<Tracked>,
    watcher: Watcher,
}

impl Lines {
    pub(super) const fn new(are_on: bool, tracked: Arc<Tracked>, watcher: Watcher) -> Self {
        Self { are_on: AtomicBool::new(are_on), tracked, watcher }
    }

    pub(super) fn are_on(&self) -> bool {
        self.are_on.load(Ordering::Relaxed)
    }

    /// The user has lost a right that lines need.
    pub(super) fn turn_off(&self) {
        self.are_on.store(false, Ordering::Relaxed);
    }

    pub(super) fn tracked(&self) -> &Tracked {
        &self.tracked
    }

    pub(super) const fn watcher(&self) -> &Watcher {
        &self.watcher
    }
}

impl Session {
    pub(super) fn new(
        (link, master): (Link, Option<Master>),
        process: Process,
        runtime: Arc<dyn Runtime>,
        clock: Arc<Lock<NodeClock>>,
        exchanges: Arc<Exchanges>,
        node_timeout: Duration,
        lines: Lines,
    ) -> Self {
        let known = Lock::default();
        Self { link, master, process, runtime, clock, exchanges, node_timeout, known, lines }
    }

    pub(super) const fn lines(&self) -> &Lines {
        &self.lines
    }

    pub(super) const fn link(&self) -> &Link {
        &self.link
    }

    pub(super) const fn master(&self) -> Option<&Master> {
        self.master.as_ref()
    }

    /// Whether a command may be sent: the link is not known to be dead, and the Sentinels still name this server.
    pub(super) fn is_usable(&self) -> bool {
        let is_confirmed = |master: &Master| master.is_confirmed(self.runtime.now());
        !self.link.is_down() && self.master.as_ref().is_none_or(is_confirmed)
    }

    pub(super) const fn process(&self) -> &Process {
        &self.process
    }

    /// Sends a plain command, which counts against the limit of acquires.
    pub(super) async fn send(&self, write: impl FnMut(&mut Cmd)) -> Result<Value, NodeError> {
        self.link.begin(Room::Acquires, write)?.await
    }

    /// `EVALSHA`, and `EVAL` where the server does not have the script.
    pub(super) async fn run<'a>(
        &self,
        script: impl Fn() -> Script<'a>,
    ) -> Result<Value, NodeError> {
        let answer = match self.begin(script(), Script::evalsha)?.await {
            // No repeat (N2): the server has said that it executed nothing.
            Err(error) if errors::is_unknown_script(&error) => {
                self.begin(script(), Script::eval)?.await
            }
            answer => answer,
        };
        answer.map_err(errors::of_script)
    }

    /// Drops the script before its reply is awaited: in the rare case of a second send it is made anew.
    fn begin<'a>(
        &self,
        script: Script<'a>,
        write: impl Fn(&Script<'a>, &mut Cmd),
    ) -> Result<Sent<'_>, NodeError> {
        self.link.begin(script.room(), |command| write(&script, command))
    }

    /// Runs a script that answers with the node's clock. `sent` is our steady time, read before. The answer is void if
    /// the clock was seen to jump since the send, in this reply or another: it may predate the jump. It is void too if
    /// the data was exchanged meanwhile: it may be of the older data.
    pub(super) async fn vote<'a>(
        &self,
        script: impl Fn() -> Script<'a>,
        sent: Timestamp,
    ) -> Result<Answer, NodeError> {
        // Both are read before the send: an answer is void if either has changed when it comes.
        let (series, exchanges) = (self.clock().series(), self.exchanges());
        let (answer, node_us) = Answer::read(self.run(script).await?)?;
        let arrived = self.now();
        let seen = {
            let mut clock = self.clock();
            if let Some(node_us) = node_us {
                // A jump begins a new series.
                let _ = clock.handle_reading(sent, arrived, node_us);
            }
            clock.series()
        };
        if seen != series {
            Err(NodeError::ClockJumped)
        } else if self.exchanges() != exchanges {
            Err(NodeError::VoteLapsed)
        } else {
            Ok(answer)
        }
    }

    /// How often the server has said that all its data was dropped or exchanged.
    pub(super) fn exchanges(&self) -> u64 {
        self.exchanges.count()
    }

    /// Our steady time: a clock that may run ahead would make all nodes look as if they had jumped.
    pub(super) fn now(&self) -> Timestamp {
        self.runtime.steady()
    }

    /// What the marker said when it was last read; `None` if the data has been exchanged since.
    pub(super) fn known(&self) -> Option<Arc<CachedMarker>> {
        let known = self.known.lock();
        let (_, known) = known.as_ref().filter(|(after, _)| *after == self.exchanges())?;
        Some(Arc::clone(known))
    }

    /// What the marker said when it was last read, also before an exchange.
    pub(super) fn known_once(&self) -> Option<Arc<CachedMarker>> {
        self.known.lock().as_ref().map(|(_, known)| Arc::clone(known))
    }

    /// What the marker said, for a command that relies on it. After an exchange nothing is known until the marker is
    /// read again; the node may well be unchanged.
    pub(super) fn ready(&self) -> Result<Arc<CachedMarker>, NodeError> {
        self.known().ok_or_else(|| match self.known_once() {
            Some(_) => NodeError::Outdated,
            None => NodeError::NotAdmitted,
        })
    }

    /// Ends when the server has reported one more exchange of all its data.
    pub(super) async fn exchanged(&self) {
        self.exchanges.changed().await;
    }

    /// The identity that the node was admitted under, as last read.
    pub(super) fn identity(&self) -> Result<Arc<[u8]>, NodeError> {
        self.ready().map(|known| Arc::clone(known.identity()))
    }

    /// Stores the marker that a look has read, which was sent after so many exchanges.
    pub(super) fn learn(&self, exchanges: u64, known: Arc<CachedMarker>) {
        *self.known.lock() = Some((exchanges, known));
    }

    /// Takes the head that the node reports when an acquire raises it, if it is a later one of the same state.
    pub(super) fn raise(&self, head: &[u8]) {
        let mut known = self.known.lock();
        if let Some((_, known)) = known.as_mut()
            && let Some(raised) = known.raised(head)
        {
            *known = Arc::new(raised);
        }
    }

    /// The epoch in which the node was last seen ready on this connection.
    pub(super) fn epoch(&self) -> Option<u64> {
        self.known()?.epoch()
    }

    /// Less than a million.
    pub(super) fn nonce(&self) -> u32 {
        let [a, b, c, d, ..] = self.runtime.random();
        u32::from_be_bytes([a, b, c, d]) % 1_000_000
    }

    /// The offset of the node's clock from ours.
    pub(super) fn clock_offset(&self) -> Option<ClockOffset> {
        // Read before the lock is taken: the runtime is user code.
        let now = self.now();
        let node_us = self.clock().at(now)?;
        Some(ClockOffset::between(node_us, self.runtime.wall_us()))
    }

    /// The node's time at which a command sent at `now` becomes useless, in microseconds.
    pub(super) fn latest(&self, now: Timestamp) -> Option<u64> {
        let until = now.saturating_add(self.node_timeout).saturating_add(LATE);
        self.clock().at_most(until)
    }

    /// The same for a command that also becomes useless at `until`, by the clock that leases are counted in.
    pub(super) fn latest_until(&self, now: Timestamp, until: Timestamp) -> Option<u64> {
        let left = until.saturating_since(self.runtime.now());
        let limit = self.node_timeout.saturating_add(LATE).min(left);
        self.clock().at_most(now.saturating_add(limit))
    }

    fn clock(&self) -> MutexGuard<'_, NodeClock> {
        self.clock.lock()
    }
}

#[cfg(test)]
#[path = "session_test.rs"]
mod tests;
