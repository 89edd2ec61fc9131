//! What is known of other processes: whether any wait, for how long that is known, and what keeps processes apart that
//! are told the same.

use quorlock_core::{
    ClientId, Denial, Event, LineHint, Moment, NodeId, Passed, Reply, Resource, RoundLoss, Target,
};

use super::{
    super::at,
    Ask, Held, ME, MS, asker, asks,
    driven::{COUNTED, Mine, moment},
    held, next_asker, one,
    places::World,
    runs, stands, waits,
};

fn name() -> Resource {
    Resource::new("r").unwrap()
}

/// The requests of this process have had it for longer than a turn: it is handed on where nobody is known to wait
/// elsewhere. That is known for as long as the nodes tell of newcomers: for four seconds from the round on, where the
/// ttl is no longer.
#[test]
fn what_the_nodes_have_said_of_others_counts_where_a_quorum_has_and_while_they_would_tell() {
    let is_handed_on = |tells: &[(usize, LineHint)], ms: u64| {
        let mut client = Mine::new();
        let queue = client.open_queue(&one("r"));
        let mut first = asks(&mut client, queue, waits("first"), 0);
        first.asked.ttl = 2_000 * MS;
        let (id, _) = client.begins(first.id, &first.asked, 64, 0).wins(&mut client, COUNTED, 0);
        for (node, hint) in tells {
            client.handle_hint(NodeId::new(*node), &name(), *hint, at(0));
        }
        stands(&mut client, queue, Ask { ttl: first.asked.ttl, ..waits("next") });
        for extended in (999..ms).step_by(1_000).chain((ms > 1_000).then_some(ms - 1)) {
            client.extend(id, &moment(extended));
            client.settles(extended);
            runs(&mut client, extended);
        }
        let passed = client.hand_on(id, 0, &Moment { turn: 10 * MS, ..moment(ms) });
        match passed {
            Some((Passed::ToNobody, ..)) => false,
            Some((Passed::Kept(_), ..)) | None => panic!("at {ms}"),
            Some(_) => true,
        }
    };
    let alone =
        |nodes: &[usize]| nodes.iter().map(|node| (*node, LineHint::Alone)).collect::<Vec<_>>();
    assert!(is_handed_on(&[], 5), "within its turn");
    assert!(!is_handed_on(&[], 50));
    assert!(!is_handed_on(&alone(&[0]), 50), "one of three says nothing");
    assert!(is_handed_on(&alone(&[0, 2]), 50));
    assert!(is_handed_on(&alone(&[0, 1, 2]), 3_999));
    assert!(!is_handed_on(&alone(&[0, 1, 2]), 4_000));
    let one_waits = [alone(&[0, 1, 2]), vec![(1, LineHint::Wanted)]].concat();
    assert!(!is_handed_on(&one_waits, 50));
}

#[test]
fn what_is_kept_is_given_back_when_the_nodes_tell_of_nobody_any_more() {
    let given_back = |tells: bool| {
        let Held { mut client, id, .. } = held(5_000 * MS);
        if tells {
            client.handle_hint(NodeId::new(0), &name(), LineHint::Alone, at(0));
        }
        (1_000..16_000).step_by(1_000).find(|ms| {
            if *ms == 8_000 {
                let passed = client.hand_on(id, 0, &moment(*ms));
                assert!(matches!(passed, Some((Passed::Kept(_), ..))));
            }
            client.extend(id, &moment(*ms));
            client.settles(*ms);
            client.handle_timeout(&moment(*ms));
            let events = runs(&mut client, *ms);
            client.settles(*ms);
            events.iter().any(|event| matches!(event, Event::GiveBack(of, _) if *of == id))
        })
    };
    assert_eq!(given_back(false), Some(13_000), "as long as was asked for");
    assert_eq!(given_back(true), Some(10_000), "up to a ttl behind the round");
}

/// Whose place is passed over, where the nodes have denied a round for a place of its own process.
fn passes_over(
    target: &Target,
    beside: Option<&Target>,
    stands_too: Option<bool>,
) -> Option<ClientId> {
    let behind = || Ok(Reply::Denied(Denial::behind(ME).in_line(1_795_170_000_000_000, Some(1))));
    let all = [0, 1, 2].map(|node| (node, behind()));
    let mut client = Mine::new();
    let beside = beside.map(|beside| client.open_queue(beside));
    if let (Some(queue), Some(stands_too)) = (beside, stands_too) {
        let asker = asks(&mut client, queue, waits("beside"), 0);
        if stands_too {
            let lost = asker.begins(&mut client, 0).is_told(&mut client, &all, 0);
            assert_eq!(lost.unwrap().loss, RoundLoss::Contended);
            next_asker(&mut client, queue, asker.place, 0).begins(&mut client, 0);
        }
    }
    let queue = client.open_queue(target);
    let mut asks_again = asks(&mut client, queue, waits("r"), 0);
    let mut ms = 0;
    for _ in 0..2 {
        let round = asks_again.begins(&mut client, ms);
        let lost = round.is_told(&mut client, &all, ms).unwrap();
        let next = lost.in_line.unwrap().saturating_since(at(0));
        ms = u64::try_from(next.as_millis()).unwrap() + u64::from(!next.is_zero());
        let mut events = runs(&mut client, ms);
        client.handle_timeout(&moment(ms));
        events.extend(runs(&mut client, ms));
        asks_again = asker(&mut client, queue, asks_again.place, events);
    }
    asks_again.begins(&mut client, ms).stand.unwrap().skip
}

/// The command that gave the place up was lost: nobody would ever come with it.
#[test]
fn a_place_of_its_own_that_nobody_waits_with_is_passed_over() {
    let (writes, reads) = (one("r"), Target::Shared(name()));
    for (target, other) in [(&writes, &reads), (&reads, &writes)] {
        assert_eq!(passes_over(target, None, None), Some(ME));
        assert_eq!(passes_over(target, Some(other), None), Some(ME), "nobody asks there");
        assert_eq!(passes_over(target, Some(other), Some(false)), Some(ME), "it has none yet");
        assert_eq!(passes_over(target, Some(other), Some(true)), None, "it is that one's");
    }
}

/// How long a waiter whose connection to a node of its line was lost waits before it asks: in nanoseconds.
fn asks_behind(client: Mine, ms: u64) -> u128 {
    let (mut world, asker) = World::of(client, &one("r"));
    world.stands(asker);
    runs(&mut world.client, 0);
    world.client.handle_connection(NodeId::new(1), at(ms));
    runs(&mut world.client, ms);
    world.client.next_look(at(ms)).unwrap().saturating_since(at(ms)).as_nanos()
}

/// Many processes lose their connection to a node at the same time, and do not all ask it at the same time.
#[test]
fn processes_that_are_told_the_same_part() {
    let process = |number: u8| asks_behind(Mine::of(ClientId::new([number; 8])), 0);
    let mut all: Vec<u128> = (0..=u8::MAX).map(process).collect();
    all.sort_unstable();
    let (first, last) = (all[0], all[255]);
    assert!(last > first * 3 / 2, "{first} to {last}");
    // In each quarter of that time about a quarter of them.
    let quarter = |number: u128| first + (last - first) * number / 4;
    for number in 0..4 {
        let within = quarter(number)..quarter(number + 1);
        let count = all.iter().filter(|at| within.contains(at)).count();
        assert!((40..90).contains(&count), "{count} of 256 in {within:?}: {all:?}");
    }
}

/// So do those of one process that wait for something else, and those of another time.
#[test]
fn resources_and_times_part_too() {
    let resource = |before: usize| {
        let mut client = Mine::new();
        for number in 0..before {
            client.open_queue(&one(&format!("before {number}")));
        }
        asks_behind(client, 0)
    };
    let differ = |mut all: Vec<u128>| {
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    let count = differ((0..32).map(resource).collect());
    assert!(count > 24, "{count} of 32");
    let count = differ((0..32).map(|ms| asks_behind(Mine::new(), ms)).collect());
    assert!(count > 24, "{count} of 32");
}

/// A hint may come from each node, and more than once: a request that goes on at the same time as before is not called
/// for it.
#[test]
fn a_hint_that_moves_nobody_calls_nobody() {
    let (mut world, asker) = World::of(Mine::new(), &one("r"));
    world.stands(asker);
    runs(&mut world.client, 0);
    let calls = |world: &mut World| {
        world.client.handle_connection(NodeId::new(1), at(0));
        std::iter::from_fn(|| world.client.poll_event()).count()
    };
    assert_ne!(calls(&mut world), 0, "it asks sooner");
    assert_eq!(calls(&mut world), 0);
}
