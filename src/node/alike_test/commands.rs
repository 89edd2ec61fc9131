//! The steps that are commands: what is asked of both nodes, and whether they say the same.

use std::time::Duration;

use super::{
    names::{self, client_id, label, name, resource, slots},
    pair::{Pair, Round},
    shown::{answered, done_there, forgets_end, same, seen, shown, sighted},
    steps::{Near, On, Place, Step},
};
use crate::{
    node::NodeError,
    protocol::{
        Command, Completed, FencingToken, Granted, KeyHolder, LeaderText, Note, Period, Record,
        Reply, ResourceSet, Stand, Target, Ticket,
    },
};

impl Pair {
    pub(super) fn number(&self, near: Near) -> u64 {
        match near {
            Near::At(number) => number,
            Near::Ahead(us) => self.clock.us().saturating_add_signed(us),
            Near::Last(by) => self.last.saturating_add_signed(by),
        }
    }

    /// Never the token 0, which no client asks for: a hint is a wall clock, in us.
    fn hint(&self, near: Near) -> u64 {
        self.number(near).max(1)
    }

    /// The command for each node; the two differ in what the client knows of the node.
    pub(super) fn command(&self, client: usize, step: &Step) -> Option<[Command; 2]> {
        let marks = self.clients[client].marks;
        let both = |command: Command| Some([command.clone(), command]);
        let ms = Duration::from_millis;
        match step {
            Step::Acquire { on, owner, ttl, hint, count, note, place } => {
                Some(marks.map(|mark| Command::Acquire {
                    target: target(on, false),
                    owner: names::owner(*owner),
                    ttl: ms(*ttl),
                    hint: Some(self.hint(*hint)),
                    count: *count,
                    first: 0,
                    mark,
                    note: note.map(names::note),
                    stand: place.map(|place| self.stand(client, place)),
                }))
            }
            Step::Pick { semaphore, first, owner, ttl, hint, note, place } => {
                Some(marks.map(|mark| Command::Acquire {
                    target: slots(*semaphore).into(),
                    owner: names::owner(*owner),
                    ttl: ms(*ttl),
                    hint: Some(self.hint(*hint)),
                    count: 1,
                    first: *first,
                    mark,
                    note: note.map(names::note),
                    stand: place.map(|place| self.stand(client, place)),
                }))
            }
            Step::Adopt { on, from, owner, ttl, hint, note } => {
                Some(marks.map(|mark| Command::Adopt {
                    target: target(on, false),
                    from: names::owner(*from),
                    owner: names::owner(*owner),
                    ttl: ms(*ttl),
                    hint: self.hint(*hint),
                    mark,
                    note: note.map(names::note),
                }))
            }
            Step::HandBack { on, owner, to } => both(Command::HandBack {
                target: target(on, false),
                owner: names::owner(*owner),
                to: names::owner(*to),
            }),
            Step::Confirm { on, owner, token } => Some(marks.map(|mark| Command::Confirm {
                target: target(on, false),
                owner: names::owner(*owner),
                token: FencingToken::new(self.number(*token)),
                mark,
            })),
            Step::ConfirmLast { owner } => {
                let Round { on, token, marks, .. } = self.rounds.get(owner)?;
                Some(marks.map(|mark| Command::Confirm {
                    target: target(on, false),
                    owner: names::owner(*owner),
                    token: FencingToken::new(*token),
                    mark,
                }))
            }
            Step::Extend { on, owner, ttl } => both(self.extend(on, *owner, *ttl)),
            Step::Restore { on, owner, ttl, note } => both(Command::Restore {
                target: target(on, false),
                owner: names::owner(*owner),
                ttl: ms(*ttl),
                until: crate::runtime::Runtime::now(&self.clock).saturating_add(ms(100)),
                fenced: true,
                note: note.map(names::note),
            }),
            Step::Proclaim { on, owner, record, note } => both(Command::Proclaim {
                target: target(on, false),
                owner: names::owner(*owner),
                note: self.record(*record, *note),
            }),
            Step::Release { on, owner, keep } => both(Command::Release {
                target: target(on, true),
                owner: names::owner(*owner),
                keep: keep.map(ms),
            }),
            Step::Leave { line, of_slots, name, since } => both(Command::Leave {
                resource: if *of_slots { slots(line % 2).line().clone() } else { resource(*line) },
                client: client_id(*name),
                ticket: Ticket::new(self.clock.us() - since),
            }),
            _ => None,
        }
    }

    pub(super) fn extend(&self, on: &On, owner: u8, ttl: u64) -> Command {
        let (target, owner) = (target(on, false), names::owner(owner));
        Command::Extend { target, owner, ttl: Duration::from_millis(ttl), fenced: true }
    }

    fn stand(&self, client: usize, place: Place) -> Stand {
        let client = client_id(u8::try_from(client).expect("few"));
        let ticket = place.since.map(|since| Ticket::new(self.clock.us() - since));
        Stand { client, ticket, skip: place.skip.map(client_id) }
    }

    fn record(&self, number: u8, labelled: bool) -> Note {
        let text = LeaderText::new(vec![0xff; usize::from(number) * 300]).expect("short enough");
        // No leader has a term of zero, and none is read.
        let term = self.last.saturating_sub(u64::from(number % 2)).max(1);
        let term = FencingToken::new(term);
        let record = Record::new(term, u64::from(number), text);
        Note::of_leader(7, labelled.then(label), record)
    }

    pub(super) async fn call(
        &mut self,
        client: usize,
        step: &Step,
        [one, other]: [Command; 2],
    ) -> Result<String, String> {
        let [server, memory] = &self.clients[client].nodes;
        let marks = self.clients[client].marks;
        let reads = self.is_read(step);
        let (mut server, memory) = (server.call(one).await, memory.call(other).await);
        if reads && matches!(step, Step::Release { keep: None, .. }) {
            let forgets = forgets_end(&mut server, &memory);
            // Another program has given the key a longer life: it is gone on only one node.
            self.is_apart |= forgets && self.is_read(step);
        }
        if let Ok(Reply::Granted(Granted { token: Some(token), slot })) = &memory {
            self.last = token.get();
            let round = match step {
                Step::Acquire { on, owner, .. } | Step::Adopt { on, owner, .. } => {
                    Some((on.clone(), *owner))
                }
                Step::Pick { semaphore, owner, .. } => {
                    slot.map(|slot| (On::Slot(*semaphore, slot), *owner))
                }
                _ => None,
            };
            if let Step::Acquire { on: On::Set(_), .. } = step {
                self.clients[client].took_set = true;
            }
            if let Some((on, owner)) = round {
                self.rounds.insert(owner, Round { on, token: token.get(), client, marks });
            }
        }
        let (server, memory) = (shown(&server), shown(&memory));
        let said = answered(&memory);
        same(server, memory).map(|()| said)
    }

    /// Whether readers hold the key that this step releases.
    fn is_read(&self, step: &Step) -> bool {
        let Step::Release { on: On::Shared(on) | On::Downgraded(on), .. } = step else {
            return false;
        };
        self.memory.get(name(*on)).as_deref() == Some(KeyHolder::SHARED)
    }

    pub(super) async fn call_many(
        &self,
        client: usize,
        commands: Vec<Command>,
    ) -> Result<String, String> {
        let [server, memory] = &self.clients[client].nodes;
        let each = |answers: Result<Vec<_>, NodeError>| match answers {
            Ok(answers) => answers.iter().map(shown).collect::<Vec<_>>(),
            Err(error) => vec![shown(&Err(error)); commands.len()],
        };
        let server = each(server.call_many(commands.clone()).await);
        let memory = each(memory.call_many(commands.clone()).await);
        let said = memory.iter().map(answered).collect::<Vec<_>>().join(", ");
        same(server, memory).map(|()| said)
    }

    pub(super) async fn completed(
        &self,
        client: usize,
        on: u8,
        done: Option<(u64, u8, u64)>,
    ) -> Result<String, String> {
        let every = Duration::from_secs(1);
        let done = done.map(|(at, owner, left)| {
            let period = Period::of(at * 1_000_000, every).expect("a period");
            let label = (owner % 2 == 0).then(label);
            let completed = period.completed(names::owner(owner), label, at * 1_000_000);
            Completed { left: Duration::from_millis(left), ..completed }
        });
        let [server, memory] = &self.clients[client].nodes;
        let server = server.completed(resource(on), every, done.clone()).await;
        let memory = memory.completed(resource(on), every, done).await;
        let (server, memory) = (done_there(server), done_there(memory));
        let said = match &memory {
            Ok(None) => "nothing".to_owned(),
            Ok(Some(completed)) => format!("{} ms", completed.left.as_millis()),
            Err(error) => error.clone(),
        };
        same(server, memory).map(|()| said)
    }

    pub(super) async fn holder(
        &self,
        client: usize,
        on: u8,
        fenced: bool,
    ) -> Result<String, String> {
        let [server, memory] = &self.clients[client].nodes;
        let server = server.holder(resource(on), fenced).await;
        let memory = memory.holder(resource(on), fenced).await;
        let (server, memory) = (sighted(server), sighted(memory));
        let said = memory.as_ref().map_or_else(Clone::clone, seen);
        same(server, memory).map(|()| said)
    }
}

/// The target of a step; any slot only in a release.
fn target(on: &On, any: bool) -> Target {
    match on {
        On::One(number) => Target::One(resource(*number)),
        On::Set(numbers) => {
            let all = ResourceSet::new(numbers.iter().copied().map(resource));
            Target::from(all.expect("a few names"))
        }
        On::Shared(number) => Target::Shared(resource(*number)),
        On::Downgraded(number) => Target::Downgraded(resource(*number)),
        On::AnyOf(number) if any => Target::AnyOf(slots(*number)),
        On::AnyOf(number) => slot(*number, 0),
        On::Slot(number, at) => slot(*number, *at),
    }
}

fn slot(number: u8, at: u8) -> Target {
    let slots = slots(number);
    let at = usize::from(at) % slots.len();
    slots.slot(u8::try_from(at).unwrap_or(0)).map(Target::Slot).expect("one of them")
}
