//! The lines in which clients wait, as the nodes tell them.
//!
//! It decides who waits: a client that stands in a line on a quorum of the nodes, where a node that did not tell counts as
//! one more. The rest are places that were left on a minority. And how many do: so many as a quorum counts, whoever they are,
//! since a line may have moved between the answers of two nodes. It changes nothing.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use futures::future::try_join_all;

use super::{FleetError, pages::Pages};
use crate::{
    engine::Engine,
    error::Reports,
    node::NodeLine,
    protocol::{ClientId, LinePlace, NodeId, NodeSet, Quorum, Resource, Ticket},
};

/// The lines of a fleet: made by [`Redlock::lines`](crate::Redlock::lines).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lines {
    /// Those in which somebody waits, the longest first; of two, that in which the first has waited for longer.
    pub lines: Vec<Line>,
    /// The nodes that have not told their lines, and why.
    pub untold: Reports,
}

/// Those who wait for a resource, or for any slot of a semaphore.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Line {
    /// What it is called, without the [`key_prefix`](crate::Builder::key_prefix).
    pub name: Box<[u8]>,
    /// Whether it is a semaphore.
    pub is_semaphore: bool,
    /// Of the first [`NodeLine::TOLD`] those whom a quorum of the nodes has told, in order. A client stands there once for
    /// reading and once for all else, however many of its callers wait. One that was killed stands there for as long as
    /// others do, and some seconds more.
    pub places: Vec<LinePlace>,
    /// How many clients wait, as a quorum of the nodes counts. Where no place is told, they may be gone.
    pub waiting: usize,
}

impl Lines {
    /// Asks all nodes at once.
    pub(crate) async fn ask(engine: &Arc<Engine>, pattern: &[u8]) -> Result<Self, FleetError> {
        if engine.config.classic {
            return Err(FleetError::Classic);
        }
        let nodes = engine.addresses().count();
        let told = try_join_all((0..nodes).map(|node| Told::ask(engine, pattern, node))).await?;
        let (mut merged, mut untold) = (Merged::default(), Vec::new());
        for (node, Told { lines, missing }) in told.into_iter().enumerate() {
            lines.into_iter().for_each(|line| merged.add(NodeId::new(node), line));
            untold.extend(missing.iter().cloned());
        }
        let (silent, untold): (NodeSet, Reports) =
            (untold.iter().map(|report| report.node).collect(), untold.into_iter().collect());
        if silent.len() == nodes {
            return Err(FleetError::NotTold { nodes: untold });
        }
        Ok(Self { lines: merged.lines(engine.quorum, silent, &engine.config.key_prefix), untold })
    }
}

/// What one node has told.
struct Told {
    lines: Vec<NodeLine>,
    /// Why it did not.
    missing: Reports,
}

impl Told {
    async fn ask(engine: &Arc<Engine>, pattern: &[u8], node: usize) -> Result<Self, FleetError> {
        let mut pages: Pages<NodeLine> = Pages::of(Arc::clone(engine), pattern, node..node + 1);
        let mut lines = Vec::new();
        loop {
            match pages.next().await {
                Ok(Some((found, receipt))) => {
                    lines.extend(found);
                    pages.taken(receipt);
                }
                Ok(None) => return Ok(Self { lines, missing: pages.untold() }),
                Err(FleetError::NotTold { nodes }) => return Ok(Self { lines, missing: nodes }),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Of each line, by its key and whether it is a semaphore's.
#[derive(Default)]
struct Merged(HashMap<(Box<[u8]>, bool), Seen>);

/// A line on several nodes.
#[derive(Default)]
struct Seen {
    /// Who stands where, since when.
    places: BTreeMap<(ClientId, bool), (Ticket, NodeSet)>,
    /// How many wait there.
    waiting: BTreeMap<NodeId, usize>,
}

impl Merged {
    fn add(&mut self, node: NodeId, line: NodeLine) {
        let seen = self.0.entry((line.key, line.is_semaphore)).or_default();
        // A line may be told twice.
        let waiting = seen.waiting.entry(node).or_default();
        *waiting = line.waiting.max(*waiting);
        for LinePlace { ticket, client, reads } in line.first {
            let place = seen.places.entry((client, reads));
            let (since, nodes) = place.or_insert((ticket, NodeSet::NONE));
            // Of two waits of a client, one has ended.
            *since = ticket.max(*since);
            nodes.insert(node);
        }
    }

    fn lines(self, quorum: Quorum, silent: NodeSet, prefix: &[u8]) -> Vec<Line> {
        let lines = self.0.into_iter().filter_map(|((key, is_semaphore), seen)| {
            let places =
                seen.places.into_iter().filter_map(|((client, reads), (ticket, nodes))| {
                    quorum.is_met_by(nodes.or(silent)).then_some(LinePlace {
                        ticket,
                        client,
                        reads,
                    })
                });
            let mut places: Vec<LinePlace> = places.collect();
            places.sort_unstable();
            places.truncate(NodeLine::TOLD);
            let mut counts: Vec<(usize, NodeId)> =
                seen.waiting.into_iter().map(|(node, count)| (count, node)).collect();
            counts.sort_unstable_by_key(|(count, _)| Reverse(*count));
            let waiting = quorum.met_at(silent, &counts).unwrap_or(0).max(places.len());
            let name = key.strip_prefix(prefix)?;
            // One that nobody can lock is none of ours.
            Resource::behind(prefix, name).ok().filter(|_| waiting > 0)?;
            Some(Line { name: Box::from(name), is_semaphore, places, waiting })
        });
        let mut lines: Vec<Line> = lines.collect();
        lines.sort_unstable_by(|one, other| {
            let by = |line: &Line| (Reverse(line.waiting), line.places.first().copied());
            by(one).cmp(&by(other)).then_with(|| one.name.cmp(&other.name))
        });
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(client: u8, at: u64) -> LinePlace {
        LinePlace { ticket: Ticket::new(at), client: ClientId::new([client; 8]), reads: false }
    }

    fn line(name: &str, places: &[LinePlace]) -> NodeLine {
        NodeLine::new(name.as_bytes(), places.to_vec(), places.len())
    }

    /// What nodes of three tell, by their places; the others are silent.
    fn of_three(told: &[(usize, Vec<NodeLine>)]) -> Vec<Line> {
        let mut merged = Merged::default();
        let mut silent = NodeSet::below(3);
        for (node, lines) in told {
            silent.remove(NodeId::new(*node));
            lines.iter().for_each(|line| merged.add(NodeId::new(*node), line.clone()));
        }
        merged.lines(Quorum::of(3), silent, b"app:")
    }

    #[test]
    fn who_stands_on_a_minority_alone_does_not_wait() {
        let [first, second, left] = [place(1, 10), place(2, 20), place(3, 5)];
        let lines = of_three(&[
            (0, vec![line("app:a", &[left, first, second]), line("app:b", &[left])]),
            (1, vec![line("app:a", &[first, second])]),
            (2, vec![line("app:a", &[first])]),
        ]);
        assert_eq!(lines.len(), 1, "{lines:?}");
        let line = &lines[0];
        assert_eq!(
            (&*line.name, &line.places[..], line.waiting),
            (&b"a"[..], &[first, second][..], 2)
        );
    }

    #[test]
    fn a_node_that_does_not_tell_counts_as_one_more() {
        let [first, second] = [place(1, 10), place(2, 20)];
        let lines = of_three(&[
            (0, vec![line("app:a", &[first, second])]),
            (2, vec![line("app:a", &[first])]),
        ]);
        assert_eq!(lines[0].places, [first, second]);
        let nobody = of_three(&[(0, Vec::new()), (2, Vec::new())]);
        assert_eq!(nobody, []);
    }

    #[test]
    fn the_longest_line_is_the_first_and_then_the_longest_wait() {
        let lines = || {
            vec![
                line("app:late", &[place(1, 30)]),
                line("app:early", &[place(2, 10)]),
                line("app:long", &[place(3, 40), place(4, 50)]),
                line("quorlock:slots:app:early", &[place(5, 20)]),
            ]
        };
        let told = of_three(&[(0, lines()), (1, lines()), (2, lines())]);
        let names: Vec<(&[u8], bool)> =
            told.iter().map(|line| (&*line.name, line.is_semaphore)).collect();
        assert_eq!(
            names,
            [(&b"long"[..], false), (b"early", false), (b"early", true), (b"late", false)]
        );
    }

    #[test]
    fn more_than_are_told_are_counted_by_a_quorum() {
        let of = |waiting| NodeLine { waiting, ..line("app:a", &[place(1, 10)]) };
        let lines =
            of_three(&[(0, vec![of(900), of(300)]), (1, vec![of(120)]), (2, vec![of(110)])]);
        assert_eq!(lines[0].waiting, 120);
        let lines = of_three(&[(0, vec![of(900)]), (2, vec![of(110)])]);
        assert_eq!(lines[0].waiting, 900, "the silent one may know of as many");
    }

    /// Those that one node has told have all had it before the next did.
    #[test]
    fn a_line_that_moves_is_as_long_as_a_quorum_counts() {
        let of = |client| line("app:a", &[place(client, 10), place(client + 1, 20)]);
        let lines = of_three(&[(0, vec![of(1)]), (1, vec![of(3)]), (2, vec![of(5)])]);
        assert_eq!((lines[0].waiting, &lines[0].places[..]), (2, &[][..]));
    }
}
