//! A round that has been let in. It counts among all until a quorum has answered it, or until it is dropped.
//!
//! It decides nothing: what an answer says of the load, `protocol::Turn` decides, and who is next, `protocol::Client`.

use std::sync::Arc;

use super::Engine;
use crate::{
    node::NodeError,
    protocol::{self, Lane, Load, Reply, Timestamp},
    shield::shielded,
};

/// The turn of a round.
pub(super) struct Turn {
    engine: Arc<Engine>,
    lane: Lane,
    turn: protocol::Turn,
}

impl Turn {
    pub(super) fn acquire(engine: &Arc<Engine>, turn: protocol::Turn) -> Self {
        Self { engine: Arc::clone(engine), lane: Lane::Acquires, turn }
    }

    pub(super) fn release(engine: &Arc<Engine>, turn: protocol::Turn) -> Self {
        Self { engine: Arc::clone(engine), lane: Lane::Releases, turn }
    }

    /// Whether it had to be waited for.
    pub(super) const fn waited(&self) -> bool {
        self.turn.waited()
    }

    /// The round begins now.
    pub(super) const fn begin(&mut self, now: Timestamp) {
        self.turn.handle_begun(now);
    }

    /// A node has answered.
    pub(super) fn handle_answer(&mut self, answer: &Result<Reply, NodeError>, now: Timestamp) {
        if let Some(load) = self.turn.handle_answer(answer.is_ok()) {
            self.give_back_with(Some(load), now);
        }
    }

    /// A quorum might have answered, and was too slow for it.
    pub(super) fn handle_overrun(&mut self, now: Timestamp) {
        self.give_back_with(Some(Load::Overrun), now);
    }

    /// The time is up, and so many nodes have not answered.
    pub(super) fn handle_timeout(&mut self, unanswered: usize, now: Timestamp) {
        if let Some(load) = self.turn.handle_timeout(unanswered) {
            self.give_back_with(Some(load), now);
        }
    }

    /// The round is decided.
    pub(super) fn give_back(&mut self) {
        self.give_back_with(None, Timestamp::ORIGIN);
    }

    fn give_back_with(&mut self, load: Option<Load>, now: Timestamp) {
        if self.turn.is_over() {
            return;
        }
        let (engine, lane, turn) = (&self.engine, self.lane, &mut self.turn);
        // In a process that was forked, whoever has the lock may have it for ever.
        let Some(mut client) = engine.client.lock_here() else { return };
        let is_wanted = client.give_back(lane, turn, load, now);
        drop(client);
        if is_wanted && engine.is_served() {
            // Read before anybody is taken out of the lane: it is code of the user's, which may panic.
            let now = engine.now();
            engine.decide(|client| client.let_in(now));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // It may be dropped by a panic, and a second one would end the process.
        shielded(|| self.give_back());
    }
}
