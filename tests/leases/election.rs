//! Goal: at most one candidate acts within its term, its work ends with that, and observers report no candidate that
//! was not elected.
//!
//! Method: virtual time, nodes that stop answering extensions or forget keys, and work that writes down when it was polled
//! and when it was dropped.

use std::{
    convert::Infallible,
    future::{Future, IntoFuture, pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use quorlock::{
    AcquireError, Builder, CampaignError, Election, ElectionHealth, Holder, HolderError,
    Leadership, LossReason, Observed, ProclaimError, Redlock,
    node::{MemoryNode, Node, NodeSpec},
    protocol::{
        Command, Drift, EpochMark, LeaderText, Note, Owner, Record, Reply, Resource, Sighting,
        Target,
    },
    runtime::Runtime,
};
use quorlock_harness::SimRuntime;

use crate::{
    fixture::{Fixture, MS, Machine, Manner, OddNode, SECOND, watched},
    line::poll,
};

const TTL: Duration = Duration::from_secs(2);

fn world() -> Fixture {
    let world = Fixture::new(TTL);
    world.keep_lines();
    world
}

fn candidate(redlock: &Redlock, text: &str) -> Election {
    redlock.election("r").text(text).ttl(TTL)
}

fn campaign(world: &Fixture, election: &Election) -> Leadership {
    let election = election.clone();
    world.machine.sim.block_on(async move { election.campaign().await.unwrap() })
}

fn seen(world: &Fixture, election: &Election) -> Observed {
    let election = election.clone();
    world.machine.sim.block_on(async move { election.leader().await.unwrap() })
}

/// Term and text of the leader that is seen.
#[track_caller]
fn leader(world: &Fixture, election: &Election) -> (u64, String) {
    match seen(world, election) {
        Observed::Leads(leader) => (leader.term.get(), leader.text.to_string()),
        other => panic!("{other}"),
    }
}

fn keys(world: &Fixture) -> usize {
    world.nodes.iter().filter(|node| node.has("r")).count()
}

/// A campaign that is under way and has not been won.
fn campaigning(
    election: &Election,
) -> Pin<Box<dyn Future<Output = Result<Leadership, CampaignError>> + Send>> {
    let election = election.clone();
    let mut campaign: Pin<Box<dyn Future<Output = _> + Send>> =
        Box::pin(async move { election.campaign().await });
    assert!(poll(&mut campaign).is_pending());
    campaign
}

#[test]
fn a_leader_is_seen_with_its_term_and_text_until_it_resigns() {
    let world = world();
    let (one, other) = (candidate(&world.redlock, "one"), world.other_process(|builder| builder));
    let two = candidate(&other, "two");
    assert!(matches!(seen(&world, &two), Observed::Nobody));
    let first = campaign(&world, &one);
    assert_eq!(first.token().unwrap(), first.term());
    world.pass(MS);
    assert_eq!(leader(&world, &two), (first.term().get(), "one".to_owned()));
    assert_eq!(leader(&world, &one), leader(&world, &two));
    let term = first.term();
    world.machine.sim.block_on(first.resign()).unwrap();
    world.pass(MS);
    assert!(matches!(seen(&world, &two), Observed::Nobody));
    let second = campaign(&world, &two);
    world.pass(MS);
    assert!(second.term() > term);
    assert_eq!(leader(&world, &one), (second.term().get(), "two".to_owned()));
}

#[test]
fn the_next_candidate_leads_at_once_behind_a_resignation() {
    let world = world();
    let other = world.other_process(|builder| builder);
    let first = campaign(&world, &candidate(&world.redlock, "one"));
    let mut next = campaigning(&candidate(&other, "two"));
    world.pass(SECOND);
    assert!(poll(&mut next).is_pending());
    drop(first.resign());
    world.pass(5 * MS);
    assert!(poll(&mut next).is_ready());
}

#[test]
fn behind_a_leader_that_is_cut_off_the_next_one_leads_after_the_ttl() {
    let world = world();
    let other = world.other_process(|builder| builder);
    let first = campaign(&world, &candidate(&world.redlock, "one"));
    let mut next = campaigning(&candidate(&other, "two"));
    world.pass(10 * MS);
    world.set_all(Manner::Refusing);
    // It is lost, and not given back.
    world.pass(TTL);
    assert!(first.check().is_err());
    world.pass(10 * MS);
    assert!(poll(&mut next).is_ready());
}

#[test]
fn e1_nothing_is_recorded_before_a_round_is_won() {
    let world = world();
    let records = || world.nodes.iter().map(|node| node.records().len()).sum::<usize>();
    world.nodes[0].hold("r");
    world.nodes[1].hold("r");
    let election = candidate(&world.redlock, "one");
    let mut campaign = campaigning(&election);
    world.pass(SECOND);
    assert!(poll(&mut campaign).is_pending());
    assert_eq!(records(), 0);
    let Observed::Between(Holder::Held(by)) = seen(&world, &election) else { panic!("held") };
    assert_eq!(&*by.value, b"another program's");
    world.nodes[0].delete("r");
    world.nodes[1].delete("r");
    world.pass(SECOND);
    let Poll::Ready(Ok(leadership)) = poll(&mut campaign) else { panic!("elected") };
    assert_eq!(records(), 0);
    world.pass(MS);
    assert_eq!(records(), 3);
    for node in &world.nodes {
        for (owner, record) in node.records() {
            assert_eq!((owner, record.term), (leadership.owner(), leadership.term()));
        }
    }
}

#[test]
fn e4_a_campaign_that_is_dropped_leaves_nothing() {
    let world = world();
    let election = candidate(&world.redlock, "one");
    // Dropped at whichever step.
    for step in 0..40 {
        let mut campaign = campaigning(&election);
        for _ in 0..step {
            world.machine.sim.step();
        }
        let is_elected = poll(&mut campaign).is_ready();
        drop(campaign);
        world.pass(10 * MS);
        assert_eq!(keys(&world), 0, "{step}");
        assert!(matches!(seen(&world, &election), Observed::Nobody), "{step}, {is_elected}");
    }
}

#[test]
fn e4_each_term_of_a_process_has_an_owner_of_its_own() {
    let world = world();
    let election = candidate(&world.redlock, "one");
    let first = campaign(&world, &election);
    let (owner, term) = (first.owner(), first.term());
    let mut next = campaigning(&election.clone().text("next"));
    let mut plain = world.redlock.acquire("r").into_future();
    assert!(poll(&mut plain).is_pending());
    drop(first.resign());
    world.pass(5 * MS);
    let Poll::Ready(Ok(second)) = poll(&mut next) else { panic!("elected") };
    assert!(second.owner() != owner && second.term() > term);
    drop(second);
    world.pass(5 * MS);
    // Nor does a plain lease become a term.
    let Poll::Ready(Ok(lease)) = poll(&mut plain) else { panic!("acquired") };
    let mut third = campaigning(&election);
    let owner = lease.owner();
    drop(lease);
    world.pass(50 * MS);
    let Poll::Ready(Ok(third)) = poll(&mut third) else { panic!("elected") };
    assert_ne!(third.owner(), owner);
}

/// Polls of work, and its drop, as seen from outside.
#[derive(Clone, Default)]
struct Work {
    polls: Arc<AtomicUsize>,
    /// On how many nodes the key stood when it was dropped.
    dropped: Arc<Mutex<Option<usize>>>,
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Leads, with work that has an effect every millisecond.
fn leading(world: &Fixture, election: &Election, work: &Work) -> Pin<Box<dyn Future<Output = ()>>> {
    let (election, work, nodes) = (election.clone(), work.clone(), world.nodes.clone());
    let machine = world.machine.clone();
    Box::pin(async move {
        let leads = election.lead(async |_| {
            let (dropped, nodes) = (Arc::clone(&work.dropped), nodes.clone());
            let _on_drop = OnDrop(move || {
                let keys = nodes.iter().filter(|node| node.has("r")).count();
                *dropped.lock().unwrap() = Some(keys);
            });
            let mut timer = machine.sim.sleep(MS);
            poll_fn(|cx| {
                work.polls.fetch_add(1, Ordering::Relaxed);
                while timer.as_mut().poll(cx).is_ready() {
                    timer = machine.sim.sleep(MS);
                }
                Poll::<Result<(), Infallible>>::Pending
            })
            .await
        });
        leads.await.unwrap();
    })
}

/// Lets time pass, polling a future meanwhile every millisecond.
fn pass_polling(world: &Fixture, future: &mut Pin<Box<dyn Future<Output = ()>>>, time: Duration) {
    let end = world.machine.sim.now().saturating_add(time);
    while world.machine.sim.now() < end {
        assert!(poll(future).is_pending());
        world.pass(MS);
    }
}

#[test]
fn e3_work_is_dropped_before_anybody_else_may_lead() {
    let world = world();
    let (election, work) = (candidate(&world.redlock, "one"), Work::default());
    let mut leads = leading(&world, &election, &work);
    pass_polling(&world, &mut leads, 100 * MS);
    assert!(work.polls.load(Ordering::Relaxed) > 50);
    assert!(matches!(election.health(), ElectionHealth::Leading { .. }));
    world.set_all(Manner::Refusing);
    pass_polling(&world, &mut leads, TTL - 150 * MS);
    pass_polling(&world, &mut leads, 50 * MS + Drift::default().of(TTL));
    assert_eq!(*work.dropped.lock().unwrap(), Some(3), "the keys stood when it was dropped");
}

#[test]
fn e3_work_is_dropped_before_the_release_where_the_candidate_goes_away() {
    let world = world();
    let (election, work) = (candidate(&world.redlock, "one"), Work::default());
    let mut leads = leading(&world, &election, &work);
    pass_polling(&world, &mut leads, 100 * MS);
    drop(leads);
    assert_eq!(*work.dropped.lock().unwrap(), Some(3));
    world.pass(MS);
    assert_eq!(keys(&world), 0);
}

/// Dropped at whichever step of the engine: work that has begun is dropped while the keys stand, and nothing is left.
#[test]
fn e3_a_candidate_that_is_dropped_at_any_step_ends_its_work_first() {
    let mut at_work = 0;
    for step in 0..80 {
        let world = world();
        let (election, work) = (candidate(&world.redlock, "one"), Work::default());
        let mut leads = leading(&world, &election, &work);
        for _ in 0..step {
            assert!(poll(&mut leads).is_pending());
            world.machine.sim.step();
        }
        let has_begun = work.polls.load(Ordering::Relaxed) > 0;
        drop(leads);
        let dropped = *work.dropped.lock().unwrap();
        assert_eq!(dropped.is_some(), has_begun, "{step}");
        assert!(dropped.is_none_or(|keys| keys >= 2), "{step}: {dropped:?}");
        at_work += usize::from(has_begun);
        world.pass(10 * MS);
        assert_eq!(keys(&world), 0, "{step}");
        assert_eq!(election.health(), ElectionHealth::Standby, "{step}");
    }
    assert!(at_work > 20, "{at_work}");
}

#[test]
fn e3_a_process_that_stood_still_polls_its_work_no_more() {
    let world = world();
    let (election, work) = (candidate(&world.redlock, "one"), Work::default());
    let mut leads = leading(&world, &election, &work);
    pass_polling(&world, &mut leads, 100 * MS);
    world.machine.suspend(TTL);
    let before = work.polls.load(Ordering::Relaxed);
    // Polled for whatever reason, before any task of the engine runs.
    assert!(poll(&mut leads).is_pending());
    assert_eq!(work.polls.load(Ordering::Relaxed), before);
    assert!(work.dropped.lock().unwrap().is_some());
}

#[test]
fn it_leads_again_behind_a_loss_and_behind_work_that_failed() {
    let world = world();
    let election = candidate(&world.redlock, "one");
    let (terms, lost) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let (of_work, of_lost, nodes) = (Arc::clone(&terms), Arc::clone(&lost), world.nodes.clone());
    let leads = world.machine.sim.block_on(async move {
        let work = async move |leadership: &Leadership| {
            let count = {
                let mut terms = of_work.lock().unwrap();
                terms.push(leadership.term().get());
                terms.len()
            };
            match count {
                1 => Err("it failed"),
                2 => {
                    nodes.iter().for_each(|node| node.delete("r"));
                    let _lost = OnDrop(|| {
                        of_lost.fetch_add(1, Ordering::Relaxed);
                    });
                    pending().await
                }
                _ => Ok(count),
            }
        };
        election.lead(work).await
    });
    assert_eq!((leads.unwrap(), lost.load(Ordering::Relaxed)), (3, 1));
    let terms = terms.lock().unwrap();
    assert!(terms.is_sorted() && terms[0] < terms[1] && terms[1] < terms[2], "{terms:?}");
    world.pass(MS);
    assert_eq!(keys(&world), 0);
}

#[test]
fn a_shutdown_ends_the_work_and_then_the_term() {
    let world = world();
    let (election, work) = (candidate(&world.redlock, "one"), Work::default());
    let of_lead = (election.clone(), work.clone(), world.nodes.clone());
    let ended = Arc::new(Mutex::new(None));
    let told = Arc::clone(&ended);
    world.machine.sim.spawn(Box::pin(async move {
        let (election, work, nodes) = of_lead;
        let leads = election.lead(async move |_| {
            let (dropped, nodes) = (Arc::clone(&work.dropped), nodes.clone());
            let _on_drop = OnDrop(move || {
                let keys = nodes.iter().filter(|node| node.has("r")).count();
                *dropped.lock().unwrap() = Some(keys);
            });
            pending::<Result<(), Infallible>>().await
        });
        *told.lock().unwrap() = Some(leads.await);
    }));
    world.pass(100 * MS);
    let redlock = world.redlock.clone();
    let done = world.machine.sim.block_on(async move { redlock.shutdown().await.unwrap() });
    assert_eq!(done.released, 1);
    assert_eq!(*work.dropped.lock().unwrap(), Some(3));
    let ended = ended.lock().unwrap().take();
    let Some(Err(CampaignError::Acquire(error))) = ended else { panic!("{ended:?}") };
    assert!(error.to_string().contains("is closed"), "{error}");
}

#[test]
fn what_a_leader_says_is_seen_when_that_is_confirmed() {
    let world = world();
    let election = candidate(&world.redlock, "one");
    let leadership = campaign(&world, &election);
    let (leadership, said) = world.machine.sim.block_on(async move {
        let said = leadership.proclaim("two").await;
        (leadership, said)
    });
    said.unwrap();
    assert_eq!(leader(&world, &election).1, "two");
    let long = [b'x'; LeaderText::MAX_BYTES + 1];
    let Poll::Ready(Err(ProclaimError::TextTooLong { bytes })) =
        poll(&mut Box::pin(leadership.proclaim(long)))
    else {
        panic!("too long")
    };
    assert_eq!(bytes, LeaderText::MAX_BYTES + 1);
    world.nodes.iter().for_each(|node| node.hang());
    let (leadership, said) = world.machine.sim.block_on(async move {
        let said = leadership.proclaim("three").await;
        (leadership, said)
    });
    assert!(matches!(said, Err(ProclaimError::Unconfirmed { told: 0, needed: 2 })), "{said:?}");
    world.nodes.iter().for_each(|node| node.resume());
    world.pass(TTL / 2);
    assert_eq!(leader(&world, &election).1, "three", "it goes on in the background");
    world.set_all(Manner::Refusing);
    world.pass(TTL);
    let said = world.machine.sim.block_on(async move { leadership.proclaim("four").await });
    assert!(matches!(said, Err(ProclaimError::Lost(_))), "{said:?}");
}

#[test]
fn a_node_that_lost_the_key_gets_the_record_with_it() {
    let world = world();
    let election = candidate(&world.redlock, "one");
    let leadership = campaign(&world, &election);
    world.pass(10 * MS);
    world.nodes[0].delete("r");
    world.pass(TTL / 2);
    // The other two by themselves are no quorum of records without it.
    world.nodes[1].delete("r");
    assert_eq!(leader(&world, &election), (leadership.term().get(), "one".to_owned()));
    let told = |node: usize| world.nodes[node].records().len();
    assert_eq!([told(0), told(2)], [2, 1], "once more, with the key");
}

#[test]
fn what_all_nodes_have_is_said_again_before_they_drop_it() {
    let world = Fixture::with(TTL, |builder| builder.counter_retention(20 * SECOND));
    let leadership = campaign(&world, &candidate(&world.redlock, "one"));
    for times in 1..5 {
        world.pass(MS);
        assert!(world.nodes.iter().all(|node| node.records().len() == times), "{times}");
        world.pass(5 * SECOND);
    }
    drop(leadership);
}

#[test]
fn e1_nothing_is_recorded_of_a_term_that_is_over_when_its_winner_hears_of_it() {
    let world = world();
    let mut campaign = campaigning(&candidate(&world.redlock, "one"));
    world.pass(10 * MS);
    world.set_all(Manner::Refusing);
    world.pass(TTL);
    let Poll::Ready(Ok(leadership)) = poll(&mut campaign) else { panic!("elected") };
    assert!(leadership.check().is_err());
    world.pass(SECOND);
    assert!(world.nodes.iter().all(|node| node.records().is_empty()));
}

#[test]
fn what_is_won_too_late_to_stop_in_time_is_no_term() {
    let world = Fixture::with(TTL, |builder| builder.node_timeout(3 * SECOND));
    world.nodes.iter().for_each(|node| node.hang());
    let mut campaign = campaigning(&candidate(&world.redlock, "one").stop_within(900 * MS));
    world.pass(1_200 * MS);
    world.nodes.iter().for_each(|node| node.resume());
    world.pass(100 * MS);
    let Poll::Ready(Ok(leadership)) = poll(&mut campaign) else { panic!("elected") };
    assert!(leadership.check().unwrap() > 900 * MS);
}

/// Records on a node in memory; `tests/scenarios/records.rs` tests the script.
#[test]
fn what_comes_late_gives_way_to_what_was_said_since() {
    let node = MemoryNode::new();
    let (owner, resource) = (Owner::from_random([7; 16]), Resource::new("r").unwrap());
    let target = Target::from(resource.clone());
    let acquire = Command::Acquire {
        target: target.clone(),
        owner,
        ttl: TTL,
        hint: Some(5),
        count: 1,
        first: 0,
        mark: EpochMark::new(1, 0),
        note: None,
        stand: None,
    };
    let call = |command| futures::executor::block_on(node.call(command)).unwrap();
    let Reply::Granted(granted) = call(acquire) else { panic!("granted") };
    let record = |number, text: &str| {
        Record::new(granted.token.unwrap(), number, LeaderText::new(text).unwrap())
    };
    let proclaim = |record| {
        let note = Note::of_leader(5, None, record);
        matches!(call(Command::Proclaim { target: target.clone(), owner, note }), Reply::Granted(_))
    };
    let stands = || {
        let seen = futures::executor::block_on(node.holder(resource.clone(), true)).unwrap();
        let Sighting::Held(key) = seen else { panic!("held") };
        (key.counter, key.note.unwrap().record().unwrap().number)
    };
    for (number, is_taken, number_then) in
        [(2, true, 2), (1, false, 2), (2, true, 2), (10, true, 10), (9, false, 10)]
    {
        assert_eq!(proclaim(record(number, "")), is_taken, "{number}");
        assert_eq!(stands(), (granted.token, number_then));
    }
}

#[test]
fn a_node_that_missed_the_record_gets_it_later() {
    let world = world();
    let election = candidate(&world.redlock, "one");
    world.nodes[0].hold("r");
    let leadership = campaign(&world, &election);
    world.pass(10 * MS);
    assert_eq!(leader(&world, &election).0, leadership.term().get());
    world.nodes[0].delete("r");
    world.pass(TTL);
    world.nodes[1].delete("r");
    assert_eq!(leader(&world, &election).0, leadership.term().get());
}

#[test]
fn an_observer_sees_each_change_and_no_term_twice() {
    let world = world();
    let other = world.other_process(|builder| builder);
    let (one, two) = (candidate(&world.redlock, "one"), candidate(&other, "two"));
    let observed = Arc::new(Mutex::new(Vec::new()));
    let (told, mut observer) = (Arc::clone(&observed), two.observe());
    world.machine.sim.spawn(Box::pin(async move {
        while let Ok(seen) = observer.changed().await {
            let leader = seen.leader();
            let told_of = leader.map(|leader| (leader.term.get(), leader.text.to_string()));
            told.lock().unwrap().push(told_of);
        }
    }));
    world.pass(SECOND);
    let first = campaign(&world, &one);
    world.pass(SECOND);
    let mut next = campaigning(&two);
    drop(first);
    world.pass(SECOND);
    let Poll::Ready(Ok(second)) = poll(&mut next) else { panic!("elected") };
    world.pass(SECOND);
    let said = world.machine.sim.block_on(async move {
        second.proclaim("three").await.unwrap();
        second
    });
    world.pass(SECOND);
    let said = world.machine.sim.block_on(async move {
        said.proclaim("three").await.unwrap();
        said
    });
    world.pass(SECOND);
    // The next leader says the same, and is another one.
    let three = candidate(&world.redlock, "three");
    let mut next = campaigning(&three);
    drop(said);
    world.pass(SECOND);
    let Poll::Ready(Ok(third)) = poll(&mut next) else { panic!("elected") };
    world.pass(SECOND);
    drop(third);
    world.pass(SECOND);
    let seen = observed.lock().unwrap().clone();
    let texts: Vec<&str> = seen.iter().flatten().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["one", "two", "three", "three"]);
    let terms: Vec<u64> = seen.iter().flatten().map(|(term, _)| *term).collect();
    assert!(terms[0] < terms[1] && terms[1] == terms[2] && terms[2] < terms[3], "{terms:?}");
    assert_eq!((seen.first(), seen.last()), (Some(&None), Some(&None)));
}

#[test]
fn the_loss_is_told_so_early_that_there_is_time_to_stop() {
    let stop = 600 * MS;
    let world = world();
    let election = candidate(&world.redlock, "one").stop_within(stop);
    let leadership = campaign(&world, &election);
    let signal = leadership.signal();
    world.pass(10 * MS);
    world.set_all(Manner::Refusing);
    let reason = world.machine.sim.block_on(async move { signal.lost().await.reason });
    assert_eq!(reason, LossReason::RenewalFailed);
    let ElectionHealth::Stopping { left } = election.health() else {
        panic!("{:?}", election.health())
    };
    assert!(left > stop - 5 * MS && left <= stop, "{left:?}");
    assert_eq!(keys(&world), 3, "nothing is released under its work");
    world.pass(left - MS);
    assert!(matches!(election.health(), ElectionHealth::Stopping { .. }));
    assert_eq!(keys(&world), 3);
    world.pass(200 * MS);
    let ElectionHealth::Wedged { since } = election.health() else {
        panic!("{:?}", election.health())
    };
    assert!(since > 190 * MS && since < 210 * MS, "{since:?}");
    drop(leadership);
    assert_eq!(election.health(), ElectionHealth::Standby);
}

#[test]
fn with_time_to_stop_it_is_renewed_as_ever() {
    let world = world();
    let election = candidate(&world.redlock, "one").stop_within(900 * MS);
    let leadership = campaign(&world, &election);
    world.pass(10 * TTL);
    assert!(leadership.check().unwrap() > SECOND);
}

/// Work that blocks its thread: nothing looks at it but its health, from another thread.
#[test]
fn work_that_ignores_its_loss_is_seen() {
    let world = world();
    let election = candidate(&world.redlock, "one");
    let leadership = campaign(&world, &election);
    assert!(matches!(election.health(), ElectionHealth::Leading { .. }));
    world.set_all(Manner::Refusing);
    world.pass(TTL + 100 * MS);
    assert!(election.health().is_wedged(), "{:?}", election.health());
    let other = world.other_process(|builder| builder);
    world.set_all(Manner::Sound);
    // Others lead by now, and it is wedged all the same.
    let next = campaign(&world, &candidate(&other, "two"));
    assert!(election.clone().health().is_wedged());
    // It may campaign again, and what is wedged is told before what leads.
    drop(next);
    let again = campaign(&world, &election);
    assert!(election.health().is_wedged());
    drop(leadership);
    assert!(matches!(election.health(), ElectionHealth::Leading { .. }));
    drop(again);
    assert_eq!(election.health(), ElectionHealth::Standby);
}

#[test]
fn keys_that_are_gone_leave_no_time_to_stop() {
    let world = world();
    let election = candidate(&world.redlock, "one");
    let leadership = campaign(&world, &election);
    world.nodes.iter().for_each(|node| node.delete("r"));
    world.pass(TTL / 2);
    assert_eq!(leadership.check().unwrap_err().reason, LossReason::Gone);
    assert!(election.health().is_wedged(), "{:?}", election.health());
}

/// A candidate on nodes that say how they are, and can be killed.
fn mortal() -> (SimRuntime, [MemoryNode; 3], Election) {
    let sim = SimRuntime::new(1);
    let nodes = [(); 3].map(|()| {
        let clock = sim.clone();
        MemoryNode::with_clock(move || clock.now())
    });
    let builder = Redlock::builder().nodes(nodes.iter().map(NodeSpec::from)).ttl(TTL).max_ttl(TTL);
    let redlock = builder.runtime(Arc::new(sim.clone())).build().unwrap();
    sim.pass(MS);
    let election = redlock.election("r");
    (sim, nodes, election)
}

#[test]
fn a_candidate_without_a_quorum_is_undecided_after_a_ttl() {
    let (sim, nodes, election) = mortal();
    assert_eq!(election.health(), ElectionHealth::Standby);
    nodes[0].kill();
    sim.pass(2 * TTL);
    assert_eq!(election.health(), ElectionHealth::Standby);
    nodes[1].kill();
    sim.pass(TTL / 2);
    assert_eq!(election.health(), ElectionHealth::Standby);
    sim.pass(TTL);
    assert!(matches!(election.health(), ElectionHealth::Undecided { .. }));
    drop(election);
    sim.shut_down();
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_sent() {
    let world = world();
    let sent = world.sent();
    let refused = |election: Election| {
        world.machine.sim.block_on(async move { election.campaign().await.unwrap_err() })
    };
    let long = world.redlock.election("r").text([b'x'; LeaderText::MAX_BYTES + 1]);
    assert!(matches!(refused(long), CampaignError::TextTooLong { bytes: 1025 }));
    let slow = world.redlock.election("r").stop_within(TTL / 2);
    let CampaignError::StopWithin { max, .. } = refused(slow) else { panic!("too slow") };
    assert_eq!(max, (TTL - Drift::default().of(TTL)) / 2);
    let CampaignError::Acquire(error) = refused(world.redlock.election("")) else {
        panic!("no name")
    };
    assert!(error.to_string().contains("name is empty"), "{error}");
    assert_eq!(world.sent(), sent);
    let classic = world.other_process(Builder::classic).election("r");
    assert!(matches!(
        refused(classic.clone()),
        CampaignError::Acquire(AcquireError::Unsupported(_))
    ));
    let looks = world.machine.sim.block_on(async move { classic.leader().await });
    assert!(matches!(looks, Err(HolderError::Unsupported(_))));
    drop(campaign(&world, &world.redlock.election("r").stop_within(max)));
}

#[test]
fn a_panic_of_its_work_gives_the_term_up() {
    let world = world();
    let election = candidate(&world.redlock, "one");
    let leads = election.lead(async |_| -> Result<(), Infallible> { panic!("the work") });
    let mut leads = Box::pin(leads);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        while poll(&mut leads).is_pending() {
            world.pass(MS);
        }
    }));
    assert!(panicked.is_err());
    drop(leads);
    world.pass(MS);
    assert_eq!(keys(&world), 0);
    assert_eq!(election.health(), ElectionHealth::Standby);
}

#[test]
fn e3_work_that_asked_for_time_to_stop_is_given_it_and_nothing_is_released_before() {
    let world = world();
    let election = candidate(&world.redlock, "one").stop_within(600 * MS);
    let work = Work::default();
    let mut leads = stopping(&world, &election, &work, 400 * MS);
    pass_polling(&world, &mut leads, 100 * MS);
    world.set_all(Manner::Refusing);
    pass_polling(&world, &mut leads, TTL);
    assert_eq!(work.polls.load(Ordering::Relaxed), 1, "it has come to its own end");
    assert_eq!(*work.dropped.lock().unwrap(), Some(3), "the keys stood when it had ended");
}

#[test]
fn e3_work_that_does_not_stop_in_time_is_dropped_before_the_lease_ends() {
    let world = world();
    let election = candidate(&world.redlock, "one").stop_within(600 * MS);
    let work = Work::default();
    let mut leads = stopping(&world, &election, &work, 10 * SECOND);
    pass_polling(&world, &mut leads, 100 * MS);
    world.set_all(Manner::Refusing);
    let before = || {
        assert!(!election.health().is_wedged(), "{:?}", election.health());
        work.dropped.lock().unwrap().is_none()
    };
    while before() {
        pass_polling(&world, &mut leads, MS);
    }
    assert_eq!(work.polls.load(Ordering::Relaxed), 0);
    assert_eq!(*work.dropped.lock().unwrap(), Some(3), "the keys stood when it was dropped");
}

#[test]
fn e3_work_whose_keys_are_gone_has_no_time_to_stop() {
    let world = world();
    let election = candidate(&world.redlock, "one").stop_within(600 * MS);
    let work = Work::default();
    let mut leads = stopping(&world, &election, &work, 400 * MS);
    pass_polling(&world, &mut leads, 100 * MS);
    world.nodes.iter().for_each(|node| node.delete("r"));
    let lost = || work.dropped.lock().unwrap().is_some();
    while !lost() {
        pass_polling(&world, &mut leads, MS);
    }
    assert_eq!(*work.dropped.lock().unwrap(), Some(0));
    assert_eq!(work.polls.load(Ordering::Relaxed), 0);
}

/// Leads, with work that takes so long to stop once it is told; it counts its ends.
fn stopping(
    world: &Fixture,
    election: &Election,
    work: &Work,
    takes: Duration,
) -> Pin<Box<dyn Future<Output = ()>>> {
    let (election, work, nodes) = (election.clone(), work.clone(), world.nodes.clone());
    let machine = world.machine.clone();
    Box::pin(async move {
        let terms = AtomicUsize::new(0);
        let leads = election.lead(async |leadership| {
            if terms.fetch_add(1, Ordering::Relaxed) > 0 {
                return pending().await;
            }
            let (dropped, nodes) = (Arc::clone(&work.dropped), nodes.clone());
            let _on_drop = OnDrop(move || {
                let keys = nodes.iter().filter(|node| node.has("r")).count();
                *dropped.lock().unwrap() = Some(keys);
            });
            leadership.lost().await;
            machine.sim.sleep(takes).await;
            work.polls.fetch_add(1, Ordering::Relaxed);
            Ok::<(), Infallible>(())
        });
        leads.await.unwrap();
    })
}

#[test]
fn what_work_returns_behind_its_term_does_not_count() {
    let world = world();
    let election = candidate(&world.redlock, "one");
    let terms = AtomicUsize::new(0);
    let mut leads = Box::pin(election.lead(async |_| {
        if terms.fetch_add(1, Ordering::Relaxed) == 0 {
            // It blocks its thread for longer than its lease lasts.
            world.machine.suspend(TTL);
        }
        Ok::<_, Infallible>(())
    }));
    while poll(&mut leads).is_pending() {
        world.pass(MS);
    }
    let terms = terms.load(Ordering::Relaxed);
    assert_eq!(terms, 2);
}

#[test]
fn work_that_goes_on_behind_a_shutdown_is_seen() {
    let world = world();
    let election = candidate(&world.redlock, "one");
    let leadership = campaign(&world, &election);
    let redlock = world.redlock.clone();
    world.machine.sim.block_on(async move { redlock.shutdown().await.unwrap() });
    assert_eq!(keys(&world), 0, "others may lead");
    assert!(election.health().is_wedged(), "{:?}", election.health());
    drop(leadership);
}

#[test]
fn a_candidate_of_a_closed_handle_says_so_once_it_does_not_lead() {
    for shuts_down in [false, true] {
        let world = world();
        let election = candidate(&world.redlock, "one");
        let leadership = campaign(&world, &election);
        let redlock = world.redlock.clone();
        world.machine.sim.block_on(async move {
            if shuts_down {
                let _ = redlock.shutdown().await.unwrap();
            } else {
                assert_eq!(redlock.close().await.unwrap().held, 1);
            }
        });
        let health = election.health();
        // A close ends no lease, and work under it is looked at as ever.
        assert_eq!(matches!(health, ElectionHealth::Leading { .. }), !shuts_down, "{health:?}");
        drop(leadership);
        world.pass(MS);
        assert_eq!(election.health(), ElectionHealth::Closed);
        assert!(!election.health().is_wedged());
        // Also where nobody could be elected.
        world.nodes.iter().for_each(|node| node.hang());
        world.pass(3 * TTL);
        assert_eq!(election.clone().health(), ElectionHealth::Closed);
    }
}

#[test]
fn a_candidate_that_is_asked_how_it_is_once_an_hour_says_how_long_it_has_seen_no_quorum() {
    let (sim, nodes, election) = mortal();
    sim.pass(3600 * SECOND);
    nodes[0].kill();
    nodes[1].kill();
    sim.pass(SECOND);
    assert_eq!(election.health(), ElectionHealth::Standby, "for a second");
    sim.pass(TTL);
    assert!(matches!(election.health(), ElectionHealth::Undecided { .. }));
    drop(election);
    sim.shut_down();
}

#[test]
fn an_observer_looks_at_a_pace_that_can_be_had_whatever_the_ttl() {
    for (ttl, most) in [(Duration::ZERO, 500), (Duration::from_nanos(1), 500), (Duration::MAX, 2)] {
        let world = world();
        let election = world.redlock.election("r").ttl(ttl);
        let (looks, observed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        world.nodes.iter().for_each(|node| node.count_looks(&looks));
        let told = Arc::clone(&observed);
        world.machine.sim.spawn(Box::pin(async move {
            let mut observer = election.observe();
            while observer.changed().await.is_ok() {
                told.fetch_add(1, Ordering::Relaxed);
            }
        }));
        world.pass(SECOND);
        assert_eq!((observed.load(Ordering::Relaxed), world.machine.panics()), (1, 0), "{ttl:?}");
        let looks = looks.load(Ordering::Relaxed) / 3;
        assert!((1..=most).contains(&looks), "{looks} in a second, {ttl:?}");
    }
}

#[test]
fn one_node_that_hangs_holds_up_nothing_that_is_said() {
    let world = Fixture::with(TTL, |builder| builder.node_timeout(SECOND));
    let election = candidate(&world.redlock, "one");
    let leadership = campaign(&world, &election);
    world.pass(10 * MS);
    world.nodes[0].hang();
    let since = world.machine.sim.now();
    let leadership = world.machine.sim.block_on(async move {
        for text in ["two", "three", "four"] {
            leadership.proclaim(text).await.unwrap();
        }
        leadership
    });
    let took = world.machine.sim.now().saturating_since(since);
    assert!(took < 100 * MS, "{took:?}");
    world.nodes[0].resume();
    world.pass(TTL);
    assert_eq!(world.nodes[0].records().last().unwrap().1.number, 4);
    drop(leadership);
}

#[test]
fn a_shutdown_gives_work_the_time_that_it_asked_for() {
    let world = world();
    let election = candidate(&world.redlock, "one").stop_within(600 * MS);
    let work = Work::default();
    let (of_lead, redlock) = (work.clone(), world.redlock.clone());
    let mut leads = {
        let (election, nodes, machine) = (election, world.nodes.clone(), world.machine.clone());
        Box::pin(async move {
            let leads = election.lead(async |leadership| {
                let dropped = Arc::clone(&of_lead.dropped);
                let _on_drop = OnDrop(|| {
                    let keys = nodes.iter().filter(|node| node.has("r")).count();
                    *dropped.lock().unwrap() = Some(keys);
                });
                leadership.lost().await;
                machine.sim.sleep(400 * MS).await;
                of_lead.polls.fetch_add(1, Ordering::Relaxed);
                Ok::<(), Infallible>(())
            });
            assert!(matches!(leads.await, Err(CampaignError::Acquire(_))), "closed");
        })
    };
    for _ in 0..100 {
        assert!(poll(&mut leads).is_pending());
        world.pass(MS);
    }
    let mut shutdown = Box::pin(async move { redlock.shutdown().await.unwrap().released });
    assert!(poll(&mut shutdown).is_pending());
    while poll(&mut leads).is_pending() {
        world.pass(MS);
    }
    world.pass(5 * MS);
    assert_eq!(poll(&mut shutdown), Poll::Ready(1));
    assert_eq!(work.polls.load(Ordering::Relaxed), 1);
    assert_eq!(*work.dropped.lock().unwrap(), Some(3));
}

#[test]
fn whoever_asks_once_and_blocks_learns_that_another_leads() {
    let redlock = Redlock::blocking_connect([MemoryNode::new()]).unwrap();
    let election = redlock.election("r");
    let leadership = election.blocking_try_campaign().unwrap();
    let Err(CampaignError::Acquire(error)) = election.blocking_try_campaign() else {
        panic!("another leads")
    };
    assert!(error.is_contended(), "{error}");
    leadership.blocking_resign().unwrap();
}

#[test]
fn nobody_waits_for_a_runtime_that_is_gone() {
    watched(|| {
        let (connected, redlock) = std::sync::mpsc::channel();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let runs = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let current = quorlock::runtime::TokioRuntime::current().unwrap();
                let builder = Redlock::builder().nodes([NodeSpec::from(&MemoryNode::new())]);
                let redlock = builder.ttl(TTL).runtime(Arc::new(current)).build().unwrap();
                connected.send(redlock).unwrap();
                ended.await.unwrap();
            });
        });
        let redlock = redlock.recv().unwrap();
        let election = redlock.election("r");
        let leadership = election.blocking_campaign().unwrap();
        let mut observer = election.observe();
        while observer.blocking_changed().unwrap().leader().is_none() {}
        let watches = std::thread::spawn(move || observer.blocking_changed().is_err());
        std::thread::sleep(50 * MS);
        end.send(()).unwrap();
        runs.join().unwrap();
        assert!(watches.join().unwrap());
        assert!(leadership.blocking_proclaim("two").is_err());
        drop(leadership);
        assert!(election.blocking_campaign().is_err());
        let leads = election.blocking_lead(|_| Ok::<(), Infallible>(()));
        assert!(leads.is_err());
        let leads = futures::executor::block_on(election.lead(async |_| Ok::<(), Infallible>(())));
        assert!(leads.is_err());
    });
}

/// How many of them act at this moment.
#[derive(Default)]
struct Acting {
    now: AtomicUsize,
    terms: Mutex<Vec<u64>>,
}

/// Elections of one name, in one process and in another, with settings of their own; losses of all kinds.
#[test]
fn e3_candidates_of_one_name_never_act_at_once_whatever_they_asked_for() {
    for seed in 0..12 {
        let world = Fixture::on(Machine::seeded(seed), TTL, |builder| builder.max_ttl(2 * TTL));
        world.keep_lines();
        let other = world.other_process(|builder| builder.ttl(TTL).max_ttl(2 * TTL));
        let acting = Arc::new(Acting::default());
        for number in 0..5 {
            let redlock = if number < 3 { &world.redlock } else { &other };
            let election = redlock.election("r").text([number]).ttl(TTL - 200 * MS * number.into());
            let election = match number {
                1 => election.stop_within(400 * MS),
                2 | 4 => election.lock_delay(300 * MS),
                _ => election,
            };
            let (acting, sim) = (Arc::clone(&acting), world.machine.sim.clone());
            world.machine.sim.spawn(Box::pin(async move {
                let leads = election.lead(async move |leadership| {
                    assert_eq!(acting.now.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    acting.terms.lock().unwrap().push(leadership.term().get());
                    let of_drop = Arc::clone(&acting);
                    let _on_drop = OnDrop(move || {
                        of_drop.now.fetch_sub(1, Ordering::SeqCst);
                    });
                    match sim.below(4) {
                        0 => pending().await,
                        1 => {
                            // It stops when it is told, and takes its time.
                            leadership.lost().await;
                            sim.sleep(MS * sim.below(600) as u32).await;
                        }
                        _ => sim.sleep(MS * sim.below(200) as u32).await,
                    }
                    Err::<Infallible, _>("again")
                });
                drop(leads.await);
            }));
        }
        for _ in 0..60 {
            let sim = &world.machine.sim;
            let nodes = &world.nodes;
            match sim.below(6) {
                0 | 5 => world.set_all(Manner::Refusing),
                1 => nodes[sim.below(3) as usize].set(Manner::Deaf),
                3 => nodes[sim.below(3) as usize].hang(),
                _ => {}
            }
            world.pass(MS * sim.below(3_000) as u32);
            world.set_all(Manner::Sound);
            nodes.iter().for_each(OddNode::resume);
            world.pass(MS * sim.below(500) as u32);
        }
        assert_eq!(world.machine.panics(), 0, "seed {seed}");
        let terms = acting.terms.lock().unwrap();
        assert!(terms.is_sorted_by(|a, b| a < b), "seed {seed}: {terms:?}");
        assert!(terms.len() > 10, "seed {seed}: {}", terms.len());
    }
}

#[test]
fn a_candidate_of_the_leaders_own_process_comes_behind_those_who_stand_in_line() {
    let world = world();
    let other = world.other_process(|builder| builder);
    let first = campaign(&world, &candidate(&world.redlock, "one"));
    let mut second = campaigning(&candidate(&world.redlock, "two"));
    world.pass(SECOND);
    let mut third = campaigning(&candidate(&other, "three"));
    world.pass(SECOND);
    drop(first.resign());
    world.pass(5 * MS);
    let Poll::Ready(Ok(third)) = poll(&mut third) else { panic!("elected") };
    assert!(poll(&mut second).is_pending());
    // It stands there too by now.
    let mut fourth = campaigning(&candidate(&other, "four"));
    world.pass(SECOND);
    drop(third);
    world.pass(5 * MS);
    assert!(poll(&mut second).is_ready());
    assert!(poll(&mut fourth).is_pending());
}
