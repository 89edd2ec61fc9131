//! A queue of processes: one holds, the others stand behind it in the order in which they came, and it is handed on.
//!
//! It takes the times, and insists on the order where nothing has happened, and that no process is passed over for
//! ever. A process that a busy machine stops for longer than a grace is passed over, and keeps its place: that must
//! happen seldom.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::Duration,
};

use quorlock_harness::{Cluster, Server};

use super::{
    POLL, RESOURCE, admitted,
    field::Field,
    lines, median,
    process::{Event, now},
};

/// So many processes, of which the first holds and the others wait. Those that the test leaves get it in the end: none
/// is skipped for good.
pub(crate) fn in_line(processes: usize, ttl: Duration, test: impl FnOnce(&mut Queue<'_>)) {
    let cluster = admitted(ttl);
    let mut queue = Queue::start(&cluster, cluster.urls(), processes, ttl);
    test(&mut queue);
    queue.drain();
}

/// How often one may be passed over while it waits, whatever happens.
const PASSED_OVER: usize = 6;

pub(crate) struct Queue<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) field: Field,
    /// The one that holds, and those that wait, in order.
    pub(crate) order: VecDeque<usize>,
    /// Requests are numbered by the queue.
    requests: usize,
    /// The request of each process.
    asked: Vec<usize>,
    token: u64,
    /// Hand-overs without a cause to change the order, and those of them out of turn.
    passes: usize,
    out_of_turn: usize,
    /// Whether there is an order at all.
    pub(crate) in_line: bool,
    /// How often each has been passed over since it asked.
    passed_over: BTreeMap<usize, usize>,
}

/// A process got it.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) to: usize,
    pub(crate) at: Duration,
}

impl<'a> Queue<'a> {
    /// So many processes, of which the first holds and the others wait.
    pub(crate) fn start(
        cluster: &'a Cluster,
        nodes: Vec<String>,
        processes: usize,
        ttl: Duration,
    ) -> Self {
        let mut queue = Self::of_nobody(cluster, nodes, processes, ttl);
        queue.gets_it_first(0);
        for process in 1..processes {
            queue.joins(process);
            lines::stand(cluster, process);
        }
        queue
    }

    /// Processes that do nothing yet.
    pub(crate) fn of_nobody(
        cluster: &'a Cluster,
        nodes: Vec<String>,
        processes: usize,
        ttl: Duration,
    ) -> Self {
        let field = Field::start(processes, nodes, ttl);
        let (order, asked, passed_over) = Default::default();
        let (requests, token, passes, out_of_turn) = Default::default();
        let in_line = true;
        Self {
            cluster,
            field,
            order,
            requests,
            asked,
            token,
            passes,
            out_of_turn,
            in_line,
            passed_over,
        }
    }

    /// Lets a process acquire while it is free.
    #[track_caller]
    pub(crate) fn gets_it_first(&mut self, process: usize) {
        self.joins(process);
        let passed = self.next_grant();
        assert_eq!(passed.to, process);
    }

    /// One more waits: it has asked when this returns.
    pub(crate) fn joins(&mut self, process: usize) {
        self.requests += 1;
        self.asked.resize(self.asked.len().max(process + 1), 0);
        self.asked[process] = self.requests;
        self.field.process(process).say(&format!("acquire {}", self.requests));
        self.order.push_back(process);
        loop {
            let heard = self.field.next();
            if heard.process == process && heard.event == Event::Asked(self.requests) {
                return;
            }
            assert!(matches!(heard.event, Event::Ended { .. }), "{heard:?}");
        }
    }

    pub(crate) fn holder(&self) -> usize {
        self.order[0]
    }

    pub(crate) fn head(&self) -> usize {
        self.order[1]
    }

    /// Leaves the order, without being told.
    pub(crate) fn without(&mut self, process: usize) {
        self.order.retain(|other| *other != process);
    }

    /// The holder begins to release, and is out of the order.
    pub(crate) fn let_go(&mut self) -> usize {
        let holder = self.order.pop_front().expect("somebody holds");
        let request = self.asked[holder];
        self.field.process(holder).say(&format!("release {request}"));
        holder
    }

    /// The next grant, to any process, with a token above all before.
    #[track_caller]
    pub(crate) fn next_grant(&mut self) -> Passed {
        loop {
            let heard = self.field.next();
            match heard.event {
                Event::Granted { token, at, .. } => {
                    assert!(token > self.token, "{token} after {}", self.token);
                    self.token = token;
                    return Passed { to: heard.process, at };
                }
                Event::Failed { .. } => panic!("{heard:?}"),
                _ => {}
            }
        }
    }

    /// It is the first of the order from now on. Those that stood before it have been passed over.
    #[track_caller]
    pub(crate) fn has_got_it(&mut self, process: usize) {
        let before = self.order.iter().take_while(|other| **other != process);
        for other in before {
            let times = self.passed_over.entry(*other).or_default();
            *times += 1;
            let may_be = *times <= PASSED_OVER || !self.in_line;
            assert!(may_be, "{other} of {:?} is never let in", self.order);
        }
        self.passed_over.remove(&process);
        self.without(process);
        self.order.push_front(process);
    }

    /// The holder releases, and the next gets it: how late.
    #[track_caller]
    pub(crate) fn pass(&mut self) -> Duration {
        let next = self.order[1];
        let late = self.pass_anyhow();
        self.passes += 1;
        self.out_of_turn += usize::from(self.holder() != next);
        late
    }

    /// The holder releases, and any of them gets it: how late.
    #[track_caller]
    pub(crate) fn pass_anyhow(&mut self) -> Duration {
        let told = now();
        let holder = self.let_go();
        let (mut ended, mut granted) = (None, None);
        while ended.is_none() || granted.is_none() {
            let heard = self.field.next();
            match heard.event {
                Event::Ended { at, .. } if heard.process == holder => ended = Some(at),
                Event::Granted { token, at, .. } => {
                    assert!(token > self.token, "{token} after {}", self.token);
                    self.token = token;
                    granted = Some((heard.process, at));
                }
                Event::Failed { .. } => panic!("{heard:?}"),
                _ => {}
            }
        }
        let ((to, at), ended) = (granted.expect("a grant"), ended.expect("an end"));
        assert!(ended >= told && at >= ended, "two holders: granted {:?} early", ended - at);
        self.has_got_it(to);
        at - ended
    }

    /// Everybody who waits stands in line.
    #[track_caller]
    pub(crate) fn all_stand(&self) {
        lines::stand(self.cluster, self.order.len() - 1);
    }

    /// One more waits, and stands behind all others.
    #[track_caller]
    pub(crate) fn comes(&mut self, process: usize) {
        self.joins(process);
        self.all_stand();
    }

    /// The holder releases, the next gets it, and the former holder comes again: how late.
    #[track_caller]
    pub(crate) fn turn(&mut self) -> Duration {
        let (former, late) = (self.holder(), self.pass());
        self.comes(former);
        late
    }

    /// The same where any of them may get it.
    #[track_caller]
    pub(crate) fn turn_anyhow(&mut self) -> Duration {
        let (former, late) = (self.holder(), self.pass_anyhow());
        self.comes(former);
        late
    }

    /// So many turns without a fault, and behind each of them one with it.
    #[track_caller]
    pub(crate) fn by_turns(
        &mut self,
        fault: &str,
        times: usize,
        normal: impl Fn(&mut Self) -> Duration,
        mut faulty: impl FnMut(&mut Self, usize) -> Duration,
    ) -> Lateness {
        let mut lateness = Lateness::default();
        for round in 0..times {
            lateness.normal.push(normal(self));
            lateness.faulty.push(faulty(self, round));
            self.all_stand();
        }
        println!("{fault}: {lateness}");
        lateness
    }

    /// Hands it on until everybody has had it and nobody waits, and ends the processes.
    #[track_caller]
    pub(crate) fn drain(mut self) {
        while self.order.len() > 1 {
            self.pass_anyhow();
        }
        self.let_go();
        let (passes, out_of_turn) = (self.passes, self.out_of_turn);
        println!("{passes} passes, {out_of_turn} out of turn");
        assert!(out_of_turn * 4 <= passes, "{out_of_turn} of {passes} out of turn");
        self.field.end();
        lines::nothing_left(self.cluster);
    }
}

/// When the keys of the resource will have expired on a quorum, if nobody extends them.
pub(crate) fn expiry(cluster: &Cluster) -> Duration {
    let left = |server: &Server| u64::try_from(server.pttl(RESOURCE)).unwrap_or(0);
    let mut expires: Vec<Duration> =
        cluster.iter().map(|server| Duration::from_millis(left(server)) + now()).collect();
    expires.sort();
    expires[cluster.len() / 2]
}

/// How late grants were, without a fault and with one, by turns.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    pub(crate) normal: Vec<Duration>,
    pub(crate) faulty: Vec<Duration>,
}

impl Lateness {
    /// What a fault costs is no more than so much, beside a machine that is busy in both.
    #[track_caller]
    pub(crate) fn assert_within(&self, more: Duration) {
        let (normal, faulty) = (median(&self.normal), median(&self.faulty));
        self.assert_woken();
        assert!(faulty <= 3 * normal + more, "{faulty:?} beside {normal:?}: {self:?}");
    }

    /// The next waiter is woken, and does not learn it by a poll.
    #[track_caller]
    fn assert_woken(&self) {
        let normal = median(&self.normal);
        assert!(normal < POLL / 6, "nobody is woken: {normal:?}: {self:?}");
    }

    /// No single one is late by more.
    #[track_caller]
    pub(crate) fn assert_each_within(&self, most: Duration) {
        self.assert_woken();
        let worst = self.faulty.iter().max().expect("some");
        assert!(*worst <= most, "{worst:?}: {self:?}");
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let worst = |times: &[Duration]| times.iter().max().copied().unwrap_or_default();
        let Self { normal, faulty } = self;
        write!(
            f,
            "late by {:?} ({:?} at most) without a fault, {:?} ({:?} at most) with it",
            median(normal),
            worst(normal),
            median(faulty),
            worst(faulty)
        )
    }
}
