//! What one handle decides: its grants (`grants`), its askers and waiters (`asks`, `turns`, `leaving`), what of that
//! overlaps (`beside`), and what follows when something is given back (`given_back`); its place on the nodes (`places`,
//! `others`), what it has the nodes do (`rounds`, `releases`, `renewals`), and what it says of itself (`told`). K1 to
//! K7, each by name, and what a waiter is told that waits in vain.
//!
//! Goal: grants, queues, footprints, turns and timers change together, in one step. Method: a client is driven by hand, as its
//! driver does (`driven`); the model's `handles` look at every order of such steps.

mod asks;
mod beside;
mod driven;
mod given_back;
mod grants;
mod leaving;
mod others;
mod places;
mod releases;
mod renewals;
mod rounds;
mod told;
mod turns;

use std::{sync::Arc, time::Duration};

use quorlock_core::{
    Acquisition, Asks, Backoff, Came, ClientId, End, Event, Failure, GrantId, LeaseAction, Met,
    NextLease, Place, QueueId, RenewalPolicy, Resource, ResourceSet, Slots, Target, Timestamp,
    WaitPolicy, WaitSettings, Wanted,
};

use self::driven::{Asker, COUNTED, Mine, asked, moment};
use super::at;

const TTL: Duration = Duration::from_secs(10);
const MS: Duration = Duration::from_millis(1);
const ME: ClientId = ClientId::new([7; 8]);

/// A request: its name, and what it knows.
#[derive(Clone, Debug, PartialEq)]
struct Ask {
    name: &'static str,
    acquisition: Acquisition,
    says_at: Option<Timestamp>,
    ttl: Duration,
    linger: Duration,
    renewal: RenewalPolicy,
    met: Option<Arc<Met<Failure>>>,
    once: bool,
    gone: bool,
    /// Its caller goes while its round is under way.
    goes_in_round: bool,
    /// A round that was too late for its leader would have done for it.
    is_in_time: bool,
}

impl Asks<Failure> for Ask {
    fn acquisition(&mut self) -> &mut Acquisition {
        &mut self.acquisition
    }

    fn turn_deadline(&self) -> Option<Timestamp> {
        self.acquisition.turn_deadline()
    }

    fn says_at(&self) -> Option<Timestamp> {
        self.says_at
    }

    fn next(&self, _: Timestamp) -> NextLease {
        let lock_delay = Duration::ZERO;
        let wanted =
            Wanted { ttl: self.ttl, lock_delay, min_validity: Duration::ZERO, alone: false };
        let renewal = self.renewal;
        NextLease { wanted, renewal, keeps_until: None, linger: self.linger }
    }

    fn handle_known(&mut self, met: &Arc<Met<Failure>>) {
        self.met = Some(Arc::clone(met));
    }

    fn handle_met(&mut self, met: &Arc<Met<Failure>>) {
        self.met = Some(Arc::clone(met));
    }

    fn is_in_time(&self, _: &Arc<Met<Failure>>) -> bool {
        self.is_in_time
    }

    fn asks_once(&self) -> bool {
        self.once
    }

    fn is_given_up(&self) -> bool {
        self.gone
    }
}

fn ask(name: &'static str, wait: WaitPolicy) -> Ask {
    let backoff = Backoff { min: MS, max: MS };
    let settings =
        WaitSettings { node_timeout: 500 * MS, wait: TTL, backoff, through_outages: false };
    let acquisition = Acquisition::new(settings, wait, at(0));
    Ask {
        name,
        acquisition,
        says_at: None,
        ttl: TTL,
        linger: Duration::ZERO,
        renewal: RenewalPolicy::default(),
        met: None,
        once: wait == WaitPolicy::OneRound,
        gone: false,
        goes_in_round: false,
        is_in_time: false,
    }
}

fn waits(name: &'static str) -> Ask {
    ask(name, WaitPolicy::Unlimited)
}

fn once(name: &'static str) -> Ask {
    ask(name, WaitPolicy::OneRound)
}

fn for_ms(name: &'static str, ms: u32) -> Ask {
    ask(name, WaitPolicy::For(ms * MS))
}

type Client = quorlock_core::Client<&'static str, Ask, &'static str, Failure>;
type Decided = Event<Ask, &'static str, Failure>;

fn one(name: &str) -> Target {
    Target::One(Resource::new(name).unwrap())
}

fn set(names: &[impl AsRef<str>]) -> Target {
    let names = names.iter().map(|name| Resource::new(name.as_ref()).unwrap());
    Target::Set(ResourceSet::new(names).unwrap())
}

fn reads(name: &str) -> Target {
    Target::Shared(Resource::new(name).unwrap())
}

/// Any of three.
fn permits() -> Target {
    Target::AnyOf(Slots::new(b"", "s", 3).unwrap())
}

fn joins(client: &mut Mine, queue: QueueId, ask: Ask) -> Came<Ask, Failure> {
    client.join(queue, None, ask, at(1))
}

fn stands(client: &mut Mine, queue: QueueId, ask: Ask) -> Place {
    let came = joins(client, queue, ask);
    let Came::Waits(place) = came else { panic!("{came:?}") };
    place
}

/// A request comes, and has its turn.
fn asks(client: &mut Mine, queue: QueueId, ask: Ask, ms: u64) -> Asker {
    let came = client.join(queue, None, ask, at(ms));
    let Came::Begins(place, id) = came else { panic!("{came:?}") };
    Asker { id, place, asked: asked(client, queue) }
}

/// What has been decided, with those that go on at this time.
fn runs(client: &mut Mine, ms: u64) -> Vec<Decided> {
    let mut all = Vec::new();
    while let Some(event) = client.poll_event() {
        match event {
            Event::GoOn(id) => client.go_on(id, at(ms)),
            Event::LetIn => client.let_in(&moment(ms)),
            Event::Wake(_) => {}
            event => all.push(event),
        }
    }
    assert!(client.go_on_in_time(), "at {ms}");
    all
}

/// The requests whose rounds begin.
fn begins(client: &Mine, events: &[Decided]) -> Vec<&'static str> {
    let begins = events.iter().filter_map(|event| match event {
        Event::Begin(id) => Some(client.request(*id).unwrap().name),
        _ => None,
    });
    begins.collect()
}

/// The same, once what has been decided is carried out.
fn begin_now(client: &mut Mine, ms: u64) -> Vec<&'static str> {
    let events = runs(client, ms);
    begins(client, &events)
}

/// The request that came to this queue with this place, and whose round begins.
fn asker(client: &mut Mine, queue: QueueId, place: Place, events: Vec<Decided>) -> Asker {
    let begins = events.into_iter().find_map(|event| match event {
        Event::Begin(id) => Some(id),
        _ => None,
    });
    Asker { id: begins.unwrap(), place, asked: asked(client, queue) }
}

/// The same, of what is to be carried out now.
fn next_asker(client: &mut Mine, queue: QueueId, place: Place, ms: u64) -> Asker {
    let events = runs(client, ms);
    asker(client, queue, place, events)
}

/// Who is answered, and how.
fn told(events: &[Decided]) -> Vec<(&'static str, quorlock_core::GiveUp)> {
    let told = events.iter().filter_map(|event| match event {
        Event::GiveUp(ask, told, _) => Some((ask.name, *told)),
        _ => None,
    });
    told.collect()
}

/// What holders are told of their grants.
fn said(events: &[Decided]) -> Vec<(GrantId, LeaseAction)> {
    let said = events.iter().filter_map(|event| match event {
        Event::Tell(id, action) => Some((*id, *action)),
        Event::Extended { grant, action, .. } => action.map(|action| (*grant, action)),
        _ => None,
    });
    said.collect()
}

/// A client that holds a grant, with the queue of it.
struct Held {
    client: Mine,
    queue: QueueId,
    id: GrantId,
}

/// It was asked for at zero, with 64 tokens, and its leases keep it as long behind them.
fn held(linger: Duration) -> Held {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let mut first = asks(&mut client, queue, waits("first"), 1);
    assert_eq!(client.request(first.id).map(|ask| ask.name), Some("first"));
    assert_eq!(client.tokens_wanted(first.id, &first.asked, at(0)), 1, "nobody waits behind it");
    first.asked.linger = linger;
    let round = client.begins(first.id, &first.asked, 64, 0);
    let (id, events) = round.wins(&mut client, COUNTED, 1);
    assert!(events.is_empty(), "{events:?}");
    *client.data_mut(id).unwrap() = "grant";
    assert!(client.count(id));
    client.change(id, |leases| leases.handle_taken(0)).unwrap();
    client.takes();
    assert_eq!((client.under_way(), client.held_count()), (0, 1));
    Held { client, queue, id }
}

/// It is over, and is released.
fn gives_back(client: &mut Mine, id: GrantId, end: End, ms: u64) -> Option<bool> {
    let ended = client.give_back(id, end, |_, _| "given back", &moment(ms));
    ended.map(|ended| ended.was_held)
}

/// When the first of its timers is due.
fn first_due(client: &Mine) -> Option<u64> {
    (0..40_000).find(|ms| {
        let mut client = client.clone();
        client.takes();
        let waiting = client.handle_timeout(&moment(*ms));
        let mut events = std::iter::from_fn(|| client.poll_event());
        let follows = events.any(|event| !matches!(event, Event::Wake(_)));
        follows || !waiting.is_empty() || client.has_transmits()
    })
}
