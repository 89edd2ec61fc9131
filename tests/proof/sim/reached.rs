//! Which of the scenarios of `docs/safety.md` a run has been through, counted where it happens.
//!
//! Goal: a green run means something only if what it is green about did happen: each scenario that applies to a
//! simulation is counted where it is certain that it happened, and `seeds.rs` asks for so many of each.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// A scenario, by its number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Scenario(pub(crate) usize);

/// One more than the last number.
pub(crate) const SCENARIOS: usize = 40;

/// A holder stood still for longer than its lease lasted.
pub(crate) const S1: Scenario = Scenario(1);
/// A write reached the store when its lease was over.
pub(crate) const S2: Scenario = Scenario(2);
/// A process stood still for longer than the ttl while its answers were under way.
pub(crate) const S3: Scenario = Scenario(3);
/// A machine was suspended or halted under a lease that was over then.
pub(crate) const S4: Scenario = Scenario(4);
/// The wall clock of a holder was stepped, or stood.
pub(crate) const S5: Scenario = Scenario(5);
/// A lease ended by its time at a client whose clock is slower than that of a node.
pub(crate) const S6: Scenario = Scenario(6);
/// A grant was handed on to a waiter of the process.
pub(crate) const S7: Scenario = Scenario(7);
/// An extension came too late, or reached a minority only.
pub(crate) const S8: Scenario = Scenario(8);
/// As many nodes as a quorum forgot a lease one after the other, and it held.
pub(crate) const S9: Scenario = Scenario(9);
/// A node was asked to extend what it did not have, and made nothing of it.
pub(crate) const S10: Scenario = Scenario(10);
/// A node was asked to release what another client had by then.
pub(crate) const S11: Scenario = Scenario(11);
/// The clock of a node jumped forward while it had keys.
pub(crate) const S13: Scenario = Scenario(13);
/// The clock of a node jumped back, or stood, while it had keys.
pub(crate) const S14: Scenario = Scenario(14);
/// A node with keys was killed, and came back empty at once.
pub(crate) const S15: Scenario = Scenario(15);
/// A node restarted without the keys that it had been given last.
pub(crate) const S16: Scenario = Scenario(16);
/// A clock was stepped while a node was in quarantine.
pub(crate) const S17: Scenario = Scenario(17);
/// A node with keys was emptied, and its process went on.
pub(crate) const S18: Scenario = Scenario(18);
/// A process with an older copy of the data took a node over, keys and all connections lost.
pub(crate) const S19: Scenario = Scenario(19);
/// A node executed something for which nobody waited any more.
pub(crate) const S20: Scenario = Scenario(20);
/// A message was lost to a cut of one or both directions.
pub(crate) const S21: Scenario = Scenario(21);
/// An acquire was executed twice.
pub(crate) const S22: Scenario = Scenario(22);
/// An acquire arrived behind its own release.
pub(crate) const S23: Scenario = Scenario(23);
/// A node was replaced by an empty one while leases were held.
pub(crate) const S26: Scenario = Scenario(26);
/// A node restarted empty behind a proxy that kept its connections.
pub(crate) const S27: Scenario = Scenario(27);
/// A request was granted in a fleet whose clients differ in their longest ttl.
pub(crate) const S28: Scenario = Scenario(28);
/// A round was granted by some nodes, denied by others, and won by nobody.
pub(crate) const S29: Scenario = Scenario(29);
/// A grant while three and more others waited for it.
pub(crate) const S30: Scenario = Scenario(30);
/// A client died in the middle of a request, or gave it up.
pub(crate) const S31: Scenario = Scenario(31);
/// A node granted a token that had lost its counters before.
pub(crate) const S32: Scenario = Scenario(32);
/// Counters had drifted apart, so that a token was confirmed.
pub(crate) const S33: Scenario = Scenario(33);
/// A confirmation was refused by the guard.
pub(crate) const S34: Scenario = Scenario(34);
/// Something was granted to a client whose wall clock is off by a day and more.
pub(crate) const S35: Scenario = Scenario(35);
/// A store that compares tokens refused a write that one which does not would have taken.
pub(crate) const S36: Scenario = Scenario(36);
/// Something was granted while a node hung.
pub(crate) const S37: Scenario = Scenario(37);

/// An extension was executed, for which nobody waited any more, that asked for less than one before it.
pub(crate) const S39: Scenario = Scenario(39);

/// Those that a simulation of this kind does not go through, why, and what tries them out instead.
pub(crate) const ELSEWHERE: [(Scenario, &str); 4] = [
    (
        Scenario(12),
        "owners do not repeat but by a broken source of randomness, which A8 excludes; planted here: `planted.rs::owners_that_repeat_are_seen`",
    ),
    (
        Scenario(24),
        "a call of a node has one answer, and what tells one server behind two names apart is the connection: `tests/redis/refusals.rs`, `tests/proof/protocol/round_acquire.rs`",
    ),
    (
        Scenario(25),
        "another membership is what A4 excludes; planted here: `planted.rs::clients_with_servers_of_their_own_do_not_exclude_each_other`",
    ),
    (Scenario(38), "load is a matter of real time and real sockets: `tests/scenarios/overload.rs`"),
];

/// How often each was reached. A clone counts for the same run.
#[derive(Clone)]
pub(crate) struct Reached(Arc<[AtomicU32; SCENARIOS]>);

impl Reached {
    pub(crate) fn hit(&self, Scenario(number): Scenario) {
        self.0[number].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn hit_if(&self, happened: bool, scenario: Scenario) {
        if happened {
            self.hit(scenario);
        }
    }

    pub(crate) fn counts(&self) -> [u32; SCENARIOS] {
        std::array::from_fn(|number| self.0[number].load(Ordering::Relaxed))
    }
}

impl Default for Reached {
    fn default() -> Self {
        Self(Arc::new(std::array::from_fn(|_| AtomicU32::new(0))))
    }
}
