//! The scripts of the line beside `NodeLine`, by which a node in memory has it: random acquires, releases and leaves, each
//! of them done to both. They must answer the same, have the same clients in the same order, and tell the same.

use std::time::Duration;

use quorlock::protocol::{ClientId, LineHint, LineNews, NodeLine, Stand, Ticket, Timestamp};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IteratorRandom};

use super::{Answer, Ear, LINE, Says, acquire, release, standing};
use crate::{
    MS,
    scripts::{Node, RESOURCE},
    texts::LEAVE,
};

const D: &str = "dddddddddddddddd";
const ALL: [&str; 4] = [super::A, super::B, super::C, D];

/// Of the four these two are not connected.
const DEAF: [&str; 2] = [super::B, D];

/// The line of production in memory, and who holds the key beside it.
#[derive(Default)]
struct Memory {
    line: NodeLine,
    holder: Option<&'static str>,
    /// What each client was told, in the words of the scripts.
    told: Vec<(ClientId, String)>,
}

fn client(name: &str) -> ClientId {
    ClientId::from_hex(name.as_bytes()).unwrap()
}

fn hears(id: ClientId) -> bool {
    !DEAF.iter().any(|deaf| client(deaf) == id)
}

impl Memory {
    fn tell(&mut self, told: Vec<(ClientId, LineHint)>) {
        self.told.extend(told.into_iter().map(|(id, hint)| {
            let message = match hint {
                LineHint::Next => format!("n{RESOURCE}"),
                LineHint::StandBy { head } => format!("s{head}{RESOURCE}"),
                LineHint::Wanted => format!("w{RESOURCE}"),
                other => panic!("{other:?}"),
            };
            (id, message)
        }));
    }

    fn acquire(&mut self, name: &'static str, says: Says<'_>, now: Timestamp) -> Answer {
        let stand = (!says.client.is_empty()).then(|| Stand {
            client: client(says.client),
            ticket: says.ticket.parse().ok().map(Ticket::new),
            skip: ClientId::from_hex(says.skip.as_bytes()),
        });
        let mut news = LineNews::new(&hears);
        let entered = self.line.enter(stand, self.holder.is_none(), now, &mut news);
        let answer = if let Some(first) = entered.first {
            self.line.deny(&entered, now, &mut news);
            Answer::Behind(first.to_string())
        } else if self.holder.is_some() {
            let before = self.line.deny(&entered, now, &mut news).map_or(-1, i64::from);
            Answer::Held { before, foreign: false }
        } else {
            self.holder = Some(name);
            let had_line = stand.is_some() || !self.line.is_empty(now);
            let count = if says.several { 64 } else { 1 };
            self.line.grant(&entered, count, Duration::from_secs(10), now, &mut news);
            let waiting = self.line.waiting().count() > 0;
            Answer::Granted { waiting: had_line.then_some(waiting) }
        };
        let mut told = news.into_told();
        if stand.is_some() && matches!(answer, Answer::Granted { .. }) {
            // The scripts say in the answer whether others wait.
            let waits = matches!(answer, Answer::Granted { waiting } if waiting != Some(false));
            let hint = if waits { LineHint::Wanted } else { LineHint::Alone };
            assert_eq!(told.pop(), Some((client(says.client), hint)));
        }
        self.tell(told);
        answer
    }

    fn release(&mut self, now: Timestamp) {
        let mut news = LineNews::new(&hears);
        self.holder = None;
        self.line.release(now, &mut news);
        let told = news.into_told();
        self.tell(told);
    }

    fn leave(&mut self, name: &str, ticket: u64, now: Timestamp) {
        let mut news = LineNews::new(&hears);
        let is_free = self.holder.is_none();
        self.line.leave(client(name), Ticket::new(ticket), is_free, now, &mut news);
        let told = news.into_told();
        self.tell(told);
    }
}

#[test]
fn a_line_in_memory_does_what_the_scripts_do() {
    for seed in 0..4 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (node, mut memory) = (Node::admitted(), Memory::default());
        let ears = ALL.map(|name| (!DEAF.contains(&name)).then(|| Ear::of(&node, name)));
        let mut grants = 0;
        for step in 0..250 {
            // No line lives for as long as it is silent here.
            let now = Timestamp::from_origin(MS * step);
            let name = ALL.into_iter().choose(&mut rng).unwrap();
            let ticket = rng.random_range(1..6u64);
            let text = ticket.to_string();
            let what = match (rng.random_range(0..10), memory.holder) {
                (0..=2, Some(holder)) => {
                    release(&node, holder);
                    memory.release(now);
                    format!("release by {holder}")
                }
                (3, _) => {
                    node.server.run(&["EVAL", LEAVE, "2", RESOURCE, LINE, name, &text]);
                    memory.leave(name, ticket, now);
                    format!("{name} leaves with {ticket}")
                }
                (kind, _) => {
                    let says = Says {
                        client: if kind == 4 { "" } else { name },
                        ticket: if kind <= 5 { "" } else { &text },
                        skip: if kind == 9 {
                            ALL.into_iter().choose(&mut rng).unwrap()
                        } else {
                            ""
                        },
                        several: rng.random_bool(0.3),
                    };
                    let expected = memory.acquire(name, says, now);
                    let answer = acquire(&node, name, says);
                    assert_eq!(answer, expected, "seed {seed}, step {step}: {says:?}");
                    grants += u32::from(matches!(answer, Answer::Granted { .. }));
                    format!("{name} says {says:?}")
                }
            };
            // The holder of several tokens stands before those who wait.
            let mut stands = standing(&node);
            let waiting: Vec<String> = memory.line.waiting().map(|id| id.to_string()).collect();
            let holders = stands.len().checked_sub(waiting.len());
            let holders = holders.unwrap_or_else(|| panic!("{what}: {stands:?}, {waiting:?}"));
            stands.drain(..holders);
            assert!(holders <= 1, "seed {seed}, step {step}: {what}");
            assert_eq!(stands, waiting, "seed {seed}, step {step}: {what}");
        }
        assert!(grants > 20, "too few to prove anything: {grants}");
        for (name, ear) in ALL.into_iter().zip(ears) {
            let told = memory.told.iter().filter(|(id, _)| *id == client(name));
            let Some(ear) = ear else { continue };
            for (_, message) in told {
                ear.hears(message);
            }
            ear.hears_nothing();
        }
    }
}
