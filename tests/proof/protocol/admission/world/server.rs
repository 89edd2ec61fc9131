//! One node: the production's `NodeStore`, what has become of it, and the flaws that it may have.

use quorlock_core::NodeStore;

use super::*;

pub(crate) struct Server {
    pub(super) up: bool,
    /// It is away from the beginning to the end.
    pub(super) gone: bool,
    pub(super) life: u64,
    store: NodeStore,
    /// How often it has forgotten everything: it restarts, or is flushed.
    forgotten: u64,
    /// Since when it has been joining, once a client has looked at it.
    joined_at: Option<u64>,
    /// It has lost its data, and has not been admitted since.
    pub(super) lost: bool,
    pub(super) jumps: u64,
}

impl Server {
    pub(super) fn new(ready: bool) -> Self {
        Self {
            up: true,
            gone: false,
            life: 0,
            store: if ready { NodeStore::new() } else { NodeStore::in_life(0) },
            forgotten: 0,
            joined_at: None,
            lost: !ready,
            jumps: 0,
        }
    }

    pub(super) fn forget(&mut self) {
        self.forgotten += 1;
        self.store = NodeStore::in_life(self.forgotten);
        (self.lost, self.joined_at) = (true, None);
    }

    /// Its clock, in ms.
    pub(super) const fn clock(&self, now: u64) -> u64 {
        now + self.jumps * JUMP
    }

    fn time(&self, now: u64) -> Timestamp {
        Timestamp::from_origin(Duration::from_millis(self.clock(now)))
    }

    fn wall_us(&self, now: u64) -> u64 {
        WALL + self.clock(now) * 1_000
    }

    pub(super) fn join(&mut self, mut join: Join, now: u64, flaw: Flaw) -> Marker {
        join.orphaned &= flaw != Flaw::Untold;
        let epoch = self.store.marker().epoch;
        let marker = self.store.join(join, self.time(now));
        if marker.epoch != epoch || self.joined_at.is_none() {
            self.joined_at = Some(now);
        }
        marker
    }

    /// Whether it was joining, and what is wrong with that it was let in now.
    pub(super) fn admit(
        &mut self,
        epoch: u64,
        floor: Floor,
        now: u64,
        flaw: Flaw,
    ) -> (bool, Option<String>) {
        let own = self.store.marker().epoch;
        let epoch = if flaw == Flaw::AdmittedInAnyEpoch { own } else { epoch };
        let is_let_in = self.store.admit(epoch, floor, self.wall_us(now));
        let waited = now - self.joined_at.unwrap_or(now);
        let is_early = is_let_in && waited < QUARANTINE;
        self.lost &= !is_let_in;
        (is_let_in, is_early.then(|| format!("let in after {waited} ms")))
    }

    pub(super) fn execute(&mut self, command: &Command, now: u64) -> Answered {
        let (time, wall_us) = (self.time(now), self.wall_us(now));
        let (reply, _) = self.store.execute(command.clone(), time, wall_us, &|_| true);
        reply.or(NOT_SENT)
    }
}
