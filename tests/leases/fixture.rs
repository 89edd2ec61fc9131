//! A redlock in virtual time, on nodes that can be slow, deaf, or answer too little; and a runtime whose timers
//! may stand still, or which refuses a task.

use std::{
    fmt,
    future::IntoFuture,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use quorlock::{
    Acquire, Builder, Lease, Redlock,
    node::{
        MemoryNode, Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeSpec, NodeState,
        NodeStatus,
    },
    protocol::{
        Command, Completed, FencingToken, Floor, Join, Marker, Owner, Record, Reply, Resource,
        Serves, Sighting, Target, Timestamp,
    },
    runtime::{Runtime, Task},
};
use quorlock_harness::{SimRuntime, every_thread_hears_for_itself};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The simulation's runtime, on a machine that can be suspended: its clock counts that, its timers do not.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) sim: SimRuntime,
    suspended: Arc<Mutex<Duration>>,
    /// How many tasks.
    refuse: Arc<AtomicUsize>,
    /// It panics when it has been asked this often; never at zero.
    fuse: Arc<AtomicUsize>,
    /// Then it panics from that time on.
    stays_broken: Arc<AtomicBool>,
    panics: Arc<AtomicUsize>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self::seeded(1)
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        // Another test of this process may listen.
        every_thread_hears_for_itself();
        Self {
            sim: SimRuntime::new(seed),
            suspended: Arc::default(),
            refuse: Arc::default(),
            fuse: Arc::default(),
            stays_broken: Arc::default(),
            panics: Arc::default(),
        }
    }

    pub(crate) fn suspend(&self, time: Duration) {
        *self.suspended.lock().unwrap() += time;
    }

    /// Panics at the next task that it is given.
    pub(crate) fn refuse_one_task(&self) {
        self.refuse_tasks(1);
    }

    /// The same at the next few.
    pub(crate) fn refuse_tasks(&self, count: usize) {
        self.refuse.store(count, Ordering::Relaxed);
    }

    /// Lets time pass, and panics once meanwhile, when it is asked for something for the `nth` time. Says whether it was.
    pub(crate) fn pass_with_a_panic(&self, nth: usize, time: Duration) -> bool {
        self.fuse.store(nth, Ordering::Relaxed);
        self.pass(time);
        self.fuse.swap(0, Ordering::Relaxed) == 0
    }

    /// Panics when it is asked for something for the `nth` time meanwhile. Says whether it was.
    pub(crate) fn with_a_panic(&self, nth: usize, act: impl FnOnce()) -> bool {
        self.fuse.store(nth, Ordering::Relaxed);
        act();
        self.fuse.swap(0, Ordering::Relaxed) == 0
    }

    /// The same from the `nth` time on: it stays broken while that is done.
    pub(crate) fn with_panics_from(&self, nth: usize, act: impl FnOnce()) -> bool {
        self.stays_broken.store(true, Ordering::Relaxed);
        self.fuse.store(nth, Ordering::Relaxed);
        act();
        self.stays_broken.store(false, Ordering::Relaxed);
        self.fuse.swap(0, Ordering::Relaxed) == 1
    }

    fn asked(&self) {
        let left = self.fuse.load(Ordering::Relaxed);
        let is_broken = left == 1 && self.stays_broken.load(Ordering::Relaxed);
        let next = if is_broken { 1 } else { left.saturating_sub(1) };
        self.fuse.store(next, Ordering::Relaxed);
        assert_ne!(left, 1, "a runtime of the user's");
    }

    fn time(&self) -> Timestamp {
        self.sim.now().saturating_add(*self.suspended.lock().unwrap())
    }

    /// Whether all tasks that were to be refused have been.
    pub(crate) fn has_refused(&self) -> bool {
        self.refuse.load(Ordering::Relaxed) == 0
    }

    /// Lets time pass. A task that panics ends, and the others go on, as on any executor.
    pub(crate) fn pass(&self, time: Duration) {
        let end = self.sim.now().saturating_add(time);
        let passed = self.sim.sleep(time);
        self.sim.spawn(passed);
        while self.sim.now() < end {
            if catch_unwind(AssertUnwindSafe(|| self.sim.step())).is_err() {
                self.panics.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// How many tasks, or timers, of the engine have panicked.
    pub(crate) fn panics(&self) -> usize {
        self.panics.load(Ordering::Relaxed)
    }
}

impl Runtime for Machine {
    fn now(&self) -> Timestamp {
        self.asked();
        self.time()
    }

    fn wall_us(&self) -> u64 {
        self.asked();
        self.sim.wall_us()
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        self.asked();
        self.sim.sleep(at.saturating_since(self.time()))
    }

    fn spawn(&self, task: Task) {
        self.asked();
        let left = self.refuse.load(Ordering::Relaxed);
        self.refuse.store(left.saturating_sub(1), Ordering::Relaxed);
        assert_eq!(left, 0, "no more tasks");
        self.sim.spawn(task);
    }

    fn random(&self) -> [u8; 16] {
        self.asked();
        self.sim.random()
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

/// How a node treats extensions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    Sound,
    /// It answers after this time.
    Slow(Duration),
    /// It takes everything and answers nothing.
    Deaf,
    /// It refuses at once.
    Refusing,
    /// Of several answers it returns the first alone.
    Terse,
    /// Of several answers all but the first are failures.
    Partial,
    /// The last of several answers is that its clock has jumped.
    Jumping,
    /// It loses releases.
    Forgetful,
    /// It is so far away: its answers take this time.
    Far(Duration),
    /// What asks for its vote reaches it so late.
    Late(Duration),
    /// It loses what gives up a place in a line.
    KeepsPlaces,
    /// It takes so long for a restore.
    SlowToRestore(Duration),
    /// It extends what stands of several keys, and says that it has extended all of them.
    ExtendsAPart,
    /// After each extension another client has the key for so long, if it is free: a waiter that the other nodes have
    /// woken.
    TakenWhenExtended(Duration),
    /// Its counters are so far ahead.
    CountsAhead(Duration),
}

#[derive(Clone)]
pub(crate) struct OddNode {
    index: usize,
    /// Whether it tells the process that uses it of what happens to its keys and lines.
    tells: bool,
    memory: MemoryNode,
    machine: Machine,
    manner: Arc<Mutex<Manner>>,
    batches: Arc<Mutex<Vec<usize>>>,
    extended: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
    /// Whether it keeps a line of those who wait.
    lines: Arc<AtomicBool>,
    /// The records that it was sent, and for whom.
    records: Arc<Mutex<Vec<(Owner, Record)>>>,
    /// Where to count how often it was asked who holds something.
    looks: Arc<Mutex<Option<Arc<AtomicUsize>>>>,
}

impl OddNode {
    pub(crate) fn set(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    pub(crate) fn hang(&self) {
        self.memory.pause();
    }

    pub(crate) fn resume(&self) {
        self.memory.resume();
    }

    /// No client reaches it any more. It keeps its data.
    pub(crate) fn disconnect(&self) {
        self.memory.disconnect();
    }

    pub(crate) fn reconnect(&self) {
        self.memory.reconnect();
    }

    /// It has lost all that it had.
    pub(crate) fn restart(&self) {
        self.memory.restart();
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.memory.get(key.as_bytes()).is_some()
    }

    pub(crate) fn value(&self, key: &str) -> Option<Vec<u8>> {
        self.memory.get(key.as_bytes())
    }

    /// Deletes a key, as another program would.
    pub(crate) fn delete(&self, key: &str) {
        self.memory.set(key, "", Some(Duration::ZERO));
    }

    /// Sets a key to this value, for this time.
    pub(crate) fn keep(&self, key: &str, value: &str, ttl: Duration) {
        self.memory.set(key, value, Some(ttl));
    }

    /// Sets a key, as another program would that holds it.
    pub(crate) fn hold(&self, key: &str) {
        self.memory.set(key, "another program's", None);
    }

    /// The extensions that were sent to it.
    pub(crate) fn extensions(&self) -> usize {
        self.extended.load(Ordering::Relaxed)
    }

    /// The records of leaders that were sent to it, by themselves or with a restore, and for whom.
    pub(crate) fn records(&self) -> Vec<(Owner, Record)> {
        self.records.lock().unwrap().clone()
    }

    /// From now on it counts there how often it is asked who holds something.
    pub(crate) fn count_looks(&self, looks: &Arc<AtomicUsize>) {
        *self.looks.lock().unwrap() = Some(Arc::clone(looks));
    }

    /// The commands that were sent to it.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    async fn extend_a_part(&self, command: &Command) -> Result<Reply, NodeError> {
        let mut last = Err(NodeError::TimedOut);
        for resource in command.target().unwrap().resources() {
            let mut one = command.clone();
            let Command::Extend { target, .. } = &mut one else { unreachable!() };
            *target = resource.clone().into();
            let reply = self.memory.call(one).await;
            if !matches!(last, Ok(Reply::Granted(_))) {
                last = reply;
            }
        }
        last
    }

    /// How many keys each message was to extend.
    pub(crate) fn batches(&self) -> Vec<usize> {
        self.batches.lock().unwrap().clone()
    }
}

impl Node for OddNode {
    fn start(&self, context: NodeContext) {
        if self.tells {
            self.memory.start(context);
        }
    }

    fn call(&self, mut command: Command) -> NodeCall {
        let this = self.clone();
        if let Command::Acquire { stand, .. } = &mut command {
            *stand = stand.take().filter(|_| this.lines.load(Ordering::Relaxed));
        }
        this.sent.fetch_add(1, Ordering::Relaxed);
        if let Command::Proclaim { owner, note, .. }
        | Command::Restore { owner, note: Some(note), .. } = &command
        {
            this.records.lock().unwrap().push((*owner, note.record().unwrap().clone()));
        }
        Box::pin(async move {
            let forgetful = *this.manner.lock().unwrap() == Manner::Forgetful;
            if forgetful && matches!(command, Command::Release { .. }) {
                return std::future::pending().await;
            }
            let manner = *this.manner.lock().unwrap();
            if manner == Manner::KeepsPlaces && matches!(command, Command::Leave { .. }) {
                return std::future::pending().await;
            }
            if let (Manner::SlowToRestore(time), Command::Restore { .. }) = (manner, &command) {
                this.machine.sim.sleep(time).await;
            }
            if let (Manner::Late(time), true) = (manner, command.is_asking()) {
                this.machine.sim.sleep(time).await;
            }
            if !matches!(command, Command::Extend { .. }) {
                let mut reply = this.memory.call(command).await;
                if let Manner::Far(time) = manner {
                    this.machine.sim.sleep(time).await;
                }
                if let (Manner::CountsAhead(by), Ok(Reply::Granted(granted))) = (manner, &mut reply)
                {
                    let ahead = u64::try_from(by.as_micros()).unwrap();
                    granted.token = granted.token.map(|it| FencingToken::new(it.get() + ahead));
                }
                if let Ok(Reply::Denied(denial)) = &mut reply
                    && !this.lines.load(Ordering::Relaxed)
                {
                    (denial.at, denial.rank, denial.behind) = (None, None, None);
                }
                return reply;
            }
            this.extended.fetch_add(1, Ordering::Relaxed);
            let manner = *this.manner.lock().unwrap();
            match manner {
                Manner::Sound
                | Manner::Terse
                | Manner::Partial
                | Manner::Jumping
                | Manner::SlowToRestore(_)
                | Manner::Far(_)
                | Manner::Late(_)
                | Manner::CountsAhead(_)
                | Manner::Forgetful
                | Manner::KeepsPlaces => {}
                Manner::ExtendsAPart => return this.extend_a_part(&command).await,
                Manner::TakenWhenExtended(time) => {
                    let key = command.target().unwrap().resource().to_string();
                    let reply = this.memory.call(command).await;
                    if !this.has(&key) {
                        this.memory.set(&key, "of a round", Some(time));
                    }
                    return reply;
                }
                Manner::Slow(time) => this.machine.sim.sleep(time).await,
                Manner::Deaf => std::future::pending().await,
                Manner::Refusing => {
                    return Err(NodeError::ConnectionLost { reason: Arc::from("scripted") });
                }
            }
            this.memory.call(command).await
        })
    }

    fn call_many(&self, commands: Vec<Command>) -> NodeFuture<Vec<Result<Reply, NodeError>>> {
        let keys = commands.iter().map(|command| command.target().map_or(0, Target::len));
        self.batches.lock().unwrap().push(keys.sum());
        let manner = *self.manner.lock().unwrap();
        let calls: Vec<NodeCall> = commands.into_iter().map(|command| self.call(command)).collect();
        Box::pin(async move {
            let mut replies = futures::future::join_all(calls).await;
            let lost = NodeError::ConnectionLost { reason: Arc::from("scripted") };
            match manner {
                Manner::Terse => replies.truncate(1),
                Manner::Partial => {
                    replies.iter_mut().skip(1).for_each(|reply| *reply = Err(lost.clone()))
                }
                Manner::Jumping => {
                    replies.pop();
                    replies.push(Err(NodeError::ClockJumped));
                }
                _ => {}
            }
            Ok(replies)
        })
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        self.memory.join(join)
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        self.memory.admit(epoch, floor, serves)
    }

    fn holder(&self, resource: Resource, fenced: bool) -> NodeFuture<Sighting> {
        if let Some(looks) = &*self.looks.lock().unwrap() {
            looks.fetch_add(1, Ordering::Relaxed);
        }
        self.memory.holder(resource, fenced)
    }

    fn completed(
        &self,
        resource: Resource,
        every: Duration,
        done: Option<Completed>,
    ) -> NodeFuture<Option<Completed>> {
        if let Some(looks) = &*self.looks.lock().unwrap() {
            looks.fetch_add(1, Ordering::Relaxed);
        }
        let said = self.memory.completed(resource, every, done);
        let (manner, sim) = (*self.manner.lock().unwrap(), self.machine.sim.clone());
        Box::pin(async move {
            let said = said.await;
            match manner {
                Manner::Deaf => std::future::pending().await,
                Manner::Far(time) => sim.sleep(time).await,
                _ => {}
            }
            said
        })
    }

    fn keeps_completions(&self) -> bool {
        self.memory.keeps_completions()
    }

    fn counts_ranges(&self) -> bool {
        self.memory.counts_ranges()
    }

    fn takes_sets(&self) -> bool {
        self.memory.takes_sets()
    }

    fn takes_readers(&self) -> bool {
        self.memory.takes_readers()
    }

    fn picks_slots(&self) -> bool {
        self.memory.picks_slots()
    }

    fn hands_over(&self) -> bool {
        self.memory.hands_over()
    }

    fn reachable(&self) -> Result<(), NodeError> {
        self.memory.reachable()
    }

    fn status(&self) -> NodeStatus {
        let state = match self.memory.status().state {
            down @ NodeState::Down { .. } => down,
            _ => NodeState::Ready,
        };
        NodeStatus::new(Arc::from(format!("odd:{}", self.index)), state)
    }
}

impl fmt::Debug for OddNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.index)
    }
}

pub(crate) struct Fixture {
    pub(crate) machine: Machine,
    pub(crate) nodes: Vec<OddNode>,
    pub(crate) redlock: Redlock,
}

impl Fixture {
    pub(crate) fn new(ttl: Duration) -> Self {
        Self::with(ttl, |builder| builder)
    }

    pub(crate) fn with(ttl: Duration, settings: impl FnOnce(Builder) -> Builder) -> Self {
        Self::on(Machine::new(), ttl, settings)
    }

    pub(crate) fn on(
        machine: Machine,
        ttl: Duration,
        settings: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let node = |index| {
            let clock = machine.clone();
            OddNode {
                index,
                tells: true,
                memory: MemoryNode::with_clock(move || clock.time()),
                machine: machine.clone(),
                manner: Arc::new(Mutex::new(Manner::Sound)),
                batches: Arc::default(),
                extended: Arc::default(),
                sent: Arc::default(),
                lines: Arc::default(),
                records: Arc::default(),
                looks: Arc::default(),
            }
        };
        let nodes: Vec<OddNode> = (0..3).map(node).collect();
        let builder = Redlock::builder()
            .nodes(nodes.iter().map(|node| NodeSpec::new(Arc::new(node.clone()))))
            .ttl(ttl)
            .max_ttl(ttl)
            .runtime(Arc::new(machine.clone()));
        let redlock = settings(builder).build().unwrap();
        machine.pass(MS);
        Self { machine, nodes, redlock }
    }

    pub(crate) fn acquire(&self, resource: &str) -> Lease {
        self.request(self.redlock.acquire(resource))
    }

    pub(crate) fn request(&self, request: Acquire) -> Lease {
        self.machine.sim.block_on(request.into_future()).unwrap()
    }

    /// From now on the nodes keep lines of those who wait.
    pub(crate) fn keep_lines(&self) {
        self.nodes.iter().for_each(|node| node.lines.store(true, Ordering::Relaxed));
    }

    /// Another process on the same nodes.
    pub(crate) fn other_process(&self, settings: impl FnOnce(Builder) -> Builder) -> Redlock {
        self.process_on(self.nodes.clone(), settings)
    }

    /// Another process, to which each node has a manner of its own.
    pub(crate) fn process_with(
        &self,
        manners: [Manner; 3],
        settings: impl FnOnce(Builder) -> Builder,
    ) -> Redlock {
        let with = |(node, manner): (&OddNode, Manner)| {
            let manner = Arc::new(Mutex::new(manner));
            OddNode { manner, ..node.clone() }
        };
        self.process_on(self.nodes.iter().zip(manners).map(with).collect(), settings)
    }

    /// Another process, which the nodes tell nothing but what it asks.
    pub(crate) fn untold_process(&self, settings: impl FnOnce(Builder) -> Builder) -> Redlock {
        let untold = |node: &OddNode| OddNode { tells: false, ..node.clone() };
        self.process_on(self.nodes.iter().map(untold).collect(), settings)
    }

    fn process_on(
        &self,
        nodes: Vec<OddNode>,
        settings: impl FnOnce(Builder) -> Builder,
    ) -> Redlock {
        let nodes = nodes.into_iter().map(|node| NodeSpec::new(Arc::new(node)));
        let builder = Redlock::builder().nodes(nodes).runtime(Arc::new(self.machine.clone()));
        let redlock = settings(builder).build().unwrap();
        self.pass(MS);
        redlock
    }

    /// The commands that were sent to any node.
    pub(crate) fn sent(&self) -> usize {
        self.nodes.iter().map(OddNode::sent).sum()
    }

    pub(crate) fn set_all(&self, manner: Manner) {
        self.nodes.iter().for_each(|node| node.set(manner));
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.machine.pass(time);
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.machine.sim.shut_down();
    }
}

#[track_caller]
pub(crate) fn all_held(leases: &[Lease]) {
    for lease in leases {
        lease.check().unwrap_or_else(|lost| panic!("{}: {lost}", lease.resource()));
    }
}

/// Runs what may block for ever on a thread of its own, and panics when it takes too long, or panics itself.
pub(crate) fn watched(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match ended.recv_timeout(Duration::from_secs(120)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().unwrap(),
    }
}
