//! Whatever nodes answer and tell, at whatever time: a waiter panics at nothing, asks again within a poll, and does not
//! ask all the time.

use quorlock_core::{ClientId, LineAnswer, LineHint, LineNews, Stand, Ticket, WaitList, Waiter};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::*;

const EDGES: [u64; 9] =
    [0, 1, 1_000, (1 << 32) + 1, (1 << 53) - 1, 1 << 53, 1 << 63, u64::MAX - 1, u64::MAX];

fn client(rng: &mut StdRng) -> ClientId {
    ClientId::new([rng.random_range(0..4); 8])
}

fn some<T>(rng: &mut StdRng, value: T) -> Option<T> {
    rng.random_bool(0.7).then_some(value)
}

fn edge(rng: &mut StdRng) -> u64 {
    *EDGES.choose(rng).unwrap()
}

fn denial(rng: &mut StdRng) -> Denial {
    let holder: Box<[u8]> = vec![b'x'; rng.random_range(0..3)].into();
    let left =
        [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(edge(rng)), Duration::MAX];
    let left = left[rng.random_range(0..left.len())];
    let mut denial = if rng.random_bool(0.5) {
        Denial::behind(client(rng))
    } else {
        Denial::new(some(rng, holder), some(rng, left))
    };
    if rng.random_bool(0.8) {
        let rank = u32::try_from(edge(rng)).unwrap_or(u32::MAX);
        denial = denial.in_line(edge(rng), some(rng, rank));
    }
    denial
}

#[test]
fn odd_answers_and_hints_at_odd_times_panic_nothing_and_put_no_round_off() {
    for seed in 0..3_000 {
        let mut rng = StdRng::seed_from_u64(seed);
        let nodes = *[1, 2, 3, 5, 9].choose(&mut rng).unwrap();
        let mut waiter = Waiter::new(client(&mut rng), Quorum::of(nodes));
        let starts = [
            Duration::ZERO,
            Duration::from_secs(1 << 40),
            Duration::MAX - Duration::from_secs(9),
            Duration::MAX,
        ];
        let mut now = Timestamp::from_origin(*starts.choose(&mut rng).unwrap());
        let mut lost_at = None;
        for _ in 0..60 {
            now = now.saturating_add(Duration::from_micros(rng.random_range(0..400_000)));
            match rng.random_range(0..6) {
                0 => {
                    waiter.begin_round(now);
                    lost_at = None;
                }
                1 => {
                    let denials: Vec<_> = (0..nodes + 2).map(|_| denial(&mut rng)).collect();
                    let answers: Vec<_> = denials
                        .iter()
                        .enumerate()
                        .map(|(index, denial)| {
                            let answer = match rng.random_range(0..6) {
                                0 => LineAnswer::Granted,
                                1 => LineAnswer::Failed,
                                _ => LineAnswer::Denied(denial),
                            };
                            (node(index), answer)
                        })
                        .collect();
                    let clocks: Vec<_> = (0..nodes)
                        .map(|_| {
                            let e = edge(&mut rng);
                            some(&mut rng, e)
                        })
                        .collect();
                    let trip = Duration::from_micros(edge(&mut rng));
                    let trip = some(&mut rng, trip);
                    waiter.begin_round(now);
                    waiter.handle_lost_round(answers, &clocks, trip, rng.random(), now);
                    lost_at = Some(now);
                }
                2 => {
                    let denial = denial(&mut rng);
                    waiter.handle_late_answer(
                        node(rng.random_range(0..nodes + 1)),
                        LineAnswer::Denied(&denial),
                        now,
                    );
                }
                3 | 4 => {
                    let head = client(&mut rng);
                    let hints = [
                        LineHint::Next,
                        LineHint::StandBy { head },
                        LineHint::Wanted,
                        LineHint::Alone,
                    ];
                    waiter.handle_hint(
                        node(rng.random_range(0..nodes + 1)),
                        *hints.choose(&mut rng).unwrap(),
                        now,
                    );
                }
                _ => waiter.handle_connection(
                    node(rng.random_range(0..nodes + 1)),
                    rng.random(),
                    now,
                ),
            }
            let next = waiter.next_round(now);
            if let Some(lost_at) = lost_at {
                let poll = Timestamp::saturating_add(lost_at, Duration::from_millis(1_500));
                assert!(next <= poll, "seed {seed}: {next:?}, lost at {lost_at:?}");
            }
        }
    }
}

#[test]
fn keys_that_end_at_once_and_do_not_are_not_asked_for_all_the_time() {
    let ended = Denial::new(Some(b"x".as_slice().into()), Some(Duration::ZERO)).in_line(5, Some(0));
    let mut waiter = Waiter::new(ClientId::new([1; 8]), Quorum::of(3));
    let (mut now, mut rounds) = (at(0), 0);
    while now < at(10_000) {
        waiter.begin_round(now);
        let answers = (0..3).map(|index| (node(index), LineAnswer::Denied(&ended)));
        now = waiter.handle_lost_round(answers, &[], None, 0, now).unwrap();
        rounds += 1;
    }
    assert!(rounds < 400, "{rounds} in ten seconds");
}

#[test]
fn a_line_takes_odd_tickets_and_times() {
    for seed in 0..3_000 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut line = WaitList::default();
        let mut now = Timestamp::from_origin(
            *[Duration::ZERO, Duration::MAX - Duration::from_secs(3)].choose(&mut rng).unwrap(),
        );
        let hears = |client: ClientId| client != ClientId::new([3; 8]);
        for _ in 0..40 {
            now = now.saturating_add(Duration::from_millis(rng.random_range(0..2_000)));
            let mut news = LineNews::new(&hears);
            let (who, other) = (client(&mut rng), client(&mut rng));
            let ticket = Ticket::new(edge(&mut rng));
            let is_free = rng.random();
            match rng.random_range(0..3) {
                0 => {
                    let stand = Stand {
                        client: who,
                        ticket: some(&mut rng, ticket),
                        skip: some(&mut rng, other),
                    };
                    let stand = some(&mut rng, stand);
                    let entered = line.enter(stand, is_free, now, &mut news);
                    if is_free && entered.first.is_none() {
                        line.grant(
                            &entered,
                            edge(&mut rng),
                            Duration::from_millis(edge(&mut rng)),
                            now,
                            &mut news,
                        );
                    } else {
                        line.deny(&entered, now, &mut news);
                    }
                }
                1 => line.release(now, &mut news),
                _ => line.leave(who, ticket, is_free, now, &mut news),
            }
        }
    }
}
