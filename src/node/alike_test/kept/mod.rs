//! Goal: a node answers what is written here, so that both kinds of node cannot be wrong alike.
//!
//! Method: tables of steps, each with its answer, and what clients hear of lines then. They are played as drawn ones
//! are, so that a server and a node in memory are also compared in everything that no table says. Tables of single keys
//! are played in classic mode too, with the same answers except tokens.

mod leases;
mod readers;
mod several;

use std::time::Duration;

use super::{
    play,
    steps::{CLASSIC, Near, On, Place, Step, Taken},
};

/// A lease of this ttl stands until something ends it.
const LONG: u64 = 60_005;

/// Plays a table, on nodes whose counters go on from 100.
#[track_caller]
fn kept(rows: &[Taken]) {
    let first = Step::Admit { above: Near::At(100), wall: false, stale: false };
    let rows = [&[row(0, first, "")], rows].concat();
    if let Err((at, difference)) = play(&rows) {
        panic!("step {at}, {:?}: {difference}", rows[at]);
    }
}

/// The same, and once more by a client in classic mode, which is told no token.
#[track_caller]
fn in_both_modes(rows: &[Taken]) {
    kept(rows);
    let classic = |row: &Taken| {
        let says = if row.says.starts_with("granted") { "done" } else { row.says };
        let says = says.split(", counter").next().unwrap_or_default();
        Taken { client: CLASSIC, step: row.step.clone(), says }
    };
    kept(&rows.iter().map(classic).collect::<Vec<_>>());
}

/// By the client with the owner's number, if there is one.
fn row(owner: u8, step: Step, says: &'static str) -> Taken {
    let client = usize::from(owner);
    Taken { client: if client < CLASSIC { client } else { client % 3 }, step, says }
}

fn acquires(owner: u8, on: On, ttl: u64, place: Option<Place>, says: &'static str) -> Taken {
    let (hint, count, note) = (Near::At(1), 1, None);
    row(owner, Step::Acquire { on, owner, ttl, hint, count, note, place }, says)
}

fn takes(owner: u8, on: On, says: &'static str) -> Taken {
    acquires(owner, on, LONG, None, says)
}

fn takes_for(owner: u8, on: On, ttl: u64, says: &'static str) -> Taken {
    acquires(owner, on, ttl, None, says)
}

/// A waiter that came so many us ago.
fn waits(owner: u8, on: On, since: u64, says: &'static str) -> Taken {
    acquires(owner, on, LONG, Some(Place { since: Some(since), skip: None }), says)
}

fn picks(owner: u8, semaphore: u8, first: u8, since: Option<u64>, says: &'static str) -> Taken {
    let place = since.map(|since| Place { since: Some(since), skip: None });
    let (ttl, hint, note) = (LONG, Near::At(1), None);
    row(owner, Step::Pick { semaphore, first, owner, ttl, hint, note, place }, says)
}

fn extends(owner: u8, on: On, ttl: u64, says: &'static str) -> Taken {
    row(owner, Step::Extend { on, owner, ttl }, says)
}

fn restores(owner: u8, on: On, says: &'static str) -> Taken {
    row(owner, Step::Restore { on, owner, ttl: LONG, note: None }, says)
}

fn releases(owner: u8, on: On, says: &'static str) -> Taken {
    row(owner, Step::Release { on, owner, keep: None }, says)
}

/// A release that keeps others out for so many ms.
fn keeps(owner: u8, on: On, ttl: u64, says: &'static str) -> Taken {
    row(owner, Step::Release { on, owner, keep: Some(ttl) }, says)
}

/// Takes it over from another owner.
fn adopts(owner: u8, from: u8, ttl: u64, says: &'static str) -> Taken {
    let (on, hint, note) = (On::One(0), Near::At(1), None);
    row(owner, Step::Adopt { on, from, owner, ttl, hint, note }, says)
}

fn hands_back(owner: u8, to: u8, says: &'static str) -> Taken {
    row(owner, Step::HandBack { on: On::One(0), owner, to }, says)
}

/// Who holds this.
fn held(on: u8, says: &'static str) -> Taken {
    row(0, Step::Holder { on, fenced: true }, says)
}

/// What is done of this.
fn done(on: u8, done: Option<(u64, u8, u64)>, says: &'static str) -> Taken {
    row(0, Step::Completed { on, done }, says)
}

/// Another program sets this key.
fn sets(on: u8, value: u8, ttl: Option<u64>) -> Taken {
    row(0, Step::Set { on, value, ttl }, "")
}

fn deletes(on: u8) -> Taken {
    row(0, Step::Del { on }, "")
}

fn passes(ms: u64) -> Taken {
    row(0, Step::Pass(Duration::from_millis(ms)), "")
}
