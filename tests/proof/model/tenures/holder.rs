//! One client's grant over time: the production's round, its extensions and its leases.
//!
//! Goal: deadlines, renewals, losses and hand-overs are decided by the production alone. Method: each machine is told the
//! client's own time, which runs at a rate of its own; what it wants sent goes to the wires, what it wants done is done.

use core::time::Duration;

use super::{Setup, mine::Mine};
use crate::{
    model::node::{owner, resource},
    protocol::{
        Cohort, Command, Drift, ExtendOutcome, ExtendSpec, FencingToken, LeaseAction, Leases,
        Lifecycle, Mark, NodeId, Quorum, RenewalPolicy, Round, RoundLoss, RoundSpec, Tally, Target,
        Timestamp, TokenRange, Verdict, validity,
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
        mark: Mark,
    },
    Confirm {
        token: u16,
        mark: Mark,
    },
    /// With its number: an answer belongs to one extension.
    Extend {
        life: u8,
        number: u8,
        /// From now on readers have it.
        lowered: bool,
    },
    Release {
        /// For how long the key is kept.
        keep: u8,
    },
}

impl Letter {
    /// The command of this client.
    pub(crate) fn command(self, client: u8) -> Command {
        let (owner, reads) = (owner(client), Target::Lowered(resource(0)));
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
            Self::Extend { life, lowered, .. } => {
                let target = if lowered { reads } else { resource(0).into() };
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
    round: Option<Round>,
    /// From the verdict on.
    pub(super) mine: Option<Mine>,
    /// With whether it was begun as a reader's.
    extension: Option<(Tally, bool)>,
    extensions: u8,
    started: Timestamp,
    /// Its keys are kept for so many ticks when it is given back, up to when nobody else is to have it, and so many nodes do.
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
        marks: [Mark; NODES],
        after: u8,
        now: Timestamp,
    ) -> (Self, Outbox) {
        let mut spec = RoundSpec::new(resource(0), owner(number), setup.ttl());
        (spec.lock_delay, spec.drift) = (setup.lock_delay(), setup.drift());
        (spec.hint, spec.count) = (Some(1), setup.count);
        spec.marks = marks.into();
        let mut holder = Self {
            stage: Stage::Asking,
            round: Some(Round::acquire(Quorum::of(NODES), spec, now)),
            mine: None,
            extension: None,
            extensions: 0,
            started: now,
            keep: 0,
            kept_until: 0,
            kept_on: 0,
            delayed_until: 0,
            tokens: Vec::new(),
            after,
            extended: false,
            wrong: None,
        };
        let sent = holder.pump(setup, now);
        (holder, sent)
    }

    fn pump(&mut self, setup: &Setup, now: Timestamp) -> Outbox {
        if self.mine.is_none()
            && let Some(round) = &mut self.round
        {
            self.mine = round.take_footprint().map(Mine::new);
            match round.verdict() {
                Verdict::Pending => {}
                Verdict::Lost => self.stage = Stage::Ended,
                Verdict::Won => {
                    let (tokens, deadline) = (round.tokens(), round.deadline());
                    self.win(tokens, deadline, setup, now);
                }
            }
        }
        let mut sent = Outbox::new();
        while let Some((node, command)) = self.round.as_mut().and_then(Round::poll_command) {
            sent.extend(letter(&command).map(|letter| (node.index(), letter)));
        }
        let mut released = [false; NODES];
        while let Some(order) = self.mine.as_mut().and_then(|mine| mine.footprint().poll_release())
        {
            released[order.node.index()] = true;
        }
        let release = Letter::Release { keep: self.keep };
        sent.extend((0..NODES).filter(|at| released[*at]).map(|at| (at, release)));
        sent
    }

    fn win(
        &mut self,
        tokens: Option<TokenRange>,
        deadline: Timestamp,
        setup: &Setup,
        now: Timestamp,
    ) {
        self.stage = Stage::Held;
        let (cohort, token) = Cohort::begin(tokens, now);
        self.tokens.push(small(token.expect("a token").get()));
        let policy = setup.policy();
        let lifecycle = Lifecycle::new(self.started, deadline, setup.ttl(), setup.drift(), policy);
        let asked = (setup.linger(), setup.lock_delay(), false);
        let leases = Leases::new(lifecycle, cohort, token, asked, None);
        let next = self.next(setup);
        self.mine.as_mut().expect("it is decided").win(leases, next, now);
    }

    /// The client's timers, which fire as soon as they are due.
    pub(crate) fn tick(&mut self, setup: &Setup, now: Timestamp) -> Outbox {
        let mut sent = Outbox::new();
        let Some(mine) = &mut self.mine else { return sent };
        let due = mine.tick(now);
        if !due.extend.is_empty() && self.is_timed() {
            sent.extend(self.extend(setup, now));
        }
        if !due.give_back.is_empty() {
            sent.extend(self.give_back(setup, now));
        }
        for (_, action) in due.tell {
            sent.extend(self.told(Some(action), setup, now));
        }
        sent
    }

    /// What its holder is told.
    fn told(&mut self, action: Option<LeaseAction>, setup: &Setup, now: Timestamp) -> Outbox {
        match action {
            // Nobody has lost anything.
            Some(LeaseAction::Lose(_)) if self.stage == Stage::Lingers => {
                self.give_back(setup, now)
            }
            Some(LeaseAction::Lose(_)) => {
                self.stage = Stage::Over;
                Outbox::new()
            }
            _ => Outbox::new(),
        }
    }

    fn leases(&self) -> Option<&Leases> {
        self.mine.as_ref()?.leases()
    }

    pub(super) fn extend(&mut self, setup: &Setup, now: Timestamp) -> Outbox {
        let (Some(round), Some(leases)) = (&self.round, self.leases()) else {
            return Outbox::new();
        };
        let RoundSpec { target, owner, .. } = round.spec();
        let (lifecycle, lowered) = (leases.lifecycle(), leases.is_lowered());
        let target =
            if lowered { Target::Lowered(target.resource().clone()) } else { target.clone() };
        let mut spec = ExtendSpec::new(target, *owner, lifecycle.ttl());
        (spec.lock_delay, spec.drift, spec.fenced) = (setup.lock_delay(), setup.drift(), true);
        let mut tally = Tally::extend(Quorum::of(NODES), spec, now);
        let sent = std::iter::from_fn(|| tally.poll_command());
        let sent = sent
            .filter_map(|(node, command)| match command {
                Command::Extend { ttl, .. } => {
                    let number = self.extensions + 1;
                    let letter = Letter::Extend { life: life(ttl), number, lowered };
                    Some((node.index(), letter))
                }
                _ => None,
            })
            .collect();
        self.extensions += 1;
        self.extension = Some((tally, lowered));
        sent
    }

    pub(crate) fn hear(
        &mut self,
        at: usize,
        heard: Letter,
        reply: Result<crate::protocol::Reply, crate::protocol::Failure>,
        setup: &Setup,
        now: Timestamp,
    ) -> Outbox {
        let node = NodeId::new(at);
        match heard {
            Letter::Acquire { .. } | Letter::Confirm { .. } => {
                if let Some(mine) = &mut self.mine
                    && matches!(heard, Letter::Acquire { .. })
                {
                    mine.footprint().handle_acquire(node, &reply);
                }
                if let Some(round) = &mut self.round {
                    round.handle_reply(node, reply, now);
                }
            }
            Letter::Extend { number, .. } => {
                if number == self.extensions
                    && let Some((extension, _)) = &mut self.extension
                {
                    extension.handle_reply(node, reply, now);
                }
                return self.settle_extension(setup, now);
            }
            Letter::Release { .. } => {}
        }
        self.pump(setup, now)
    }

    /// The time for one command has passed: nobody waits for the answers to an extension any more.
    pub(crate) fn give_up_extension(&mut self, setup: &Setup, now: Timestamp) -> Option<Outbox> {
        self.extension.as_mut()?.0.handle_timeout(now);
        Some(self.settle_extension(setup, now))
    }

    fn settle_extension(&mut self, setup: &Setup, now: Timestamp) -> Outbox {
        let Some((tally, was_lowered)) = &self.extension else { return Outbox::new() };
        let outcome = match (tally.verdict(), tally.loss()) {
            (Verdict::Pending, _) => return Outbox::new(),
            (Verdict::Won, _) => ExtendOutcome::Extended(tally.deadline()),
            (Verdict::Lost, Some(RoundLoss::Contended)) => ExtendOutcome::Lost,
            (Verdict::Lost, _) => ExtendOutcome::InDoubt,
        };
        let was_lowered = *was_lowered;
        self.extension = None;
        let Some(leases) = self.leases() else { return Outbox::new() };
        let before = (leases.lifecycle().lost(), leases.lifecycle().deadline());
        let mine = self.mine.as_mut();
        let action = mine.and_then(|mine| mine.handle_extension(outcome, was_lowered, now));
        let Some(lifecycle) = self.leases().map(|leases| leases.lifecycle().clone()) else {
            return Outbox::new();
        };
        self.extended |= lifecycle.lost().is_none() && lifecycle.deadline() > before.1;
        if before.0.is_some() && (lifecycle.lost().is_none() || lifecycle.deadline() != before.1) {
            self.wrong = Some(STAYS);
        }
        let mut sent = self.told(action, setup, now);
        sent.extend(self.tick(setup, now));
        sent
    }

    /// Whether its timers run.
    pub(crate) const fn is_timed(&self) -> bool {
        matches!(self.stage, Stage::Held | Stage::Lingers)
    }

    /// Whether anybody waits for the answers to this extension.
    pub(crate) fn hears_of(&self, number: u8) -> bool {
        self.extension.is_some() && self.extensions == number
    }

    pub(crate) fn is_extending(&self) -> bool {
        self.extension.is_some()
    }

    /// Nothing is under way, so that all that is left of it are its tokens.
    pub(crate) fn forget(&mut self) {
        (self.round, self.mine, self.started) = (None, None, Timestamp::ORIGIN);
        (self.extended, self.extensions) = (false, 0);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Ended && self.round.is_some()
    }

    pub(crate) fn give_back(&mut self, setup: &Setup, now: Timestamp) -> Outbox {
        let orders = self.mine.as_mut().map(Mine::give_back);
        if orders == Some(None) {
            self.wrong = Some(ONCE);
        }
        let release = Letter::Release { keep: self.keep };
        let mut sent: Outbox =
            orders.flatten().into_iter().flatten().map(|node| (node.index(), release)).collect();
        (self.stage, self.extension) = (Stage::Ended, None);
        sent.extend(self.pump(setup, now));
        sent
    }
}

pub(crate) fn small(number: u64) -> u16 {
    u16::try_from(number).expect("a small number")
}

/// What goes on the wire, in whole ticks, rounded up as it is there in milliseconds.
pub(crate) fn life(ttl: Duration) -> u8 {
    u8::try_from(validity::wire_millis(ttl).div_ceil(TICK)).expect("a short life")
}

pub(crate) fn letter(command: &Command) -> Option<Letter> {
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
