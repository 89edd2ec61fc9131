//! Where the key of one owner may stand, now or later: what to release, what to check again, where to restore.
//!
//! It decides what to undo, so that nothing leaks. It must never call a node clear where something may stand. It sends
//! nothing and reads no clock.
//!
//! # Invariants
//!
//! - **F1** A node is clear only if no command that sets the key was sent there, or only the acquire was, and the node
//!   has certainly not executed it.
//! - **F2** At the end each node that is not clear is released on, and commands that may be executed after that release
//!   are followed. After a lost round one more release follows if an answer shows that the key may have been set; after
//!   a lease was given back, F4 applies. If a lost round is heard out, the node of an open acquire is released on when
//!   its answer shows that, or when the hearing out ends.
//! - **F3** A restore may be sent only while the grant lasts, one at a time to a node. From then on the node is not
//!   clear.
//! - **F4** A release that finds nothing is not final if the command that sets the key may arrive after it. Nor is one
//!   that deletes the key if several commands may have set it. It is sent again until the node no longer takes that
//!   command.
//! - **F5** A release is given up because of its age only when the key must have expired.
//!
//! A release may keep the key for a while instead of deleting it (`Command::Release`). The footprint treats it the
//! same. The key is kept for at most a ttl, so that F5 holds as with an extension that arrives late; a release sent
//! again after that while deletes.
//!
//! Each is tested by name in `tests/proof/protocol/footprint.rs`, beside a world in which commands are lost, late, and
//! executed after others.

use alloc::{boxed::Box, vec, vec::Vec};
use core::time::Duration;

use super::{
    command::{Failure, NodeId, Reply},
    time::Timestamp,
};

/// The least time after the ttl for which to follow an acquire that a stopped node may have queued.
const FOLLOWED_FOR: Duration = Duration::from_secs(60);

/// What became of a command that sets the key.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Trace {
    /// It was not sent, or certainly not executed.
    Nothing,
    /// It is unanswered. Later commands on the same connection are executed after it.
    UnderWay,
    /// It was executed.
    Set,
    /// No answer came. It may still be executed, even after later commands on another connection.
    MayLandLate,
}

/// One node, by the acquire and the restores that may have set the key there.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Place {
    acquire: Trace,
    /// A restore was sent at some time, whatever became of it.
    restored: bool,
    restoring: bool,
    /// One of them got no answer.
    restore_may_land_late: bool,
}

/// A node to release on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ReleaseOrder {
    /// The node.
    pub node: NodeId,
    /// Whether a command that sets the key may be executed after the release.
    pub may_land_late: bool,
    /// Whether that holds even if the release deletes the key, because another command may have set it by then.
    pub several: bool,
}

/// The phase of the key's grant.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Phase {
    /// It is asked for, or it lasts.
    Open,
    /// It is over, and its holder has not given it back yet: nothing more may be set.
    Over,
    /// The round was lost: everything is to be released, right behind the acquires.
    Lost,
    /// The same, but open acquires are answered first.
    HeardOut,
    /// The lease was given back: everything is to be released.
    GivenBack,
}

/// Where the key of one owner may stand.
///
/// Inputs are the `handle_*` calls; after each of them drain [`poll_release`](Footprint::poll_release).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Footprint {
    places: Box<[Place]>,
    phase: Phase,
    orders: Vec<ReleaseOrder>,
}

impl Footprint {
    /// The footprint of an owner that was sent to none of this many nodes.
    pub fn new(nodes: usize) -> Self {
        let nowhere = Place {
            acquire: Trace::Nothing,
            restored: false,
            restoring: false,
            restore_may_land_late: false,
        };
        Self { places: vec![nowhere; nodes].into(), phase: Phase::Open, orders: Vec::new() }
    }

    /// The acquire is handed out to be sent there.
    pub fn handle_acquire_sent(&mut self, node: NodeId) {
        self.with(node, |place| place.acquire = Trace::UnderWay);
    }

    /// The acquire was handed out in vain: it was not sent, and will not be.
    pub fn handle_acquire_withdrawn(&mut self, node: NodeId) {
        self.with(node, |place| place.acquire = Trace::Nothing);
    }

    /// The node has answered the acquire, or its time is up. A second answer changes nothing.
    pub fn handle_acquire(&mut self, node: NodeId, reply: &Result<Reply, Failure>) {
        let is_lost = self.is_lost();
        let Some(place) = self.places.get_mut(node.index()) else { return };
        if place.acquire != Trace::UnderWay {
            return;
        }
        place.acquire = match reply {
            Ok(Reply::Granted(_)) => Trace::Set,
            Ok(Reply::Denied(_)) | Err(Failure { sent: false, .. }) => Trace::Nothing,
            Err(Failure { sent: true, .. }) => Trace::MayLandLate,
        };
        // No order after `GivenBack`: its order said that the key may land late, so that release is repeated anyway
        // (F4).
        if is_lost && place.acquire != Trace::Nothing {
            self.order(node);
        } else if place.is_clear() {
            // An order not taken yet would find nothing.
            self.orders.retain(|order| order.node != node);
        }
    }

    /// A restore is about to be sent there. False: it must not be, because the grant is over or another restore is
    /// under way there.
    #[must_use]
    pub fn handle_restore_sent(&mut self, node: NodeId) -> bool {
        let phase = self.phase;
        let Some(place) = self.places.get_mut(node.index()) else { return false };
        let may_be_sent = phase == Phase::Open && !place.restoring;
        if may_be_sent {
            (place.restored, place.restoring) = (true, true);
        }
        may_be_sent
    }

    /// The node has answered a restore, or its time is up. Even a restore that did nothing leaves the node one to
    /// release on: an earlier one may have set the key.
    pub fn handle_restore(&mut self, node: NodeId, reply: &Result<Reply, Failure>) {
        let phase = self.phase;
        let Some(place) = self.places.get_mut(node.index()).filter(|place| place.restoring) else {
            return;
        };
        place.restoring = false;
        let unknown = matches!(reply, Err(Failure { sent: true, .. }));
        // A later restore does not change that: the earlier one may still be under way.
        place.restore_may_land_late |= unknown;
        if (unknown || matches!(reply, Ok(Reply::Granted(_)))) && phase != Phase::Open {
            self.order(node);
        }
    }

    /// The grant no longer holds. Its keys stay until it is given back or they expire; a key that a restore sets from
    /// now on is released at once.
    pub fn handle_over(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Over;
        }
    }

    /// The round was lost: everything is to be released, right behind the acquires.
    pub fn handle_lost(&mut self) {
        self.end(Phase::Lost);
    }

    /// Hears out a lost round: its open acquires are expected to be denied, and then need no release. Their unsent
    /// releases are dropped. A key that was set is still released, as soon as that is known.
    pub fn handle_heard_out(&mut self) {
        if self.phase != Phase::Lost {
            return;
        }
        self.phase = Phase::HeardOut;
        let is_under_way =
            |place: Option<&Place>| place.is_some_and(|place| place.acquire == Trace::UnderWay);
        self.orders.retain(|order| !is_under_way(self.places.get(order.node.index())));
    }

    /// Ends the hearing out, because something else follows: open acquires are released right behind.
    pub fn handle_heard_no_longer(&mut self) {
        if self.phase != Phase::HeardOut {
            return;
        }
        self.phase = Phase::Lost;
        for index in 0..self.places.len() {
            if self.places.get(index).is_some_and(|place| place.acquire == Trace::UnderWay) {
                self.order(NodeId::new(index));
            }
        }
    }

    /// The lease is given back: everything is to be released.
    pub fn handle_given_back(&mut self) {
        self.end(Phase::GivenBack);
    }

    fn end(&mut self, phase: Phase) {
        // Once only: a second end would order every release again.
        if self.has_ended() {
            return;
        }
        self.phase = phase;
        for index in 0..self.places.len() {
            self.order(NodeId::new(index));
        }
    }

    /// The next node to release on.
    pub fn poll_release(&mut self) -> Option<ReleaseOrder> {
        if self.orders.is_empty() { None } else { Some(self.orders.remove(0)) }
    }

    /// Whether everything is to be released, or has been.
    pub fn has_ended(&self) -> bool {
        self.is_lost() || self.phase == Phase::GivenBack
    }

    const fn is_lost(&self) -> bool {
        matches!(self.phase, Phase::Lost | Phase::HeardOut)
    }

    /// Whether certainly nothing stands there, and nothing will.
    pub fn is_clear(&self, node: NodeId) -> bool {
        self.places.get(node.index()).is_none_or(Place::is_clear)
    }

    /// Whether the key has stood there, or is set there again.
    pub fn has_been_set(&self, node: NodeId) -> bool {
        let place = self.places.get(node.index());
        place.is_some_and(|place| place.acquire == Trace::Set || place.restored)
    }

    /// The nodes on which the key may stand, now or later.
    pub fn may_stand(&self) -> impl Iterator<Item = NodeId> + '_ {
        let nodes = self.places.iter().enumerate();
        nodes.filter(|(_, place)| !place.is_clear()).map(|(index, _)| NodeId::new(index))
    }

    fn with(&mut self, node: NodeId, change: impl FnOnce(&mut Place)) {
        if let Some(place) = self.places.get_mut(node.index()) {
            change(place);
        }
    }

    fn order(&mut self, node: NodeId) {
        let Some(place) = self.places.get(node.index()).filter(|place| !place.is_clear()) else {
            return;
        };
        let may_land_late = place.may_land_late(self.phase);
        let several = may_land_late && place.restored;
        self.orders.push(ReleaseOrder { node, may_land_late, several });
    }
}

impl Place {
    fn is_clear(&self) -> bool {
        self.acquire == Trace::Nothing && !self.restored
    }

    /// The release of a lost round follows its acquire on the same connection, and is executed after it. If the acquire
    /// fails, or is sent again because the server did not know the script, its answer orders another release. A lease's
    /// release may go by another connection. A restore goes out with many others and may be sent again, so that no
    /// order holds.
    fn may_land_late(&self, phase: Phase) -> bool {
        let acquire = match self.acquire {
            Trace::MayLandLate => true,
            Trace::UnderWay => phase != Phase::Lost,
            Trace::Nothing | Trace::Set => false,
        };
        acquire || self.restoring || self.restore_may_land_late
    }
}

/// One release on one node, until it is known that nothing of its owner stands there.
///
/// Its times are of the steady clock, which errs only by running behind. By a clock that runs ahead it would be given
/// up too early, and the key would block everybody for the rest of its ttl.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct UnconfirmedRelease {
    /// It is not sent before this.
    from: Timestamp,
    /// The key must have expired by then.
    until: Timestamp,
    /// Until then the node may still take the command that sets the key, so that an earlier release that finds nothing
    /// is not final. `None` if that command has certainly come first.
    taken_until: Option<Timestamp>,
    /// A release has found nothing already.
    checked: bool,
    /// Several commands may have set the key: a release that deletes it is not final either.
    several: bool,
}

impl UnconfirmedRelease {
    /// A release due at `now`, of a key that lives for `ttl`. The node takes a command for at most `taken_for` after
    /// its send.
    pub fn new(now: Timestamp, ttl: Duration, taken_for: Duration, may_land_late: bool) -> Self {
        // A stopped node may set the key late, and an extension that arrives just before expiry gives it another ttl.
        let followed_for = FOLLOWED_FOR.max(taken_for.saturating_add(ttl));
        let until = now.saturating_add(ttl).saturating_add(followed_for);
        let taken_until = may_land_late.then(|| now.saturating_add(taken_for));
        Self { from: now, until, taken_until, checked: false, several: false }
    }

    /// The same, by its order.
    pub fn ordered(
        now: Timestamp,
        ttl: Duration,
        taken_for: Duration,
        order: Option<&ReleaseOrder>,
    ) -> Self {
        let may_land_late = order.is_some_and(|order| order.may_land_late);
        let several = order.is_some_and(|order| order.several);
        Self { several, ..Self::new(now, ttl, taken_for, may_land_late) }
    }

    /// The next try, after it was sent at `sent` and answered: it has deleted the key or found nothing. `None` if that
    /// is final.
    #[must_use]
    pub fn handle_answer(
        self,
        has_deleted: bool,
        sent: Timestamp,
        now: Timestamp,
        node_timeout: Duration,
    ) -> Option<Self> {
        if has_deleted && !self.several {
            return None;
        }
        self.handle_found_nothing(sent, now, node_timeout)
    }

    /// When it is to be sent.
    pub const fn from(&self) -> Timestamp {
        self.from
    }

    /// Whether the key must have expired at `now`, so that it need not be sent any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        now >= self.until
    }

    /// The next try, after it was sent at `sent` and found nothing, or deleted the key where several commands may have
    /// set it. `None` if that is final. The first retry comes a node timeout later, when most open commands have
    /// arrived; the last one when the node takes no such command any more.
    #[must_use]
    pub fn handle_found_nothing(
        self,
        sent: Timestamp,
        now: Timestamp,
        node_timeout: Duration,
    ) -> Option<Self> {
        let taken_until = self.taken_until.filter(|until| sent < *until)?;
        let soon = now.saturating_add(node_timeout);
        let from = if self.checked { taken_until } else { soon.min(taken_until) };
        Some(Self { from, checked: true, ..self })
    }
}
