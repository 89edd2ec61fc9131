//! One client's grant over time, as its holder knows it.
//!
//! Goal: deadlines, renewals, losses and hand-overs are decided by the production alone. Method: its client (`mine.rs`) is told
//! its own time, which runs at a rate of its own; what it wants sent goes to the wires, what it wants done is done.

use core::time::Duration;

use super::{
    Setup,
    mine::{Mine, News},
};
use crate::{
    model::node::{owner, resource},
    protocol::{
        Command, Drift, EpochMark, FencingToken, Leases, RenewalPolicy, Target, Timestamp, validity,
    },
};

pub(crate) const NODES: usize = 3;
/// A tick of a true clock, in milliseconds.
pub(crate) const TICK: u64 = 1_000;

/// A command on its way, as far as a node looks at it; times in ticks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Letter {
    Acquire {
        hint: u16,
        count: u16,
        life: u8,
        mark: EpochMark,
    },
    Confirm {
        token: u16,
        mark: EpochMark,
    },
    /// With its number: an answer belongs to one extension.
    Extend {
        life: u8,
        number: u8,
        /// From now on readers have it.
        downgraded: bool,
    },
    Release {
        /// For how long the key is kept.
        keep: u8,
    },
}

impl Letter {
    /// The command of this client.
    pub(crate) fn command(self, client: u8) -> Command {
        let (owner, reads) = (owner(client), Target::Downgraded(resource(0)));
        let ttl = |ticks: u8| Duration::from_millis(u64::from(ticks) * TICK);
        match self {
            Self::Acquire { hint, count, life, mark } => Command::Acquire {
                target: resource(0).into(),
                owner,
                ttl: ttl(life),
                hint: Some(u64::from(hint)),
                count: u64::from(count),
                first: 0,
                mark,
                note: None,
                stand: None,
            },
            Self::Confirm { token, mark } => {
                let token = FencingToken::new(u64::from(token));
                Command::Confirm { target: resource(0).into(), owner, token, mark }
            }
            Self::Extend { life, downgraded, .. } => {
                let target = if downgraded { reads } else { resource(0).into() };
                Command::Extend { target, owner, ttl: ttl(life), fenced: true }
            }
            Self::Release { keep } => {
                let keep = (keep > 0).then(|| ttl(keep));
                Command::Release { target: reads, owner, keep }
            }
        }
    }
}

/// How far a client has come.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Stage {
    Asking,
    /// It has not been told that the lease is lost.
    Held,
    /// Nobody holds it, and the keys are kept for the next one.
    Lingers,
    Over,
    Ended,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Holder {
    pub(crate) stage: Stage,
    /// Until nothing more can be heard.
    pub(super) mine: Option<Mine>,
    /// How many ticks its keys are kept when it is given back; up to when nobody else is to have it; and how many nodes
    /// keep them.
    pub(crate) keep: u8,
    pub(crate) kept_until: u8,
    pub(crate) kept_on: u8,
    /// It was lost with a lock-delay, up to when nobody else is to have it.
    pub(crate) delayed_until: u8,
    /// The tokens of its leases, in their order.
    pub(crate) tokens: Vec<u16>,
    /// Who had been granted something when it began, by the bits of their numbers.
    pub(crate) after: u8,
    pub(crate) extended: bool,
    pub(crate) wrong: Option<&'static str>,
}

pub(crate) type Outbox = Vec<(usize, Letter)>;

pub(crate) const STAYS: &str = "a lease that is lost stays lost";
pub(crate) const ONCE: &str = "a grant ends, once";

impl Holder {
    pub(crate) fn begin(
        number: u8,
        setup: &Setup,
        marks: [EpochMark; NODES],
        after: u8,
        now: Timestamp,
    ) -> (Self, Outbox) {
        let mut holder = Self {
            stage: Stage::Asking,
            mine: None,
            keep: 0,
            kept_until: 0,
            kept_on: 0,
            delayed_until: 0,
            tokens: Vec::new(),
            after,
            extended: false,
            wrong: None,
        };
        let next = holder.next(setup);
        holder.mine = Some(Mine::begin(number, setup, marks, next, now));
        let sent = holder.learn(now);
        (holder, sent)
    }

    /// What its client has told. What is sent is returned.
    pub(super) fn learn(&mut self, now: Timestamp) -> Outbox {
        loop {
            let Some(mine) = &mut self.mine else { return Outbox::new() };
            if mine.news.is_empty() {
                return core::mem::take(&mut mine.sent);
            }
            match mine.news.remove(0) {
                News::Won => {
                    self.stage = Stage::Held;
                    let token = mine.leases().and_then(Leases::token);
                    self.tokens.push(small(token.expect("a token").get()));
                }
                News::Refused => self.stage = Stage::Ended,
                // Nobody has lost anything.
                News::Lost if self.stage == Stage::Lingers => self.end(now),
                News::Lost if self.stage == Stage::Held => self.stage = Stage::Over,
                News::Lost => {}
                News::GiveBack => self.end(now),
            }
        }
    }

    /// The client's timers, which fire as soon as they are due.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Outbox {
        if let Some(mine) = &mut self.mine {
            mine.tick(now);
        }
        self.learn(now)
    }

    pub(super) fn leases(&self) -> Option<&Leases> {
        self.mine.as_ref()?.leases()
    }

    pub(crate) fn hear(
        &mut self,
        at: usize,
        heard: Letter,
        reply: Result<crate::protocol::Reply, crate::protocol::Failure>,
        now: Timestamp,
    ) -> Outbox {
        self.extends(now, |mine| mine.hear(at, heard, reply, now))
    }

    /// The time for one command has passed: nobody waits for the answers to an extension any more.
    pub(crate) fn give_up_extension(&mut self, now: Timestamp) -> Outbox {
        self.extends(now, |mine| mine.give_up_extension(now))
    }

    /// An extension may end in this.
    fn extends(&mut self, now: Timestamp, step: impl FnOnce(&mut Mine)) -> Outbox {
        let ends = |leases: &Leases| (leases.lifecycle().lost(), leases.lifecycle().deadline());
        let before = self.leases().map(ends);
        let Some(mine) = &mut self.mine else { return Outbox::new() };
        step(mine);
        if let (Some(before), Some(after)) = (before, self.leases().map(ends)) {
            self.extended |= after.0.is_none() && after.1 > before.1;
            if before.0.is_some() && (after.0.is_none() || after.1 != before.1) {
                self.wrong = Some(STAYS);
            }
            let mut sent = self.learn(now);
            sent.extend(self.tick(now));
            return sent;
        }
        self.learn(now)
    }

    /// Whether its timers run.
    pub(crate) const fn is_timed(&self) -> bool {
        matches!(self.stage, Stage::Held | Stage::Lingers)
    }

    /// Whether anybody waits for the answer to this.
    pub(crate) fn hears(&self, at: usize, letter: Letter) -> bool {
        self.mine.as_ref().is_some_and(|mine| mine.hears(at, letter))
    }

    pub(crate) fn is_extending(&self) -> bool {
        self.mine.as_ref().is_some_and(Mine::is_extending)
    }

    /// Nothing is under way, so that all that is left of it are its tokens.
    pub(crate) fn forget(&mut self) {
        (self.mine, self.extended) = (None, false);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Ended && self.mine.is_some()
    }

    pub(crate) fn give_back(&mut self, now: Timestamp) -> Outbox {
        self.end(now);
        self.learn(now)
    }

    fn end(&mut self, now: Timestamp) {
        let hold = (self.keep > 0)
            .then(|| now.saturating_add(Duration::from_millis(u64::from(self.keep) * TICK)));
        if self.mine.as_mut().is_some_and(|mine| !mine.give_back(hold, now)) {
            self.wrong = Some(ONCE);
        }
        self.stage = Stage::Ended;
    }
}

pub(crate) fn small(number: u64) -> u16 {
    u16::try_from(number).expect("a small number")
}

/// What goes on the wire, in whole ticks, rounded up as it is there in milliseconds.
pub(crate) fn life(ttl: Duration) -> u8 {
    u8::try_from(validity::wire_millis(ttl).div_ceil(TICK)).expect("a short life")
}

/// The number is that of an extension.
pub(crate) fn letter(command: &Command, number: u8) -> Option<Letter> {
    match command {
        Command::Acquire { hint, count, ttl, mark, .. } => Some(Letter::Acquire {
            hint: small(hint.expect("a hint")),
            count: small(*count),
            life: life(*ttl),
            mark: *mark,
        }),
        Command::Confirm { token, mark, .. } => {
            Some(Letter::Confirm { token: small(token.get()), mark: *mark })
        }
        Command::Extend { target, ttl, .. } => {
            Some(Letter::Extend { life: life(*ttl), number, downgraded: target.is_downgraded() })
        }
        Command::Release { keep, .. } => Some(Letter::Release { keep: keep.map_or(0, life) }),
        _ => None,
    }
}

impl Setup {
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(u64::from(self.ttl_ticks) * TICK)
    }

    pub(crate) fn lock_delay(&self) -> Duration {
        Duration::from_millis(u64::from(self.delay_ticks) * TICK)
    }

    /// For longer than a search goes.
    pub(crate) const fn linger(&self) -> Duration {
        if self.lingers { Duration::from_millis(1_000 * TICK) } else { Duration::ZERO }
    }

    pub(crate) fn drift(&self) -> Drift {
        Drift::new(self.drift_per_mille, Duration::ZERO)
    }

    #[allow(clippy::field_reassign_with_default, reason = "others cannot make one by its fields")]
    pub(super) fn policy(&self) -> RenewalPolicy {
        let mut policy = RenewalPolicy::default();
        policy.renew = self.renews;
        policy
    }
}
