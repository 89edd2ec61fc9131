//! Goal: an extension of one lease takes nothing from a later lease of the same owner, however late it arrives.
//!
//! Method: real servers behind proxies. What a client has sent is held back, the client loses these connections and makes
//! others, and goes on with a longer lease under the same owner; then the servers get what was held back. Another client asks
//! for the resource all the while. Each program is run twice: with the scripts as they are, and with extensions that let a key
//! end as soon as they say. The second must show two holders, or the first would prove nothing. `late_commands` has the
//! scripts one by one, and in `retransmitted` it is the kernel that sends once more.

use std::{
    future::IntoFuture,
    time::{Duration, Instant},
};

use futures::{FutureExt, executor::block_on};
use quorlock::{Acquire, Lease};
use quorlock_harness::{Cluster, Proxy};

use super::{
    texts::{EXTEND, EXTEND_CLASSIC},
    *,
};

const EXTENSIONS: [&str; 2] = [EXTEND, EXTEND_CLASSIC];

/// The lines by which an extension lets no key end sooner.
const MEND: &str = "    local left = redis.call('PTTL', key)
    local life = no_less(ttl, left)
    if life ~= left then redis.call('PEXPIRE', key, life) end
";

/// Of the lease whose extension is late.
const TTL: Duration = Duration::from_millis(1_500);
/// Of the lease after it: long enough that the first may be handed on to it.
const LONGER: Duration = Duration::from_millis(2_600);
const LINGER: Duration = Duration::from_secs(5);
const DELAY: Duration = Duration::from_secs(1);
/// The most that is lost of a lock-delay to the drift of ttl and delay.
const DRIFT: Duration = Duration::from_millis(60);
const MAX_TTL: Duration = Duration::from_secs(8);

/// The servers, and two clients that want the same of them.
pub(super) struct Stage {
    pub(super) cluster: Cluster,
    /// On the way of the first.
    pub(super) proxies: Vec<Proxy>,
    pub(super) holder: Redlock,
    pub(super) other: Redlock,
}

/// How it is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) classic: bool,
    /// Extensions let a key end as soon as they say.
    pub(super) planted: bool,
}

/// What was seen of a lease that was held.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Seen {
    /// A quorum of nodes kept others out for less time than was promised.
    pub(super) shortened: bool,
    /// Another client was granted the resource before that was over.
    pub(super) beside: bool,
}

/// Up to when others are to be kept out, as far as is known; nothing once the lease is over.
pub(super) type Promised<'a> = &'a dyn Fn() -> Option<Instant>;

/// As its holder is told.
pub(super) fn of(lease: &Lease) -> impl Fn() -> Option<Instant> {
    let signal = lease.signal();
    move || {
        let now = Instant::now();
        signal.check().ok().map(|left| now + left)
    }
}

impl Stage {
    pub(super) fn new(manner: Manner) -> Self {
        let cluster = admitted(3, MAX_TTL);
        let proxies: Vec<Proxy> =
            cluster.iter().map(|server| Proxy::start(server.port())).collect();
        if manner.planted {
            for script in EXTENSIONS {
                let shortens = "    redis.call('PEXPIRE', key, ttl)\n";
                let planted = script.replace(MEND, shortens);
                assert_eq!(
                    planted.len() + MEND.len(),
                    script.len() + shortens.len(),
                    "it was there, once"
                );
                proxies.iter().for_each(|proxy| proxy.exchange_script(script, &planted));
            }
        }
        let client = |nodes: Vec<String>| {
            let builder = Redlock::builder().nodes(nodes).connect_timeout(10 * SECOND);
            let builder = builder.node_timeout(100 * MS).ttl(TTL).max_ttl(MAX_TTL);
            ready(if manner.classic { builder.classic() } else { builder })
        };
        let holder = client(proxies.iter().map(Proxy::url).collect());
        let other = client(cluster.urls());
        Self { cluster, proxies, holder, other }
    }

    /// A request of the first that does nothing by itself.
    fn acquire(&self, resource: &str) -> Acquire {
        self.holder.acquire(resource).ttl(TTL).linger(LINGER).without_renewal()
    }

    /// Holds back what is sent from now on.
    fn hold_back(&self) {
        self.proxies.iter().for_each(Proxy::hold_back);
    }

    /// Waits until the commands sent since are on their way, cuts these connections, and waits for new ones.
    fn reconnect(&self) {
        eventually("it is on its way", SOON, || {
            self.proxies.iter().all(|proxy| proxy.held_back() > 0)
        });
        self.proxies.iter().for_each(Proxy::sever);
        eventually("connected anew", SOON, || {
            self.proxies.iter().all(|proxy| proxy.made_anew() > 0)
        });
        all_ready(&self.holder);
    }

    /// Puts an extension of this lease on its way, and extends the lease by another one that arrives.
    fn extension_under_way(&self, lease: &Lease) -> Option<()> {
        self.hold_back();
        assert!(lease.blocking_extend().is_err(), "no node has answered");
        self.reconnect();
        lease.blocking_extend().ok().map(drop)
    }

    /// Now the servers get what was on its way.
    fn deliver(&self) {
        self.proxies.iter().for_each(Proxy::deliver);
        eventually("it has been executed", SOON, || {
            self.proxies.iter().all(|proxy| proxy.late_connections() == 0)
        });
    }

    /// Asks for it as another client, up to this time, or until that client is granted it.
    pub(super) fn look_on(&self, resource: &str, promised: Promised<'_>, most: Duration) -> Seen {
        let (mut seen, began) = (Seen::default(), Instant::now());
        let mut until = promised().unwrap_or(began);
        while began.elapsed() < most {
            let left = self.cluster.iter().map(|server| server.pttl(resource)).map(|left| {
                let ends = Instant::now() + Duration::from_millis(left.try_into().unwrap_or(0));
                ends < until
            });
            let short = left.filter(|is_short| *is_short).count();
            seen.shortened |= short * 2 > self.cluster.len();
            until = promised().map_or(until, |promised| until.max(promised));
            if let Ok(lease) = self.other.try_acquire(resource).ttl(TTL).blocking() {
                seen.beside = Instant::now() < until;
                let _ = lease.blocking_release();
                break;
            }
            std::thread::sleep(5 * MS);
        }
        seen
    }
}

/// The grant goes on as a lease of the same owner, or the machine was too busy for that.
fn resumed(before: Lease, next: Acquire) -> Option<Lease> {
    let owner = before.owner();
    before.blocking_release().ok()?;
    next.blocking().ok().filter(|lease| lease.owner() == owner)
}

/// The same by a waiter of the same process.
fn handed_on(before: Lease, next: Acquire) -> Option<Lease> {
    let (owner, mut next) = (before.owner(), next.wait(SOON).into_future());
    assert!((&mut next).now_or_never().is_none(), "it waits");
    before.blocking_release().ok()?;
    block_on(next).ok().filter(|lease| lease.owner() == owner)
}

/// What is seen in one of these, on a resource of its own; nothing where the machine was too busy for the schedule.
type Program<'a> = &'a dyn Fn(&Stage, &str) -> Option<Seen>;

fn seen(stage: &Stage, program: Program<'_>, enough: impl Fn(Seen) -> bool) -> Seen {
    let tries = (0..20).filter_map(|number| program(stage, &format!("r{number}")));
    let mut tries = tries.inspect(|seen| println!("{seen:?}"));
    tries.find(|seen| enough(*seen)).expect("the schedule, in one of twenty tries")
}

/// Nothing is seen, and with the fault planted both are.
fn nothing_is_seen(classic: bool, program: Program<'_>) {
    let stage = Stage::new(Manner { classic, planted: false });
    assert_eq!(seen(&stage, program, |_| true), Seen::default());
    let both = Seen { shortened: true, beside: true };
    let stage = Stage::new(Manner { classic, planted: true });
    assert_eq!(seen(&stage, program, |seen| seen == both), both);
}

#[test]
fn a_late_extension_takes_nothing_from_a_lease_that_was_resumed() {
    for classic in [false, true] {
        nothing_is_seen(classic, &|stage, resource| {
            let first = stage.acquire(resource).blocking().unwrap();
            stage.extension_under_way(&first)?;
            let lease = resumed(first, stage.acquire(resource).ttl(LONGER))?;
            lease.blocking_extend().ok()?;
            stage.deliver();
            Some(stage.look_on(resource, &of(&lease), SOON))
        });
    }
}

#[test]
fn a_late_extension_takes_nothing_from_a_lease_that_was_handed_on() {
    for classic in [false, true] {
        nothing_is_seen(classic, &|stage, resource| {
            let first = stage.acquire(resource).blocking().unwrap();
            stage.extension_under_way(&first)?;
            let lease = handed_on(first, stage.acquire(resource).ttl(LONGER))?;
            lease.blocking_extend().ok()?;
            stage.deliver();
            Some(stage.look_on(resource, &of(&lease), SOON))
        });
    }
}

/// Each is longer than the one before, and the last renews itself later than the first ends.
#[test]
fn a_late_renewal_takes_nothing_from_the_last_of_four_leases_that_renew_themselves() {
    const TTLS: [u64; 4] = [1_200, 2_200, 4_000, 7_200];
    nothing_is_seen(false, &|stage, resource| {
        let request = |ttl| stage.acquire(resource).ttl(Duration::from_millis(ttl)).with_renewal();
        let [first, rest @ ..] = TTLS;
        let mut lease = request(first).blocking().unwrap();
        stage.hold_back();
        // Its own renewal, a third of the ttl later.
        stage.reconnect();
        for ttl in rest {
            // Extended just now, so that enough is left for the next.
            lease.blocking_extend().ok()?;
            lease = resumed(lease, request(ttl))?;
        }
        lease.blocking_extend().ok()?;
        stage.deliver();
        // Up to its next renewal.
        Some(stage.look_on(resource, &of(&lease), 2 * SECOND))
    });
}

#[test]
fn a_late_extension_takes_nothing_from_a_lock_delay() {
    for classic in [false, true] {
        nothing_is_seen(classic, &|stage, resource| {
            let request = |ttl| stage.acquire(resource).ttl(ttl).lock_delay(DELAY);
            let first = request(TTL).blocking().unwrap();
            stage.extension_under_way(&first)?;
            let lease = resumed(first, request(LONGER))?;
            lease.blocking_extend().ok()?;
            stage.deliver();
            let held = of(&lease);
            let kept = || held().map(|until| until + DELAY - DRIFT);
            // It is lost by its time.
            Some(stage.look_on(resource, &kept, SOON))
        });
    }
}

/// Three leases: the last keeps others out for longer than the first had asked for, and is released at once.
#[test]
fn a_late_extension_takes_nothing_from_what_is_held_at_least() {
    const HOLD: Duration = Duration::from_millis(2_200);
    for classic in [false, true] {
        nothing_is_seen(classic, &|stage, resource| {
            let first = stage.acquire(resource).blocking().unwrap();
            stage.extension_under_way(&first)?;
            let second = resumed(first, stage.acquire(resource).ttl(LONGER))?;
            second.blocking_extend().ok()?;
            let began = Instant::now();
            let lease = resumed(second, stage.acquire(resource).ttl(LONGER).hold_at_least(HOLD))?;
            lease.blocking_release().ok()?;
            stage.deliver();
            Some(stage.look_on(resource, &|| Some(began + HOLD), SOON))
        });
    }
}

/// The late extension finds a key that readers have, and leaves it alone: also with the fault planted.
#[test]
fn a_late_extension_of_a_writer_takes_nothing_from_what_it_reads_on_with() {
    for planted in [false, true] {
        let stage = Stage::new(Manner { classic: false, planted });
        let program = |stage: &Stage, resource: &str| {
            let first = stage.acquire(resource).blocking().unwrap();
            stage.extension_under_way(&first)?;
            let second = resumed(first, stage.acquire(resource).ttl(LONGER))?;
            let reads = second.downgrade().expect("a lease of one resource");
            reads.blocking_extend().ok()?;
            let signal = reads.signal();
            stage.deliver();
            let held = || {
                let now = Instant::now();
                signal.check().ok().map(|left| now + left)
            };
            Some(stage.look_on(resource, &held, SOON))
        };
        assert_eq!(seen(&stage, &program, |_| true), Seen::default());
    }
}

/// Nor does a late downgrade void the entry of a reader that was let in beside it.
#[test]
fn a_late_downgrade_takes_nothing_from_other_readers() {
    let stage = Stage::new(Manner { classic: false, planted: false });
    let program = |stage: &Stage, resource: &str| {
        let lease = stage.acquire(resource).ttl(LONGER).blocking().unwrap();
        stage.hold_back();
        let reads = lease.downgrade().expect("a lease of one resource");
        stage.reconnect();
        reads.blocking_extend().ok()?;
        let beside = stage.other.read(resource).ttl(LONGER).without_renewal();
        let beside = beside.wait(SECOND).blocking().ok()?;
        stage.deliver();
        reads.blocking_release().ok()?;
        let held = || {
            let now = Instant::now();
            beside.check().ok().map(|left| now + left)
        };
        Some(stage.look_on(resource, &held, SOON))
    };
    assert_eq!(seen(&stage, &program, |_| true), Seen::default());
}
