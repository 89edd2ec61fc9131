//! Counts what was worth a test in what servers execute. It changes nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use quorlock::{
    node::NodeError,
    protocol::{Command, Denial, Owner, Reply, Timestamp},
};

use super::SimServer;
use crate::reached::{Reached, S10, S11, S20, S22, S23, S32, S33, S34, S39};

/// What all servers of a run have been asked to do. A clone counts for the same run.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(super) reached: Reached,
    asked: Arc<Mutex<Asked>>,
}

#[derive(Default)]
struct Asked {
    /// By owner and server: how often an acquire was executed, and whether its release was.
    by_server: BTreeMap<(Owner, usize), (u32, bool)>,
    /// By owner and server: the last end that an extension has asked for.
    ends: BTreeMap<(Owner, usize), Timestamp>,
    /// By owner: how many have granted and denied an acquire.
    rounds: BTreeMap<Owner, (u32, u32)>,
}

/// How a command came to be executed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Way {
    /// Its sender does not wait for the answer any more.
    pub(super) unheard: bool,
}

impl Watch {
    pub(crate) fn new(reached: Reached) -> Self {
        Self { reached, asked: Arc::default() }
    }

    /// The owners whom some servers have granted something, and some have denied it.
    pub(crate) fn split(&self) -> Vec<Owner> {
        let asked = self.asked.lock().unwrap();
        let split =
            asked.rounds.iter().filter(|(_, (granted, denied))| *granted > 0 && *denied > 0);
        split.map(|(owner, _)| *owner).collect()
    }

    /// A server has executed a command, and this is what it answers.
    pub(super) fn executed(
        &self,
        server: &SimServer,
        command: &Command,
        reply: &Result<Reply, NodeError>,
        way: Way,
    ) {
        self.reached.hit_if(way.unheard, S20);
        server.runtime.detail(|| {
            format!("server {}, at {:?}: {command:?} -> {reply:?}", server.index, server.now())
        });
        let Ok(reply) = reply else { return };
        let granted = matches!(reply, Reply::Granted(_));
        match command {
            Command::Acquire { owner, hint, .. } => {
                self.acquired(server, *owner, granted);
                self.reached.hit_if(granted && hint.is_some() && server.has_forgotten(), S32);
            }
            Command::Confirm { .. } => self.reached.hit(if granted { S33 } else { S34 }),
            Command::Extend { owner, ttl, .. } => {
                let (end, mut asked) =
                    (server.now().saturating_add(*ttl), self.asked.lock().unwrap());
                let last = asked.ends.entry((*owner, server.index)).or_insert(end);
                self.reached.hit_if(granted && way.unheard && end < *last, S39);
                *last = end.max(*last);
                drop(asked);
                let gone = matches!(reply, Reply::Denied(Denial { gone: true, .. }));
                self.reached.hit_if(gone, S10);
            }
            Command::Release { owner, .. } => {
                let foreign = matches!(reply, Reply::Denied(Denial { gone: false, .. }));
                self.reached.hit_if(foreign, S11);
                let mut asked = self.asked.lock().unwrap();
                asked.by_server.entry((*owner, server.index)).or_default().1 = true;
            }
            _ => {}
        }
    }

    fn acquired(&self, server: &SimServer, owner: Owner, granted: bool) {
        let mut asked = self.asked.lock().unwrap();
        let (acquires, released) = asked.by_server.entry((owner, server.index)).or_default();
        *acquires += 1;
        self.reached.hit_if(*acquires == 2, S22);
        self.reached.hit_if(*released, S23);
        let (yes, no) = asked.rounds.entry(owner).or_default();
        *(if granted { yes } else { no }) += 1;
    }
}
