//! Admits nodes: reads their markers, waits out quarantines, and lets them vote again.
//!
//! It carries out what `protocol::Admission` decides, beside all acquires. It must never call a node ready on the
//! strength of an answer that is older than what has been seen of the node since.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures::future::select;

use super::{
    Engine, NodeSlot,
    fanout::{Fanout, Progress},
};
use crate::{
    node::{Join, NodeError, NodeState, READ_EVERY},
    protocol::{Floor, Marker, NodeId, Standing, Timestamp},
    telemetry,
};

/// How long to wait before an admission that could not be finished is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// How often the nodes that are ready are looked at too, whatever else there is to see to: the longer ago a clock
/// was read, the larger a jump of it that is not seen.
const LOOK: Duration = READ_EVERY;

/// A sleep until the next look is no shorter than this: a steady clock that runs slow is behind when it ends.
const SHORTEST: Duration = Duration::from_millis(50);

/// Sees to the nodes whenever one has changed, when a quarantine ends, and now and then. It goes on as long as the
/// engine lives, and does not keep it alive.
pub(super) async fn attend(engine: Weak<Engine>) {
    let Some(fleet) = engine.upgrade().map(|engine| Arc::clone(&engine.fleet)) else { return };
    let mut next_look: Option<Timestamp> = None;
    loop {
        let changed = fleet.attention.notified();
        let sleep = {
            let Some(engine) = engine.upgrade() else { return };
            let now = engine.runtime.steady();
            let everyone = next_look.is_some_and(|at| now >= at);
            let next = next_look.filter(|_| !everyone).unwrap_or_else(|| now.saturating_add(LOOK));
            next_look = Some(next);
            let pause = engine.see_to_admission(everyone).await;
            let left = next.saturating_since(engine.runtime.steady()).max(SHORTEST);
            engine.runtime.sleep_until(engine.now().saturating_add(pause.min(left)))
        };
        select(std::pin::pin!(changed), sleep).await;
    }
}

impl Engine {
    /// Reads the markers of the nodes whose standing is not known, or of all, and admits those whose time has
    /// come. Returns when to look again.
    async fn see_to_admission(self: &Arc<Self>, everyone: bool) -> Duration {
        let (mut unknown, mut unseen) = (Vec::new(), false);
        for (index, slot) in self.nodes.iter().enumerate() {
            let node = NodeId::new(index);
            // One that cannot be looked at stands where it stood, until it can be.
            let Ok(status) = slot.node.status() else {
                unseen = true;
                continue;
            };
            let connected = status.state == NodeState::Ready;
            if connected && slot.is_another(status.identity) {
                let mut admission = self.admission();
                self.lapse(node, &mut admission);
                admission.handle_replaced(node);
                slot.set_trouble(None);
            }
            let standing = self.admission().standing(node);
            let jumped = slot.jumped_in().is_some();
            match (connected, standing) {
                // Whatever comes back may have forgotten. One that is joining goes on waiting, unless another
                // process comes back in its place.
                (false, Standing::Ready) => self.lapse(node, &mut self.admission()),
                // Another client may let a joining one vote.
                (true, Standing::Unknown | Standing::Joining { .. }) => {
                    unknown.push((node, standing));
                }
                (true, Standing::Ready) if everyone || jumped => unknown.push((node, standing)),
                _ => {}
            }
        }
        let blamed = self.judge_clocks().await;
        let nodes: Vec<NodeId> = unknown.iter().map(|(node, _)| *node).collect();
        let look = Join::look(self.admission().longest());
        let since = self.runtime.steady();
        let markers = self.markers(&nodes, look, &blamed).await;
        let read: Vec<NodeId> = markers.iter().map(|(node, _)| *node).collect();
        for (node, marker) in markers {
            if self.slot(node).is_some_and(|slot| slot.jumped_in().is_none()) {
                self.take(node, marker).await;
            }
        }
        self.note_clocks(since, everyone, &read).await;
        let due = self.admission().due(self.runtime.steady());
        for node in due {
            self.admit(node).await;
        }
        self.fleet.tell();
        let admission = self.admission();
        let waiting =
            unseen || nodes.iter().any(|node| admission.standing(*node) != Standing::Ready);
        let now = self.runtime.steady();
        match admission.poll_timeout() {
            Some(at) if at > now => at.saturating_since(now).min(AGAIN),
            _ if waiting => AGAIN,
            _ => LOOK,
        }
    }

    /// Takes the marker of a node. One whose data went back, such as to a backup, is made to join again.
    async fn take(self: &Arc<Self>, node: NodeId, marker: Marker) {
        if self.read(node, marker) {
            return;
        }
        let again = Join::look(self.admission().longest()).force(Some(marker.era)).lost();
        for (node, marker) in self.markers(&[node], again, &[]).await {
            self.read(node, marker);
        }
    }

    /// Notes what the marker of a node says. False says that its data went back.
    fn read(&self, node: NodeId, marker: Marker) -> bool {
        let (went_back, quarantine) = {
            let mut admission = self.admission();
            let before = admission.standing(node);
            let went_back = !admission.handle_marker(node, marker, self.runtime.steady());
            let after = admission.standing(node);
            let joins = matches!(after, Standing::Joining { .. }) && before != after;
            (went_back, joins.then(|| admission.quarantine()))
        };
        if let (Some(quarantine), Some(slot)) = (quarantine, self.slot(node)) {
            telemetry::node_quarantined(node, &slot.address, quarantine);
        }
        !went_back
    }

    /// Reads the markers of some nodes at once; those that fail are left out, and those whose clock has jumped
    /// meanwhile. One whose clock has jumped before, and that is `blamed` for it, is made to join again.
    pub(super) async fn markers(
        self: &Arc<Self>,
        nodes: &[NodeId],
        look: Join,
        blamed: &[NodeId],
    ) -> Vec<(NodeId, Marker)> {
        let mut calls: Fanout<Marker> = Fanout::new(self);
        let mut forced = vec![None; self.nodes.len()];
        for node in nodes {
            if let (Some(slot), Some(forced)) = (self.slot(*node), forced.get_mut(node.index())) {
                *forced = slot.jumped_in().filter(|_| blamed.contains(node));
                let look = look.force(forced.or(look.force));
                calls.add_vote(self, *node, slot.node.join(look));
            }
        }
        let mut read = Vec::new();
        loop {
            let (node, answer) = match calls.progress(self).await {
                Progress::Answered(answer) => answer,
                Progress::Done | Progress::TimedOut => return read,
            };
            let Some(slot) = self.slot(node) else { continue };
            match answer {
                Ok(marker) => {
                    if let Some(era) = forced.get(node.index()).copied().flatten() {
                        slot.forget_jump(era);
                    }
                    slot.set_trouble(None);
                    if slot.jumped_in().is_none() {
                        // The session knows of a new seal by now, and rounds that begin now must know of it too.
                        if marker.ready && self.admission().standing(node) == Standing::Ready {
                            self.read(node, marker);
                        }
                        read.push((node, marker));
                    }
                }
                Err(error) => self.admission_failed(node, slot, error),
            }
        }
    }

    /// Lets a node vote whose quarantine is over, if the others can say from where its counters go on.
    async fn admit(self: &Arc<Self>, node: NodeId) {
        let Some(slot) = self.slot(node) else { return };
        // Whatever changes the node's standing meanwhile changes its era, and then it is not admitted.
        let Standing::Joining { era, .. } = self.admission().standing(node) else { return };
        let Some(floor) = self.floor(node, slot, era).await else { return };
        let mut call: Fanout<bool> = Fanout::new(self);
        call.add(node, slot.node.admit(era, floor));
        match call.progress(self).await {
            Progress::Answered((_, Ok(true))) => {
                telemetry::node_admitted(node, &slot.address, floor.known.max(floor.wall_us));
            }
            Progress::Answered((_, Err(error))) => self.admission_failed(node, slot, error),
            _ => {}
        }
        // Its marker is read again in any case: another client may have been faster.
        let look = Join::look(self.admission().longest());
        for (node, marker) in self.markers(&[node], look, &[]).await {
            self.read(node, marker);
        }
    }

    /// From where the counters of a node go on, as the others say; `None` where it has to wait longer.
    ///
    /// The others are sealed before they are believed, which costs every client whose rounds are under way another
    /// look at them. So it is first seen whether they could tell, and whether the node is still there and waiting; and
    /// what a sealed majority has said holds for as long as the node waits in this era, whatever keeps it waiting.
    async fn floor(self: &Arc<Self>, node: NodeId, slot: &NodeSlot, era: u64) -> Option<Floor> {
        let everyone: Vec<NodeId> = (0..self.nodes.len()).map(NodeId::new).collect();
        let others: Vec<NodeId> = everyone.iter().copied().filter(|other| *other != node).collect();
        let look = Join::look(self.admission().longest());
        let read = self.markers(&everyone, look, &[]).await;
        let (own, read): (Vec<_>, Vec<_>) = read.into_iter().partition(|(other, _)| *other == node);
        if !own.iter().any(|(_, marker)| !marker.ready && marker.era == era) {
            return None;
        }
        for (node, marker) in own {
            self.read(node, marker);
        }
        let floor = self.judge_floor(node, slot, &read)?;
        if let Some(sealed) = slot.sealed_floor(era) {
            return Some(Floor::new(sealed.known.max(floor.known), floor.wall_us));
        }
        if floor.wall_us > 0 {
            // All that are joining are told, before the first of them is ready and looks like one that knows.
            let orphaned = Join::look(self.admission().longest()).orphaned();
            let joining: Vec<NodeId> = read
                .iter()
                .filter(|(_, marker)| !marker.ready && !marker.kept)
                .map(|(other, _)| *other)
                .chain([node])
                .collect();
            let told = self.markers(&joining, orphaned, &[]).await;
            told.into_iter().for_each(|(other, marker)| {
                self.read(other, marker);
            });
        }
        let sealed = self.markers(&others, look.seal(), &[]).await;
        let floor = self.judge_floor(node, slot, &sealed)?;
        if floor.wall_us == 0 {
            slot.set_sealed_floor(era, floor);
        }
        Some(floor)
    }

    fn judge_floor(
        &self,
        node: NodeId,
        slot: &NodeSlot,
        read: &[(NodeId, Marker)],
    ) -> Option<Floor> {
        let floor = {
            let mut admission = self.admission();
            // The others may know of a longer ttl than this process does, and then the quarantine goes on.
            read.iter().for_each(|(_, marker)| admission.handle_news(*marker));
            if !admission.due(self.runtime.steady()).contains(&node) {
                return None;
            }
            let others: Vec<_> = read.iter().map(|(node, read)| (*node, Some(*read))).collect();
            admission.floor(node, &others, self.runtime.wall_us())
        };
        floor.map_err(|hold| telemetry::node_held_back(node, &slot.address, hold)).ok()
    }

    /// Takes note of why a marker could not be read or set. What passes by itself is no trouble, and a node that is
    /// down says so by itself.
    fn admission_failed(&self, node: NodeId, slot: &NodeSlot, error: NodeError) {
        let trouble = match error {
            NodeError::NotConnected { .. }
            | NodeError::ConnectionLost { .. }
            | NodeError::TimedOut
            | NodeError::Overloaded
            | NodeError::NotAdmitted
            | NodeError::Outdated
            | NodeError::VoteLapsed
            | NodeError::Quarantined { .. }
            | NodeError::ArrivedLate
            | NodeError::ClockJumped => return,
            NodeError::Refused(_) | NodeError::MarkerUnreadable { .. } => error,
            NodeError::Rejected { .. }
            | NodeError::CounterExhausted
            | NodeError::Panicked { .. }
            | NodeError::Unexpected { .. } => {
                NodeError::MarkerUnreadable { cause: Box::new(error) }
            }
        };
        if slot.has_trouble(&trouble) {
            return;
        }
        telemetry::node_not_admitted(node, &slot.address, &trouble);
        slot.set_trouble(Some(trouble));
        // It would not vote either.
        let mut admission = self.admission();
        if admission.standing(node) == Standing::Ready {
            self.lapse(node, &mut admission);
        }
    }
}
