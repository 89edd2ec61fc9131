//! What one handle decides: its grants (`grants`), those who ask and wait (`asks`), and its place on the nodes (`places`). K1 to
//! K7, each by name, and what those are told who wait in vain.
//!
//! Goal: grants, queues, footprints, turns and timers change together, in one step. Method: a client is driven by hand, as its
//! driver does; the model's `handles` look at every order of such steps.

mod asks;
mod grants;
mod places;

use std::{iter, time::Duration};

use quorlock_core::{
    Acquisition, AskId, Asks, Backoff, Came, Client, ClientId, ClientSettings, Cohort, Drift,
    Event, FencingToken, Footprint, FootprintId, Found, GrantId, HandOn, Leases, Lifecycle,
    LostRound, NewGrant, NextLease, Place, QueueId, Quorum, RenewalPolicy, Resource, RoundAsked,
    RoundBegun, RoundLoss, Target, Timestamp, TokenRange, Turn, WaitPolicy, WaitSettings, Wakeup,
    Wanted,
};

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
    linger: Duration,
    renewal: RenewalPolicy,
    met: Option<&'static str>,
    once: bool,
    gone: bool,
    /// A round that was too late for its leader would have done for it.
    is_in_time: bool,
}

impl Asks<&'static str> for Ask {
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
        let wanted = Wanted { ttl: TTL, lock_delay, min_validity: Duration::ZERO, alone: false };
        let renewal = self.renewal;
        NextLease { wanted, renewal, keeps_until: None, linger: self.linger }
    }

    fn handle_known(&mut self, met: &&'static str) {
        self.met = Some(met);
    }

    fn handle_met(&mut self, met: &&'static str) {
        self.met = Some(met);
    }

    fn is_in_time(&self, _: &&'static str) -> bool {
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
        linger: Duration::ZERO,
        renewal: RenewalPolicy::default(),
        met: None,
        once: wait == WaitPolicy::OneRound,
        gone: false,
        is_in_time: false,
    }
}

fn waits(name: &'static str) -> Ask {
    ask(name, WaitPolicy::Unlimited)
}

fn once(name: &'static str) -> Ask {
    ask(name, WaitPolicy::OneRound)
}

type Mine = Client<&'static str, Ask, &'static str, &'static str>;
type Decided = Event<Ask, &'static str>;

fn new() -> Mine {
    let node_timeout = 500 * MS;
    Mine::new(ClientSettings { quorum: Quorum::of(3), client: ME, node_timeout })
}

fn one(name: &str) -> Target {
    Target::One(Resource::new(name).unwrap())
}

fn joins(client: &mut Mine, queue: QueueId, ask: Ask) -> Came<Ask, &'static str> {
    client.join(queue, None, ask, at(1))
}

fn stands(client: &mut Mine, queue: QueueId, ask: Ask) -> Place {
    let came = joins(client, queue, ask);
    let Came::Waits(place) = came else { panic!("{came:?}") };
    place
}

/// One in a round.
#[derive(Clone, Debug)]
struct Asker {
    id: AskId,
    place: Place,
    ask: Ask,
    turn: Turn,
}

fn asks(client: &mut Mine, queue: QueueId, ask: Ask, ms: u64) -> Asker {
    let came = client.join(queue, None, ask, at(ms));
    let Came::Begins(place, id, ask, turn) = came else { panic!("{came:?}") };
    Asker { id, place, ask, turn }
}

const ASKED: RoundAsked = RoundAsked { may_have_several: true, lingers: false, ttl: TTL };

fn lost_round(loss: RoundLoss, begun: u64) -> LostRound {
    LostRound {
        loss,
        begun: at(begun),
        overrun: false,
        outdated: false,
        quarantined: false,
        quorum_after: None,
        free_after: None,
        waited_for_turn: false,
        in_line: None,
    }
}

impl Asker {
    fn begins(&self, client: &mut Mine, ms: u64) -> RoundBegun {
        client.begin_round(self.id, ASKED, at(ms)).unwrap()
    }

    /// Its round is lost, and has shown nothing of lines.
    fn loses(mut self, client: &mut Mine, loss: RoundLoss, ms: u64) {
        client.give_back(quorlock_core::Lane::Acquires, &mut self.turn, None, at(ms));
        let found = Found {
            answers: &[],
            stood: false,
            clocks: &[],
            round_trip: None,
            random: 0,
            now: at(ms),
        };
        let lost = lost_round(loss, ms);
        let (lost, _) = client.handle_found(self.id, &self.ask, lost, &found);
        let by = (TTL, None, 0);
        let said =
            client.handle_lost(self.id, self.ask, (lost, "held"), by, at(ms), |_, _| None::<()>);
        assert_eq!(said, None);
    }
}

/// What has been decided, with those that go on at this time.
fn runs(client: &mut Mine, ms: u64) -> Vec<Decided> {
    let mut all = Vec::new();
    while let Some(event) = client.poll_event() {
        match event {
            Event::GoOn(id) => client.go_on(id, at(ms)),
            Event::Wake(_) => {}
            event => all.push(event),
        }
    }
    assert!(client.go_on_in_time(), "at {ms}");
    all
}

/// Whose rounds begin.
fn begins(events: &[Decided]) -> Vec<&'static str> {
    let begins = events.iter().filter_map(|event| match event {
        Event::Begin(_, ask, _) => Some(ask.name),
        _ => None,
    });
    begins.collect()
}

/// The one whose round begins.
fn asker(events: Vec<Decided>, place: Place) -> Asker {
    let begins = events.into_iter().find_map(|event| match event {
        Event::Begin(id, ask, turn) => Some(Asker { id, place, ask, turn }),
        _ => None,
    });
    begins.unwrap()
}

/// A client that holds a grant, with the queue of it.
struct Held {
    client: Mine,
    queue: QueueId,
    id: GrantId,
    footprint: FootprintId,
}

/// It was granted at zero, and its leases keep it as long behind them.
fn held(linger: Duration) -> Held {
    let mut client = new();
    let queue = client.open_queue(&one("r"));
    let first = asks(&mut client, queue, waits("first"), 1);
    assert_eq!(first.ask.name, "first");
    let begun = first.begins(&mut client, 0);
    assert!(!begun.several, "nobody waits behind it");
    let footprint = client.add_footprint(Footprint::new(3));
    let lifecycle =
        Lifecycle::new(at(0), at(9_898), TTL, Drift::default(), RenewalPolicy::default());
    let tokens = Some(TokenRange::ending_at(FencingToken::new(64), 64));
    let (cohort, token) = Cohort::begin(tokens, at(0));
    let leases = Leases::new(lifecycle, cohort, token, (linger, Duration::ZERO, false), None);
    let station = begun.station;
    let id = client.begin(NewGrant { leases, footprint, station, data: "grant" });
    assert_eq!(client.schedule(id), Wakeup::Start);
    assert!(client.count(id));
    assert!(client.handle_won(first.id, id, TTL, at(1)).is_empty());
    client.change(id, |leases| leases.handle_taken(0)).unwrap();
    assert!(runs(&mut client, 1).is_empty());
    Held { client, queue, id, footprint }
}

fn now(ms: u64) -> HandOn {
    HandOn { turn: TTL, now: at(ms), steady: at(ms) }
}

/// When the first of its timers is due.
fn first_due(client: &Mine) -> Option<u64> {
    (0..40_000).find(|ms| {
        let mut client = client.clone();
        let due = client.handle_timeout(at(*ms));
        let has_gone_on =
            iter::from_fn(|| client.poll_event()).any(|event| !matches!(event, Event::Wake(_)));
        has_gone_on
            || !due.extend.is_empty()
            || !due.tell.is_empty()
            || !due.give_back.is_empty()
            || !due.waiting.is_empty()
    })
}
