//! One client: its node of each kind, what it knows of them, and what it was told of lines.

use std::{sync::Arc, time::Duration};

use quorlock_harness::Server;

use super::{
    clock::{Clock, START_US},
    names::{client_id, number_of},
    steps::{CLASSIC, is_deaf},
};
use crate::{
    lock::Lock,
    node::{
        Fleet, MemoryNode, Node, NodeContext, NodeSettings,
        redis::{Address, RedisNode, TlsSettings},
    },
    protocol::{EpochMark, LineHint, Members, NodeId},
};

/// One client: its node of each kind, and what it knows of each.
pub(super) struct Client {
    pub(super) nodes: [Arc<dyn Node>; 2],
    /// Kept alive: the node in memory refers to it weakly.
    _fleets: [Arc<Fleet>; 2],
    pub(super) told: [Arc<Lock<Vec<String>>>; 2],
    pub(super) marks: [EpochMark; 2],
    /// It was granted several resources since its messages were last compared.
    pub(super) took_set: bool,
}

impl Client {
    pub(super) fn new(number: usize, clock: &Clock, server: &Server, memory: &MemoryNode) -> Self {
        let address = Address::parse(&server.url(), &TlsSettings::default()).expect("an address");
        let nodes: [Arc<dyn Node>; 2] =
            [Arc::new(RedisNode::new(address)), Arc::new(memory.clone())];
        let told: [Arc<Lock<Vec<String>>>; 2] = Default::default();
        let fleets = [0, 1].map(|kind: usize| {
            let fleet = Arc::new(Fleet::default());
            let told = Arc::clone(&told[kind]);
            fleet.on_line(move |_, resource, hint: LineHint| {
                let hint = match hint {
                    LineHint::StandBy { head } => format!("StandBy {}", number_of(head)),
                    LineHint::KeepsOut { ticket } => {
                        format!("KeepsOut {}", ticket.get().wrapping_sub(START_US).cast_signed())
                    }
                    hint => format!("{hint:?}"),
                };
                let line = resource.to_string();
                told.lock()
                    .push(format!("{hint} of {}", line.trim_start_matches("quorlock:slots:")));
            });
            let settings = NodeSettings {
                connect_timeout: Duration::from_secs(10),
                node_timeout: Duration::from_secs(10),
                allow_eviction: false,
                skips_quarantine: false,
                classic: number == CLASSIC,
                // So long that no generation of counters ends: the node in memory has one.
                counter_retention: Duration::from_secs(1 << 40),
                members: Members::new("alike", ["a"]),
                key_prefix: Vec::new(),
                // A deaf client stands in lines under another name than this.
                client: client_id(
                    u8::try_from(number).expect("few") + if is_deaf(number) { 64 } else { 0 },
                ),
            };
            let runtime = Arc::new(clock.clone());
            nodes[kind].start(NodeContext::new(
                NodeId::new(0),
                runtime,
                Arc::clone(&fleet),
                Arc::new(settings),
            ));
            fleet
        });
        Self { nodes, _fleets: fleets, told, marks: [EpochMark::default(); 2], took_set: false }
    }
}
