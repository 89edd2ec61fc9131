//! Elections in the same worlds: candidates that lead, resign, go away and lose, and observers, from one seed.
//!
//! Goal: no two act within their terms, work ends before its term does for others, terms rise, and observers report nobody who
//! was not elected, nor one behind whom another had been. Method: each piece of work writes down from when to when it acted,
//! each observer what it saw; a checker of its own judges, and is tried on histories written by hand. Candidates that end
//! their work behind their term, servers that record too early, and an observer that believes one node are planted.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::{Either, select};
use quorlock::{
    Election, Holder, Observed, Redlock,
    node::NodeSpec,
    protocol::{Look, Quorum, Timestamp},
    runtime::Runtime,
};
use quorlock_harness::SimRuntime;

use crate::{
    node::{Bug, SimServer},
    world::{Record, Setup, World},
};

const MS: Duration = Duration::from_millis(1);
const TERMS: usize = 12;

/// What is wrong with the clients, on purpose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flaw {
    None,
    /// It resigns, and then ends its work.
    ResignsFirst,
    /// It believes whatever node answers.
    BelievesOne,
}

/// Work of a leader: from when to when it acted.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Act {
    client: usize,
    term: u64,
    from: Timestamp,
    until: Timestamp,
}

/// A leader as it was seen.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Report {
    observer: usize,
    term: u64,
    text: String,
    /// When the nodes were asked, at the earliest.
    asked: Timestamp,
    at: Timestamp,
}

#[derive(Clone, Debug, Default)]
struct History {
    /// Which terms were won, by whom, and when that was known.
    won: BTreeMap<u64, (usize, Timestamp)>,
    acts: Vec<Act>,
    reports: Vec<Report>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Violation {
    /// Two acted at once.
    Overlap(Act, Act),
    /// The second acted behind the first, with the smaller term.
    TermFell(Act, Act),
    /// Nobody had won it, or says so.
    NobodyWon(Report),
    /// The observer had seen a larger one.
    ReportFell(Box<Report>, Box<Report>),
    /// Another had been elected behind it before anybody was asked.
    WasOver(Report, u64),
}

fn check(history: &History) -> Result<(), Violation> {
    let mut acts: Vec<&Act> = history.acts.iter().filter(|act| act.from < act.until).collect();
    acts.sort_by_key(|act| (act.from, act.until));
    for pair in acts.windows(2) {
        let (first, second) = (pair[0].clone(), pair[1].clone());
        if second.from < first.until {
            return Err(Violation::Overlap(first, second));
        }
        if second.term < first.term {
            return Err(Violation::TermFell(first, second));
        }
    }
    let mut last: BTreeMap<usize, &Report> = BTreeMap::new();
    for report in &history.reports {
        let won = history.won.get(&report.term);
        if won.is_none_or(|(client, at)| {
            *at > report.at || !report.text.starts_with(&format!("{client}."))
        }) {
            return Err(Violation::NobodyWon(report.clone()));
        }
        let later = history.won.range(report.term + 1..).find(|(_, (_, at))| *at < report.asked);
        if let Some((term, _)) = later {
            return Err(Violation::WasOver(report.clone(), *term));
        }
        if let Some(before) = last.insert(report.observer, report)
            && before.term > report.term
        {
            let (before, report) = (Box::new(before.clone()), Box::new(report.clone()));
            return Err(Violation::ReportFell(before, report));
        }
    }
    Ok(())
}

/// Writes down when work ended, however it did.
struct Acting {
    act: Act,
    runtime: SimRuntime,
    history: Arc<Mutex<History>>,
}

impl Drop for Acting {
    fn drop(&mut self) {
        self.act.until = self.runtime.now();
        self.runtime.note(format_args!("client {} acted in {}", self.act.client, self.act.term));
        self.history.lock().unwrap().acts.push(self.act.clone());
    }
}

/// One who leads again and again.
#[derive(Clone)]
struct Candidate {
    number: usize,
    election: Election,
    runtime: SimRuntime,
    history: Arc<Mutex<History>>,
    flaw: Flaw,
}

impl Candidate {
    fn begin(&self, term: u64) -> Acting {
        let from = self.runtime.now();
        self.runtime.note(format_args!("client {} leads in {term}", self.number));
        self.history.lock().unwrap().won.insert(term, (self.number, from));
        Acting {
            act: Act { client: self.number, term, from, until: from },
            runtime: self.runtime.clone(),
            history: Arc::clone(&self.history),
        }
    }

    fn ms(&self, below: u64) -> Duration {
        Duration::from_micros(self.runtime.below(1_000 * below))
    }

    async fn live(self) {
        for _ in 0..TERMS {
            self.runtime.sleep(self.ms(20)).await;
            // Long enough for a loss now and then.
            let (length, patience) =
                (self.ms(if self.runtime.chance(0.2) { 600 } else { 40 }), self.ms(900));
            if self.flaw == Flaw::ResignsFirst {
                let campaign = pin!(self.election.campaign());
                let Either::Left((Ok(leadership), _)) =
                    select(campaign, self.runtime.sleep(patience)).await
                else {
                    continue;
                };
                let acting = self.begin(leadership.term().get());
                self.runtime.sleep(length).await;
                drop(leadership.resign().await);
                self.runtime.sleep(MS).await;
                drop(acting);
                continue;
            }
            let this = self.clone();
            let work = async move |leadership: &quorlock::Leadership| {
                let _acting = this.begin(leadership.term().get());
                if this.runtime.chance(0.3) {
                    this.runtime.sleep(this.ms(10)).await;
                    drop(leadership.proclaim(format!("{}.again", this.number)).await);
                }
                this.runtime.sleep(length).await;
                if this.runtime.chance(0.2) { Err("it failed") } else { Ok(()) }
            };
            // It goes away in the middle, or its work comes to an end.
            let lead = pin!(self.election.lead(work));
            if let Either::Right(_) = select(lead, self.runtime.sleep(patience)).await {
                self.runtime.note(format_args!("client {} goes away", self.number));
            }
        }
    }

    async fn look(self, observer: usize) {
        let mut watch = self.election.observe();
        loop {
            let asked = self.runtime.now();
            let seen = if self.flaw == Flaw::BelievesOne {
                self.runtime.sleep(self.ms(30)).await;
                self.believe_one().await
            } else if self.runtime.chance(0.5) {
                self.runtime.sleep(self.ms(30)).await;
                let asked = self.runtime.now();
                // Asked once, and a change that is waited for, have no order between them.
                if let Ok(Observed::Leads(leader)) = self.election.leader().await {
                    let number = 1_000 + self.history.lock().unwrap().reports.len();
                    self.report(number, leader, asked);
                }
                continue;
            } else {
                let changed = pin!(watch.changed());
                match select(changed, self.runtime.sleep(200 * MS)).await {
                    Either::Left((Ok(seen), _)) => seen.clone(),
                    _ => continue,
                }
            };
            if let Observed::Leads(leader) = seen {
                self.report(observer, leader, asked);
            }
        }
    }

    fn report(&self, observer: usize, leader: quorlock::Leader, asked: Timestamp) {
        let (term, text, at) = (leader.term.get(), leader.text.to_string(), self.runtime.now());
        self.runtime.note(format_args!("observer {observer} sees {term} of {text}"));
        self.history.lock().unwrap().reports.push(Report { observer, term, text, asked, at });
    }

    /// The flaw: the first node with a key is enough.
    async fn believe_one(&self) -> Observed {
        let seen = self.election.leader().await.unwrap();
        if let Observed::Between(Holder::Unclear { nodes }) = &seen {
            for sighting in nodes.iter().filter_map(|node| node.seen.as_ref().ok()) {
                if let Look::Leads(leader) = Look::of(Quorum::of(1), [sighting]) {
                    return Observed::Leads(leader);
                }
            }
        }
        seen
    }
}

/// What a run came to.
struct Outcome {
    verdict: Result<(), Violation>,
    history: History,
    trace: Vec<String>,
}

fn run(seed: u64, setup: Setup, flaw: Flaw) -> Outcome {
    let runtime = SimRuntime::new(seed);
    let nodes = if runtime.chance(0.5) { 3 } else { 5 };
    let clients = 2 + usize::try_from(runtime.below(3)).unwrap();
    let servers: Vec<SimServer> = (0..nodes)
        .map(|index| {
            let rate = i64::try_from(runtime.below(9)).unwrap() - 4;
            let bug = if index < setup.bugged { setup.bug } else { Bug::None };
            SimServer::new(index, runtime.clone(), rate, bug)
        })
        .collect();
    let history = Arc::new(Mutex::new(History::default()));
    let record: Arc<Mutex<Record>> = Arc::default();
    record.lock().unwrap().clients_running = clients;
    let world = World { runtime: runtime.clone(), servers, record };
    let mut redlocks: Vec<Redlock> = Vec::new();
    for number in 0..clients {
        let nodes = world.servers.iter();
        let builder = Redlock::builder()
            .nodes(nodes.map(|server| NodeSpec::new(Arc::new(server.connection()))))
            .ttl(300 * MS)
            .max_ttl(setup.longest_ttl)
            .node_timeout(20 * MS)
            .runtime(Arc::new(runtime.clone()));
        let redlock = builder.build().unwrap();
        let candidate = Candidate {
            number,
            election: redlock.election("a").text(format!("{number}.")),
            runtime: runtime.clone(),
            history: Arc::clone(&history),
            flaw,
        };
        redlocks.push(redlock);
        runtime.spawn(Box::pin(candidate.clone().look(number)));
        let record = Arc::clone(&world.record);
        runtime.spawn(Box::pin(async move {
            candidate.live().await;
            record.lock().unwrap().clients_running -= 1;
        }));
    }
    world.torment(setup, nodes);
    let history = history.lock().unwrap().clone();
    let verdict = check(&history);
    let trace = runtime.trace().0;
    runtime.shut_down();
    drop(redlocks);
    Outcome { verdict, history, trace }
}

const SETUP: Setup = Setup { longest_ttl: Duration::from_secs(1), ..Setup::SOUND };

fn seeds() -> u64 {
    let variable = std::env::var("QUORLOCK_SIM_SEEDS").ok();
    variable.map_or(200, |seeds| seeds.parse().expect("a number"))
}

fn run_all(setup: Setup) {
    if let Ok(seed) = std::env::var("QUORLOCK_SIM_SEED") {
        let outcome = run(seed.parse().unwrap(), setup, Flaw::None);
        outcome.trace.iter().for_each(|line| println!("{line}"));
        assert_eq!(outcome.verdict, Ok(()));
        return;
    }
    let (mut won, mut reports, mut failed) = (0, 0, Vec::new());
    for seed in 0..seeds() {
        let Outcome { verdict, history, .. } = run(seed, setup, Flaw::None);
        won += history.won.len();
        reports += history.reports.len();
        failed.extend(verdict.err().map(|violation| format!("seed {seed}: {violation:#?}")));
    }
    println!("seeds={} terms={won} reports={reports}", seeds());
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), seeds(), failed.join("\n"));
    let seeds = usize::try_from(seeds()).unwrap();
    assert!(won > 5 * seeds && reports > 5 * seeds, "a simulation in which nothing happens");
}

#[test]
fn no_seed_has_two_leaders_at_once_nor_reports_one_that_was_not_elected() {
    run_all(SETUP);
}

#[test]
fn no_seed_of_elections_does_where_one_quarantine_follows_another() {
    run_all(Setup { longest_ttl: 400 * MS, spared: 700 * MS, reckless: 0.1, ..SETUP });
}

fn violations(setup: Setup, flaw: Flaw) -> impl Iterator<Item = Violation> {
    (0..100).filter_map(move |seed| run(seed, setup, flaw).verdict.err())
}

#[test]
fn a_candidate_that_resigns_before_its_work_has_ended_is_seen() {
    let seen = violations(SETUP, Flaw::ResignsFirst);
    assert!({ seen }.any(|seen| matches!(seen, Violation::Overlap(..))));
}

#[test]
fn servers_that_record_a_leader_before_it_has_won_are_seen() {
    let setup = Setup { bug: Bug::RecordsEarly, bugged: 5, ..SETUP };
    let seen = violations(setup, Flaw::None);
    assert!({ seen }.any(|seen| matches!(seen, Violation::NobodyWon(_))));
}

#[test]
fn an_observer_that_believes_one_node_is_seen() {
    let seen = violations(SETUP, Flaw::BelievesOne);
    let of_observer = |seen: Violation| {
        matches!(seen, Violation::WasOver(..) | Violation::ReportFell(..) | Violation::NobodyWon(_))
    };
    assert!({ seen }.any(of_observer));
}

mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_origin(Duration::from_millis(millis))
    }

    fn act(client: usize, term: u64, from: u64, until: u64) -> Act {
        Act { client, term, from: at(from), until: at(until) }
    }

    fn report(observer: usize, term: u64, asked: u64) -> Report {
        let (asked, at) = (at(asked), at(asked + 1));
        Report { observer, term, text: format!("{}.", term % 10), asked, at }
    }

    fn history() -> History {
        let won = BTreeMap::from([(10, (0, at(10))), (21, (1, at(20)))]);
        let acts = vec![act(0, 10, 10, 20), act(1, 21, 20, 30)];
        History { won, acts, reports: vec![report(5, 10, 12), report(5, 21, 25)] }
    }

    #[test]
    fn one_behind_the_other_is_fine() {
        assert_eq!(check(&history()), Ok(()));
    }

    #[test]
    fn what_is_wrong_is_found() {
        let overlap = act(1, 21, 19, 30);
        let mut bad = history();
        bad.acts[1] = overlap.clone();
        assert_eq!(check(&bad), Err(Violation::Overlap(act(0, 10, 10, 20), overlap)));
        let mut bad = history();
        bad.acts.push(act(2, 9, 40, 50));
        assert!(matches!(check(&bad), Err(Violation::TermFell(..))));
        for (wrong, text) in [(11, "1."), (10, "1."), (10, "0")] {
            let mut bad = history();
            bad.reports[0] = Report { text: text.to_owned(), ..report(5, wrong, 12) };
            assert_eq!(check(&bad), Err(Violation::NobodyWon(bad.reports[0].clone())));
        }
        let mut bad = history();
        bad.reports[0] = report(5, 10, 8);
        assert_eq!(check(&bad), Err(Violation::NobodyWon(report(5, 10, 8))), "before it won");
        bad = history();
        bad.reports.push(report(6, 10, 21));
        assert_eq!(check(&bad), Err(Violation::WasOver(report(6, 10, 21), 21)));
        bad = history();
        bad.reports = vec![report(5, 21, 25), Report { asked: at(19), ..report(5, 10, 26) }];
        assert!(matches!(check(&bad), Err(Violation::ReportFell(..))));
    }
}
