//! A leader's proclamation, told to all nodes and kept there as long as its lease lasts.
//!
//! It carries out what `Proclaiming` decides. Only a won round begins it (E1). It must send nothing once the lease is
//! over, and keep neither the lease nor its engine alive.

use std::{
    pin::pin,
    sync::{Arc, MutexGuard, Weak},
    time::Duration,
};

use futures::future::{Either, select};
use tokio::sync::Notify;

use super::{
    Engine, LeaseTerm, after_panic,
    fanout::{Fanout, Progress},
};
use crate::{
    error::LeaseLost,
    lock::Lock,
    protocol::{
        Command, FencingToken, LeaderText, LossReason, NodeId, Note, Proclaiming, Record, Reply,
        Timestamp,
    },
    shield::{persist, shield},
    telemetry,
};

/// How long work may go on after its keys are gone before the log tells of it.
const MOMENT: Duration = Duration::from_millis(100);

/// The text of one leader, and which nodes have it.
pub(crate) struct Proclamation {
    held: LeaseTerm,
    term: FencingToken,
    since_us: u64,
    state: Lock<Said>,
    /// The text has changed.
    said: Notify,
    /// A node has taken it.
    told: Notify,
}

struct Said {
    says: Proclaiming,
    text: LeaderText,
}

impl Engine {
    /// Tells all nodes of a newly elected leader, in the background.
    pub(crate) fn proclaim(
        self: &Arc<Self>,
        held: LeaseTerm,
        term: FencingToken,
        text: LeaderText,
    ) -> Arc<Proclamation> {
        let label = held.grant().note();
        let since_us = label.map_or_else(
            || self.runtime.wall_us(),
            |note| u64::try_from(note.since().as_micros()).unwrap_or(u64::MAX),
        );
        let said = Said { says: Proclaiming::new(self.quorum), text };
        let proclamation = Arc::new(Proclamation {
            held,
            term,
            since_us,
            state: Lock::new(said),
            said: Notify::new(),
            told: Notify::new(),
        });
        proclamation.keep(self);
        let (weak, of_task) = (Arc::downgrade(self), Arc::clone(&proclamation));
        self.spawn_uncounted(async move {
            persist(|| of_task.attend(&weak), || after_panic(&weak)).await;
        });
        proclamation
    }
}

impl Proclamation {
    pub(crate) const fn held(&self) -> &LeaseTerm {
        &self.held
    }

    pub(crate) const fn term(&self) -> FencingToken {
        self.term
    }

    /// Changes the text. The returned number is for [`confirmed`](Proclamation::confirmed).
    pub(crate) fn say(&self, engine: &Engine, text: LeaderText) -> u64 {
        let number = {
            let mut state = self.state();
            state.text = text;
            state.says.say()
        };
        self.keep(engine);
        self.said.notify_one();
        number
    }

    /// Ends when a quorum of nodes has taken this text, or a newer one.
    pub(crate) async fn confirmed(&self, number: u64) -> Result<(), LeaseLost> {
        let told = async {
            loop {
                let mut told = pin!(self.told.notified());
                // Registered before it is looked at, so that no answer in between is missed.
                told.as_mut().enable();
                if self.state().says.is_confirmed(number) {
                    return;
                }
                told.await;
            }
        };
        let lost = pin!(self.held.wait(LeaseTerm::lost));
        match shield(select(pin!(told), lost)).await {
            Either::Left(_) => Ok(()),
            Either::Right((lost, _)) => Err(lost.unwrap_or_else(|| self.held.forked())),
        }
    }

    /// How many nodes have the current text.
    pub(crate) fn told(&self) -> usize {
        self.state().says.told()
    }

    /// From when on others may lead, once the term is lost for this reason: from the end of the lease, or from the loss
    /// itself if the keys are gone or a shutdown has released them.
    pub(crate) fn over_at(&self, reason: LossReason, now: Timestamp) -> Timestamp {
        let grant = self.held.grant();
        let (deadline, is_given_back) = (grant.ends().0, grant.is_given_back());
        self.state().says.over_at(reason, is_given_back, deadline, now)
    }

    /// Up to when work that has `stop_within` to stop may go on, once the term is lost for this reason.
    pub(crate) fn stop_by(
        &self,
        stop_within: Duration,
        reason: LossReason,
        now: Timestamp,
    ) -> Timestamp {
        let lost_at = self.lost_at(now);
        let (_, stop_by) = self.held.grant().ends();
        stop_by.min(lost_at.saturating_add(stop_within)).min(self.over_at(reason, now))
    }

    /// When the loss was first seen; `now` if this is the first look.
    fn lost_at(&self, now: Timestamp) -> Timestamp {
        self.state().says.lost_at(now)
    }

    /// Its leader has ended its work.
    pub(crate) fn end(&self) {
        self.state().says.handle_ended();
    }

    /// Whether its leader is still at work.
    pub(crate) fn is_at_work(&self) -> bool {
        self.state().says.is_at_work()
    }

    /// Keeps the text with the grant: from now on a restored key carries it too.
    fn keep(&self, engine: &Engine) {
        self.held.grant().set_note(self.note(engine));
    }

    /// The note to be sent.
    fn note(&self, engine: &Engine) -> Note {
        let label = engine.config.label.as_ref().ok().cloned().flatten();
        let record = {
            let state = self.state();
            Record::new(self.term, state.says.number(), state.text.clone())
        };
        Note::of_leader(self.since_us, label, record)
    }

    async fn attend(&self, engine: &Weak<Engine>) {
        loop {
            let sleep = {
                let Some(engine) = engine.upgrade() else { return };
                if self.held.lost().is_some() {
                    break;
                }
                self.tell(&engine).await;
                let (retention, ttl) = (engine.config.counter_retention, self.held.grant().ttl());
                let pause = self.state().says.pause(retention, ttl);
                engine.sleep_until(engine.now().saturating_add(pause))
            };
            let lost = pin!(self.held.wait(LeaseTerm::lost));
            match select(pin!(self.said.notified()), select(sleep, lost)).await {
                Either::Right((Either::Left(_), _)) => self.state().says.handle_pause_over(),
                Either::Right((Either::Right(_), _)) => break,
                _ => {}
            }
        }
        self.watch_the_end(engine).await;
    }

    /// Tells the log if work goes on though the lease is over.
    async fn watch_the_end(&self, engine: &Weak<Engine>) {
        let sleep = {
            let (Some(engine), Some(lost)) = (engine.upgrade(), self.held.lost()) else { return };
            let now = engine.now();
            self.lost_at(now);
            if !self.is_at_work() {
                return;
            }
            engine.sleep_until(self.over_at(lost.reason, now).max(now.saturating_add(MOMENT)))
        };
        sleep.await;
        if self.is_at_work() {
            telemetry::leader_wedged(self.held.target(), self.held.owner(), self.term);
        }
    }

    /// Tells each node that lacks the text, once. A text changed meanwhile goes to nodes that have answered.
    async fn tell(&self, engine: &Engine) {
        let mut calls: Fanout = Fanout::new(engine);
        self.state().says.handle_time_up();
        loop {
            self.ask_all(engine, &mut calls);
            let said = pin!(self.said.notified());
            match select(pin!(calls.progress(engine)), said).await {
                Either::Left((Progress::Answered((node, answer)), _)) => {
                    self.handle_answer(node, matches!(answer, Ok(Reply::Granted(_))));
                }
                Either::Left((Progress::Done | Progress::TimedOut, _)) => return,
                Either::Right(_) => {}
            }
        }
    }

    fn ask_all(&self, engine: &Engine, calls: &mut Fanout) {
        let lack: Vec<NodeId> = self.state().says.lacking().collect();
        // `lost` reads the clock: the lease may be over by now.
        if lack.is_empty() || self.held.lost().is_some() {
            return;
        }
        let note = self.note(engine);
        let number = note.record().map_or(0, |record| record.number);
        for node in lack {
            let Some(slot) = engine.slot(node) else { continue };
            let may_be_asked = slot.node.reachable().and_then(|()| engine.may_vote(node)).is_ok();
            self.state().says.handle_asked(node, number, may_be_asked);
            if may_be_asked {
                let (target, owner) = (self.held.target().clone(), self.held.owner());
                calls.push(engine, node, Command::Proclaim { target, owner, note: note.clone() });
            }
        }
    }

    fn handle_answer(&self, node: NodeId, is_taken: bool) {
        let is_current = self.state().says.handle_answer(node, is_taken);
        if is_current {
            self.told.notify_waiters();
        }
    }

    fn state(&self) -> MutexGuard<'_, Said> {
        self.state.lock()
    }
}

impl std::fmt::Debug for Proclamation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proclamation").field("term", &self.term).finish_non_exhaustive()
    }
}
