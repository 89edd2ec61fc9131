//! Nodes on which the key of one owner is set and deleted, and the footprint that has to know of it.
//!
//! Goal: nothing leaks. In every state in which nothing is under way any more and nothing is left to be released, no
//! node has the owner's key; and no release is sent before the grant has ended. Method: the footprint and its releases
//! are driven as `src/engine` does it, beside nodes whose
//! commands are executed in order as long as a connection lasts, but that a script which the node does not know is sent
//! again, behind the others; or later than what is sent on the next connection, or never. Answers get lost, keys get
//! lost, others take the key, time passes. A node takes a command that sets the key for a while only; an extension it
//! takes at any time.

use std::collections::HashMap;

use quorlock_core::{Footprint, ReleaseOrder, UnconfirmedRelease};

use super::{
    footprint_server::{Call, KEY_TTL, Key, Late, Server, TAKEN_FOR, Way, What},
    footprint_steps::{Budget, Flaw, Step},
    model::Answer,
    *,
};

const TICK: Duration = Duration::from_secs(30);
/// The node timeout: after so many ticks, an answer has come or comes no more.
const TIMEOUT: u8 = 1;

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Grant {
    Asked,
    Held,
    Over,
    Ended,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct World {
    footprint: Footprint,
    grant: Grant,
    now: u8,
    servers: Vec<Server>,
    budget: Budget,
}

/// What came of a step.
pub(crate) enum Outcome {
    /// It cannot happen now.
    No,
    Next(World),
    Wrong(&'static str),
}

const fn time(tick: u8) -> Timestamp {
    Timestamp::from_origin(Duration::from_secs(30 * tick as u64))
}

/// Takes one out of a budget.
fn spend(budget: &mut u8) -> Option<()> {
    *budget = budget.checked_sub(1)?;
    Some(())
}

impl World {
    pub(crate) fn new(nodes: usize, budget: Budget) -> Self {
        let mut footprint = Footprint::new(nodes);
        (0..nodes).for_each(|index| footprint.handle_acquire_sent(node(index)));
        let servers = vec![Server::default(); nodes];
        Self { footprint, grant: Grant::Asked, now: 0, servers, budget }
    }

    /// Nothing is under way, and nothing is left to be released. A release that nobody waits for any more does not
    /// count: it may be lost. Nor does an extension, which sets nothing.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.grant == Grant::Ended
            && self.servers.iter().all(|server| {
                let Server { calls, ordered, pending, .. } = server;
                let idle = |call: &Call| !call.waited && !call.what.sets();
                ordered.is_empty() && pending.is_empty() && calls.iter().all(idle)
            })
    }

    /// Nothing can set the key any more, and it does not stand anywhere: nothing will leak, whatever happens.
    pub(crate) fn is_safe(&self, flaw: Flaw) -> bool {
        let later = flaw == Flaw::RestoreAfterTheEnd && self.budget.restores > 0;
        self.grant == Grant::Ended
            && !later
            && self.servers.iter().all(|server| {
                let Server { key, calls, .. } = server;
                let sets = |call: &Call| call.what.sets() && call.way != Way::Done;
                key.is_none_or(|key| !key.ours) && !calls.iter().any(sets)
            })
    }

    fn leaks(&self) -> bool {
        let ours = |server: &Server| server.key.is_some_and(|key| key.ours);
        self.is_at_rest() && self.servers.iter().any(ours)
    }

    /// All that can happen, and little that cannot.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::Tick];
        let Budget { faults, unknown, restores, extensions, forgets, others, .. } = self.budget;
        steps.extend(match self.grant {
            Grant::Asked => [Step::Win, Step::Lose, Step::LoseAndHear].as_slice(),
            Grant::Held => [Step::Over, Step::End].as_slice(),
            Grant::Over => [Step::End].as_slice(),
            Grant::Ended => [Step::HearNoLonger].as_slice(),
        });
        for (at, server) in self.servers.iter().enumerate() {
            let mut add = |possible: bool, step: Step| steps.extend(possible.then_some(step));
            add(!server.asked, Step::Acquire(at));
            add(!server.asked && faults > 0, Step::AcquireNotSent(at));
            add(restores > 0, Step::Restore(at));
            add(restores > 0 && faults > 0, Step::RestoreNotSent(at));
            add(extensions > 0 && self.grant == Grant::Held, Step::Extend(at));
            add(!server.ordered.is_empty(), Step::Release(at));
            add(!server.ordered.is_empty() && faults > 0, Step::ReleaseNotSent(at));
            let connected = server.connected().is_some();
            add(connected, Step::Execute(at));
            add(connected && unknown > 0, Step::SendScript(at));
            add(connected && faults > 0, Step::Break(at));
            add(server.key.is_some() && forgets > 0, Step::Forget(at));
            add(server.key.is_none() && others > 0, Step::Other(at));
            for index in 0..server.pending.len() {
                add(true, Step::ReleaseAgain(at, index));
            }
            for (index, call) in server.calls.iter().enumerate() {
                add(call.way == Way::Stray, Step::ExecuteStray(at, index));
                add(call.waited && call.answer.is_some(), Step::Answer(at, index));
                add(call.waited && faults > 0, Step::Timeout(at, index));
            }
        }
        steps
    }

    pub(crate) fn step(&self, step: Step, flaw: Flaw) -> Outcome {
        let mut next = self.clone();
        if next.try_step(step, flaw).is_none() {
            return Outcome::No;
        }
        if next.drain(flaw) && matches!(next.grant, Grant::Asked | Grant::Held) {
            return Outcome::Wrong("a release while the grant lasts");
        }
        next.servers.iter_mut().for_each(Server::tidy);
        if next.leaks() {
            Outcome::Wrong("the key stands there still")
        } else {
            Outcome::Next(next)
        }
    }

    fn try_step(&mut self, step: Step, flaw: Flaw) -> Option<()> {
        let (grant, ended) = (self.grant, self.grant == Grant::Ended);
        let given = |condition: bool| condition.then_some(());
        match step {
            Step::Tick => self.tick(),
            Step::Win => {
                let asked = self.servers.iter().all(|server| server.asked);
                given(grant == Grant::Asked && asked)?;
                self.grant = Grant::Held;
                Some(())
            }
            Step::Over => {
                given(grant == Grant::Held)?;
                self.grant = Grant::Over;
                self.footprint.handle_over();
                Some(())
            }
            Step::HearNoLonger => {
                let before = self.footprint.clone();
                self.footprint.handle_heard_no_longer();
                given(self.footprint != before)
            }
            Step::Lose | Step::LoseAndHear | Step::End => {
                given(!ended && (step != Step::End) == (grant == Grant::Asked))?;
                for (index, server) in self.servers.iter_mut().enumerate() {
                    if !std::mem::replace(&mut server.asked, true) {
                        self.footprint.handle_acquire_withdrawn(node(index));
                    }
                }
                self.grant = Grant::Ended;
                match step {
                    Step::End => self.footprint.handle_given_back(),
                    _ => self.footprint.handle_lost(),
                }
                if step == Step::LoseAndHear {
                    self.footprint.handle_heard_out();
                }
                Some(())
            }
            Step::Acquire(at) | Step::AcquireNotSent(at) => {
                given(!std::mem::replace(&mut self.servers[at].asked, true))?;
                self.send(at, What::Acquire, step == Step::Acquire(at), flaw)
            }
            Step::Restore(at) | Step::RestoreNotSent(at) => {
                given(grant != Grant::Asked)?;
                spend(&mut self.budget.restores)?;
                given(self.may_restore(at, flaw))?;
                self.send(at, What::Restore, step == Step::Restore(at), flaw)
            }
            Step::Extend(at) => {
                given(grant == Grant::Held)?;
                spend(&mut self.budget.extensions)?;
                self.send(at, What::Extend, true, flaw)
            }
            Step::Release(at) | Step::ReleaseNotSent(at) => {
                given(!self.servers[at].ordered.is_empty())?;
                let late = self.servers[at].ordered.remove(0);
                self.send(at, What::Release(late), step == Step::Release(at), flaw)
            }
            Step::ReleaseAgain(at, index) => {
                let (release, late) = self.servers[at].pending[index];
                given(time(self.now) >= release.from())?;
                self.servers[at].pending.remove(index);
                if release.is_over(time(self.now)) || self.is_clear(at, flaw) {
                    return Some(());
                }
                self.send(at, What::ReleaseAgain(release, late), true, flaw)
            }
            Step::Execute(at) => {
                let index = self.servers[at].connected()?;
                self.servers[at].execute(index, self.now);
                Some(())
            }
            Step::ExecuteStray(at, index) => {
                given(self.servers[at].calls[index].way == Way::Stray)?;
                self.servers[at].execute(index, self.now);
                Some(())
            }
            Step::SendScript(at) => {
                let index = self.servers[at].connected()?;
                spend(&mut self.budget.unknown)?;
                let call = self.servers[at].calls.remove(index);
                given(call.what.sets() && self.servers[at].connected().is_some())?;
                self.servers[at].calls.push(call);
                Some(())
            }
            Step::Answer(at, index) => {
                let call = self.servers[at].calls[index];
                self.answered(at, index, call.answer?, flaw)
            }
            Step::Timeout(at, index) => {
                spend(&mut self.budget.faults)?;
                self.answered(at, index, Answer::Unknown, flaw)
            }
            Step::Break(at) => {
                spend(&mut self.budget.faults)?;
                self.servers[at].connected()?;
                self.servers[at].lose_connection();
                Some(())
            }
            Step::Forget(at) => {
                spend(&mut self.budget.forgets)?;
                self.servers[at].key.take().map(drop)
            }
            Step::Other(at) => {
                spend(&mut self.budget.others)?;
                given(self.servers[at].key.is_none())?;
                self.servers[at].key = Some(Key { ours: false, until: self.now + KEY_TTL });
                Some(())
            }
        }
    }

    /// Time does not pass while an answer is overdue, nor while a release is to be sent; and a connection on which
    /// nothing is executed is broken by then.
    fn tick(&mut self) -> Option<()> {
        let now = self.now;
        let overdue =
            |call: &Call| (call.waited || call.way == Way::Connected) && now >= call.sent + TIMEOUT;
        let waits =
            |server: &Server| !server.ordered.is_empty() || server.calls.iter().any(overdue);
        if self.is_at_rest() || self.servers.iter().any(waits) {
            return None;
        }
        if self.grant != Grant::Ended {
            spend(&mut self.budget.ticks)?;
        }
        self.now += 1;
        for server in &mut self.servers {
            server.key = server.key.filter(|key| self.now < key.until);
            for call in &mut server.calls {
                if call.way == Way::Stray && call.what.sets() && self.now >= call.sent + TAKEN_FOR {
                    call.way = Way::Done;
                }
            }
        }
        Some(())
    }

    fn may_restore(&mut self, at: usize, flaw: Flaw) -> bool {
        let lasts = self.grant == Grant::Held;
        match flaw {
            Flaw::RestoreNotNoted => lasts,
            Flaw::RestoreAfterTheEnd if self.grant == Grant::Ended => true,
            Flaw::TwoRestores => self.footprint.handle_restore_sent(node(at)) || lasts,
            _ => self.footprint.handle_restore_sent(node(at)),
        }
    }

    fn send(&mut self, at: usize, what: What, reaches: bool, flaw: Flaw) -> Option<()> {
        if !reaches {
            spend(&mut self.budget.faults)?;
            self.take(at, what, self.now, Answer::NotSent, flaw);
            return Some(());
        }
        let waited = what != What::Extend;
        let (way, answer) = (Way::Connected, None);
        self.servers[at].calls.push(Call { what, sent: self.now, way, waited, answer });
        Some(())
    }

    fn answered(&mut self, at: usize, index: usize, answer: Answer, flaw: Flaw) -> Option<()> {
        let call = &mut self.servers[at].calls[index];
        if !std::mem::replace(&mut call.waited, false) {
            return None;
        }
        let Call { what, sent, .. } = *call;
        self.take(at, what, sent, answer, flaw);
        Some(())
    }

    /// Takes an answer, as `engine/round.rs`, `restore.rs`, `release.rs` and `cleanup.rs` do.
    fn take(&mut self, at: usize, what: What, sent: u8, answer: Answer, flaw: Flaw) {
        let (now, unknown) = (time(self.now), answer == Answer::Unknown);
        let node_timeout = TICK * u32::from(TIMEOUT);
        match (what, answer) {
            (What::Acquire, _) if flaw == Flaw::DeafAfterTheEnd && self.grant == Grant::Ended => {}
            (What::Acquire, _) => {
                self.servers[at].timed_out = unknown;
                let nothing = unknown && flaw == Flaw::TimeoutIsNothing;
                let answer = if nothing { Answer::NotSent } else { answer };
                self.footprint.handle_acquire(node(at), &answer.reply());
            }
            (What::Restore, _) => {
                let nothing = unknown && flaw == Flaw::RestoreTimeoutIsNothing;
                let answer = if nothing { Answer::NotSent } else { answer };
                self.footprint.handle_restore(node(at), &answer.reply());
            }
            (What::Release(late), Answer::Granted | Answer::Denied) => {
                if late.may_follow(answer, flaw) {
                    let again =
                        self.unconfirmed(late, flaw).handle_found_nothing(now, now, node_timeout);
                    self.servers[at].pending.extend(again.map(|release| (release, late)));
                }
            }
            (What::Release(late), Answer::Unknown | Answer::NotSent) => {
                if !self.is_clear(at, flaw) {
                    let release = self.unconfirmed(late, flaw);
                    self.servers[at].pending.push((release, late));
                }
            }
            (What::ReleaseAgain(..), Answer::Denied) if flaw == Flaw::CheckedOnce => {}
            (What::ReleaseAgain(release, late), Answer::Granted | Answer::Denied) => {
                if late.may_follow(answer, flaw) {
                    let again = release.handle_found_nothing(time(sent), now, node_timeout);
                    self.servers[at].pending.extend(again.map(|release| (release, late)));
                }
            }
            (What::ReleaseAgain(release, late), Answer::Unknown | Answer::NotSent) => {
                self.servers[at].pending.push((release, late));
            }
            (What::Extend, _) => {}
        }
    }

    fn unconfirmed(&self, late: Late, flaw: Flaw) -> UnconfirmedRelease {
        let ttl = TICK * u32::from(KEY_TTL);
        // It is given up after two of these, and the minute for which the node takes commands.
        let ttl = match flaw {
            Flaw::GivenUpAtTheTtl => (ttl - Duration::from_secs(60)) / 2,
            Flaw::ExtensionForgotten => ttl / 2,
            _ => ttl,
        };
        let taken_for = TICK * u32::from(TAKEN_FOR);
        UnconfirmedRelease::new(time(self.now), ttl, taken_for, late.may_land_late)
    }

    fn is_clear(&self, at: usize, flaw: Flaw) -> bool {
        let timed_out = flaw == Flaw::TimeoutIsClear && self.servers[at].timed_out;
        timed_out || self.footprint.is_clear(node(at))
    }

    /// Takes the orders, of each node the last one, and says whether there are any.
    fn drain(&mut self, flaw: Flaw) -> bool {
        let orders = std::iter::from_fn(|| self.footprint.poll_release());
        let orders: HashMap<usize, ReleaseOrder> =
            orders.map(|order| (order.node.index(), order)).collect();
        for (at, ReleaseOrder { may_land_late, several, .. }) in &orders {
            let may_land_late = *may_land_late && flaw != Flaw::NeverLate;
            self.servers[*at].ordered.push(Late { may_land_late, several: *several });
        }
        let held = flaw == Flaw::ReleasesWhatIsHeld && self.grant == Grant::Held;
        !orders.is_empty() || held && self.servers.iter().any(|server| server.timed_out)
    }
}

impl Late {
    /// Whether the key may be set after a release that was answered so.
    pub(crate) fn may_follow(self, answer: Answer, flaw: Flaw) -> bool {
        answer == Answer::Denied || self.several && flaw != Flaw::DeletedIsTheEnd
    }
}
