//! Extensions of grants, as many together as one message takes; and restores of keys that a node has lost.
//!
//! It decides which leases share a message, and that a key is set again only after a quorum has just confirmed its
//! lease. It must never count a restore as a vote. `Lifecycle` decides when to extend; the footprint decides what to
//! undo if the lease has ended meanwhile.

use alloc::{boxed::Box, vec, vec::Vec};
use core::{iter, mem, time::Duration};

use super::{
    Asks, Client, Event, Fails, GrantId, Moment, NO_SLACK, Said, Timed,
    calls::{Answer, Purpose, Sending, replied},
    undone::Undone,
};
use crate::{
    command::{Command, NodeId, Reply},
    lifecycle::ExtendOutcome,
    round::{ExtendSpec, RoundLoss, Tally, Verdict},
    slab::Key,
    time::Timestamp,
    timers::TimerQueue,
};

/// The least pause before a restore is sent again, and the random part on top. Waiters are told of an extension, and
/// their short rounds then take the key of a node that has lost it, just as the restore comes. Without a pause of its
/// own it would meet them each time.
const PAUSE: Duration = Duration::from_millis(2);
const CHANCE: Duration = Duration::from_millis(16);

/// An extension of one lease, or of several together.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RenewalId(pub(super) Key);

/// A restore under way, or about to be sent again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct RestoreId(pub(super) Key);

/// Leases that are extended together.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Renewal<E> {
    leases: Vec<Renewed>,
    /// By node: whether it has answered, and its failure, if all of its commands failed.
    nodes: Vec<(bool, Option<E>)>,
    /// Answers for single leases that a node did not extend.
    others: Vec<(NodeId, usize, Said<E>)>,
    /// How many nodes have not answered.
    open: usize,
}

/// A lease in a renewal.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Renewed {
    grant: GrantId,
    tally: Tally,
    /// It was shared with readers by a downgrade when this began.
    was_downgraded: bool,
    is_told: bool,
}

/// A key to set again.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Restore {
    grant: GrantId,
    node: NodeId,
    /// How long the node is to keep it.
    key_life: Duration,
    /// Until when the lease is confirmed.
    until: Timestamp,
    /// Another key blocked it before.
    is_second: bool,
}

impl<E: Clone> Renewal<E> {
    fn says(&mut self, node: NodeId, lease: usize, reply: Result<Reply, E>) {
        if !matches!(reply, Ok(Reply::Granted(_))) {
            self.others.push((node, lease, Said::of(reply)));
        }
    }

    /// Each node's answer for this lease.
    fn said_of(&self, lease: usize) -> Box<[Said<E>]> {
        let of_node = |(index, (has_answered, failed)): (usize, &(bool, Option<E>))| {
            let is_of_it =
                |(node, of, _): &&(NodeId, usize, Said<E>)| node.index() == index && *of == lease;
            match (failed, self.others.iter().find(is_of_it)) {
                (Some(error), _) => Said::Failed(error.clone()),
                (None, Some((_, _, said))) => said.clone(),
                (None, None) if *has_answered => Said::Granted,
                (None, None) => Said::Unanswered,
            }
        };
        self.nodes.iter().enumerate().map(of_node).collect()
    }
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Extends due leases, in as few messages as hold them. A node serves nobody else during a message, and a lease may
    /// have many keys.
    pub(super) fn extend_due(&mut self, due: Vec<GrantId>, at: &Moment<'_>) {
        let (mut batch, mut left) = (Vec::new(), TimerQueue::<u32>::batch());
        for grant in due {
            let keys = self.grants.get(grant.0).map_or(0, |grant| grant.target.len());
            if keys > left && !batch.is_empty() {
                self.extend_together(mem::take(&mut batch), at);
                left = TimerQueue::<u32>::batch();
            }
            left = left.saturating_sub(keys);
            batch.push(grant);
        }
        if !batch.is_empty() {
            self.extend_together(batch, at);
        }
    }

    /// Extends one lease beside its renewals. The returned id names the outcome.
    pub fn extend(&mut self, grant: GrantId, at: &Moment<'_>) -> RenewalId {
        self.extend_together(vec![grant], at)
    }

    /// Each node gets one message, with one command for each lease.
    fn extend_together(&mut self, grants: Vec<GrantId>, at: &Moment<'_>) -> RenewalId {
        let quorum = self.settings.quorum;
        let mut commands: Vec<Vec<Command>> = Vec::new();
        commands.resize_with(quorum.nodes(), || Vec::with_capacity(grants.len()));
        let mut leases = Vec::with_capacity(grants.len());
        for id in grants {
            let Some(grant) = self.grants.get_mut(id.0) else { continue };
            grant.users = grant.users.saturating_add(1);
            let lifecycle = grant.leases.lifecycle();
            let mut spec = ExtendSpec::new(grant.target.clone(), grant.owner, lifecycle.ttl());
            spec.drift = lifecycle.drift();
            spec.lock_delay = grant.leases.lock_delay();
            spec.fenced = grant.leases.is_fenced();
            let mut tally = Tally::extend(quorum, spec, at.now);
            while let Some((node, command)) = tally.poll_command() {
                commands.get_mut(node.index()).into_iter().for_each(|of| of.push(command.clone()));
            }
            let was_downgraded = grant.leases.is_downgraded();
            leases.push(Renewed { grant: id, tally, was_downgraded, is_told: false });
        }
        let nodes: Vec<(bool, Option<E>)> =
            iter::repeat_with(|| (false, None)).take(quorum.nodes()).collect();
        let open = nodes.len();
        let renewal = Renewal { leases, nodes, others: Vec::new(), open };
        let id = RenewalId(self.renewals.insert(Box::new(renewal)));
        for (index, commands) in commands.into_iter().enumerate() {
            let node = NodeId::new(index);
            self.send_all(Purpose::Extend(id, node), node, Sending::Several(commands));
        }
        id
    }

    /// A node has answered, or its time is up.
    pub(super) fn handle_extend_answer(
        &mut self,
        id: RenewalId,
        node: NodeId,
        answer: Answer<E>,
        at: &Moment<'_>,
    ) {
        let Some(renewal) = self.renewals.get_mut(id.0) else { return };
        renewal.open = renewal.open.saturating_sub(1);
        let mut has_answered = (true, None);
        match answer {
            Answer::Failed(error) => {
                let failure = error.failure();
                for lease in &mut renewal.leases {
                    lease.tally.handle_reply(node, Err(failure), at.now);
                }
                has_answered.1 = Some(error);
            }
            Answer::One(reply) => renewal.takes(node, 0, reply, at.now),
            Answer::Several(replies) => {
                for (lease, reply) in replies.into_iter().enumerate() {
                    renewal.takes(node, lease, reply, at.now);
                }
            }
        }
        if let Some(of_node) = renewal.nodes.get_mut(node.index()) {
            *of_node = has_answered;
        }
        if renewal.open == 0 {
            // A node that said nothing of a lease has not extended it.
            renewal.leases.iter_mut().for_each(|lease| lease.tally.handle_timeout(at.now));
        }
        self.judge_renewal(id, at);
        self.end_renewal(id);
    }

    /// Tells each lease its outcome, as soon as that is known.
    fn judge_renewal(&mut self, id: RenewalId, at: &Moment<'_>) {
        let Some(renewal) = self.renewals.get_mut(id.0) else { return };
        let mut decided = Vec::new();
        for (number, lease) in renewal.leases.iter_mut().enumerate() {
            if lease.tally.verdict() != Verdict::Pending && !mem::replace(&mut lease.is_told, true)
            {
                decided.push((number, lease.grant, lease.was_downgraded, outcome(&lease.tally)));
            }
        }
        for (number, id_of_grant, was_downgraded, outcome) in decided {
            let is_extended = matches!(outcome, ExtendOutcome::Extended(_));
            let renewal = self.renewals.get(id.0).filter(|_| !is_extended);
            let doubt = renewal.map(|renewal| renewal.said_of(number));
            let Some(grant) = self.grants.get_mut(id_of_grant.0) else { continue };
            let outcome = grant.leases.judged(outcome, was_downgraded);
            if grant.leases.lasts() {
                grant.doubt = doubt;
            }
            let (action, wakeup) = self.handle_extension(id_of_grant, outcome, at.now);
            self.wake(wakeup);
            if was_downgraded
                && is_extended
                && let Some(queue) = self.grants.get(id_of_grant.0).map(|grant| grant.queue)
            {
                // A quorum holds it as a reader's: readers that pause here ask at once.
                self.handle_shared(queue);
            }
            self.events.push_back(Event::Extended { grant: id_of_grant, by: id, outcome, action });
        }
    }

    /// Ends once all nodes have answered. A lost key is restored only if a quorum has confirmed the lease.
    fn end_renewal(&mut self, id: RenewalId) {
        if self.renewals.get(id.0).is_none_or(|renewal| renewal.open > 0) {
            return;
        }
        let Some(renewal) = self.renewals.remove(id.0) else { return };
        for (node, lease, said) in &renewal.others {
            let (Some(Renewed { grant, tally, .. }), Said::Denied(denial)) =
                (renewal.leases.get(*lease), said)
            else {
                continue;
            };
            let Some(found) = self.grants.get(grant.0) else { continue };
            if tally.verdict() != Verdict::Won {
                continue;
            }
            if denial.gone {
                let key_life = found.leases.key_life();
                self.restore(*grant, *node, key_life, tally.deadline());
            } else if let Some(before) = found.from {
                // Another adoption may have given it back there: the next renewal finds it gone.
                let target = found.target.clone();
                self.release_of(before, target, [*node]);
            }
        }
        for lease in renewal.leases {
            self.forget_user(lease.grant);
        }
    }

    /// Sets a key again that a node has lost. Whatever the result, that node is to be released on from now on.
    pub(super) fn restore(
        &mut self,
        grant: GrantId,
        node: NodeId,
        key_life: Duration,
        until: Timestamp,
    ) {
        let Some(found) = self.grants.get_mut(grant.0) else { return };
        found.users = found.users.saturating_add(1);
        let restore = Restore { grant, node, key_life, until, is_second: false };
        let id = RestoreId(self.restores.insert(restore));
        self.send_restore(id);
    }

    fn send_restore(&mut self, id: RestoreId) {
        let Some(Restore { grant, node, key_life, until, .. }) = self.restores.get(id.0).cloned()
        else {
            return;
        };
        // Noted before the send: a release in between must know of it.
        if !self.begin_restore(grant, node) {
            return self.end_restore(id);
        }
        let Some(found) = self.grants.get(grant.0) else { return };
        let restore = Command::Restore {
            target: found.target.clone(),
            owner: found.owner,
            ttl: key_life,
            until,
            fenced: found.leases.is_fenced(),
            note: found.note.clone(),
        };
        self.send(Purpose::Restore(id, node), node, restore);
    }

    pub(super) fn handle_restore_due(&mut self, id: RestoreId) {
        self.send_restore(id);
    }

    /// Records the result, and undoes the restore if its lease has ended meanwhile: the node may have executed the
    /// lease's release first, for instance if it had to be sent the script. A restore that another key blocked is sent
    /// once more.
    pub(super) fn handle_restore_answer(
        &mut self,
        id: RestoreId,
        node: NodeId,
        result: Result<Reply, E>,
        at: &Moment<'_>,
    ) {
        let Some(restore) = self.restores.get_mut(id.0) else { return };
        let is_denied = matches!(result, Ok(Reply::Denied(_)));
        let again = is_denied && !mem::replace(&mut restore.is_second, true);
        let grant = restore.grant;
        let reply = result.map_err(|error| error.failure());
        if let Some(found) = self.grants.get(grant.0) {
            if let Some(traced) = self.footprints.get_mut(found.footprint.0) {
                traced.footprint.handle_restore(node, &reply);
            }
            let undone = Undone {
                target: found.target.clone(),
                owner: found.owner,
                key_life: found.key_life(self.settings.max_ttl),
                footprint: found.footprint,
                from: None,
                // A late restore is released, or kept for the lock-delay where the lease's own keys are.
                hold: found.leases.hold_of_late(at.now, at.steady),
            };
            let keep = undone.keep(at.steady, self.settings.drift);
            let chance = found.owner.random_byte() ^ at.now.since_origin().subsec_micros() as u8;
            self.release_unwatched(undone, keep);
            if again {
                let pause = PAUSE + CHANCE * u32::from(chance) / u32::from(u8::MAX);
                let due = at.now.saturating_add(pause);
                let wakeup = self.timers.schedule(None, due, NO_SLACK, Timed::Restore(id));
                self.wake(wakeup);
                return;
            }
        }
        self.end_restore(id);
    }

    fn end_restore(&mut self, id: RestoreId) {
        if let Some(restore) = self.restores.remove(id.0) {
            self.forget_user(restore.grant);
        }
    }
}

impl<E: Fails> Renewal<E> {
    fn takes(&mut self, node: NodeId, lease: usize, reply: Result<Reply, E>, now: Timestamp) {
        let answer = replied(&reply);
        if let Some(lease) = self.leases.get_mut(lease) {
            lease.tally.handle_reply(node, answer, now);
        }
        self.says(node, lease, reply);
    }
}

fn outcome(tally: &Tally) -> ExtendOutcome {
    match (tally.verdict(), tally.loss()) {
        (Verdict::Won, _) => ExtendOutcome::Extended(tally.deadline()),
        (_, Some(RoundLoss::Contended)) => ExtendOutcome::Lost,
        _ => ExtendOutcome::InDoubt,
    }
}
