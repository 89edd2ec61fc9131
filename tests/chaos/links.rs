//! The links between single clients and single nodes: cut, silent, deaf, slow or late, while others reach the node.
//!
//! A lease of such a client rests on the fewest nodes that make a quorum, and then it matters what each of them
//! forgets. One process has no such links, so that it goes on all the time. Nothing here judges.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use quorlock_harness::{Cluster, Evidence, Proxy, eventually};

use super::{MS, SECOND, faults::random};

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum LinkFault {
    /// Connections are closed, and every new one at once.
    Cut,
    /// Nothing passes until it is over, and then all of it does.
    Silent,
    /// Requests pass, and replies are lost.
    Deaf,
    Slow,
    /// Commands of a connection arrive after its end, and after commands of the next one.
    Late,
}

impl LinkFault {
    pub(crate) const ALL: [Self; 5] = [Self::Cut, Self::Silent, Self::Deaf, Self::Slow, Self::Late];
}

/// The links of all processes that have any.
pub(crate) struct Links {
    /// By process, then by node.
    proxies: Vec<Vec<Proxy>>,
    done: Mutex<BTreeMap<LinkFault, usize>>,
}

impl Links {
    /// Links of so many processes to all nodes.
    pub(crate) fn start(cluster: &Cluster, processes: usize) -> Self {
        let links = || cluster.iter().map(|server| Proxy::start(server.port())).collect();
        Self { proxies: (0..processes).map(|_| links()).collect(), done: Mutex::default() }
    }

    /// By which this process reaches the nodes; none where it reaches them directly.
    pub(crate) fn urls(&self, process: usize) -> Option<Vec<String>> {
        Some(self.proxies.get(process)?.iter().map(Proxy::url).collect())
    }

    pub(crate) const fn processes(&self) -> usize {
        self.proxies.len()
    }

    /// Harms the links of a process to some nodes for a while.
    pub(crate) fn strike(&self, process: usize, nodes: &[usize], fault: LinkFault, wait: Duration) {
        let links = || nodes.iter().map(|node| &self.proxies[process][*node]);
        links().for_each(|link| match fault {
            LinkFault::Cut => link.cut(),
            LinkFault::Silent => link.blackhole(true),
            LinkFault::Deaf => link.drop_replies(true),
            LinkFault::Slow => link.delay(MS * u32::try_from(5 + random(200)).unwrap()),
            LinkFault::Late => link.hold_back(),
        });
        if fault == LinkFault::Late {
            thread::sleep(wait / 2);
            links().for_each(Proxy::sever);
        }
        thread::sleep(wait);
        links().for_each(Proxy::heal);
        self.count(fault, nodes.len());
    }

    /// What a process sends to all nodes within this time arrives after `moment`, when its connections are long over.
    pub(crate) fn delay_beyond_the_end(
        &self,
        process: usize,
        time: Duration,
        moment: impl FnOnce(),
    ) {
        let links = &self.proxies[process];
        links.iter().for_each(Proxy::hold_back);
        thread::sleep(time);
        links.iter().for_each(Proxy::sever);
        moment();
        links.iter().for_each(Proxy::deliver);
        eventually("what was late has been executed", 20 * SECOND, || {
            links.iter().all(|link| link.late_connections() == 0)
        });
        self.count(LinkFault::Late, links.len());
    }

    /// On all links another script runs in the place of this one: a planted bug.
    pub(crate) fn exchange_script(&self, script: &str, other: &str) {
        self.proxies.iter().flatten().for_each(|link| link.exchange_script(script, other));
    }

    fn count(&self, fault: LinkFault, links: usize) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *done.entry(fault).or_default() += links;
    }

    /// The figures with how often each was done, in links.
    pub(crate) fn told(&self, figures: Evidence) -> Evidence {
        let add = |figures: Evidence, (fault, links): (LinkFault, usize)| {
            figures.count(&format!("fault Link{fault:?}"), links)
        };
        self.done().into_iter().fold(figures, add)
    }

    /// How often each was done, in links.
    pub(crate) fn done(&self) -> BTreeMap<LinkFault, usize> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
