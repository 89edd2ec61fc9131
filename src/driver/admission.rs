//! Admits nodes: reads their markers, waits out quarantines, and lets them vote again.
//!
//! It carries out what `protocol::Admission` decides. It never makes an acquire wait.

use std::{
    sync::{Arc, MutexGuard, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use futures::future::select;

use super::{
    Driver, Member,
    fanout::{Fanout, Progress},
};
use crate::{
    node::{NodeError, NodeState},
    protocol::{Admission, Marker, NodeId, Standing},
    telemetry,
};

/// How long to wait before an admission that could not be finished is tried again.
const AGAIN: Duration = Duration::from_millis(500);

impl Driver {
    /// Starts to look after the nodes' admission. It goes on as long as the driver lives.
    pub(super) fn start_admission(self: &Arc<Self>) {
        self.runtime.spawn(Box::pin(attend(Arc::downgrade(self))));
    }

    pub(super) fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a node may be asked for a vote.
    pub(super) fn may_vote(&self, node: NodeId) -> Result<(), NodeError> {
        if self.config.classic {
            return Ok(());
        }
        let admission = self.admission();
        match admission.standing(node) {
            Standing::Ready => Ok(()),
            Standing::Unknown => Err(self.trouble(node).unwrap_or(NodeError::NotAdmitted)),
            Standing::Joining { .. } => {
                let remaining = admission.remaining(node, self.now());
                Err(NodeError::Quarantined { remaining: remaining.unwrap_or_default() })
            }
        }
    }

    /// The hint of an acquire; none in classic mode.
    pub(super) fn hint(&self) -> Option<u64> {
        let wall_us = self.runtime.wall_us();
        (!self.config.classic).then(|| self.admission().hint(wall_us))
    }

    /// What a node's standing says beyond its connection.
    pub(super) fn standing_as_state(
        &self,
        node: NodeId,
        identity: Option<&Arc<str>>,
    ) -> Option<NodeState> {
        if self.config.classic {
            return None;
        }
        // Another process is there than the one whose standing is known.
        if self.member(node).is_some_and(|member| !member.is_known(identity)) {
            return Some(NodeState::Connecting);
        }
        let admission = self.admission();
        match admission.standing(node) {
            Standing::Ready => None,
            Standing::Unknown => Some(match self.trouble(node) {
                Some(error) => NodeState::Down { reason: Arc::from(error.to_string()) },
                None => NodeState::Connecting,
            }),
            Standing::Joining { .. } => {
                let remaining = admission.remaining(node, self.now()).unwrap_or_default();
                Some(NodeState::Quarantined { remaining })
            }
        }
    }

    /// Why a node's marker could not be read, such as a right that is missing.
    fn trouble(&self, node: NodeId) -> Option<NodeError> {
        self.member(node)?.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes note of what a failure says about a node's standing.
    pub(super) fn node_failed(&self, node: NodeId, error: &NodeError) {
        match error {
            NodeError::NotAdmitted | NodeError::TtlTooLong => {
                let mut admission = self.admission();
                // One that is joining has said so before, and goes on waiting.
                if admission.standing(node) == Standing::Ready {
                    admission.handle_forgotten(node);
                    self.fleet.attention.notify_one();
                }
            }
            NodeError::ClockJumped => {
                self.admission().handle_forgotten(node);
                if let Some(member) = self.member(node) {
                    member.jumped.store(true, Ordering::Release);
                }
                self.fleet.attention.notify_one();
            }
            _ => {}
        }
    }

    /// Reads the markers of the nodes whose standing is not known, and admits those whose time has come.
    async fn see_to_admission(self: &Arc<Self>) -> Duration {
        let mut unknown = Vec::new();
        for (index, member) in self.nodes.iter().enumerate() {
            let node = NodeId::new(index);
            let status = member.node.status();
            let ready = status.state == NodeState::Ready;
            if ready && member.is_another(status.identity) {
                self.admission().handle_forgotten(node);
            }
            let standing = self.admission().standing(node);
            match (ready, standing) {
                // Whatever comes back may have forgotten. One that is joining goes on waiting, unless another
                // process comes back in its place.
                (false, Standing::Ready) => self.admission().handle_forgotten(node),
                // Another client may let a joining one vote.
                (true, Standing::Unknown | Standing::Joining { .. }) => {
                    unknown.push((node, standing))
                }
                _ => {}
            }
        }
        self.judge_clocks().await;
        let nodes: Vec<NodeId> = unknown.iter().map(|(node, _)| *node).collect();
        for (node, marker) in self.markers(&nodes, true).await {
            let now = self.now();
            let mut admission = self.admission();
            admission.handle_marker(node, marker, now);
            let new = unknown.contains(&(node, Standing::Unknown));
            if let (true, Standing::Joining { .. }, Some(member)) =
                (new, admission.standing(node), self.member(node))
            {
                telemetry::node_quarantined(node, &member.address, admission.quarantine());
            }
        }
        let due = self.admission().due(self.now());
        for node in due {
            self.admit(node).await;
        }
        self.fleet.tell();
        let admission = self.admission();
        let waiting = nodes.iter().any(|node| admission.standing(*node) != Standing::Ready);
        match admission.poll_timeout() {
            Some(at) if at > self.now() => at.saturating_since(self.now()).min(AGAIN),
            _ if waiting => AGAIN,
            _ => Duration::from_secs(60),
        }
    }

    /// Where more clocks have jumped than a quorum can spare, the clock that jumped is our own, and no node is
    /// blamed: it would be quarantined for the whole fleet.
    async fn judge_clocks(self: &Arc<Self>) {
        let jumped = || self.nodes.iter().filter(|member| member.jumped.load(Ordering::Acquire));
        if jumped().next().is_none() {
            return;
        }
        // A look at the other clocks: one that has jumped too says so now.
        let others: Vec<NodeId> = (0..self.nodes.len())
            .map(NodeId::new)
            .filter(|node| {
                self.member(*node).is_some_and(|member| !member.jumped.load(Ordering::Acquire))
            })
            .collect();
        drop(self.markers(&others, false).await);
        if jumped().count() > self.quorum.spare() {
            telemetry::own_clock_jumped();
            for member in &self.nodes {
                member.jumped.store(false, Ordering::Release);
            }
        }
    }

    /// Reads the markers of some nodes at once; those that fail are left out.
    /// Only where `force` says so, one whose clock has jumped is made to join again.
    async fn markers(self: &Arc<Self>, nodes: &[NodeId], force: bool) -> Vec<(NodeId, Marker)> {
        let mut calls: Fanout<Marker> = Fanout::new(self);
        for node in nodes {
            if let Some(member) = self.member(*node) {
                let force = force && member.jumped.load(Ordering::Acquire);
                let longest = self.admission().longest();
                calls.add(*node, member.node.join(longest, force));
            }
        }
        let mut read = Vec::new();
        loop {
            match calls.progress().await {
                Progress::Answered((node, Ok(marker))) => {
                    if let Some(member) = self.member(node) {
                        if force {
                            member.jumped.store(false, Ordering::Release);
                        }
                        member.set_trouble(None);
                    }
                    read.push((node, marker));
                }
                Progress::Answered((node, Err(error))) => {
                    self.node_failed(node, &error);
                    // What passes by itself is no trouble, and a node that is down says so by itself.
                    if let (NodeError::Rejected { sent: false, .. }, Some(member)) =
                        (&error, self.member(node))
                    {
                        member.set_trouble(Some(error));
                    }
                }
                Progress::Done | Progress::TimedOut => return read,
            }
        }
    }

    /// Lets a node vote whose quarantine is over, if the others can say from where its counters go on.
    async fn admit(self: &Arc<Self>, node: NodeId) {
        let Some(member) = self.member(node) else { return };
        // Whatever changes the node's standing meanwhile changes its epoch, and then it is not admitted.
        let Standing::Joining { epoch, .. } = self.admission().standing(node) else { return };
        let others: Vec<NodeId> =
            (0..self.nodes.len()).map(NodeId::new).filter(|other| *other != node).collect();
        let read = self.markers(&others, false).await;
        {
            // The others may know of a longer ttl than this process does, and then the quarantine goes on.
            let (mut admission, now) = (self.admission(), self.now());
            for (other, marker) in &read {
                admission.handle_marker(*other, *marker, now);
            }
            if !admission.due(now).contains(&node) {
                return;
            }
        }
        let others: Vec<_> = read.into_iter().map(|(node, marker)| (node, Some(marker))).collect();
        let floor = self.admission().floor(node, &others, self.runtime.wall_us());
        let floor = match floor {
            Ok(floor) => floor,
            Err(hold) => {
                telemetry::node_held_back(node, &member.address, hold);
                return;
            }
        };
        let mut call: Fanout<bool> = Fanout::new(self);
        call.add(node, member.node.admit(epoch, floor));
        let admitted = matches!(call.progress().await, Progress::Answered((_, Ok(true))));
        if admitted {
            telemetry::node_admitted(node, &member.address, floor);
        }
        // Its marker is read again in any case: another client may have been faster.
        for (node, marker) in self.markers(&[node], false).await {
            self.admission().handle_marker(node, marker, self.now());
        }
    }
}

impl Member {
    fn set_trouble(&self, trouble: Option<NodeError>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    fn is_known(&self, identity: Option<&Arc<str>>) -> bool {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner).as_ref() == identity
    }

    /// Whether the server behind this node is another one than when it was last looked at.
    fn is_another(&self, identity: Option<Arc<str>>) -> bool {
        let mut known = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        let another = known.is_some() && *known != identity;
        *known = identity;
        another
    }
}

/// Sees to the nodes whenever one has changed, and when a quarantine ends. It does not keep the driver alive.
async fn attend(driver: Weak<Driver>) {
    let Some(fleet) = driver.upgrade().map(|driver| Arc::clone(&driver.fleet)) else { return };
    loop {
        let changed = fleet.attention.notified();
        let sleep = {
            let Some(driver) = driver.upgrade() else { return };
            let pause = driver.see_to_admission().await;
            driver.runtime.sleep_until(driver.now().saturating_add(pause))
        };
        select(std::pin::pin!(changed), sleep).await;
    }
}
