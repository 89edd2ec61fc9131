//! One attempt: the production's round from its first command to the last release, and its messages.
//!
//! Goal: the machines of `protocol` are driven as `src/engine` drives them. Method: `engine/round.rs`, `release.rs`,
//! `restore.rs` and `cleanup.rs` in a few lines each; the wires to the nodes stand beside, so that a message that is only
//! executed copies no machine.
//!
//! Not modelled here: when anything of that happens (`mod.rs`).

use core::time::Duration;

use super::{
    Ask,
    node::{Letter, Said},
};
use crate::protocol::{
    Command, ExtendSpec, Footprint, Mark, NodeId, Owner, Quorum, ReleaseOrder, Resource, Round,
    RoundLoss, RoundSpec, Tally, Target, Timestamp, TokenRange, UnconfirmedRelease, Verdict,
};

pub(crate) const NODES: usize = 3;
const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_secs(1);
const TAKEN_FOR: Duration = Duration::from_secs(5);

/// When everything begins; nothing takes time but what is late.
pub(crate) const BEGUN: Timestamp = Timestamp::from_origin(Duration::from_secs(1));
/// After the deadline of every round.
pub(crate) const LATE: Timestamp = Timestamp::from_origin(Duration::from_secs(100));

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Stage {
    Asking,
    Held,
    /// It holds no more, and has not been given back.
    Over,
    /// It was lost, or given back.
    Ended,
}

/// The machines of one attempt.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Attempt {
    pub(crate) stage: Stage,
    /// Until nothing more can be heard.
    round: Option<Round>,
    pub(crate) verdict: Verdict,
    /// What it has won.
    pub(crate) tokens: Option<TokenRange>,
    /// From the verdict on.
    footprint: Option<Footprint>,
    extension: Option<Tally>,
    /// Where a confirmed extension was denied, so that the key may be restored.
    pub(crate) lost_at: [bool; NODES],
    pending: [Option<(UnconfirmedRelease, bool)>; NODES],
    /// The attempts that had been won when it began, by the bits of their numbers.
    pub(crate) after: u8,
    /// A key of its has vanished while it was asked for or held.
    pub(crate) broken: bool,
    /// It has sent a release while its grant was open.
    pub(crate) hasty: bool,
    /// Its verdict has changed.
    pub(crate) turned: bool,
    /// It was won by an answer that came after its deadline.
    pub(crate) is_late: bool,
    /// It has restored a key after its grant.
    pub(crate) is_stale: bool,
    /// Nobody waited for it any more before it was decided.
    pub(crate) is_unwanted: bool,
}

/// What is under way between one attempt and one node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Wire {
    /// On the connection, in order.
    pub(crate) there: Vec<Letter>,
    pub(crate) back: Vec<(Letter, Said)>,
    /// Executed at any time, or never; nobody hears the answer.
    pub(crate) stray: Vec<Letter>,
}

/// What an attempt sends.
pub(crate) type Outbox = Vec<(usize, Letter)>;

impl Attempt {
    pub(crate) fn begin(number: u8, ask: &Ask, marks: [Mark; NODES], after: u8) -> (Self, Outbox) {
        let resource = Resource::new("r").expect("a name");
        let target = if ask.reads { Target::Shared(resource) } else { resource.into() };
        let mut spec = RoundSpec::new(target, Owner::from_random([number + 1; 16]), TTL);
        (spec.hint, spec.count) = (Some(ask.hint), ask.count);
        spec.marks = marks.into();
        let mut attempt = Self {
            stage: Stage::Asking,
            round: Some(Round::acquire(Quorum::of(NODES), spec, BEGUN)),
            verdict: Verdict::Pending,
            tokens: None,
            footprint: None,
            extension: None,
            lost_at: [false; NODES],
            pending: [None; NODES],
            after,
            broken: false,
            hasty: false,
            turned: false,
            is_late: false,
            is_stale: false,
            is_unwanted: false,
        };
        let sent = attempt.pump();
        (attempt, sent)
    }

    /// Takes what is to be sent. At the verdict the footprint leaves the round.
    fn pump(&mut self) -> Outbox {
        let mut sent = Outbox::new();
        if let Some(round) = &mut self.round {
            if self.footprint.is_none() {
                self.footprint = round.take_footprint();
                self.stage = match round.verdict() {
                    Verdict::Pending => self.stage,
                    Verdict::Won => Stage::Held,
                    Verdict::Lost => Stage::Ended,
                };
                (self.verdict, self.tokens) = (round.verdict(), round.tokens());
            }
            self.turned |= self.verdict != round.verdict();
        }
        while let Some((node, command)) = self.round.as_mut().and_then(Round::poll_command) {
            if matches!(command, Command::Release { .. }) {
                // Only a round that has kept its footprint releases by itself, and none is left with it here.
                self.hasty = true;
            } else {
                sent.push((node.index(), Letter::of(&command)));
            }
        }
        let mut orders: [Option<ReleaseOrder>; NODES] = [None; NODES];
        if let Some(footprint) = &mut self.footprint {
            while let Some(order) = footprint.poll_release() {
                orders[order.node.index()] = Some(order);
            }
        }
        for order in orders.into_iter().flatten() {
            self.hasty |= matches!(self.stage, Stage::Asking | Stage::Held);
            let ReleaseOrder { may_land_late: late, several, .. } = order;
            sent.push((order.node.index(), Letter::Release { again: None, late, several }));
        }
        sent
    }

    /// An answer has come.
    pub(crate) fn hear(
        &mut self,
        at: usize,
        (letter, said): (Letter, Said),
        now: Timestamp,
    ) -> Outbox {
        let (node, reply) = (NodeId::new(at), said.reply());
        let before = self.verdict;
        match letter {
            Letter::Acquire { .. } | Letter::Confirm { .. } => {
                if let Some(footprint) = &mut self.footprint
                    && matches!(letter, Letter::Acquire { .. })
                {
                    footprint.handle_acquire(node, &reply);
                }
                if let Some(round) = &mut self.round {
                    round.handle_reply(node, reply, now);
                }
            }
            Letter::Extend => {
                if let Some(extension) = &mut self.extension {
                    extension.handle_reply(node, reply, now);
                    self.lost_at[at] = said == Said::Denied;
                }
                self.settle_extension();
            }
            Letter::Restore => {
                if let Some(footprint) = &mut self.footprint {
                    footprint.handle_restore(node, &reply);
                }
            }
            Letter::Release { again, late, several } => {
                self.released(at, (again, late, several), said);
            }
        }
        let sent = self.pump();
        self.is_late |= before != self.verdict && self.verdict == Verdict::Won && now == LATE;
        sent
    }

    fn settle_extension(&mut self) {
        let Some(extension) = &self.extension else { return };
        let gone = extension.loss() == Some(RoundLoss::Contended);
        if extension.verdict() == Verdict::Lost && gone && self.stage == Stage::Held {
            self.end_hold();
        }
    }

    /// A time at which something may be sent: while anything is astray, or when no node takes it any more.
    fn time(strays: bool) -> Timestamp {
        BEGUN.saturating_add(if strays { NODE_TIMEOUT } else { TAKEN_FOR })
    }

    fn released(
        &mut self,
        at: usize,
        (again, late, several): (Option<bool>, bool, bool),
        said: Said,
    ) {
        let before = self.pending[at].take().map(|(release, _)| release);
        let release = before
            .filter(|_| again.is_some())
            .unwrap_or_else(|| UnconfirmedRelease::new(BEGUN, TTL, TAKEN_FOR, late));
        let (sent, is_clear) = (again.map_or(BEGUN, Self::time), self.is_clear(at));
        self.pending[at] = match said {
            Said::Granted(_) if !several => None,
            Said::Granted(_) | Said::Denied => {
                release.handle_found_nothing(sent, sent, NODE_TIMEOUT).map(|again| (again, several))
            }
            Said::Unknown | Said::Refused => (!is_clear).then_some((release, several)),
        };
    }

    fn is_clear(&self, at: usize) -> bool {
        self.footprint.as_ref().is_some_and(|footprint| footprint.is_clear(NodeId::new(at)))
    }

    /// A release that has not been confirmed is sent again.
    pub(crate) fn release_again(&mut self, at: usize, strays: bool) -> Option<Outbox> {
        let (release, several) = self.pending[at]?;
        if self.is_clear(at) {
            self.pending[at] = None;
            return Some(Outbox::new());
        }
        let again = Letter::Release { again: Some(strays), late: true, several };
        (release.from() <= Self::time(strays)).then(|| vec![(at, again)])
    }

    pub(crate) fn is_waiting_to_release(&self) -> bool {
        self.pending.iter().any(Option::is_some)
    }

    /// Nothing is under way, so that all that is left of it is what it has won.
    pub(crate) fn forget(&mut self) {
        (self.round, self.footprint, self.extension) = (None, None, None);
        (self.lost_at, self.broken, self.is_unwanted) = ([false; NODES], false, false);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Ended && self.round.is_some() && !self.is_waiting_to_release()
    }

    pub(crate) fn waits_to_release(&self, at: usize) -> bool {
        self.pending[at].is_some()
    }

    pub(crate) fn abandon(&mut self) -> Outbox {
        self.round.as_mut().into_iter().for_each(Round::handle_abandoned);
        self.is_unwanted = true;
        self.pump()
    }

    pub(crate) fn extend(&mut self) -> Outbox {
        let Some(round) = &self.round else { return Outbox::new() };
        let RoundSpec { target, owner, .. } = round.spec();
        let mut spec = ExtendSpec::new(target.clone(), *owner, TTL);
        spec.fenced = true;
        let mut tally = Tally::extend(Quorum::of(NODES), spec, BEGUN);
        self.lost_at = [false; NODES];
        let sent = std::iter::from_fn(|| tally.poll_command());
        let sent = sent.map(|(node, command)| (node.index(), Letter::of(&command))).collect();
        self.extension = Some(tally);
        sent
    }

    pub(crate) fn is_extending(&self) -> bool {
        self.extension.as_ref().is_some_and(|tally| tally.verdict() == Verdict::Pending)
    }

    pub(crate) fn is_extended(&self) -> bool {
        self.extension.as_ref().is_some_and(|tally| tally.verdict() == Verdict::Won)
    }

    /// The key is set again where a confirmed extension did not find it.
    pub(crate) fn restore(&mut self, at: usize) -> Option<Outbox> {
        let footprint = self.footprint.as_mut()?;
        let sent = footprint.handle_restore_sent(NodeId::new(at));
        self.is_stale |= sent && self.stage != Stage::Held;
        sent.then(|| vec![(at, Letter::Restore)])
    }

    /// Its validity has ended.
    pub(crate) fn end_hold(&mut self) {
        self.stage = Stage::Over;
        if let Some(footprint) = &mut self.footprint {
            footprint.handle_over();
            self.hasty |= footprint.poll_release().is_some();
        }
    }

    pub(crate) fn give_back(&mut self) -> Outbox {
        self.stage = Stage::Ended;
        if let Some(footprint) = &mut self.footprint {
            footprint.handle_given_back();
        }
        self.pump()
    }
}
