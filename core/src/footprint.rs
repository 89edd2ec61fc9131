//! Where the key of one owner may stand, now or later; what to release, what to check again, where it may be restored.
//!
//! It decides what has to be undone, so that nothing leaks. It must never call a node clear on which something may
//! stand. It sends nothing and looks at no clock.
//!
//! # Invariants
//!
//! - **F1** A node is clear only if no command that sets the key was sent there, or the only one was the acquire and the
//!   node has certainly not executed it.
//! - **F2** At the end each node that is not clear is released on, and whatever may be executed behind that release is
//!   followed: after a lost round by one more release, when an answer shows that the key may have been set; after a
//!   lease was given back by F4. Of a lost round that is heard out, what is under way is released on when its answer
//!   shows that, or the round is heard no longer.
//! - **F3** A restore may be sent only while the grant lasts, one at a time to a node, and from then on the node is not
//!   clear.
//! - **F4** A release that finds nothing is not the last word where the command that sets the key may arrive behind it,
//!   nor is one that deletes the key where several commands may have set it: it is sent again until the node takes that
//!   command no more.
//! - **F5** A release is given up for the time that has passed only when the key must have expired.
//!
//! A release may keep the key for a while instead of deleting it (`Command::Release`). To the footprint that is the
//! same: the key is kept for no longer than a ttl, so that F5 counts as with an extension that arrives late, and one that
//! is sent again when the while is over deletes.
//!
//! They are tested, each by name, in `tests/proof/protocol/footprint.rs`, beside a world in which commands are lost, late, and
//! executed behind others.

use alloc::{boxed::Box, vec, vec::Vec};
use core::time::Duration;

use super::{
    command::{Failure, NodeId, Reply},
    time::Timestamp,
};

/// How long after the ttl an acquire that a stopped node may have queued is still followed at least.
const FOLLOWED_FOR: Duration = Duration::from_secs(60);

/// What became of one command that sets the key.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Trace {
    /// It was not sent, or certainly not executed.
    Nothing,
    /// It is unanswered. What is sent behind it on the same connection is executed after it.
    UnderWay,
    /// It was executed.
    Set,
    /// No answer came. It may be executed yet, also after what is sent behind it on another connection.
    MayLandLate,
}

/// One node, by the acquire and by the restores that may have set the key there.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Place {
    acquire: Trace,
    /// A restore has been sent at some time, whatever became of it.
    restored: bool,
    restoring: bool,
    /// No answer came to one of them.
    restore_may_land_late: bool,
}

/// A node to release on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ReleaseOrder {
    /// Where.
    pub node: NodeId,
    /// Whether a command that sets the key may be executed after the release.
    pub may_land_late: bool,
    /// Whether that is so even where the release deletes the key, since another command may have set it by then.
    pub several: bool,
}

/// How far the grant has come for which the key was set.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Phase {
    /// It is asked for, or lasts.
    Open,
    /// It is over, and its holder has not given it back yet: nothing more may be set.
    Over,
    /// The round was lost: everything is to be released, right behind the acquires.
    Lost,
    /// The same, but what is under way is answered first.
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
    /// Of an owner that has been sent to none of so many nodes.
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

    /// The acquire was handed out for nothing: it has not been sent, and will not be.
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
        // No order after `GivenBack`: its order said that the key may land late, so its release is repeated anyway (F4).
        if is_lost && place.acquire != Trace::Nothing {
            self.order(node);
        } else if place.is_clear() {
            // One that has not been taken yet would find nothing.
            self.orders.retain(|order| order.node != node);
        }
    }

    /// A restore is about to be sent there. False says that it must not be: the grant is over, or one is under way there
    /// already.
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

    /// The node has answered a restore, or its time is up. Where it did nothing, the node stays one to release on: one
    /// before it may have set the key.
    pub fn handle_restore(&mut self, node: NodeId, reply: &Result<Reply, Failure>) {
        let phase = self.phase;
        let Some(place) = self.places.get_mut(node.index()).filter(|place| place.restoring) else {
            return;
        };
        place.restoring = false;
        let unknown = matches!(reply, Err(Failure { sent: true, .. }));
        // It stays so whatever a later restore is answered: the earlier one may still be on its way.
        place.restore_may_land_late |= unknown;
        if (unknown || matches!(reply, Ok(Reply::Granted(_)))) && phase != Phase::Open {
            self.order(node);
        }
    }

    /// The grant does not hold any more. What it has set stays until it is given back or expires; what a restore sets
    /// from now on is released at once.
    pub fn handle_over(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Over;
        }
    }

    /// The round was lost: all that may stand is to be released, right behind the acquires.
    pub fn handle_lost(&mut self) {
        self.end(Phase::Lost);
    }

    /// The round that was lost is heard out: the acquires under way are expected to be denied as well, and one that is
    /// denied needs no release. Releases of these that have not been sent are not sent; what has been set is released
    /// all the same, as soon as that is known.
    pub fn handle_heard_out(&mut self) {
        if self.phase != Phase::Lost {
            return;
        }
        self.phase = Phase::HeardOut;
        let is_under_way =
            |place: Option<&Place>| place.is_some_and(|place| place.acquire == Trace::UnderWay);
        self.orders.retain(|order| !is_under_way(self.places.get(order.node.index())));
    }

    /// It is heard no longer, since something else is to follow: what is still under way is to be released right behind.
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

    /// The lease is given back: all that may stand is to be released.
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

    /// A release of a lost round is sent right behind the acquire on the same connection, and is executed after it;
    /// should the acquire fail, or be sent a second time since the server did not know the script, its answer orders
    /// another one. That of a lease may come when the connection is another one already. A restore goes out with many
    /// others, and may have to be sent a second time, so that no order is kept.
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
/// Its times are those of a clock that may only err by running behind. By one that runs ahead it would be given up too
/// early, and the key would stand in everybody's way for the rest of its ttl.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct UnconfirmedRelease {
    /// It is not sent again before this.
    from: Timestamp,
    /// The key must have expired by then.
    until: Timestamp,
    /// Up to then the node may still take the command that sets the key, so that a release that is sent before may find
    /// nothing and yet not be the last word. `None` where that command has certainly come first.
    taken_until: Option<Timestamp>,
    /// One has found nothing already.
    checked: bool,
    /// Several commands may have set the key: one that deletes it is not the last word either.
    several: bool,
}

impl UnconfirmedRelease {
    /// One that is due at `now`, of a key that lives for `ttl`. The node takes a command for `taken_for` after it was
    /// sent at most.
    pub fn new(now: Timestamp, ttl: Duration, taken_for: Duration, may_land_late: bool) -> Self {
        // A stopped node may set the key late, and an extension that arrives when it is about to expire lets it live for
        // another ttl.
        let followed_for = FOLLOWED_FOR.max(taken_for.saturating_add(ttl));
        let until = now.saturating_add(ttl).saturating_add(followed_for);
        let taken_until = may_land_late.then(|| now.saturating_add(taken_for));
        Self { from: now, until, taken_until, checked: false, several: false }
    }

    /// The same, as it was ordered.
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

    /// What follows when it was sent at `sent` and has been answered: it has deleted the key, or has found nothing. `None` if
    /// that is the last word.
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

    /// What follows when it was sent at `sent` and has found nothing, or has deleted the key where several commands may
    /// have set it: `None` if that is the last word. Otherwise it is sent again, first a node timeout later, when most of
    /// what is still under way has arrived, and then when the node takes nothing of it any more.
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
