//! Faults of a change of the list of nodes: what is sealed, found, waited for and opened, and whom a node serves then.

use super::{Fault, edit};

#[rustfmt::skip]
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        number: 108,
        name: "the nodes of the new list are opened without a wait",
        edits: &[
            edit("admission/changing.rs", "now.saturating_since(since) < self.quarantine()", "false"),
        ],
        configuration: "changes",
        property: "at most one client",
    },
    Fault {
        number: 109,
        name: "one node less than a majority of the old list is found sealed",
        edits: &[
            edit("admission/changing.rs", "still.map(|(node, _)| node).collect()", "still.map(|(node, _)| node).chain(before.iter().take(1)).collect()"),
        ],
        configuration: "changes",
        property: "tokens are unique",
    },
    Fault {
        number: 110,
        name: "the sealed nodes are not looked at again",
        edits: &[
            edit("admission/changing.rs", "Some(look_at(nodes, look))", "if $is {\n                    let floor = heard.iter().map(|(_, marker)| marker.high_water).max();\n                    if admission.quorum.is_met_before_by(nodes.iter().copied().collect()) {\n                        admission.change.sealed = floor.map(|floor| (now, floor));\n                    }\n                    return None;\n                } else {\n                    Some(look_at(nodes, look))\n                }"),
        ],
        configuration: "changes",
        property: "tokens are unique",
    },
    Fault {
        number: 111,
        name: "a sealed node serves clients with the old list",
        edits: &[
            edit("node_store/members.rs", "(None, _) => self.take_or_open(join, members, &record, now)?,", "(None, _) if $is && record.nodes_after().is_some() && record.nodes().eq(members.nodes()) => {}\n                (None, _) => self.take_or_open(join, members, &record, now)?,"),
        ],
        configuration: "changes",
        property: "at most one client",
    },
    Fault {
        number: 112,
        name: "a node that has forgotten serves the old list whatever the others say",
        edits: &[
            edit("admission/changing.rs", "self.sees_seal(others) || !before.contains(node) || !knows_before", "!before.contains(node)"),
        ],
        configuration: "changes",
        property: "tokens are unique",
    },
    Fault {
        number: 113,
        name: "the nodes of the new list go on from their own counters",
        edits: &[
            edit("admission/changing.rs", "return Some((Changing::Ending, closed, Errand::Open(floor)));", "return Some((Changing::Ending, closed, Errand::Open(0 * floor)));"),
        ],
        configuration: "changes",
        property: "tokens are unique",
    },
    Fault {
        number: 114,
        name: "a client with both lists needs a majority of the new list alone",
        edits: &[
            edit("round/quorum.rs", "self.is_met_before_by(nodes) && self.is_met_after_by(nodes)", "self.is_met_after_by(nodes)"),
        ],
        configuration: "changes",
        property: "at most one client",
    },
    Fault {
        number: 115,
        name: "a client with both lists needs a majority of the old list alone",
        edits: &[
            edit("round/quorum.rs", "self.is_met_before_by(nodes) && self.is_met_after_by(nodes)", "self.is_met_before_by(nodes)"),
        ],
        configuration: "changes",
        property: "tokens are unique",
    },
];
