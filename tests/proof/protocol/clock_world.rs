//! True time, an own clock that lags behind it, and nodes whose clocks run at rates of their own and are stepped.
//! All are read by probes of the admission, and whose clock it was is judged there, as in production.

use std::time::Duration;

use quorlock_core::{
    Admission, AdmissionNews, AdmissionPolicy, ClockFault, ConnectionView, Marker, NodeClock,
    NodeId, Probe, ProbeStep, Quorum, Timestamp, VoteBlock,
};

pub(crate) const MS: u64 = 1_000;
pub(crate) const SECOND: u64 = 1_000_000;
/// So long no lease lasts, and no round.
pub(crate) const QUARANTINE: Duration = Duration::from_secs(30);
/// The nodes' clocks show something else than ours.
const THERE: i128 = 1_000_000_000_000_000;

/// For so long, so many per mille of true time, while that node is read that often.
pub(crate) type Stretch = (u64, u64, usize, u64);

/// Times are in microseconds.
pub(crate) struct World {
    pub(crate) now: u64,
    /// From when on our own clock runs at so many per mille.
    pub(crate) rates: Vec<(u64, u64)>,
    pub(crate) nodes: Vec<There>,
    pub(crate) admission: Admission,
    pub(crate) looked: u64,
    pub(crate) verdicts: Vec<(usize, ClockFault)>,
    /// After the node has been read in the next look, our own clock stands still for so long.
    pub(crate) stall_after: Option<(usize, u64)>,
    /// So long a reply waits on our side.
    pub(crate) waits: u64,
    /// So long a command waits before it is executed.
    pub(crate) held: u64,
    /// What the time for a command and its reply is drawn from.
    pub(crate) noise: u64,
    /// Readings that took no time by our own clock.
    pub(crate) timeless: usize,
}

pub(crate) struct There {
    pub(crate) clock: NodeClock,
    /// Its clock is in question.
    pub(crate) suspected: bool,
    epoch: u64,
    pub(crate) parts_per_million: i128,
    pub(crate) steps: Vec<(u64, i128)>,
    pub(crate) up: bool,
}

impl World {
    pub(crate) fn new(rates_of_nodes: &[i128]) -> Self {
        Self::whose_first_replies_wait(rates_of_nodes, 0)
    }

    pub(crate) fn whose_first_replies_wait(rates_of_nodes: &[i128], waits: u64) -> Self {
        let node = |parts_per_million: &i128| There {
            clock: NodeClock::default(),
            suspected: false,
            epoch: 1,
            parts_per_million: *parts_per_million,
            steps: Vec::new(),
            up: true,
        };
        let nodes: Vec<There> = rates_of_nodes.iter().map(node).collect();
        let admission = Self::admission(nodes.len());
        let (rates, verdicts) = (vec![(0, 1000)], Vec::new());
        let mut world = Self {
            now: 1,
            rates,
            nodes,
            admission,
            looked: 0,
            verdicts,
            stall_after: None,
            waits,
            held: 0,
            noise: 7,
            timeless: 0,
        };
        world.look();
        world.waits = 0;
        world
    }

    /// One for which a quarantine is as long as that.
    pub(crate) fn admission(nodes: usize) -> Admission {
        let policy = AdmissionPolicy::Quarantine;
        Admission::new(Quorum::of(nodes), policy, Duration::ZERO, QUARANTINE)
    }

    pub(crate) fn ours(&self, at: u64) -> Timestamp {
        let ends = self.rates.iter().skip(1).map(|(from, _)| *from).chain([u64::MAX]);
        let passed =
            self.rates.iter().zip(ends).map(|((from, per_mille), end)| {
                at.min(end).saturating_sub(*from) * per_mille / 1000
            });
        Timestamp::from_origin(Duration::from_micros(passed.sum()))
    }

    pub(crate) fn stall(&mut self, stall: u64) {
        self.rates.push((self.now, 0));
        self.now += stall;
        self.rates.push((self.now, 1000));
    }

    pub(crate) fn step(&mut self, node: usize, by: i128) {
        let at = self.now;
        self.nodes[node].steps.push((at, by));
    }

    pub(crate) fn read(&mut self, node: usize) {
        let mut passes = || {
            self.noise = self.noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.noise >> 40) % MS
        };
        let (there, back) = (passes(), passes());
        let (sent, executed) = (self.now, self.now + there + self.held);
        let arrived = executed + back + self.waits;
        let (sent, back) = (self.ours(sent), self.ours(arrived));
        self.timeless += usize::from(sent == back);
        let there = &mut self.nodes[node];
        let steps = there.steps.iter().filter(|(at, _)| *at <= executed).map(|(_, by)| by);
        let passed = i128::from(executed);
        let shows = THERE + passed + passed * there.parts_per_million / 1_000_000;
        let shows = shows + steps.sum::<i128>();
        if !there.clock.handle_reading(sent, back, u64::try_from(shows).unwrap()) {
            self.suspect(node);
        }
        self.now = arrived;
    }

    /// Its session says that its clock has jumped.
    pub(crate) fn suspect(&mut self, node: usize) {
        self.admission.handle_clock_jumped(NodeId::new(node), None);
        self.nodes[node].suspected = true;
    }

    /// Looks at all. While a clock is in question that is no more than that all are read.
    pub(crate) fn look(&mut self) {
        if self.is_any_suspected() {
            let up = |node: &usize| self.nodes[*node].up;
            let up: Vec<usize> = (0..self.nodes.len()).filter(up).collect();
            up.into_iter().for_each(|node| self.read(node));
            return;
        }
        self.probe(true);
        if !self.is_any_suspected() {
            self.looked = self.now;
        }
    }

    fn is_any_suspected(&self) -> bool {
        self.nodes.iter().any(|node| node.suspected)
    }

    /// Judges until it is known whose clocks they were, or that it cannot be told yet.
    pub(crate) fn judge(&mut self) {
        while self.is_any_suspected() {
            let judged = self.probe(false);
            if judged && self.is_any_suspected() {
                return;
            }
        }
    }

    /// Carries out one probe, in which nodes are read one after the other, which takes longer than together. Says whether
    /// it came to a verdict.
    fn probe(&mut self, everyone: bool) -> bool {
        let mut probe = Probe::new(everyone);
        let mut judged = false;
        loop {
            let view = |node: &There| ConnectionView::new(Some(node.up), None, Some(node.clock));
            let views: Vec<ConnectionView> = self.nodes.iter().map(view).collect();
            let now = self.ours(self.now);
            let step = probe.poll(&mut self.admission, &views, now, 0);
            judged |= self.take_verdicts();
            match step {
                ProbeStep::Look(joins) => {
                    for (node, join) in joins {
                        let index = node.index();
                        let there = &mut self.nodes[index];
                        if there.up {
                            let series = there.clock.series();
                            there.epoch += u64::from(join.force == Some(there.epoch));
                            let marker = Marker::new(true, Duration::ZERO, 0).in_epoch(there.epoch);
                            self.read(index);
                            if self.nodes[index].clock.series() == series {
                                let now = self.ours(self.now);
                                probe.handle_marker(&mut self.admission, node, marker, now);
                            }
                        }
                        if let Some((_, stall)) =
                            self.stall_after.take_if(|(after, _)| *after == index)
                        {
                            self.stall(stall);
                        }
                    }
                }
                ProbeStep::Done(_) => {
                    for index in 0..self.nodes.len() {
                        let stands = self.admission.may_vote(NodeId::new(index), now);
                        self.nodes[index].suspected = stands == Err(VoteBlock::ClockInQuestion);
                    }
                    return judged;
                }
                ProbeStep::Admit { node, .. } => panic!("{node} has never been joining"),
            }
        }
    }

    fn take_verdicts(&mut self) -> bool {
        let mut judged = false;
        while let Some(news) = self.admission.poll_news() {
            if let AdmissionNews::Judged(verdicts) = news {
                judged = true;
                let verdicts = verdicts.iter().enumerate();
                self.verdicts.extend(
                    verdicts.filter_map(|(node, clock_fault)| Some((node, (*clock_fault)?))),
                );
            }
        }
        judged
    }

    /// Lets time pass, in which the node is read every `every`, and all of them every ten seconds of ours.
    pub(crate) fn pass(&mut self, time: u64, node: usize, every: u64) {
        let until = self.now + time;
        while self.now < until {
            let (now, looked) = (self.ours(self.now), self.ours(self.looked));
            if now.saturating_since(looked) >= Duration::from_secs(10) {
                self.look();
            } else if self.nodes[node].up {
                self.read(node);
            }
            self.judge();
            self.now += every;
        }
    }

    pub(crate) fn go_through(&mut self, stretches: Vec<Stretch>) {
        for (time, per_mille, node, every) in stretches {
            self.rates.push((self.now, per_mille));
            // A clock that stands still for seconds ends no sleep, but may be read all the same.
            let time = if per_mille == 0 { time / 10 } else { time };
            self.pass(time, node % self.nodes.len(), every);
        }
    }

    pub(crate) fn blamed(&self) -> Vec<usize> {
        let blamed = |(node, clock_fault): &(usize, ClockFault)| {
            (*clock_fault == ClockFault::Node).then_some(*node)
        };
        self.verdicts.iter().filter_map(blamed).collect()
    }
}
