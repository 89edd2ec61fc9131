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
    asking::{self, keys_of},
    letter::Letter,
};
use crate::{
    model::node::{Said, owner},
    protocol::{
        Command, EpochMark, ExtendSpec, Footprint, NodeId, Quorum, ReleaseOrder, Round, RoundLoss,
        RoundSpec, Tally, Timestamp, TokenRange, UnconfirmedRelease, Verdict,
    },
};

pub(crate) const NODES: usize = 3;
pub(crate) const TTL: Duration = Duration::from_secs(10);
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
    /// The resources that it has won, by their bits.
    pub(crate) keys: u8,
    /// From the verdict on; the second is that of slots that were picked and not won.
    footprints: [Option<Footprint>; 2],
    extension: Option<Tally>,
    /// Where a confirmed extension was denied, so that the key may be restored.
    pub(crate) lost_at: [bool; NODES],
    pending: [[Option<Pending>; NODES]; 2],
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

/// A release that was not confirmed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Pending {
    release: UnconfirmedRelease,
    several: bool,
    keys: u8,
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
    pub(crate) fn begin(
        number: u8,
        ask: &Ask,
        marks: [EpochMark; NODES],
        after: u8,
    ) -> (Self, Outbox) {
        let mut attempt = Self {
            stage: Stage::Asking,
            round: Some(asking::round(owner(number), ask, TTL, marks.into())),
            verdict: Verdict::Pending,
            tokens: None,
            keys: 0,
            footprints: [None, None],
            extension: None,
            lost_at: [false; NODES],
            pending: [[None; NODES]; 2],
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
            if self.footprints[0].is_none() {
                self.footprints = [round.take_footprint(), round.take_others()];
                self.stage = match round.verdict() {
                    Verdict::Pending => self.stage,
                    Verdict::Won => Stage::Held,
                    Verdict::Lost => Stage::Ended,
                };
                (self.verdict, self.tokens) = (round.verdict(), round.tokens());
                if self.verdict == Verdict::Won {
                    self.keys = keys_of(&round.spec().target);
                }
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
        for beside in [false, true] {
            self.undo(beside, &mut sent);
        }
        sent
    }

    /// Sends the releases that the footprint orders, of what was won or of what was not.
    fn undo(&mut self, beside: bool, sent: &mut Outbox) {
        let which = usize::from(beside);
        let (Some(footprint), Some(round)) = (&mut self.footprints[which], &self.round) else {
            return;
        };
        let mut orders: [Option<ReleaseOrder>; NODES] = [None; NODES];
        while let Some(order) = footprint.poll_release() {
            orders[order.node.index()] = Some(order);
        }
        let mut fills_in = Vec::new();
        for ReleaseOrder { node, may_land_late: late, several } in orders.into_iter().flatten() {
            self.hasty |= !beside && matches!(self.stage, Stage::Asking | Stage::Held);
            let is_won = round.verdict() == Verdict::Won && !beside;
            let held = Some(round.spec().target.clone()).filter(|_| is_won);
            let Some(undone) = held.or_else(|| round.undone_at(node)) else { continue };
            let keys = keys_of(&undone);
            let release = Letter::Release { beside, again: None, late, several, keys };
            sent.push((node.index(), release));
            if beside && self.stage == Stage::Held && round.is_filled_in(node) {
                fills_in.push(node.index());
            }
        }
        for at in fills_in {
            sent.extend(self.restore(at).into_iter().flatten());
        }
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
            Letter::Acquire { .. } | Letter::Pick { .. } | Letter::Confirm { .. } => {
                if let Some(round) = &mut self.round {
                    if !matches!(letter, Letter::Confirm { .. }) {
                        let [won, others] = &mut self.footprints;
                        won.iter_mut().for_each(|won| round.tell(won, node, &reply));
                        others.iter_mut().for_each(|it| round.tell_others(it, node, &reply));
                    }
                    round.handle_reply(node, reply, now);
                }
            }
            Letter::Extend { .. } => {
                if let Some(extension) = &mut self.extension {
                    extension.handle_reply(node, reply, now);
                    self.lost_at[at] = said == Said::Denied;
                }
                self.settle_extension();
            }
            Letter::Restore { .. } => {
                if let Some(footprint) = &mut self.footprints[0] {
                    footprint.handle_restore(node, &reply);
                }
            }
            Letter::Release { beside, again, late, several, keys } => {
                self.released(at, beside, (again, late, several, keys), said);
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
        beside: bool,
        (again, late, several, keys): (Option<bool>, bool, bool, u8),
        said: Said,
    ) {
        let which = usize::from(beside);
        let before = self.pending[which][at].take().map(|pending| pending.release);
        let release = before
            .filter(|_| again.is_some())
            .unwrap_or_else(|| UnconfirmedRelease::new(BEGUN, TTL, TAKEN_FOR, late));
        let (sent, is_clear) = (again.map_or(BEGUN, Self::time), self.is_clear(which, at));
        let left = match said {
            Said::Granted(_) | Said::Picked(..) if !several => None,
            _ if is_clear => None,
            Said::Granted(_) | Said::Picked(..) | Said::Denied => {
                release.handle_found_nothing(sent, sent, NODE_TIMEOUT)
            }
            Said::Unknown | Said::Refused => Some(release),
        };
        self.pending[which][at] = left.map(|release| Pending { release, several, keys });
    }

    fn is_clear(&self, which: usize, at: usize) -> bool {
        let footprint = self.footprints[which].as_ref();
        footprint.is_some_and(|footprint| footprint.is_clear(NodeId::new(at)))
    }

    /// Releases that have not been confirmed are sent again.
    pub(crate) fn release_again(&mut self, at: usize, strays: bool) -> Option<Outbox> {
        let (mut sent, mut is_any) = (Outbox::new(), false);
        for beside in [false, true] {
            let which = usize::from(beside);
            let Some(Pending { release, several, keys }) = self.pending[which][at] else {
                continue;
            };
            if self.is_clear(which, at) {
                self.pending[which][at] = None;
                is_any = true;
            } else if release.from() <= Self::time(strays) {
                let again = Some(strays);
                sent.push((at, Letter::Release { beside, again, late: true, several, keys }));
            }
        }
        (is_any || !sent.is_empty()).then_some(sent)
    }

    pub(crate) fn is_waiting_to_release(&self) -> bool {
        self.pending.iter().flatten().any(Option::is_some)
    }

    /// Nothing is under way, so that all that is left of it is what it has won.
    pub(crate) fn forget(&mut self) {
        (self.round, self.footprints, self.extension) = (None, [None, None], None);
        (self.lost_at, self.broken, self.is_unwanted) = ([false; NODES], false, false);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Ended && self.round.is_some() && !self.is_waiting_to_release()
    }

    pub(crate) fn waits_to_release(&self, at: usize) -> bool {
        self.pending.iter().any(|of_one| of_one[at].is_some())
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
        let keys = keys_of(&self.round.as_ref()?.spec().target);
        let footprint = self.footprints[0].as_mut()?;
        let sent = footprint.handle_restore_sent(NodeId::new(at));
        self.is_stale |= sent && self.stage != Stage::Held;
        sent.then(|| vec![(at, Letter::Restore { keys })])
    }

    /// Its validity has ended.
    pub(crate) fn end_hold(&mut self) {
        self.stage = Stage::Over;
        if let Some(footprint) = &mut self.footprints[0] {
            footprint.handle_over();
            self.hasty |= footprint.poll_release().is_some();
        }
    }

    pub(crate) fn give_back(&mut self) -> Outbox {
        self.stage = Stage::Ended;
        if let Some(footprint) = &mut self.footprints[0] {
            footprint.handle_given_back();
        }
        self.pump()
    }
}
