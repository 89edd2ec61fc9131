//! A client: what it waits for and holds, and the machines by which it decides.

use std::time::Duration;

use quorlock_core::Backoff;
use quorlock_core::{
    Acquisition, ClientId, Denial, EpochMark, LineAnswer, LostRound, Next, NodeId, Owner, Patience,
    Quorum, Resource, Round, RoundLoss, RoundSpec, RttEstimator, Stand, Timestamp, Traffic,
    WaitPolicy, WaitSettings, Waiter,
};

use super::network::Link;

/// The time for one command.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_millis(100);

const SETTINGS: WaitSettings = WaitSettings {
    node_timeout: NODE_TIMEOUT,
    wait: Duration::from_secs(10),
    backoff: Backoff { min: Duration::from_millis(1), max: Duration::from_millis(100) },
    through_outages: true,
};

/// What a client is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Doing {
    Nothing,
    /// Its round is under way.
    Asking,
    /// It waits for its next round.
    Waiting,
    Holding,
}

/// One round, and what the nodes have said in it.
pub(crate) struct Asked {
    pub(crate) round: Round,
    pub(crate) answers: Vec<Option<Said>>,
    pub(crate) begun: Duration,
}

#[derive(Clone, Debug)]
pub(crate) enum Said {
    Granted,
    Denied(Denial),
    Failed,
}

impl Said {
    pub(crate) fn for_line(&self) -> LineAnswer<'_> {
        match self {
            Self::Granted => LineAnswer::Granted,
            Self::Denied(denial) => LineAnswer::Denied(denial),
            Self::Failed => LineAnswer::Failed,
        }
    }
}

pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) alive: bool,
    /// Up to when it does nothing.
    pub(crate) stopped: Duration,
    pub(crate) doing: Doing,
    pub(crate) links: Vec<Link>,
    /// The nodes' clocks less that of the world, in microseconds.
    pub(crate) clocks: Vec<Option<i128>>,
    /// By how many microseconds its own clock is off.
    pub(crate) own_clock: i128,
    pub(crate) trip: RttEstimator,
    /// Rounds that a node may still answer; the last one is that of its request.
    pub(crate) rounds: Vec<Asked>,
    pub(crate) acquisition: Option<Acquisition>,
    pub(crate) waiter: Option<Waiter>,
    /// Whom it has passed over.
    pub(crate) patience: Patience,
    /// When its next round begins: at this time, where no line says when.
    pub(crate) pause: Option<Timestamp>,
    /// When it looks next whether its round is due.
    pub(crate) looks: Option<Duration>,
    /// What the line has said, before anything was told.
    pub(crate) limit: Option<Timestamp>,
    /// Releases that no node has answered, to be sent again.
    pub(crate) unreleased: Vec<(usize, Owner)>,
    pub(crate) wants_since: Duration,
}

/// What became of a lost round.
pub(crate) enum After {
    /// Its next round begins at this time, or by the line.
    Waits,
    GaveUp,
}

pub(crate) fn stamp(now: Duration) -> Timestamp {
    Timestamp::from_origin(now)
}

impl Client {
    pub(crate) fn new(number: usize, nodes: usize) -> Self {
        let mut name = (number as u64).to_be_bytes();
        // So that the order of names is not that of arrival.
        name[0] = (number as u8).wrapping_mul(151);
        Self {
            id: ClientId::new(name),
            alive: true,
            stopped: Duration::ZERO,
            doing: Doing::Nothing,
            links: vec![Link::NEW; nodes],
            clocks: vec![None; nodes],
            own_clock: 0,
            trip: RttEstimator::default(),
            rounds: Vec::new(),
            acquisition: None,
            waiter: None,
            patience: Patience::default(),
            pause: None,
            looks: None,
            limit: None,
            unreleased: Vec::new(),
            wants_since: Duration::ZERO,
        }
    }

    /// The nodes' clocks at this time, as far as it knows them.
    pub(crate) fn clocks_us(&self, now: Duration) -> Vec<Option<u64>> {
        let us = now.as_micros() as i128;
        self.clocks
            .iter()
            .map(|ahead| ahead.and_then(|ahead| u64::try_from(us + ahead).ok()))
            .collect()
    }

    pub(crate) fn wants(&mut self, policy: WaitPolicy, now: Duration) {
        self.wants_since = now;
        self.acquisition = Some(Acquisition::new(SETTINGS, policy, stamp(now)));
        let quorum = Quorum::of(self.links.len());
        self.waiter = Some(Waiter::new(self.id, quorum).knowing(self.patience.clone()));
    }

    /// Begins a round, and says how.
    pub(crate) fn begin(
        &mut self,
        owner: Owner,
        ttl: Duration,
        hint: u64,
        stand: Option<Stand>,
        now: Duration,
    ) {
        let mut spec = RoundSpec::new(Resource::new("r").unwrap(), owner, ttl);
        spec.hint = Some(hint);
        spec.stand = stand;
        spec.marks = vec![EpochMark::new(1, 0); self.links.len()].into();
        let quorum = Quorum::of(self.links.len());
        let round = Round::acquire(quorum, spec, stamp(now));
        let answers = vec![None; self.links.len()];
        self.rounds.push(Asked { round, answers, begun: now });
        self.doing = Doing::Asking;
    }

    /// The last round was lost.
    pub(crate) fn lost(&mut self, lines: bool, random: u8, now: Duration) -> After {
        let clocks = self.clocks_us(now);
        let trip = self.trip.round_trip();
        let asked = self.rounds.last().unwrap();
        let said = asked.answers.iter().enumerate();
        let said =
            said.filter_map(|(node, said)| Some((NodeId::new(node), said.as_ref()?.for_line())));
        let lost = LostRound::of(&asked.round, stamp(asked.begun), false).unwrap();
        let waiter = self.waiter.as_mut().unwrap();
        // As the engine does: what was lost by too few answers has nothing to do with the line.
        let is_contended = lost.loss == RoundLoss::Contended;
        let stand = || waiter.handle_lost_round(said, &clocks, trip, random, stamp(now));
        self.limit = if is_contended && lines { stand() } else { None };
        let lost = lost.in_line(self.limit);
        let acquisition = self.acquisition.as_mut().unwrap();
        let next =
            acquisition.handle_lost_round(lost, Traffic::default(), trip, random, stamp(now));
        match next {
            Next::Again { at, .. } => {
                self.doing = Doing::Waiting;
                self.pause = Some(at);
                After::Waits
            }
            Next::GiveUp(_) => After::GaveUp,
        }
    }

    /// When its next round begins.
    pub(crate) fn next_round(&self, polls: bool, now: Duration) -> Option<Duration> {
        let Some(limit) = self.limit else { return self.pause.map(Timestamp::since_origin) };
        let by_line = self.waiter.as_ref()?.next_round(stamp(now));
        // What is long after now, and was not told, is a poll.
        let is_poll = by_line >= limit && limit.since_origin() > now + NODE_TIMEOUT;
        if !polls && is_poll {
            return None;
        }
        let deadline = self.acquisition.as_ref()?.turn_deadline();
        Some(deadline.map_or(by_line, |deadline| deadline.min(by_line)).since_origin())
    }
}
