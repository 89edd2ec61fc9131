//! Candidates that lead, resign, go away, lose and are killed, and observers.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::{Either, select};
use quorlock::{
    Election, Holder, Observed, Redlock,
    node::NodeSpec,
    protocol::{Look, NodeId, Quorum, Timestamp},
    runtime::Runtime,
};
use quorlock_harness::SimRuntime;

use super::{
    Flaw,
    invariants::{Act, History, Report},
};
use crate::{
    MS,
    machine::Machine,
    node::SimServer,
    setup::Setup,
    world::{Notes, Processes},
};

/// So often a client is a candidate.
pub(super) const TERMS: usize = 12;

/// All of them: each is a process on a machine of its own, and another one when it was killed.
pub(super) struct Candidates {
    this: Weak<Self>,
    servers: Vec<SimServer>,
    setup: Setup,
    flaw: Flaw,
    notes: Notes,
    machines: Arc<Mutex<Vec<Machine>>>,
    history: Arc<Mutex<History>>,
    /// The handles of all that there have been.
    redlocks: Mutex<Vec<Redlock>>,
    killed: Arc<Killed>,
}

/// How many were killed.
#[derive(Default)]
pub(super) struct Killed {
    pub(super) all: AtomicUsize,
    /// While they led.
    pub(super) in_office: AtomicUsize,
}

impl Candidates {
    pub(super) fn new(servers: &[SimServer], setup: Setup, flaw: Flaw, notes: &Notes) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            servers: servers.to_vec(),
            setup,
            flaw,
            notes: notes.clone(),
            machines: Arc::default(),
            history: Arc::default(),
            redlocks: Mutex::default(),
            killed: Arc::default(),
        })
    }

    pub(super) fn machines(&self) -> Arc<Mutex<Vec<Machine>>> {
        Arc::clone(&self.machines)
    }

    /// What there was.
    pub(super) fn history(&self) -> History {
        self.history.lock().unwrap().clone()
    }

    /// How many were killed, and how many of them while they led.
    pub(super) fn killed(&self) -> (usize, usize) {
        let Killed { all, in_office } = &*self.killed;
        (all.load(Ordering::Relaxed), in_office.load(Ordering::Relaxed))
    }

    fn connect(&self, machine: &Machine) -> Redlock {
        let nodes = self.servers.iter().map(|server| NodeSpec::new(Arc::new(server.connection())));
        let builder = Redlock::builder()
            .nodes(nodes)
            .ttl(300 * MS)
            .max_ttl(self.setup.longest_ttl)
            .node_timeout(20 * MS)
            .runtime(machine.clone());
        machine.build(|| builder.build().unwrap())
    }
}

impl Processes for Candidates {
    fn begin(&self, client: usize) {
        let Some(this) = self.this.upgrade() else { return };
        let machine = Machine::new(&self.notes.runtime, 0, 0);
        let redlock = self.connect(&machine);
        let candidate = Candidate {
            number: client,
            election: redlock.election("a").text(format!("{client}.")),
            runtime: self.notes.runtime.clone(),
            machine: machine.clone(),
            history: Arc::clone(&self.history),
            notes: self.notes.clone(),
            killed: Arc::clone(&self.killed),
            flaw: self.flaw,
        };
        {
            let mut machines = self.machines.lock().unwrap();
            if client < machines.len() {
                machines[client] = machine.clone();
            } else {
                machines.push(machine.clone());
            }
        }
        let life = {
            let mut redlocks = self.redlocks.lock().unwrap();
            redlocks.push(redlock);
            redlocks.len()
        };
        // Another process has seen nothing yet.
        machine.spawn(Box::pin(candidate.clone().look(life)));
        machine.spawn(Box::pin(async move {
            candidate.live().await;
            this.notes.record().is_running[client] = false;
        }));
    }

    fn has_ended(&self, _client: usize) {
        self.killed.all.fetch_add(1, Ordering::Relaxed);
    }

    fn put_clocks_right(&self) {}
}

/// Writes down when work ended, however it did.
struct Acting {
    act: Act,
    runtime: SimRuntime,
    history: Arc<Mutex<History>>,
    machine: Machine,
    killed: Arc<Killed>,
}

impl Drop for Acting {
    fn drop(&mut self) {
        self.act.until = self.runtime.now();
        if self.machine.has_ended() {
            self.killed.in_office.fetch_add(1, Ordering::Relaxed);
        }
        self.runtime.note(format_args!("client {} acted in {}", self.act.client, self.act.term));
        self.history.lock().unwrap().acts.push(self.act.clone());
    }
}

/// A client that leads again and again.
#[derive(Clone)]
struct Candidate {
    number: usize,
    election: Election,
    runtime: SimRuntime,
    machine: Machine,
    history: Arc<Mutex<History>>,
    notes: Notes,
    killed: Arc<Killed>,
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
            machine: self.machine.clone(),
            killed: Arc::clone(&self.killed),
        }
    }

    fn ms(&self, below: u64) -> Duration {
        Duration::from_micros(self.runtime.below(1_000 * below))
    }

    async fn live(self) {
        while self.notes.takes_on(self.number) {
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
                if let Look::Leads(leader) = Look::of(Quorum::of(1), [(NodeId::new(0), sighting)]) {
                    return Observed::Leads(leader);
                }
            }
        }
        seen
    }
}
