//! The nemesis: faults, one after another, until the clients have done their work; then everything is healed.
//!
//! Any number of servers is stopped, and any number of links is cut. [`Setup`] says which faults there are, and how many
//! servers lose their votes at a time.

use std::{sync::Arc, time::Duration};

use quorlock::{
    protocol::{Resource, Timestamp},
    runtime::Runtime,
};

use super::World;
use crate::{
    MS,
    faults::Fault,
    machine::Stop,
    node::{Link, SimServer},
    reached::*,
    setup::{Mode, Setup},
};

/// What ends by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mend {
    Restart(usize),
    Resume(usize),
    RunClock(usize),
    GoOn(usize),
    RunWall(usize),
    Begin(usize),
    Connect(usize),
}

/// What the nemesis has done and not undone yet.
#[derive(Default)]
struct Done {
    mends: Vec<(Timestamp, Mend)>,
    /// When servers lost their votes.
    votes_lost: Vec<Timestamp>,
}

impl Done {
    fn is_free(&self, of: &[Mend]) -> bool {
        self.mends.iter().all(|(_, mend)| !of.contains(mend))
    }
}

impl World {
    /// Faults, one after another, until the clients have done their work.
    pub(crate) fn torment(&self, setup: Setup, nodes: usize) {
        let mut done = Done::default();
        while self.notes.are_running() {
            let runtime = &self.notes.runtime;
            runtime.pass(Duration::from_micros(1 + runtime.below(40_000)));
            let now = runtime.now();
            let due = done.mends.extract_if(.., |(at, _)| now >= *at).collect::<Vec<_>>();
            due.into_iter().for_each(|(_, mend)| self.mend(mend));
            let fault = setup.faults.pick(runtime.below(setup.faults.total()));
            if let Some(what) = self.strike(fault, setup, nodes, &mut done) {
                runtime.note(what);
                self.notes.record().faults += 1;
            }
        }
        done.mends.into_iter().for_each(|(_, mend)| self.mend(mend));
        for server in &self.servers {
            server.set_network(0.0, MS);
            server.links().iter().for_each(|link| link.mend());
        }
        // Hints from clocks that are a day behind keep rounds from being won where nodes count a day apart.
        self.processes.put_clocks_right();
        self.notes.runtime.note("healed");
        // What is still under way on slow connections arrives, in order, before anything new.
        self.notes.runtime.pass(Duration::from_secs(if setup.tidy { 1 } else { 5 }));
    }

    fn mend(&self, mend: Mend) {
        match mend {
            Mend::Restart(server) => self.servers[server].restart(),
            Mend::Resume(server) => self.servers[server].resume(),
            Mend::RunClock(server) => self.servers[server].stand(false),
            Mend::GoOn(client) => self.machine(client).go_on(),
            Mend::RunWall(client) => self.machine(client).stand_wall(false),
            Mend::Begin(client) => self.begin(client),
            Mend::Connect(place) => self.links(place).for_each(|link| link.set_arrives(None)),
        }
        self.notes.runtime.note(format_args!("{mend:?}"));
    }

    /// Does it, if that is allowed now, and says what it was.
    fn strike(&self, fault: Fault, setup: Setup, nodes: usize, done: &mut Done) -> Option<String> {
        let runtime = &self.notes.runtime;
        let now = runtime.now();
        if fault.costs_a_vote() {
            done.votes_lost.retain(|at| now < at.saturating_add(setup.spared));
            // Those that clients have not let in yet count too: while all clients stand still, nobody does.
            let joining = self.servers.iter().filter(|server| server.is_joining()).count();
            let away = if setup.mode == Mode::Classic { 0 } else { joining };
            let lost = done.votes_lost.len().max(away);
            if lost >= (nodes - 1) / 2 && !runtime.chance(setup.reckless) {
                return None;
            }
        }
        match fault {
            Fault::PauseClient
            | Fault::SuspendClient
            | Fault::HaltClient
            | Fault::HaltUnnoticed
            | Fault::StepWall
            | Fault::StandWall
            | Fault::KillClient => self.strike_client(fault, done),
            _ => {
                let index = usize::try_from(runtime.below(self.servers.len() as u64)).unwrap();
                let what = self.strike_server(fault, index, setup, done)?;
                if fault.costs_a_vote() {
                    done.votes_lost.push(now);
                    self.notes.record().forgotten.push((now, index));
                }
                Some(format!("server {index}: {what}"))
            }
        }
    }

    fn strike_server(
        &self,
        fault: Fault,
        index: usize,
        setup: Setup,
        done: &mut Done,
    ) -> Option<String> {
        let (runtime, reached) = (&self.notes.runtime, &self.notes.reached);
        let server = &self.servers[index];
        let now = runtime.now();
        let is_up = done.is_free(&[Mend::Restart(index), Mend::Resume(index)]);
        let runs = done.is_free(&[Mend::RunClock(index)]);
        let wait = |most: u64| now.saturating_add(runtime.below(most) as u32 * MS);
        match fault {
            Fault::Kill if is_up => {
                reached.hit_if(server.has_keys(), S15);
                reached.hit_if(self.is_anybody_holding(), S26);
                server.kill();
                done.mends.push((now.saturating_add(setup.away), Mend::Restart(index)));
            }
            Fault::RestartKept if is_up => server.take_over(true),
            Fault::RollBack if is_up => {
                let scenario = if runtime.chance(0.5) { S16 } else { S19 };
                reached.hit_if(server.has_keys(), scenario);
                server.take_over(false);
            }
            Fault::Flush if is_up => {
                reached.hit_if(server.has_keys(), S18);
                server.flush(false);
            }
            Fault::RestartHidden if is_up => {
                reached.hit_if(server.has_keys(), S27);
                server.flush(true);
            }
            Fault::Pause if is_up => {
                server.pause();
                done.mends.push((wait(200), Mend::Resume(index)));
            }
            Fault::Lose => server.set_network(0.3, MS),
            Fault::Slow => server.set_network(0.05, 40 * MS),
            Fault::StepBack if runs => {
                self.count_step(server, S14);
                server.step_back(self.span());
            }
            Fault::StepAhead if runs => {
                self.count_step(server, S13);
                server.step_ahead(self.span());
            }
            Fault::StandClock if runs => {
                self.count_step(server, S14);
                server.stand(true);
                done.mends.push((wait(3_000), Mend::RunClock(index)));
            }
            Fault::Reconnect => {
                let links = server.links().len().max(1);
                let place = usize::try_from(runtime.below(links as u64)).unwrap();
                let (ends, arrives) = (wait(100), wait(3_000).saturating_add(200 * MS));
                for link in self.links(place) {
                    // What was held up on the way to all of them comes at nearly the same time.
                    link.set_arrives(Some(arrives.saturating_add(runtime.below(50) as u32 * MS)));
                }
                done.mends.push((ends, Mend::Connect(place)));
                return Some(format!("{fault:?} of link {place} of every server"));
            }
            Fault::CutRequests | Fault::CutReplies | Fault::Late | Fault::Twice => {
                let links = server.links();
                let place = usize::try_from(runtime.below(links.len().max(1) as u64)).unwrap();
                let link: &Link = links.get(place)?;
                match fault {
                    Fault::CutRequests => link.set_loses_requests(true),
                    Fault::CutReplies => link.set_loses_replies(true),
                    Fault::Late => link.set_late(true),
                    _ => link.set_twice(true),
                }
                return Some(format!("{fault:?} of link {place}"));
            }
            Fault::Rumour => {
                let resource = Resource::new(["a", "b"][usize::from(runtime.chance(0.5))]).unwrap();
                let number = runtime.below(5);
                server.links().iter().for_each(|link| link.rumour(&resource, number));
            }
            Fault::Mend => {
                server.set_network(0.0, MS);
                if runtime.chance(0.3) {
                    server.links().iter().for_each(|link| link.mend());
                }
                return None;
            }
            _ => return None,
        }
        Some(format!("{fault:?}"))
    }

    /// The links of one client to all servers, which have them in one order.
    fn links(&self, place: usize) -> impl Iterator<Item = Arc<Link>> {
        self.servers.iter().filter_map(move |server| server.links().get(place).cloned())
    }

    /// A clock is stepped by so much: less than a lease, more than all, or far more.
    fn span(&self) -> Duration {
        let runtime = &self.notes.runtime;
        let most = [200, 2_000, 60_000, 100_000_000][usize::try_from(runtime.below(4)).unwrap()];
        Duration::from_millis(60 + runtime.below(most))
    }

    fn count_step(&self, server: &SimServer, scenario: Scenario) {
        let reached = &self.notes.reached;
        reached.hit_if(server.has_keys(), scenario);
        reached.hit_if(server.is_joining(), S17);
    }

    fn strike_client(&self, fault: Fault, done: &mut Done) -> Option<String> {
        let (runtime, reached) = (&self.notes.runtime, &self.notes.reached);
        let clients = self.machines.lock().unwrap().len() as u64;
        let client = usize::try_from(runtime.below(clients)).unwrap();
        let machine = self.machine(client);
        let now = runtime.now();
        let is_free =
            done.is_free(&[Mend::GoOn(client), Mend::RunWall(client), Mend::Begin(client)]);
        if !is_free || !self.notes.record().is_running[client] {
            return None;
        }
        let wait = |least: u64, most: u64| {
            let longest = [50, 300, most][usize::try_from(runtime.below(3)).unwrap()];
            now.saturating_add(Duration::from_millis(least + runtime.below(longest)))
        };
        let mut stop = |how, least, most| {
            machine.stop(how);
            done.mends.push((wait(least, most), Mend::GoOn(client)));
        };
        match fault {
            Fault::PauseClient => stop(Stop::Paused, 1, 3_000),
            Fault::SuspendClient => stop(Stop::Suspended, 1, 10_000),
            // Less than this is no jump: `docs/safety.md`, A6.
            Fault::HaltClient => stop(Stop::Halted, 101, 5_000),
            Fault::HaltUnnoticed => stop(Stop::Unnoticed, 101, 5_000),
            Fault::StepWall => {
                reached.hit_if(machine.is_holding(), S5);
                reached.hit_if(self.servers.iter().any(SimServer::is_joining), S17);
                let by = i128::try_from(self.span().as_nanos()).unwrap();
                machine.step_wall(if runtime.chance(0.5) { by } else { -by });
            }
            Fault::StandWall => {
                reached.hit_if(machine.is_holding(), S5);
                machine.stand_wall(true);
                done.mends.push((wait(1, 3_000), Mend::RunWall(client)));
            }
            Fault::KillClient => {
                reached.hit_if(machine.is_asking(), S31);
                self.kill(client);
                done.mends.push((wait(1, 1_000), Mend::Begin(client)));
            }
            _ => return None,
        }
        Some(format!("client {client}: {fault:?}"))
    }

    fn is_anybody_holding(&self) -> bool {
        self.machines.lock().unwrap().iter().any(|machine| machine.is_holding())
    }
}
