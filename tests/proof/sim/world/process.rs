//! The processes of the clients: each begins on a machine of its own, may be killed, and begins again.

use std::{
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorlock::{Redlock, node::NodeSpec, runtime::Runtime};

use super::{
    client::{REQUESTS, Worker},
    rate,
    record::Notes,
};
use crate::{
    MS,
    machine::Machine,
    node::SimServer,
    setup::{Flaw, Mode, Setup},
};

/// What the nemesis needs of the clients.
pub(crate) trait Processes: Send + Sync {
    /// A client begins.
    fn begin(&self, client: usize);

    /// Its process was killed.
    fn has_ended(&self, client: usize);

    /// From now on all wall clocks are right, of those that begin later too.
    fn put_clocks_right(&self);
}

/// So many lives a client has where none is long.
const LIVES: usize = 5;

/// All clients of a run.
pub(super) struct Clients {
    this: Weak<Self>,
    servers: Vec<SimServer>,
    nodes: usize,
    setup: Setup,
    notes: Notes,
    machines: Arc<Mutex<Vec<Machine>>>,
    redlocks: Mutex<Vec<Option<Redlock>>>,
    clocks_are_right: AtomicBool,
}

impl Clients {
    pub(super) fn new(
        servers: &[SimServer],
        nodes: usize,
        setup: Setup,
        notes: &Notes,
    ) -> Arc<Self> {
        let clients = notes.record().to_do.len();
        let redlocks = Mutex::new((0..clients).map(|_| None).collect());
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            servers: servers.to_vec(),
            nodes,
            setup,
            notes: notes.clone(),
            machines: Arc::default(),
            redlocks,
            clocks_are_right: AtomicBool::new(false),
        })
    }

    pub(super) fn machines(&self) -> Arc<Mutex<Vec<Machine>>> {
        Arc::clone(&self.machines)
    }

    /// The handles of all clients; where one has none any more, a new one.
    pub(super) fn redlocks(&self) -> Vec<Redlock> {
        let handles: Vec<Option<Redlock>> =
            self.redlocks.lock().unwrap().iter().map(Clone::clone).collect();
        let handle = |(client, redlock): (usize, Option<Redlock>)| {
            redlock.unwrap_or_else(|| {
                let machine = self.machine();
                self.connect(client, &machine, self.longest_ttl(client))
            })
        };
        handles.into_iter().enumerate().map(handle).collect()
    }

    /// A machine whose clocks are as good as the world's are.
    fn machine(&self) -> Machine {
        let runtime = &self.notes.runtime;
        let rate = rate(runtime, self.setup.rates.0);
        // Where wall clocks are stepped, they may be wrong from the beginning.
        let off = if self.clocks_are_right.load(Ordering::Relaxed) {
            Duration::ZERO
        } else if self.setup.faults.step_walls() {
            [50 * MS, DAY * 2][usize::from(runtime.chance(0.2))]
        } else {
            MS
        };
        let off = i64::try_from(off.as_millis()).unwrap();
        let off = i128::from(rate_of(runtime.below(u64::try_from(2 * off + 1).unwrap()), off));
        Machine::with_flaw(runtime, rate, off * 1_000_000, self.setup.flaw)
    }

    fn longest_ttl(&self, client: usize) -> Duration {
        let least = self.setup.longest_ttl / 2;
        if self.setup.mixed && client % 2 == 1 { least } else { self.setup.longest_ttl }
    }

    fn connect(&self, client: usize, machine: &Machine, longest_ttl: Duration) -> Redlock {
        let fleet = if self.setup.apart { client * self.nodes } else { 0 };
        let nodes = self.servers[fleet..fleet + self.nodes].iter();
        let builder = Redlock::builder();
        let builder = match self.setup.mode {
            Mode::Fenced => builder,
            Mode::Skip => builder.danger_skip_quarantine(),
            Mode::Classic => builder.classic(),
        };
        let builder = builder
            .nodes(nodes.map(|server| NodeSpec::new(Arc::new(server.connection()))))
            .ttl(longest_ttl)
            .max_ttl(longest_ttl + self.setup.lock_delay)
            .lock_delay(self.setup.lock_delay)
            .node_timeout(20 * MS)
            .close_timeout(if self.setup.flaw == Flaw::ClosesInHaste { MS } else { HOUR })
            .runtime(machine.clone());
        machine.build(|| builder.build().unwrap())
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

const DAY: Duration = Duration::from_secs(86_400);

const fn rate_of(drawn: u64, most: i64) -> i64 {
    drawn.cast_signed() - most
}

impl Processes for Clients {
    fn begin(&self, client: usize) {
        let Some(this) = self.this.upgrade() else { return };
        let machine = self.machine();
        {
            let mut machines = self.machines.lock().unwrap();
            if client < machines.len() {
                machines[client] = machine.clone();
            } else {
                machines.push(machine.clone());
            }
        }
        let longest_ttl = self.longest_ttl(client);
        let redlock = self.connect(client, &machine, longest_ttl);
        if !self.setup.short_lives {
            self.redlocks.lock().unwrap()[client] = Some(redlock.clone());
        }
        let workers = 1 + usize::try_from(self.notes.runtime.below(self.setup.workers)).unwrap();
        let requests = if self.setup.short_lives { REQUESTS / LIVES } else { REQUESTS };
        let left = Arc::new(AtomicUsize::new(workers));
        for _ in 0..workers {
            let (setup, notes, machine) = (self.setup, self.notes.clone(), machine.clone());
            let (redlock, servers) = (redlock.clone(), self.servers.clone());
            let process = machine.clone();
            let worker = Worker { client, setup, longest_ttl, redlock, machine, notes, servers };
            let (this, left) = (Arc::clone(&this), Arc::clone(&left));
            process.spawn(Box::pin(async move {
                worker.live(requests).await;
                if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    this.finish(worker).await;
                }
            }));
        }
    }

    fn has_ended(&self, client: usize) {
        self.redlocks.lock().unwrap()[client] = None;
    }

    fn put_clocks_right(&self) {
        self.clocks_are_right.store(true, Ordering::Relaxed);
        self.machines.lock().unwrap().iter().for_each(Machine::put_wall_right);
    }
}

impl Clients {
    /// The last task of a process has done its work.
    async fn finish(&self, Worker { client, redlock, .. }: Worker) {
        if self.setup.short_lives {
            drop(redlock.close().await);
            self.notes.runtime.note(format_args!("client {client} has ended"));
        }
        let is_done = self.notes.record().to_do[client] == 0;
        if is_done {
            self.notes.record().is_running[client] = false;
        } else {
            self.begin(client);
        }
    }
}
