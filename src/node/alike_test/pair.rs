//! A server and a node in memory that are given the same commands, and what each of them made of it.
//!
//! Answers are compared as they are, except a node's own details: the number of an epoch, how far the high-water mark
//! runs ahead, the words of a refusal. It must not hide any other difference.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use quorlock_harness::Server;

use super::{
    client::Client,
    clock::Clock,
    names::{NAMES, foreign, name, resource, slots},
    shown::{looked, same},
    steps::{CLASSIC, Near, On, Step, Taken, is_deaf},
};
use crate::{
    node::{MemoryNode, Node},
    protocol::{Command, EpochMark, FencingToken, Floor, Join, Resource, Serves, Sighting, Target},
};

/// The longest ttl that the nodes are told of first.
const LONGEST: Duration = Duration::from_secs(200);

/// The remaining life of a resource's line, and its entries. The name comes in hex: it may be any bytes.
const LINE: &str = "local name = string.gsub(ARGV[1], '..', function(hex) return string.char(tonumber(hex, 16)) end)
    local line = 'quorlock:line:' .. name
    return {redis.call('PTTL', line), redis.call('ZRANGE', line, '0', '-1', 'WITHSCORES')}";

/// The beginning of a key's value, and how long it lives.
type Key = (Option<Box<[u8]>>, Option<Duration>);

/// What an owner was granted, by which client, and what that client knew of both nodes.
pub(super) struct Round {
    pub(super) on: On,
    pub(super) token: u64,
    pub(super) client: usize,
    pub(super) marks: [EpochMark; 2],
}

/// Both nodes, and the clients of each.
pub(super) struct Pair {
    pub(super) clock: Clock,
    server: Server,
    pub(super) memory: MemoryNode,
    pub(super) clients: Vec<Client>,
    /// The last token that was given, and what each owner was granted last.
    pub(super) last: u64,
    pub(super) rounds: HashMap<u8, Round>,
    /// What follows is not compared.
    pub(super) is_apart: bool,
    /// A key may have a holder that the node did not grant it to.
    has_others: bool,
    /// The lengths of the lines, after any of the steps.
    pub(super) lengths: BTreeSet<usize>,
}

impl Pair {
    pub(super) async fn new(clients: usize) -> Self {
        let clock = Clock::new();
        let server = clock.server();
        let memory = {
            let clock = clock.clone();
            MemoryNode::with_clock(move || clock.timestamp())
        };
        // After a restart it has to be admitted, as the server has.
        memory.restart();
        let clients = (0..clients).map(|number| Client::new(number, &clock, &server, &memory));
        let clients = clients.collect();
        let (rounds, lengths) = (HashMap::new(), BTreeSet::new());
        let (last, is_apart, has_others) = (0, false, false);
        let mut pair =
            Self { clock, clients, server, memory, last, rounds, is_apart, has_others, lengths };
        pair.connected().await;
        pair.look_all(Join::look(LONGEST)).await.expect("an empty node");
        pair
    }

    #[allow(clippy::disallowed_methods, reason = "the pause of a test, before it begins")]
    async fn connected(&self) {
        for client in &self.clients {
            for _ in 0..100_000 {
                if client.nodes[0].reachable().is_ok() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            while client.nodes[0].reachable().is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    /// Takes one step on both, and says what both have answered. The error is what differs.
    pub(super) async fn take(&mut self, taken: &Taken) -> Result<String, String> {
        let client = match &taken.step {
            // The client that began a round ends it.
            Step::ConfirmLast { owner } => self.rounds.get(owner).map_or(0, |round| round.client),
            // A client in classic mode has no such commands.
            Step::Join { .. } | Step::Admit { .. } | Step::ExtendMany(_)
                if taken.client == CLASSIC =>
            {
                0
            }
            _ => taken.client,
        };
        self.has_others |= matches!(
            taken.step,
            Step::Set { .. } | Step::Restore { .. } | Step::Join { lost: true, .. }
        );
        match &taken.step {
            Step::Pass(time) => {
                self.clock.pass(*time);
                Ok(String::new())
            }
            Step::SetBack(time) => {
                self.clock.set_back(*time);
                // A client that has read the clock before says once that it has jumped.
                for client in self.clients.iter().take(CLASSIC) {
                    let _ = client.nodes[0].join(Join::look(LONGEST)).await;
                }
                Ok(String::new())
            }
            Step::Set { on, value, ttl } => {
                let (key, value) = (name(*on), foreign(*value));
                self.server.set(&key, &value, *ttl);
                self.memory.set(&key, &value, ttl.map(Duration::from_millis));
                Ok(String::new())
            }
            Step::Del { on } => {
                self.server.del(name(*on));
                // A key that expires at once.
                self.memory.set(name(*on), b"", Some(Duration::ZERO));
                Ok(String::new())
            }
            Step::Forget => {
                self.server.run(&["FLUSHALL"]);
                self.memory.restart();
                self.look_all(Join::look(LONGEST)).await.map(|()| String::new())
            }
            Step::Join { .. } => self.join(client, &taken.step).await.map(|()| String::new()),
            Step::Admit { above, wall, stale } => {
                self.admit(client, *above, *wall, *stale).await.map(|()| String::new())
            }
            Step::Holder { on, fenced } => {
                self.holder(client, *on, *fenced && client != CLASSIC).await
            }
            Step::Completed { on, done } if client != CLASSIC => {
                self.completed(client, *on, *done).await
            }
            Step::ExtendMany(all) => {
                let of = |(on, owner, ttl): &(On, u8, u64)| self.extend(on, *owner, *ttl);
                let commands: Vec<Command> = all.iter().map(of).collect();
                self.call_many(client, commands).await
            }
            step => {
                let commands = self.command(client, step);
                let commands = match (client, commands) {
                    (CLASSIC, Some(both)) => both.map(classic).into_iter().collect(),
                    (_, commands) => commands.map(Vec::from),
                };
                match commands.and_then(|both| both.try_into().ok()) {
                    Some(commands) => self.call(client, step, commands).await,
                    None => Ok(String::new()),
                }
            }
        }
    }

    async fn join(&mut self, client: usize, step: &Step) -> Result<(), String> {
        let Step::Join { max_ttl, force, lost, orphaned, seal, after, waited, all } = step else {
            return Ok(());
        };
        let of = |mark: EpochMark| {
            let mut join = Join::look(Duration::from_millis(*max_ttl));
            join.force = force.then_some(mark.epoch);
            (join.lost, join.orphaned, join.seal) = (*lost, *orphaned, *seal);
            join.after = if *after { mark.epoch + 7 } else { 0 };
            join.waited = waited.map(|ms| (mark.epoch, Duration::from_millis(ms)));
            join
        };
        self.look(client, self.clients[client].marks.map(of)).await?;
        if *all { self.look_all(Join::look(Duration::from_millis(*max_ttl))).await } else { Ok(()) }
    }

    /// Every client looks, and sees the same.
    async fn look_all(&mut self, join: Join) -> Result<(), String> {
        for client in (0..self.clients.len()).filter(|client| *client != CLASSIC) {
            self.look(client, [join; 2]).await?;
        }
        Ok(())
    }

    async fn look(&mut self, client: usize, [one, other]: [Join; 2]) -> Result<(), String> {
        let client = &mut self.clients[client];
        let [server, memory] = &client.nodes;
        let mut server = server.join(one).await.map_err(|error| format!("a look: {error}"))?;
        let mut memory = memory.join(other).await.map_err(|error| format!("a look: {error}"))?;
        client.marks = [server.mark(), memory.mark()];
        // Each says what it knew before the look, and a look that shows older data is repeated.
        for marker in [&mut server, &mut memory] {
            marker.max_ttl = marker.max_ttl.max(one.max_ttl);
        }
        same(looked(&server), looked(&memory))
    }

    /// Admits both above everything that either has, so that both go on from one number.
    async fn admit(
        &mut self,
        client: usize,
        above: Near,
        wall: bool,
        stale: bool,
    ) -> Result<(), String> {
        let plain = Join::look(LONGEST);
        // No floor is zero: it is what others counted to, or a wall clock.
        let above = self.number(above).clamp(1, FencingToken::MAX.get());
        let (mut known, mut epochs) = (above, [0; 2]);
        for (node, epoch) in self.clients[client].nodes.iter().zip(&mut epochs) {
            let marker = node.join(plain).await.map_err(|error| format!("a look: {error}"))?;
            known = known.max(marker.high_water);
            *epoch = marker.epoch - u64::from(stale);
        }
        let floor = Floor::new(known, if wall { self.clock.us() + 60_000_000 } else { 0 });
        let [server, memory] = &self.clients[client].nodes;
        let server =
            server.admit(epochs[0], floor, Serves::After).await.map_err(|error| error.to_string());
        let memory =
            memory.admit(epochs[1], floor, Serves::After).await.map_err(|error| error.to_string());
        same(server, memory)?;
        self.look_all(plain).await
    }

    /// Compares all keys and lines, read past the code under test, and what each client has been told of lines. Returns
    /// the latter.
    pub(super) async fn compare(&mut self) -> Result<String, String> {
        let mut all = String::new();
        // Once this is answered, everything that was sent to the client before it has come.
        for client in &self.clients {
            let _ = client.nodes[0].holder(resource(0), false).await;
        }
        for (number, client) in self.clients.iter_mut().enumerate() {
            if is_deaf(number) {
                continue;
            }
            let took_set = std::mem::take(&mut client.took_set);
            let [server, memory] =
                client.told.each_ref().map(|told| std::mem::take(&mut *told.lock()));
            let mut heard = Vec::new();
            for told in server {
                let other = memory.get(heard.len());
                // A server also reports when another program's key is gone, if a client has asked for that. A node in
                // memory has no such programs: waiters there poll.
                if self.has_others && told.starts_with("Next ") && other != Some(&told) {
                    continue;
                }
                // Of several resources a server says in one word whether any has a waiter.
                let alone = told.strip_prefix("Wanted ").filter(|_| took_set);
                let alone = alone.map(|of| format!("Alone {of}"));
                heard.push(alone.filter(|alone| Some(alone) == other).unwrap_or(told));
            }
            same(&heard, &memory).map_err(|error| format!("client {number} was told {error}"))?;
            if !heard.is_empty() {
                all += &format!("; {number} hears {}", heard.join(", "));
            }
        }
        let lines = (0..2).map(|number| slots(number).line().clone());
        for name in (0..NAMES).map(resource).chain(lines) {
            same(self.line_of_server(&name), self.memory.line(&name))
                .map_err(|error| format!("the line of {name:?}: {error}"))?;
        }
        let of_slots = (0..2).flat_map(|number| slots(number).all().to_vec());
        let names = (0..NAMES).map(resource).chain(of_slots);
        for name in names {
            let server = self.key_of_server(&name);
            let memory = match self.memory.holder(name.clone(), false).await {
                Ok(Sighting::Held(held)) => Some((held.value, held.remaining)),
                _ => None,
            };
            same(server, memory).map_err(|error| format!("the key {name:?}: {error}"))?;
        }
        Ok(all)
    }

    /// Records the lengths of the lines.
    pub(super) fn measure(&mut self) {
        let lines = (0..NAMES).map(|number| self.memory.line(&resource(number)));
        self.lengths.extend(lines.map(|line| line.map_or(0, |(all, _)| all.len())));
    }

    fn line_of_server(&self, name: &Resource) -> Option<(Vec<(String, i64)>, Duration)> {
        let hex: String = name.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let seen = self.server.run(&["EVAL", LINE, "0", &hex]);
        let (left, all): (i64, Vec<(String, i64)>) = redis::from_redis_value(seen).expect("a line");
        // A line without an end differs from each that has one.
        let left = u64::try_from(left).map_or(Duration::MAX, Duration::from_millis);
        (!all.is_empty()).then_some((all, left))
    }

    fn key_of_server(&self, name: &Resource) -> Option<Key> {
        let key = name.as_bytes();
        let value = self.server.get(key)?;
        let left = u64::try_from(self.server.pttl(key)).ok().map(Duration::from_millis);
        Some((Some(value.get(..value.len().min(64)).unwrap_or_default().into()), left))
    }
}

/// The same command in classic mode, which knows single keys alone, and no token.
fn classic(command: Command) -> Option<Command> {
    match command {
        Command::Acquire { target: target @ Target::One(_), owner, ttl, mark, .. } => {
            let (hint, count, first, note, stand) = (None, 1, 0, None, None);
            Some(Command::Acquire { target, owner, ttl, hint, count, first, mark, note, stand })
        }
        Command::Extend { target: target @ Target::One(_), owner, ttl, .. } => {
            Some(Command::Extend { target, owner, ttl, fenced: false })
        }
        Command::Restore { target: target @ Target::One(_), owner, ttl, until, .. } => {
            Some(Command::Restore { target, owner, ttl, until, fenced: false, note: None })
        }
        Command::Release { target: Target::One(_), .. } => Some(command),
        _ => None,
    }
}
