//! Carries out the probes that `protocol::Admission` asks for, beside all acquires, to learn the nodes' standing.
//!
//! It decides nothing: the probe says which nodes to look at, what to ask of them and when, which node to let in and
//! which to blame. It calls no node code and no subscriber under the lock of the admission.

use std::{
    future::{Future as _, poll_fn},
    pin::pin,
    sync::{Arc, Weak, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use futures::future::select;

use super::{
    Engine, NodeSlot,
    fanout::{Fanout, Progress},
    watch::Repeated,
};
use crate::{
    node::{NodeError, NodeState},
    protocol::{
        Admission, AdmissionNews, ClockFault, ConnectionView, Errand, Floor, Join, Marker, NodeId,
        Probe, ProbeStep, Serves, Timestamp,
    },
    telemetry::{self, NodeShown},
};

/// Probes the nodes whenever one has changed, when a quarantine ends, and now and then. Without tokens it sees only to
/// nodes that come back. It goes on as long as the engine lives, and does not keep it alive.
pub(super) async fn attend(engine: Weak<Engine>, fenced: bool) {
    let Some(fleet) = engine.upgrade().map(|engine| Arc::clone(&engine.fleet)) else { return };
    let mut voting = Vec::new();
    loop {
        let changed = fleet.attention.notified();
        let sleep = {
            let Some(engine) = engine.upgrade() else { return };
            // Taken before the look: the next probe knows of a node that connects meanwhile.
            let connected = fleet.take_connected();
            let pause = if fenced { Some(engine.probe_nodes().await) } else { None };
            let come = fenced && engine.tell_who_votes(&mut voting);
            if connected || come {
                engine.handle_node_back();
            }
            pause.map(|pause| engine.sleep_until(engine.now().saturating_add(pause)))
        };
        match sleep {
            Some(sleep) => drop(select(pin!(changed), sleep).await),
            None => changed.await,
        }
    }
}

/// What came next in a look.
enum Looked {
    AtThese(Progress<Marker>),
    Beside(Progress<Marker>),
    Refused,
}

impl Engine {
    /// Carries out one probe. Returns the pause before the next one.
    async fn probe_nodes(self: &Arc<Self>) -> Duration {
        // Read before locking: the clock is user code.
        let now = self.steady();
        let mut probe = self.admission().begin_probe(now);
        loop {
            let views: Vec<ConnectionView> = self.nodes.iter().map(NodeSlot::view).collect();
            let (now, wall_us) = (self.steady(), self.runtime.wall_us());
            let step = probe.poll(&mut self.admission(), &views, now, wall_us);
            self.tell_admission();
            match step {
                ProbeStep::Look(joins) => self.look(&mut probe, joins).await,
                ProbeStep::Admit { node, epoch, floor, serves } => {
                    self.admit(&mut probe, node, (epoch, floor, serves)).await;
                }
                ProbeStep::Done(pause) => {
                    self.fleet.tell();
                    return pause;
                }
            }
        }
    }

    /// Tells the waiters in line which nodes have begun or ceased to vote since the probe before. A node that has
    /// ceased wakes nobody, and the others may be too few to. Returns whether any has begun.
    fn tell_who_votes(self: &Arc<Self>, voting: &mut Vec<NodeId>) -> bool {
        let nodes = (0..self.nodes.len()).map(NodeId::new);
        let votes: Vec<NodeId> = nodes.filter(|node| self.may_vote(*node).is_ok()).collect();
        let come: Vec<_> = votes.iter().filter(|node| !voting.contains(node)).collect();
        let gone: Vec<_> = voting.iter().filter(|node| !votes.contains(node)).collect();
        if !(come.is_empty() && gone.is_empty()) {
            let now = self.now();
            self.decide(|client| {
                come.iter().for_each(|node| client.handle_ready(**node, now));
                gone.iter().for_each(|node| client.handle_connection(**node, now));
            });
        }
        let some_come = !come.is_empty();
        *voting = votes;
        some_come
    }

    /// Looks at some nodes at once; failing nodes are left out. A node that refuses meanwhile is looked at beside them.
    async fn look(self: &Arc<Self>, probe: &mut Probe, joins: Vec<(NodeId, Join)>) {
        let mut calls: Fanout<Marker> = Fanout::new(self);
        let mut beside: Fanout<Marker> = Fanout::new(self);
        self.ask_for_markers(&mut calls, joins);
        loop {
            let mut refused = pin!(self.fleet.refused.notified());
            let views: Vec<ConnectionView> = self.nodes.iter().map(NodeSlot::view).collect();
            let again = probe.poll_beside(&self.admission(), &views);
            self.ask_for_markers(&mut beside, again);
            let looked = poll_fn(|cx| {
                if let Poll::Ready(progress) = calls.poll_progress(self, cx) {
                    return Poll::Ready(Looked::AtThese(progress));
                }
                if !beside.is_empty()
                    && let Poll::Ready(progress) = beside.poll_progress(self, cx)
                {
                    return Poll::Ready(Looked::Beside(progress));
                }
                refused.as_mut().poll(cx).map(|()| Looked::Refused)
            });
            match looked.await {
                Looked::AtThese(Progress::Answered((node, answer))) => {
                    self.take_marker(node, answer, |admission, marker, now| {
                        probe.handle_marker(admission, node, marker, now);
                    });
                }
                Looked::AtThese(Progress::TimedOut | Progress::Done) => return,
                Looked::Beside(Progress::Answered((node, answer))) => {
                    self.take_marker(node, answer, |admission, marker, now| {
                        probe.handle_beside(admission, node, marker, now);
                    });
                }
                Looked::Beside(Progress::TimedOut | Progress::Done) | Looked::Refused => {}
            }
        }
    }

    fn ask_for_markers(&self, calls: &mut Fanout<Marker>, joins: Vec<(NodeId, Join)>) {
        let errand = match self.withdrawn.load(Ordering::Acquire) {
            true => Some(Errand::Withdraw),
            false => self.only_looks.load(Ordering::Acquire).then_some(Errand::MeanNothing),
        };
        for (node, join) in joins {
            let join = errand.map_or(join, |errand| join.errand(errand));
            if let Some(slot) = self.slot(node) {
                calls.add_vote(self, node, slot.node.join(join));
            }
        }
    }

    /// Ends this list's `Meant` claims on the nodes, so that another list finds nothing. It waits for the node timeout
    /// at most, and later looks claim nothing.
    pub(crate) async fn withdraw(self: &Arc<Self>) {
        self.withdrawn.store(true, Ordering::Release);
        let has_meant = self.admission().has_meant();
        if has_meant && self.is_served() {
            drop(self.errand(Errand::Withdraw, |_| true).await);
        }
    }

    /// Claims no node from now on, and sends nothing for that.
    #[cfg(feature = "inspect")]
    pub(crate) fn look_only(&self) {
        self.only_looks.store(true, Ordering::Release);
    }

    /// Ends the change of this handle's two lists, as soon as that is safe.
    pub(crate) fn end_change(&self) {
        self.admission().end_change();
        self.fleet.attention.notify_one();
    }

    pub(crate) fn quarantine(&self) -> Duration {
        self.admission().quarantine()
    }

    /// Whether a node of the new list does not serve clients with that list alone yet.
    pub(crate) fn is_changing(&self) -> bool {
        self.admission().is_changing()
    }

    /// Causes a look soon at nodes whose standing is not known.
    #[cfg(feature = "inspect")]
    pub(crate) fn look_again(&self) {
        self.fleet.attention.notify_one();
    }

    /// Looks once at each node that `sent` selects, for an errand and whatever its standing. No answer is a vote, and a
    /// node that is not selected has no answer.
    pub(crate) async fn errand(
        self: &Arc<Self>,
        errand: Errand,
        sent: impl Fn(NodeId) -> bool,
    ) -> Vec<Option<Result<Marker, NodeError>>> {
        let look = Join::look(self.config.longest_ttl()).errand(errand);
        let mut answers = Vec::new();
        answers.resize_with(self.nodes.len(), || None);
        let mut calls: Fanout<Marker> = Fanout::new(self);
        for ((index, slot), answer) in self.nodes.iter().enumerate().zip(&mut answers) {
            let node = NodeId::new(index);
            if sent(node) {
                *answer = Some(Err(NodeError::TimedOut));
                calls.add(node, slot.node.join(look));
            }
        }
        while let Progress::Answered((node, answer)) = calls.progress(self).await {
            if let Some(slot) = answers.get_mut(node.index()) {
                *slot = Some(answer);
            }
        }
        answers
    }

    /// Waiters for voting nodes are told at once: the probe may wait for another node.
    fn take_marker(
        &self,
        node: NodeId,
        answer: Result<Marker, NodeError>,
        take: impl FnOnce(&mut Admission, Marker, Timestamp),
    ) {
        match answer {
            Ok(marker) => {
                let now = self.steady();
                let voted = self.may_vote(node).is_ok();
                take(&mut self.admission(), marker, now);
                self.tell_admission();
                if self.may_vote(node).is_ok() != voted {
                    self.fleet.tell();
                }
            }
            Err(error) => self.admission_failed(node, error),
        }
    }

    async fn admit(
        self: &Arc<Self>,
        probe: &mut Probe,
        node: NodeId,
        (epoch, floor, serves): (u64, Floor, Serves),
    ) {
        let Some(slot) = self.slot(node) else { return };
        let mut call: Fanout<bool> = Fanout::new(self);
        call.add(node, slot.node.admit(epoch, floor, serves));
        match call.progress(self).await {
            Progress::Answered((_, Ok(true))) => probe.handle_admitted(),
            Progress::Answered((_, Err(error))) => self.admission_failed(node, error),
            _ => {}
        }
    }

    /// Tells the log of the results, one after the other: a subscriber may look at the nodes, and panic.
    fn tell_admission(&self) {
        loop {
            let news = self.admission().poll_news();
            let Some(news) = news else { return };
            self.tell_news(&news);
        }
    }

    fn tell_news(&self, news: &AdmissionNews) {
        let address = |node: NodeId| self.slot(node).map_or("", |slot| &*slot.address);
        match news {
            // These are states; `watch` tells of them.
            AdmissionNews::Quarantined { .. } | AdmissionNews::HeldBack { .. } => {}
            AdmissionNews::Admitted { node, floor } => {
                let floor = floor.known.max(floor.wall_us);
                if let Some(times) = self.is_told(Repeated::Admitted(*node)) {
                    let shown = NodeShown { node: *node, address: address(*node) };
                    telemetry::node_admitted(shown, floor, times);
                }
            }
            AdmissionNews::MaxTtlRaised { node, from, to } => {
                let shown = NodeShown { node: *node, address: address(*node) };
                telemetry::max_ttl_raised(shown, *from, *to);
            }
            AdmissionNews::Sealed { wait } => telemetry::change_sealed(*wait),
            AdmissionNews::Opened => telemetry::change_ended(),
            AdmissionNews::Judged(verdicts) => {
                if verdicts.contains(&Some(ClockFault::Ours))
                    && let Some(times) = self.is_told(Repeated::OwnClock)
                {
                    telemetry::own_clock_jumped(times);
                }
            }
        }
    }
}

impl NodeSlot {
    /// The state of the node, without asking it.
    fn view(&self) -> ConnectionView {
        let clock = self.node.clock();
        match self.node.status() {
            Ok(status) => {
                ConnectionView::new(Some(status.state == NodeState::Ready), status.identity, clock)
            }
            Err(_) => ConnectionView::new(None, None, clock),
        }
    }
}
