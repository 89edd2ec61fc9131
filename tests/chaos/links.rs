//! The links between single clients and single nodes: cut, silent, deaf or slow, while others reach the node.
//!
//! A lease of such a client rests on the least nodes that make a quorum, and then it matters what each of them
//! forgets. One process has no such links, so that somebody goes on all the time. Nothing here judges.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use quorlock_harness::{Cluster, Evidence, Proxy};

use super::{MS, faults::random};

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum LinkFault {
    /// Connections are closed, and every new one at once.
    Cut,
    /// Nothing passes until it is over, and then all of it does.
    Silent,
    /// Requests pass, and replies are lost.
    Deaf,
    Slow,
}

impl LinkFault {
    pub(crate) const ALL: [Self; 4] = [Self::Cut, Self::Silent, Self::Deaf, Self::Slow];
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
        });
        std::thread::sleep(wait);
        links().for_each(Proxy::heal);
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *done.entry(fault).or_default() += nodes.len();
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
