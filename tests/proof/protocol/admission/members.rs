//! M10: of two lists of nodes that share one which answers both, at most one lets its first node in.
//!
//! Method: two clients with overlapping lists, and one more with the first list, run the machine over nodes that nobody has
//! used; every order is searched in which looks and admissions are executed, clients end in the middle and what they have
//! meant is over. What a client has sent is executed also when it has ended, at any later time. A node that only one client
//! has takes its looks at once, since nobody else could see in which order. Flaws planted in the nodes must be found.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use quorlock_core::{Belongs, Claim, Errand, Members, Relation};

use super::*;

/// The answers to looks of before the generation was known come one behind the other.
#[test]
fn a_record_that_serves_this_list_by_now_is_of_no_others() {
    let (old, new) = (Members::new("f", ["a", "b"]), Members::new("f", ["a", "c"]));
    for ours in [old.clone(), new.after(&old)] {
        let mut admission =
            Admission::new(Quorum::of(3), AdmissionPolicy::Quarantine, TTL, ATTEMPT)
                .with_members(ours);
        for place in 0..3 {
            let relation = admission.handle_other_members(node(place), &old.at(7), Belongs::Record);
            assert_eq!(relation, Relation::Later(7), "{place}");
            assert_eq!(
                admission.may_vote(node(place), Timestamp::ORIGIN),
                Err(VoteBlock::NotLookedAt)
            );
        }
        assert_eq!(admission.generation(), 7);
    }
}

/// The two lists, by the numbers of the nodes.
type Lists = [&'static [usize]; 2];

/// Which clients there are: the list of each, and how often it sees to its nodes.
type Askers = &'static [(usize, u8)];

/// What a node does wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flaw {
    None,
    /// What is held ends, as what is meant does.
    HeldEnds,
    /// It says that it is held, and is not.
    HoldsNothing,
    /// Nobody hears that it belongs to others.
    Unheard,
    /// Any client may admit it.
    AnyMayAdmit,
}

/// What a node stores about lists, and whether it was let in.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Claimed {
    made: Option<usize>,
    meant: Option<usize>,
    held: bool,
}

impl Claimed {
    /// As `join.lua` does it.
    fn join(&mut self, list: usize, join: Join, flaw: Flaw) -> Option<Marker> {
        let owner = self.made.or(self.meant);
        if owner.is_some_and(|owner| owner != list) {
            return None;
        }
        if self.made.is_none() {
            match join.errand {
                Some(Errand::Withdraw) if !self.held => self.meant = None,
                Some(Errand::Withdraw | Errand::MeanNothing) => {}
                _ => self.meant = Some(list),
            }
            self.held |= join.seal && self.meant.is_some() && flaw != Flaw::HoldsNothing;
        }
        let claim = match (self.made, self.held || join.seal && flaw == Flaw::HoldsNothing) {
            (Some(_), _) => Claim::Made,
            (None, true) => Claim::Held,
            (None, false) => Claim::Meant,
        };
        let epoch = 1 + u64::from(self.made.is_some());
        Some(Marker::new(self.made.is_some(), TTL, 0).in_epoch(epoch).claimed(claim))
    }

    /// As `admit.lua` does it.
    fn admit(&mut self, list: usize, flaw: Flaw) -> bool {
        let ours = self.meant == Some(list) || flaw == Flaw::AnyMayAdmit;
        let admits = self.made.is_none() && ours;
        if admits {
            *self = Self { made: Some(list), meant: None, held: false };
        }
        admits
    }
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Asker {
    list: usize,
    admission: Admission,
    probe: Probe,
    /// Its probes that are left.
    left: u8,
    /// Which of its steps is under way, and which nodes have not answered it.
    step: u8,
    open: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Message {
    Look(Join),
    Admit,
}

/// On its way: by whom, in which of its steps, to which node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Sent {
    asker: usize,
    step: u8,
    node: usize,
    message: Message,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct World {
    nodes: Vec<Claimed>,
    askers: Vec<Asker>,
    sent: Vec<Sent>,
    /// How often what is meant may still end by itself.
    ends: u8,
}

struct Search {
    lists: Lists,
    flaw: Flaw,
}

impl Search {
    fn asker(&self, list: usize, probes: u8) -> Asker {
        let nodes = self.lists[list].len();
        let (policy, ttl) = (AdmissionPolicy::DangerSkip, TTL);
        let mut admission = Admission::new(Quorum::of(nodes), policy, ttl, ATTEMPT);
        let probe = admission.begin_probe(Timestamp::ORIGIN);
        Asker { list, admission, probe, left: probes, step: 0, open: Vec::new() }
    }

    /// Its next step; a probe that is over is followed by the next one.
    fn poll(&self, world: &mut World, number: usize) {
        let asker = &mut world.askers[number];
        let nodes = self.lists[asker.list];
        let views = vec![ConnectionView::new(Some(true), Some(Arc::from("a")), None); nodes.len()];
        asker.step += 1;
        asker.open.clear();
        while asker.left > 0 {
            let step = asker.probe.poll(&mut asker.admission, &views, Timestamp::ORIGIN, WALL);
            while asker.admission.poll_news().is_some() {}
            let messages: Vec<(usize, Message)> = match step {
                ProbeStep::Look(joins) => {
                    let look = |(node, join): (NodeId, Join)| {
                        (nodes[node.index()], Message::Look(join.waited(None)))
                    };
                    joins.into_iter().map(look).collect()
                }
                ProbeStep::Admit { node, .. } => vec![(nodes[node.index()], Message::Admit)],
                ProbeStep::Done(_) => {
                    asker.left -= 1;
                    asker.probe = asker.admission.begin_probe(Timestamp::ORIGIN);
                    continue;
                }
            };
            let step = asker.step;
            asker.open.extend(messages.iter().map(|(node, _)| *node));
            for (node, message) in messages {
                world.sent.push(Sent { asker: number, step, node, message });
            }
            let alone = |world: &World| {
                world.sent.iter().position(|sent| {
                    sent.asker == number
                        && sent.step == step
                        && matches!(sent.message, Message::Look(_))
                        && !self.is_shared(world, sent.node)
                })
            };
            while let Some(at) = alone(world) {
                // The last answer polls again by itself.
                self.execute(world, at);
                if world.askers[number].step != step {
                    return;
                }
            }
            return;
        }
    }

    fn execute(&self, world: &mut World, at: usize) {
        let Sent { asker: number, step, node, message } = world.sent.swap_remove(at);
        let asker = &mut world.askers[number];
        let claimed = &mut world.nodes[node];
        let heard = asker.step == step;
        let place = self.lists[asker.list].iter().position(|other| *other == node).unwrap();
        let id = NodeId::new(place);
        match message {
            Message::Look(join) => match claimed.join(asker.list, join, self.flaw) {
                Some(marker) if heard => {
                    asker.probe.handle_marker(&mut asker.admission, id, marker, Timestamp::ORIGIN);
                }
                None if heard && self.flaw != Flaw::Unheard => {
                    asker.admission.handle_other_members(
                        id,
                        &Members::from_text("of others"),
                        Belongs::Record,
                    );
                }
                _ => {}
            },
            Message::Admit => {
                if claimed.admit(asker.list, self.flaw) && heard {
                    asker.probe.handle_admitted();
                }
            }
        }
        if heard {
            asker.open.retain(|other| *other != node);
            if asker.open.is_empty() {
                self.poll(world, number);
            }
        }
    }

    /// Whether several clients have it.
    fn is_shared(&self, world: &World, node: usize) -> bool {
        let has = |asker: &&Asker| self.lists[asker.list].contains(&node);
        world.askers.iter().filter(has).count() > 1
    }

    fn next(&self, world: &World) -> Vec<World> {
        let mut next = Vec::new();
        let mut with = |change: &dyn Fn(&mut World)| {
            let mut world = world.clone();
            change(&mut world);
            world.sent.sort_unstable_by_key(|sent| (sent.asker, sent.step, sent.node));
            next.push(world);
        };
        for at in 0..world.sent.len() {
            // A connection carries the messages of a client in their order.
            let Sent { asker, step, node, .. } = world.sent[at];
            let behind =
                |other: &Sent| other.asker == asker && other.node == node && other.step < step;
            if !world.sent.iter().any(behind) {
                with(&|world| self.execute(world, at));
            }
        }
        for (number, asker) in world.askers.iter().enumerate() {
            // It ends, and what it sent is still on its way.
            if asker.left > 0 {
                with(&|world| {
                    let asker = &mut world.askers[number];
                    (asker.left, asker.step) = (0, asker.step + 1);
                    asker.open.clear();
                });
            }
        }
        for (node, claimed) in world.nodes.iter().enumerate() {
            let ends = !claimed.held || self.flaw == Flaw::HeldEnds;
            if claimed.meant.is_some() && ends && world.ends > 0 {
                with(&|world| {
                    (world.nodes[node].meant, world.nodes[node].held) = (None, false);
                    world.ends -= 1;
                });
            }
        }
        next
    }

    /// How many states there are, and the first in which both lists have let a node in; and whether any list ever had.
    fn run(&self, askers: &[(usize, u8)], ends: u8) -> (usize, Option<World>, [bool; 2]) {
        let nodes = 1 + self.lists.iter().flat_map(|list| list.iter()).max().unwrap();
        let askers: Vec<Asker> =
            askers.iter().map(|(list, probes)| self.asker(*list, *probes)).collect();
        let mut world =
            World { nodes: vec![Claimed::default(); nodes], askers, sent: Vec::new(), ends };
        (0..world.askers.len()).for_each(|number| self.poll(&mut world, number));
        // Two hashes of a state, since the states themselves would fill the memory.
        let key = |world: &World| {
            [1_u8, 2].map(|salt| {
                let mut hasher = DefaultHasher::new();
                (salt, world).hash(&mut hasher);
                hasher.finish()
            })
        };
        let mut seen = HashSet::from([key(&world)]);
        let mut open = vec![world];
        let mut began = [false; 2];
        while let Some(world) = open.pop() {
            let made = |list: usize| world.nodes.iter().any(|node| node.made == Some(list));
            let both = [made(0), made(1)];
            (0..2).for_each(|list| began[list] |= both[list]);
            if both == [true; 2] {
                return (seen.len(), Some(world), began);
            }
            for next in self.next(&world) {
                if seen.insert(key(&next)) {
                    open.push(next);
                }
            }
        }
        (seen.len(), None, began)
    }
}

#[test]
fn m10_of_two_lists_that_share_a_node_at_most_one_begins() {
    let worlds: [(&str, Lists, Askers, u8); 4] = [
        ("three and three share one", [&[0, 1, 2], &[2, 3, 4]], &[(0, 2), (1, 2)], 1),
        ("three and three share two", [&[0, 1, 2], &[1, 2, 3]], &[(0, 1), (1, 2)], 1),
        ("one and three", [&[0], &[0, 1, 2]], &[(0, 3), (1, 2)], 1),
        ("a client more", [&[0], &[0, 1, 2]], &[(0, 1), (0, 1), (1, 2)], 1),
    ];
    for (what, lists, askers, ends) in worlds {
        let (states, both, began) = Search { lists, flaw: Flaw::None }.run(askers, ends);
        println!("{what}: {states} states");
        assert!(both.is_none(), "{what}: both began: {both:#?}");
        assert_eq!(began, [true; 2], "{what}: each can");
    }
}

#[test]
fn m10_a_node_that_does_not_keep_to_it_is_found_out() {
    for flaw in [Flaw::HeldEnds, Flaw::HoldsNothing, Flaw::Unheard, Flaw::AnyMayAdmit] {
        let search = Search { lists: [&[0, 1, 2], &[2, 3, 4]], flaw };
        let (states, both, _) = search.run(&[(0, 2), (1, 2)], 2);
        println!("{flaw:?}: {states} states");
        assert!(both.is_some(), "{flaw:?} is not seen in {states} states");
    }
}

/// All are joining for this list, but for those that say something else; node 0 is due, and all are being looked at for it.
fn with_a_new_one(others: [Option<Marker>; 2]) -> Hand {
    let mut hand = Hand::with(3, AdmissionPolicy::DangerSkip);
    assert_eq!(hand.begin(), look(0..3, PLAIN));
    let new = joining(5).claimed(Claim::Meant);
    for _ in 0..2 {
        hand.says(0, new);
        for (index, other) in (1..3).zip(others) {
            match other {
                Some(marker) => hand.says(index, marker),
                None => {
                    hand.admission.handle_other_members(
                        node(index),
                        &Members::from_text("of others"),
                        Belongs::Record,
                    );
                }
            }
        }
        if hand.admission.standing(node(0)).waited(hand.now()).is_none() {
            break;
        }
        let step = hand.poll();
        if !matches!(&step, ProbeStep::Look(joins) if joins.len() == 3 && !joins[0].1.orphaned) {
            break;
        }
    }
    hand
}

fn held_back(hand: &mut Hand) -> Vec<AdmissionBlock> {
    let block = |news| match news {
        AdmissionNews::HeldBack { block, .. } => Some(block),
        _ => None,
    };
    hand.news().into_iter().filter_map(block).collect()
}

/// A majority restarted without its data, and the third node can be read and not written to, as when its memory is full.
#[test]
fn m10_a_node_that_was_let_in_need_not_be_held_again() {
    let new = joining(5).claimed(Claim::Meant);
    let mut hand = with_a_new_one([Some(new), Some(ready(1))]);
    hand.says(0, new.orphaned(true));
    hand.says(1, new.orphaned(true));
    assert_eq!(hand.poll(), look(1..3, PLAIN.seal()));
    hand.says(1, new.claimed(Claim::Held));
    assert!(matches!(hand.poll(), ProbeStep::Admit { .. }), "{:?}", hand.news());
}

#[test]
fn m10_a_new_node_that_answers_and_is_not_held_keeps_the_list_from_beginning() {
    let new = joining(5).claimed(Claim::Meant);
    for held in [None, Some(new)] {
        let mut hand = with_a_new_one([Some(new), Some(new)]);
        (0..3).for_each(|index| hand.says(index, new.orphaned(true)));
        assert_eq!(hand.poll(), look(1..3, PLAIN.seal()));
        hand.says(1, new.claimed(Claim::Held));
        held.into_iter().for_each(|marker| hand.says(2, marker));
        assert!(!matches!(hand.poll(), ProbeStep::Admit { .. }));
        assert!(held_back(&mut hand).contains(&AdmissionBlock::NotHeld));
    }
}

/// While it is there it refuses the list; when it is away, nobody asks it.
#[test]
fn m10_a_node_of_another_list_that_goes_away_holds_nothing_back() {
    let new = joining(5).claimed(Claim::Meant);
    let mut hand = with_a_new_one([Some(new), None]);
    assert!(held_back(&mut hand).contains(&AdmissionBlock::OtherMembers));
    hand.views[2] = ConnectionView::new(Some(false), None, None);
    for _ in 0..8 {
        match hand.begin() {
            ProbeStep::Look(joins) => {
                joins.iter().filter(|(node, _)| node.index() < 2).for_each(|(node, join)| {
                    let claim = if join.seal { Claim::Held } else { Claim::Meant };
                    hand.says(node.index(), new.claimed(claim).orphaned(join.orphaned));
                });
            }
            step => panic!("{step:?}"),
        }
        while let ProbeStep::Look(joins) = hand.poll() {
            for (node, join) in joins.iter().filter(|(node, _)| node.index() < 2) {
                let claim = if join.seal { Claim::Held } else { Claim::Meant };
                hand.says(node.index(), new.claimed(claim).orphaned(join.orphaned));
            }
        }
        if !held_back(&mut hand).contains(&AdmissionBlock::OtherMembers) {
            return;
        }
    }
    panic!("it is held back for a node that is away");
}
