//! Quarantines that several clients wait out together, none of which lives as long as one.
//!
//! Goal: no node is let in before the true time since it forgot is as long as the longest ttl, and yet short lives get it
//! in. Method: true time; clients that come and go, each with a steady clock of its own that runs up to a tenth fast, and
//! a wall clock that is stepped; nodes that restart, are flushed, whose clocks are stepped, and whose data goes back to
//! what it was while they were joining. The clients run production's probes. Flaws that are planted in the nodes, or in
//! what the clients read, must be found out. (These nodes do not cut what they are told by their own clocks, as real
//! ones do, so that all rests on the clients.) `QUORLOCK_SCHEDULES` sets how many schedules are tried.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use quorlock_core::{Admission, AdmissionPolicy, ConnectionView, Join, Marker, Probe, ProbeStep};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

const NODES: usize = 3;
/// In ms, as all times here.
const TIMEOUT: u64 = 500;
const LONGEST: u64 = 10_000;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flaw {
    None,
    /// A node adds up what clients tell it, so that time with two clients counts twice.
    Added,
    /// Clients count by their wall clocks.
    WallClock,
    /// What was waited in one epoch counts in the next.
    SurvivesTheEpoch,
    /// A node takes what it is told of another epoch.
    OfAnyEpoch,
    /// Nobody notices that a node is joining in an older epoch than it was seen in.
    OlderIsBelieved,
}

/// What may go back.
#[derive(Clone, Copy)]
struct Data {
    /// Whether it has a marker.
    marked: bool,
    ready: bool,
    epoch: u64,
    waited: u64,
}

struct Server {
    life: u64,
    /// By how much its clock shows something else.
    ahead: u64,
    data: Data,
    saved: Option<Data>,
    /// When it lost leases last, and in which epoch it was just after that, if that was because its data went back.
    forgot: u64,
    back_in: Option<u64>,
    joined: u64,
    /// What each client has told last.
    told: BTreeMap<usize, u64>,
    /// How often its data went back: clients that do not notice that are told epochs that rise.
    goings_back: u64,
}

impl Server {
    fn begin_epoch(&mut self, ready: bool, after: u64, now: u64, rng: &mut StdRng) {
        let clock = now + self.ahead;
        let epoch = clock.max(self.data.epoch + 1).max(after + 1) + rng.random_range(0..1_000);
        self.data = Data { marked: true, ready, epoch, waited: 0 };
    }

    fn join(
        &mut self,
        client: usize,
        join: Join,
        now: u64,
        flaw: Flaw,
        rng: &mut StdRng,
    ) -> Marker {
        let forced = join.force == Some(self.data.epoch) && (self.data.ready || join.lost);
        if !self.data.marked || forced {
            let waited = self.data.waited;
            self.begin_epoch(false, join.after, now, rng);
            self.joined = now;
            self.told.clear();
            if flaw == Flaw::SurvivesTheEpoch {
                self.data.waited = waited;
            }
        }
        if let Some((epoch, waited)) = join.waited
            && !self.data.ready
            && (epoch == self.data.epoch || flaw == Flaw::OfAnyEpoch)
        {
            let waited = u64::try_from(waited.as_millis()).unwrap();
            if flaw == Flaw::Added {
                let before = self.told.insert(client, waited).unwrap_or(waited);
                self.data.waited += waited.saturating_sub(before);
            } else {
                self.data.waited = self.data.waited.max(waited);
            }
        }
        let marker = Marker::new(self.data.ready, TTL, 0).in_epoch(self.data.epoch);
        let waited = if self.data.ready { 0 } else { self.data.waited };
        marker.waited(Duration::from_millis(waited))
    }
}

struct Client {
    id: usize,
    born: u64,
    dies: u64,
    /// How fast its clock runs, in thousandths, and what it shows at its birth.
    rate: u64,
    origin: u64,
    /// By how much its wall clock has been stepped.
    stepped: u64,
    admission: Admission,
    probe: Probe,
    asked: usize,
    open: usize,
    until: u64,
    paused: bool,
    /// When what was sent to each node last arrives there: nothing that is sent later does so earlier.
    arrives: [u64; NODES],
    /// The newest epoch that it has seen of each node, and of which life.
    seen: [(u64, u64); NODES],
}

impl Client {
    fn now(&self, now: u64, flaw: Flaw) -> Timestamp {
        let stepped = if flaw == Flaw::WallClock { self.stepped } else { 0 };
        let passed = (now - self.born) * self.rate / 1000;
        Timestamp::from_origin(Duration::from_millis(self.origin + passed + stepped))
    }
}

#[derive(Clone, Copy)]
enum Asked {
    Look(Join),
    Admit(u64),
}

enum Told {
    Marker(u64, Marker),
    Admitted(bool),
}

/// Something on its way, there or back.
struct Letter<T> {
    at: u64,
    client: usize,
    step: usize,
    node: usize,
    of: T,
}

struct World {
    now: u64,
    flaw: Flaw,
    rng: StdRng,
    servers: Vec<Server>,
    clients: Vec<Client>,
    there: Vec<Letter<Asked>>,
    back: Vec<Letter<Told>>,
    born: usize,
    admissions: usize,
    /// Those in which no client had lived for as long as a quarantine.
    by_many: usize,
    wrong: Option<String>,
}

impl World {
    fn new(seed: u64, flaw: Flaw) -> Self {
        let data = Data { marked: false, ready: false, epoch: 0, waited: 0 };
        let server = || Server {
            life: 0,
            ahead: 1_000_000,
            data,
            saved: None,
            forgot: 0,
            back_in: None,
            joined: 0,
            told: BTreeMap::new(),
            goings_back: 0,
        };
        Self {
            now: 1,
            flaw,
            rng: StdRng::seed_from_u64(seed),
            servers: (0..NODES).map(|_| server()).collect(),
            clients: Vec::new(),
            there: Vec::new(),
            back: Vec::new(),
            born: 0,
            admissions: 0,
            by_many: 0,
            wrong: None,
        }
    }

    fn be_born(&mut self, life: u64) {
        self.born += 1;
        let policy = AdmissionPolicy::Quarantine;
        self.clients.push(Client {
            id: self.born,
            born: self.now,
            dies: self.now + life,
            rate: self.rng.random_range(900..=1_100),
            origin: self.rng.random_range(0..3) * 1_000_000,
            stepped: 0,
            admission: Admission::new(Quorum::of(NODES), policy, TTL, ATTEMPT),
            probe: Probe::new(false),
            asked: 0,
            open: 0,
            until: 0,
            paused: true,
            arrives: [0; NODES],
            seen: [(0, 0); NODES],
        });
    }

    /// Something happens to a node or to a client.
    fn trouble(&mut self, goes_back: bool) {
        let (now, node) = (self.now, self.rng.random_range(0..NODES));
        let server = &mut self.servers[node];
        match self.rng.random_range(0..8) {
            0 => {
                server.life += 1;
                (server.data.marked, server.forgot, server.back_in) = (false, now, None);
                server.saved = None;
            }
            1 => {
                (server.data.marked, server.forgot, server.back_in) = (false, now, None);
                server.data.epoch = 0;
            }
            2 => server.ahead = self.rng.random_range(0..2_000_000),
            3 if goes_back && server.data.marked && !server.data.ready => {
                server.saved = Some(server.data);
            }
            4 | 5 if goes_back && server.data.ready => {
                if let Some(saved) = server.saved {
                    (server.data, server.forgot) = (saved, now);
                    server.back_in = Some(saved.epoch);
                    server.goings_back += 1;
                }
            }
            _ => {
                let by = self.rng.random_range(0..5_000);
                if let Some(client) = self.clients.last_mut() {
                    client.stepped += by;
                }
            }
        }
    }

    /// A little time passes, in which all is done that is due.
    fn pass(&mut self) {
        self.now += self.rng.random_range(1..40);
        let now = self.now;
        self.clients.retain(|client| now < client.dies);
        let due = |at: &mut u64| *at <= now;
        for letter in self.there.extract_if(.., |letter| due(&mut letter.at)).collect::<Vec<_>>() {
            self.deliver(letter);
        }
        for letter in self.back.extract_if(.., |letter| due(&mut letter.at)).collect::<Vec<_>>() {
            self.hear(letter);
        }
        for client in 0..self.clients.len() {
            self.pump(client);
        }
    }

    fn takes(&mut self) -> u64 {
        let slow = self.rng.random_bool(0.05);
        self.rng.random_range(1..if slow { 3_000 } else { 20 })
    }

    /// Whether its data went back is in no epoch that a client is told where nobody notices that.
    fn unseen(&self, node: usize) -> u64 {
        let unseen = self.flaw == Flaw::OlderIsBelieved;
        if unseen { self.servers[node].goings_back << 40 } else { 0 }
    }

    fn deliver(&mut self, letter: Letter<Asked>) {
        let (now, flaw, node, unseen) =
            (self.now, self.flaw, letter.node, self.unseen(letter.node));
        let server = &mut self.servers[node];
        let of = match letter.of {
            Asked::Look(join) => {
                let waited =
                    join.waited.map(|(epoch, waited)| (epoch.wrapping_sub(unseen), waited));
                let force = join.force.map(|epoch| epoch.wrapping_sub(unseen));
                let mut join = join.force(force).waited(waited);
                join.after = join.after.saturating_sub(unseen);
                let marker = server.join(letter.client, join, now, flaw, &mut self.rng);
                let counted = server.data.waited;
                let passed = (now - server.joined) * 11 / 10 + 1;
                if flaw == Flaw::None && server.back_in.is_none() && counted > passed {
                    let wrong = format!("{counted} ms of {passed} are counted");
                    self.wrong.get_or_insert(wrong);
                }
                Told::Marker(server.life, marker.in_epoch(marker.epoch + unseen))
            }
            Asked::Admit(epoch) => {
                let epoch = epoch.wrapping_sub(unseen);
                let admitted =
                    server.data.marked && !server.data.ready && server.data.epoch == epoch;
                if admitted {
                    self.admit(letter.client, node);
                }
                Told::Admitted(admitted)
            }
        };
        let at = now + self.takes();
        self.back.push(Letter { at, client: letter.client, step: letter.step, node, of });
    }

    fn admit(&mut self, client: usize, node: usize) {
        let (now, unseen) = (self.now, self.unseen(node));
        let server = &mut self.servers[node];
        let passed = now - server.forgot;
        let client = self.clients.iter().find(|other| other.id == client);
        let knew = client.is_some_and(|client| {
            let (life, epoch) = client.seen[node];
            life == server.life && epoch.saturating_sub(unseen) > server.data.epoch
                || self.flaw == Flaw::OlderIsBelieved
                    && life == server.life
                    && epoch > server.data.epoch
        });
        // A client cannot tell if it has seen no more of the node than it shows again.
        let excused = server.back_in == Some(server.data.epoch) && !knew;
        if passed < LONGEST && !excused {
            let wrong = format!("node {node} is let in {passed} ms after it forgot");
            self.wrong.get_or_insert(wrong);
        }
        self.admissions += 1;
        let old = self.clients.iter().any(|client| now - client.born > LONGEST);
        self.by_many += usize::from(!old);
        server.begin_epoch(true, 0, now, &mut self.rng);
        server.back_in = None;
    }

    fn hear(&mut self, letter: Letter<Told>) {
        let (now, flaw, index) = (self.now, self.flaw, letter.node);
        let life = self.servers[index].life;
        let Some(client) = self.clients.iter_mut().find(|client| client.id == letter.client) else {
            return;
        };
        if letter.step != client.asked {
            return;
        }
        client.open -= 1;
        match letter.of {
            // The connection to the process of before is gone.
            Told::Marker(of, _) if of != life => {}
            Told::Marker(_, marker) => {
                let seen = &mut client.seen[index];
                let newest = if seen.0 == life { seen.1.max(marker.epoch) } else { marker.epoch };
                *seen = (life, newest);
                let at = client.now(now, flaw);
                client.probe.handle_marker(&mut client.admission, node(index), marker, at);
            }
            Told::Admitted(true) => client.probe.handle_admitted(),
            Told::Admitted(false) => {}
        }
    }

    fn pump(&mut self, index: usize) {
        let (now, flaw) = (self.now, self.flaw);
        let client = &mut self.clients[index];
        if now < client.until && (client.open > 0 || client.paused) {
            return;
        }
        let at = client.now(now, flaw);
        if client.paused {
            client.probe = client.admission.begin_probe(at);
        }
        let view = |server: &Server| {
            ConnectionView::new(Some(true), Some(Arc::from(format!("life {}", server.life))), None)
        };
        let views: Vec<ConnectionView> = self.servers.iter().map(view).collect();
        let step = client.probe.poll(&mut client.admission, &views, at, now * 1_000);
        while client.admission.poll_news().is_some() {}
        client.asked += 1;
        client.paused = matches!(step, ProbeStep::Done(_));
        client.until = now + TIMEOUT;
        let asked: Vec<(usize, Asked)> = match step {
            ProbeStep::Look(joins) => {
                joins.into_iter().map(|(node, join)| (node.index(), Asked::Look(join))).collect()
            }
            ProbeStep::Admit { node, epoch, .. } => vec![(node.index(), Asked::Admit(epoch))],
            ProbeStep::Done(pause) => {
                client.until = now + u64::try_from(pause.as_millis()).unwrap();
                Vec::new()
            }
        };
        client.open = asked.len();
        let (client, step) = (client.id, client.asked);
        for (node, of) in asked {
            let at = (now + self.takes()).max(self.clients[index].arrives[node]);
            self.clients[index].arrives[node] = at;
            self.there.push(Letter { at, client, step, node, of });
        }
    }
}

/// What has come of one random schedule.
fn run(seed: u64, flaw: Flaw) -> World {
    let mut world = World::new(seed, flaw);
    let goes_back = seed.is_multiple_of(3);
    let crowd = [1, 2, 5][usize::try_from(seed % 3).unwrap()];
    // A client that has seen a node for long knows more of it than a newcomer.
    if goes_back {
        world.be_born(u64::MAX / 4);
    }
    for _ in 0..2_500 {
        if world.clients.len() < crowd && world.rng.random_bool(0.1) {
            let life = world.rng.random_range(200..4_000);
            world.be_born(life);
        }
        if world.rng.random_bool(0.004) {
            world.trouble(goes_back);
        }
        world.pass();
    }
    world
}

#[test]
fn m9_no_node_is_let_in_early_by_clients_who_wait_together_and_short_lives_get_it_in() {
    let seeds = std::env::var("QUORLOCK_SCHEDULES").map_or(600, |seeds| seeds.parse().unwrap());
    let (mut admissions, mut by_many) = (0, 0);
    for seed in 0..seeds {
        let world = run(seed, Flaw::None);
        assert_eq!(world.wrong, None, "seed {seed}");
        (admissions, by_many) = (admissions + world.admissions, by_many + world.by_many);
    }
    println!("schedules={seeds} admissions={admissions} by clients of short lives={by_many}");
    let seeds = usize::try_from(seeds).unwrap();
    assert!(admissions > 2 * seeds && by_many > seeds, "too few to prove anything");
}

#[test]
fn m9_waits_with_a_flaw_are_found_out() {
    let flaws = [
        Flaw::Added,
        Flaw::WallClock,
        Flaw::SurvivesTheEpoch,
        Flaw::OfAnyEpoch,
        Flaw::OlderIsBelieved,
    ];
    for flaw in flaws {
        let found = (0..20_000)
            .find_map(|seed| run(seed, flaw).wrong.map(|wrong| format!("seed {seed}: {wrong}")));
        println!("{flaw:?}: {found:?}");
        assert!(found.is_some(), "{flaw:?}: a search that finds nothing proves nothing");
    }
}
