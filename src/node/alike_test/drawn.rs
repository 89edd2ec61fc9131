//! Sequences of steps, drawn from a seed: of few clients, of a crowd, or of one in classic mode; about all names, or so
//! few that clients always collide; with other programs, or without.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::steps::{CLASSIC, FEW, MANY, Near, OWNERS, On, Place, Step, Taken, is_deaf};

/// The steps of this seed.
pub(super) fn drawn(seed: u64, count: usize) -> Vec<Taken> {
    let (is_crowd, is_quiet, is_classic) = (seed % 5 == 3, seed % 2 == 1, seed % 10 == 6);
    let names = match (is_crowd, seed % 3) {
        (true, _) => &[0, 0, 0, 4][..],
        (false, 1) => &[0, 4],
        _ => &[0, 1, 2, 3, 4, 5],
    };
    let rng = StdRng::seed_from_u64(seed);
    let (client, asked, now, came) = (0, HashMap::new(), 1 << 40, HashMap::new());
    let mut dice = Dice {
        rng,
        client,
        asked,
        now,
        came,
        near_end: false,
        is_crowd,
        is_quiet,
        is_classic,
        names,
    };
    // In some the counters begin near their end, where no number but the next few is left.
    dice.near_end = dice.rng.random_bool(0.25);
    let floor = if dice.near_end {
        Near::At((1 << 53) - dice.rng.random_range(1..200))
    } else {
        Near::At(dice.rng.random_range(0..3))
    };
    let first = Step::Admit { above: floor, wall: false, stale: false };
    let mut steps = vec![Taken { client: 0, step: first, says: "" }];
    steps.extend((1..count).map(|_| dice.taken()));
    steps
}

struct Dice {
    rng: StdRng,
    near_end: bool,
    /// Many clients come soon after each other.
    is_crowd: bool,
    /// No key is set except by a grant.
    is_quiet: bool,
    /// All steps are a classic client's.
    is_classic: bool,
    /// The fewer names, the more often two commands share one. The name of a slot is among them.
    names: &'static [u8],
    /// The client of this step, and what each owner has asked for last.
    client: usize,
    asked: HashMap<u8, On>,
    /// The time, in us, and when each client came to stand in a line.
    now: u64,
    came: HashMap<usize, u64>,
}

impl Dice {
    fn taken(&mut self) -> Taken {
        self.client = if self.is_classic { CLASSIC } else { self.client().into() };
        Taken { client: self.client, step: self.step(), says: "" }
    }

    fn step(&mut self) -> Step {
        let (owner, ttl) = (self.owner(), self.ttl());
        match self.rng.random_range(0..1000) {
            0..160 => {
                let time = self.time();
                self.now += u64::try_from(time.as_micros()).expect("a time");
                Step::Pass(time)
            }
            160..400 => {
                // Slots are acquired by picks.
                let on = self.on_but_slots();
                self.asked.insert(owner, on.clone());
                // A reader asks for one token.
                let count = if matches!(on, On::One(_) | On::Set(_)) { self.count() } else { 1 };
                let place = self.place();
                let (hint, note) = (self.near(), self.note());
                Step::Acquire { on, owner, ttl, hint, count, note, place }
            }
            400..480 => {
                let (semaphore, first) = (self.rng.random_range(0..2), self.rng.random_range(0..4));
                let (hint, note, place) = (self.near(), self.note(), self.place());
                self.asked.insert(owner, On::AnyOf(semaphore));
                Step::Pick { semaphore, first, owner, ttl, hint, note, place }
            }
            480..500 => Step::Confirm { on: self.on_of(owner), owner, token: self.near() },
            500..560 => Step::ConfirmLast { owner },
            560..620 => Step::Extend { on: self.on_of(owner), owner, ttl },
            620..640 => {
                let count = self.rng.random_range(1..5);
                let of = |dice: &mut Self| (dice.on(), dice.owner(), dice.ttl());
                let mut all: Vec<_> = (0..count).map(|_| of(self)).collect();
                // They may be sent in another order, so no two leases have one key.
                let mut seen = HashSet::new();
                // The name of a slot counts as its semaphore's.
                let whole =
                    |name: Vec<u8>| name.split(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
                all.retain(|(on, ..)| on.names().all(|name| seen.insert(whole(name))));
                Step::ExtendMany(all)
            }
            640..680 | 910..950 if self.is_quiet => Step::ConfirmLast { owner },
            640..680 => Step::Restore { on: self.on_of(owner), owner, ttl, note: self.note() },
            680..700 => {
                let record = self.rng.random_range(0..4);
                let on = match self.on_of(owner) {
                    On::One(name) | On::Downgraded(name) => On::One(name),
                    _ => On::One(self.name()),
                };
                Step::Proclaim { on, owner, record, note: self.rng.random_bool(0.7) }
            }
            815..835 if !self.is_classic && !self.is_crowd => {
                let on = match self.on_of(owner) {
                    on @ (On::One(_) | On::Set(_)) => on,
                    _ => On::One(self.name()),
                };
                let other = self.owner();
                if !self.is_quiet && self.rng.random_bool(0.3) {
                    return Step::HandBack { on, owner, to: other };
                }
                self.asked.insert(other, on.clone());
                let (hint, note) = (self.near(), self.note());
                Step::Adopt { on, from: owner, owner: other, ttl, hint, note }
            }
            700..830 => {
                let keep = self.rng.random_bool(0.2).then(|| self.ttl());
                Step::Release { on: self.on_of(owner), owner, keep }
            }
            830..860 => {
                let (of_slots, line) = (self.rng.random_bool(0.3), self.name());
                let name = self.client();
                let since = self.since(name.into());
                Step::Leave { line, of_slots, name, since }
            }
            860..890 => {
                let done = self.rng.random_bool(0.6).then(|| {
                    let left = [0, 1, 300, 70_000][self.rng.random_range(0..4)];
                    (self.rng.random_range(0..4), owner, left)
                });
                Step::Completed { on: self.name(), done }
            }
            890..910 => Step::Holder { on: self.name(), fenced: self.rng.random_bool(0.8) },
            910..930 => {
                let ttl = self.rng.random_bool(0.8).then(|| self.ttl());
                Step::Set { on: self.name(), value: self.rng.random_range(0..10), ttl }
            }
            930..950 => Step::Del { on: self.name() },
            950..980 => Step::Join {
                max_ttl: *[200_005, 300_005].choose(&mut self.rng).expect("one"),
                force: self.rng.random_bool(0.3),
                lost: self.rng.random_bool(0.3) && !self.is_quiet,
                orphaned: self.rng.random_bool(0.3),
                seal: self.rng.random_bool(0.4),
                after: self.rng.random_bool(0.2),
                waited: self.rng.random_bool(0.5).then(|| self.rng.random_range(0..20_000)),
                all: self.rng.random_bool(0.8),
            },
            980..998 => {
                let above = if self.near_end || self.rng.random_bool(0.8) {
                    Near::At(0)
                } else {
                    self.near()
                };
                Step::Admit {
                    above,
                    wall: self.rng.random_bool(0.3),
                    stale: self.rng.random_bool(0.2),
                }
            }
            _ => Step::Forget,
        }
    }

    fn owner(&mut self) -> u8 {
        self.rng.random_range(0..OWNERS)
    }

    fn name(&mut self) -> u8 {
        *self.names.choose(&mut self.rng).expect("one")
    }

    fn client(&mut self) -> u8 {
        let clients = if self.is_crowd { MANY } else { FEW };
        let client = self.rng.random_range(0..clients);
        u8::try_from(if client == CLASSIC { 0 } else { client }).expect("few")
    }

    fn on_but_slots(&mut self) -> On {
        if self.is_classic {
            return On::One(self.name());
        }
        match self.rng.random_range(0..9) {
            0..3 => On::One(self.name()),
            3..5 => {
                let count = self.rng.random_range(1..4);
                On::Set((0..count).map(|_| self.name()).collect())
            }
            5..8 => On::Shared(self.name()),
            _ => On::Downgraded(self.name()),
        }
    }

    fn on(&mut self) -> On {
        match self.rng.random_range(0..10) {
            0..9 => self.on_but_slots(),
            _ if self.rng.random_bool(0.5) => {
                On::Slot(self.rng.random_range(0..2), self.rng.random_range(0..4))
            }
            _ => On::AnyOf(self.rng.random_range(0..2)),
        }
    }

    /// A target that this owner may well have.
    fn on_of(&mut self, owner: u8) -> On {
        match self.asked.get(&owner).filter(|_| self.rng.random_bool(0.5)) {
            // As a writer that reads on.
            Some(On::One(name)) if self.rng.random_bool(0.3) => On::Downgraded(*name),
            Some(on) => on.clone(),
            None => self.on(),
        }
    }

    /// In ms. Every ttl ends in a five and every time is a multiple of thirty, unlike the four seconds of a line: a
    /// server keeps a key for up to three milliseconds longer than asked, which is safe and not to be compared.
    fn ttl(&mut self) -> u64 {
        // Also longer than the node was told that leases are: it is cut when a client asks for less.
        if self.rng.random_bool(0.02) {
            return 250_005;
        }
        *[5, 15, 105, 1_005, 4_005, 10_005, 30_005, 100_005].choose(&mut self.rng).expect("one")
    }

    fn time(&mut self) -> Duration {
        if self.is_crowd && self.rng.random_bool(0.97) {
            return Duration::from_millis(30);
        }
        let ms = [30, 30, 60, 90, 120, 510, 1_020, 1_590, 2_490, 3_990, 4_020, 10_020, 61_020];
        Duration::from_millis(*ms.choose(&mut self.rng).expect("one"))
    }

    /// Most clients come again with their ticket.
    fn since(&mut self, client: usize) -> u64 {
        let before = self.came.get(&client).copied().filter(|_| self.rng.random_bool(0.6));
        let came = before.unwrap_or_else(|| self.now - self.anew(client));
        self.came.insert(client, came);
        self.now - came
    }

    fn anew(&mut self, client: usize) -> u64 {
        if self.is_crowd {
            // The deaf clients came first, so that many of them are passed over at once.
            let before = if is_deaf(client) { 20 } else { 0 };
            return before + self.rng.random_range(0..20);
        }
        *[0, 1, 2, 1_000, 5_000_000].choose(&mut self.rng).expect("one")
    }

    fn count(&mut self) -> u64 {
        *[1, 1, 1, 1, 2, 7, 1_000, 1 << 40, (1 << 53) - 1].choose(&mut self.rng).expect("one")
    }

    fn note(&mut self) -> Option<u8> {
        self.rng.random_bool(0.4).then(|| self.rng.random_range(0..5))
    }

    fn near(&mut self) -> Near {
        let small = self.rng.random_range(-2..4);
        match self.rng.random_range(0..20) {
            0..2 => Near::At(0),
            2..8 => Near::Ahead(small * 1_000),
            8..10 => {
                let ms = *[29_999, 30_000, 59_999, 60_000, 60_001, 119_000]
                    .choose(&mut self.rng)
                    .expect("one");
                Near::Ahead(ms * 1_000 + small)
            }
            10..17 => Near::Last(small),
            17 => Near::At(((1_u64 << 53) - 2).saturating_add_signed(small)),
            18 => Near::At(((1_u64 << 63) - 2).saturating_add_signed(small)),
            _ => Near::At(u64::MAX.saturating_add_signed(small.min(0))),
        }
    }

    fn place(&mut self) -> Option<Place> {
        self.rng.random_bool(0.7).then(|| Place {
            since: self.rng.random_bool(0.7).then(|| self.since(self.client)),
            skip: self.rng.random_bool(0.15).then(|| self.client()),
        })
    }
}
