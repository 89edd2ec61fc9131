//! A candidate that leads, resigns, goes away and loses, and an observer.

use std::{
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::{Either, select};
use quorlock::{
    Election, Holder, Observed,
    protocol::{Look, Quorum, Timestamp},
    runtime::Runtime,
};
use quorlock_harness::SimRuntime;

use super::{
    Flaw,
    check::{Act, History, Report},
};
use crate::MS;

const TERMS: usize = 12;

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
pub(super) struct Candidate {
    pub(super) number: usize,
    pub(super) election: Election,
    pub(super) runtime: SimRuntime,
    pub(super) history: Arc<Mutex<History>>,
    pub(super) flaw: Flaw,
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

    pub(super) async fn live(self) {
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

    pub(super) async fn look(self, observer: usize) {
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
