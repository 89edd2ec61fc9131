//! What a process says of itself in the lines, and what it makes of what it is told.

use std::pin::pin;

use futures::FutureExt;

use super::*;
use crate::{
    node::NodeError,
    protocol::{Denial, Owner},
    runtime::ByHand,
};

const ME: ClientId = ClientId::new([7; 8]);
const TTL: Duration = Duration::from_secs(10);
const CLOCK_US: u64 = 1_795_170_000_000_000;

struct World {
    clock: Arc<ByHand>,
    on_nodes: OnNodes,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ByHand::default());
        let runtime = Arc::clone(&clock) as Arc<dyn Runtime>;
        Self { clock, on_nodes: OnNodes::new(ME, Quorum::of(3), Arc::default(), runtime) }
    }

    /// A round that three nodes have denied, which have a line or not.
    fn lose(&self, have_lines: bool) -> Option<Timestamp> {
        let holder = Owner::from_random([1; 16]).to_hex();
        let denied = |ahead: u64| {
            let denial = Denial::new(Some(Box::from(holder)), Some(Duration::from_secs(10)));
            NodeOutcome::Denied(if have_lines {
                denial.in_line(CLOCK_US + ahead, Some(0))
            } else {
                denial
            })
        };
        let outcomes = [denied(9), denied(1), denied(5)];
        self.on_nodes.handle_lost(&Lost {
            outcomes: &outcomes,
            is_left_behind: false,
            clocks: &[],
            round_trip: None,
            random: 0,
            now: self.clock.now(),
        })
    }

    fn begin_round(&self) -> Option<Stand> {
        self.on_nodes.begin_round(false, TTL, self.clock.now()).0
    }

    fn is_told(&self) -> bool {
        self.on_nodes.moved().now_or_never().is_some()
    }

    fn tell(&self, node: usize, hint: LineHint) {
        self.on_nodes.handle_hint(NodeId::new(node), hint);
    }
}

#[test]
fn who_has_not_waited_says_nothing_but_with_several_tokens_its_name() {
    let world = World::new();
    assert_eq!(world.begin_round(), None);
    let (several, _) = world.on_nodes.begin_round(true, TTL, world.clock.now());
    assert_eq!(several, Some(Stand::named(ME)));
    assert_eq!(world.on_nodes.leave(), None);
}

#[test]
fn after_a_lost_round_it_stands_there_at_once_and_goes_on_until_it_has_won_or_left() {
    let world = World::new();
    assert_eq!(world.begin_round(), None);
    assert_eq!(world.lose(true), Some(world.clock.now()));
    let ticket = Ticket::new(CLOCK_US + 5);
    for _ in 0..2 {
        assert_eq!(world.begin_round(), Some(Stand::with(ME, ticket)));
        let next = world.lose(true).unwrap();
        assert!(next > world.clock.now());
        assert_eq!(world.on_nodes.next_round(world.clock.now()), Some(next));
    }
    assert_eq!(world.on_nodes.leave(), Some((ME, ticket)));
    assert_eq!((world.on_nodes.leave(), world.begin_round()), (None, None));
    world.lose(true);
    world.on_nodes.handle_won(Timestamp::ORIGIN);
    assert_eq!((world.on_nodes.leave(), world.begin_round()), (None, None));
}

#[test]
fn where_nodes_have_no_line_it_stands_in_none() {
    let world = World::new();
    assert_eq!(world.begin_round(), None);
    assert_eq!(world.lose(false), None);
    assert_eq!(world.on_nodes.next_round(world.clock.now()), None);
    assert_eq!(world.begin_round(), None);
    world.tell(0, LineHint::Next);
    world.on_nodes.handle_connection(NodeId::new(0));
    assert!(!world.is_told());
}

#[test]
fn a_quorum_of_wake_ups_moves_the_next_round_to_now() {
    let world = World::new();
    world.lose(true);
    world.begin_round();
    world.lose(true);
    world.clock.pass(Duration::from_millis(500));
    let mut moved = pin!(world.on_nodes.moved());
    assert!(moved.as_mut().now_or_never().is_none());
    world.tell(0, LineHint::Next);
    world.tell(0, LineHint::Next);
    assert!(moved.as_mut().now_or_never().is_none());
    world.tell(2, LineHint::Next);
    assert!(moved.now_or_never().is_some());
    let now = world.clock.now();
    assert!(world.on_nodes.next_round(now).unwrap() <= now);
}

/// A node whose key ends earlier than those of the nodes that have answered before.
#[test]
fn what_is_answered_late_counts_for_its_own_round_and_for_no_other() {
    let world = World::new();
    world.lose(true);
    let now = world.clock.now();
    let (_, former) = world.on_nodes.begin_round(false, TTL, now);
    world.lose(true);
    let (_, last) = world.on_nodes.begin_round(false, TTL, now);
    let soon = Duration::from_millis(300);
    let denied = |holder: u8, ends| {
        let holder = Owner::from_random([holder; 16]).to_hex();
        let denial = Denial::new(Some(Box::from(holder)), Some(ends));
        NodeOutcome::Denied(denial.in_line(CLOCK_US, Some(0)))
    };
    let outcomes = [denied(1, TTL), NodeOutcome::Unanswered, denied(1, soon)];
    let clocks = [];
    let lost = Lost {
        outcomes: &outcomes,
        is_left_behind: false,
        clocks: &clocks,
        round_trip: None,
        random: 0,
        now,
    };
    let before = world.on_nodes.handle_lost(&lost).unwrap();
    assert!(world.on_nodes.hears_out(), "two of three name one holder");
    let next = || world.on_nodes.next_round(now).unwrap();
    world.on_nodes.handle_late(former, NodeId::new(1), &denied(1, soon));
    assert_eq!((next(), world.is_told()), (before, false), "it was of the round before");
    world.on_nodes.handle_late(last, NodeId::new(1), &NodeOutcome::Unanswered);
    assert_eq!((next(), world.is_told()), (before, false), "it says nothing");
    world.on_nodes.handle_late(last, NodeId::new(1), &denied(1, soon));
    assert!(next() < before && world.is_told());
    world.on_nodes.handle_won(now);
    world.on_nodes.handle_late(last, NodeId::new(1), &denied(1, soon));
    assert!(!world.is_told());
}

#[test]
fn a_new_connection_makes_it_ask_soon() {
    let world = World::new();
    world.lose(true);
    world.begin_round();
    let before = world.lose(true).unwrap();
    world.on_nodes.handle_connection(NodeId::new(1));
    assert!(world.is_told());
    assert!(world.on_nodes.next_round(world.clock.now()).unwrap() < before);
}

#[test]
fn a_node_that_votes_again_and_a_round_that_nodes_have_changed_for_make_it_ask_soon() {
    let world = World::new();
    world.on_nodes.handle_ready(NodeId::new(1));
    assert_eq!(world.on_nodes.handle_outdated(0, world.clock.now()), None);
    world.lose(true);
    assert_eq!(world.on_nodes.handle_outdated(0, world.clock.now()), Some(world.clock.now()));
    world.begin_round();
    let before = world.lose(true).unwrap();
    world.on_nodes.handle_ready(NodeId::new(1));
    assert!(!world.is_told(), "it stands there");
    let (now, outcomes) = (world.clock.now(), [NodeOutcome::Failed(NodeError::TimedOut)]);
    let lost = Lost {
        outcomes: &outcomes,
        is_left_behind: false,
        clocks: &[],
        round_trip: None,
        random: 0,
        now,
    };
    world.on_nodes.handle_lost(&lost);
    world.on_nodes.handle_ready(NodeId::new(0));
    assert!(world.is_told());
    assert!(world.on_nodes.next_round(now).unwrap() < before);
}

#[test]
fn whether_others_wait_is_what_the_nodes_have_said_since_the_last_round_began() {
    let world = World::new();
    let others = || world.on_nodes.others_wait(world.clock.now());
    world.begin_round();
    assert_eq!((others(), world.on_nodes.hears_until()), (OthersWait::Unknown, None));
    world.tell(0, LineHint::Alone);
    world.tell(0, LineHint::Alone);
    assert_eq!(others(), OthersWait::Unknown, "one node is no quorum");
    world.tell(1, LineHint::Alone);
    assert_eq!(others(), OthersWait::Nobody);
    assert_eq!(world.on_nodes.hears_until(), Some(world.clock.now().saturating_add(TTL)));
    world.tell(1, LineHint::Wanted);
    assert_eq!(others(), OthersWait::Somebody);
    world.tell(1, LineHint::Alone);
    assert_eq!(
        others(),
        OthersWait::Somebody,
        "what was granted before says nothing of who came since"
    );
    world.begin_round();
    assert_eq!(others(), OthersWait::Unknown);
    world.tell(2, LineHint::Wanted);
    assert_eq!(others(), OthersWait::Somebody);
}

/// The holder's name stands on the nodes for as long as its keys would without a renewal.
#[test]
fn that_nobody_waits_is_believed_for_as_long_as_the_nodes_would_tell_of_somebody() {
    let world = World::new();
    let others = || world.on_nodes.others_wait(world.clock.now());
    world.begin_round();
    (0..3).for_each(|node| world.tell(node, LineHint::Alone));
    world.clock.pass(TTL - Duration::from_millis(1));
    assert_eq!(others(), OthersWait::Nobody);
    world.clock.pass(Duration::from_millis(1));
    assert_eq!(others(), OthersWait::Unknown);
    world.tell(0, LineHint::Wanted);
    assert_eq!(others(), OthersWait::Somebody);
}

/// As an executor may that runs a task where it is woken.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test that would hang otherwise")]
fn whoever_is_woken_may_look_at_its_place_there_and_then() {
    use std::{
        sync::mpsc,
        task::{Context, Poll, Wake, Waker},
        thread,
    };

    struct Looks(Lock<Option<Arc<World>>>, mpsc::Sender<Option<u32>>);

    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            if let Some(world) = self.0.lock().take() {
                let _ = self.1.send(world.on_nodes.rank());
            }
        }
    }

    let wakes: [fn(&World); 3] = [
        |world| (0..2).for_each(|node| world.tell(node, LineHint::Next)),
        |world| world.on_nodes.handle_connection(NodeId::new(1)),
        |world| {
            world.begin_round();
            world.on_nodes.handle_ready(NodeId::new(1));
        },
    ];
    for wakes in wakes {
        let world = Arc::new(World::new());
        world.begin_round();
        world.lose(true);
        world.begin_round();
        world.lose(true);
        let (send, seen) = mpsc::channel();
        thread::spawn(move || {
            let looks = Arc::new(Looks(Lock::new(Some(Arc::clone(&world))), send));
            let mut moved = pin!(world.on_nodes.moved());
            let waker = Waker::from(looks);
            assert_eq!(moved.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
            wakes(&world);
        });
        assert_eq!(seen.recv_timeout(Duration::from_secs(10)), Ok(Some(0)));
    }
}

/// A runtime of users may look at anything that is theirs, and comes back here.
#[test]
fn no_lock_is_held_while_the_runtime_is_asked() {
    use std::sync::{OnceLock, mpsc};

    use crate::runtime::Task;

    #[derive(Debug, Default)]
    struct Looks(ByHand, OnceLock<std::sync::Weak<OnNodes>>);

    impl Looks {
        fn look(&self) {
            let on_nodes = self.1.get().and_then(std::sync::Weak::upgrade);
            assert!(on_nodes.is_none_or(|on_nodes| on_nodes.rank().is_none_or(|rank| rank == 0)));
        }
    }

    impl Runtime for Looks {
        fn now(&self) -> Timestamp {
            self.look();
            self.0.now()
        }

        fn wall_us(&self) -> u64 {
            self.0.wall_us()
        }

        fn sleep_until(&self, at: Timestamp) -> Task {
            self.0.sleep_until(at)
        }

        fn spawn(&self, task: Task) {
            self.0.spawn(task);
        }

        fn random(&self) -> [u8; 16] {
            self.look();
            self.0.random()
        }
    }

    let (ended, end) = mpsc::channel();
    let test = move || {
        let looks = Arc::new(Looks::default());
        let runtime = Arc::clone(&looks) as Arc<dyn Runtime>;
        let on_nodes = Arc::new(OnNodes::new(ME, Quorum::of(3), Arc::default(), runtime));
        looks.1.set(Arc::downgrade(&on_nodes)).unwrap();
        let now = Timestamp::ORIGIN;
        let (_, number) = on_nodes.begin_round(false, TTL, now);
        let holder = Owner::from_random([1; 16]).to_hex();
        let denied = || {
            let denial = Denial::new(Some(Box::from(holder)), Some(TTL));
            NodeOutcome::Denied(denial.in_line(CLOCK_US, Some(0)))
        };
        let outcomes = [denied(), denied(), denied()];
        let lost = Lost {
            outcomes: &outcomes,
            is_left_behind: false,
            clocks: &[],
            round_trip: None,
            random: 0,
            now,
        };
        on_nodes.handle_lost(&lost);
        assert!(on_nodes.waits());
        let node = NodeId::new(0);
        on_nodes.handle_late(number, node, &outcomes[0]);
        on_nodes.handle_hint(node, LineHint::Next);
        on_nodes.handle_connection(node);
        on_nodes.handle_ready(node);
        on_nodes.handle_place_lost();
        ended.send(()).unwrap();
    };
    #[allow(clippy::disallowed_methods, reason = "the thread of a test")]
    std::thread::spawn(test);
    end.recv_timeout(Duration::from_secs(20)).expect("it waits for a lock of its own");
}
