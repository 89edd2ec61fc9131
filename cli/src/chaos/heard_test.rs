//! What a worker says, line by line, and what the record and the counter have of it.

use super::*;

const TTL: Duration = Duration::from_secs(100);

fn heard(worker: usize, record: &Record, counter: &Arc<Counter>) -> Heard {
    let (failed, fate) = Default::default();
    Heard::new(worker, TTL, Dice::new(1), record.clone(), Arc::clone(counter), failed, fate)
}

fn got(token: Option<u64>, validity_ms: Option<f64>) -> Said {
    Said::Got { token, validity_ms }
}

#[test]
fn a_lease_lies_inside_what_was_promised() {
    let (record, counter) = (Record::default(), Arc::new(Counter::new(true)));
    let mut worker = heard(3, &record, &counter);
    let mut say = |said| worker.take(said).unwrap();
    say(Said::Ask {});
    let asked = now();
    say(got(None, None));
    let until = record.lock().held_now().next().unwrap().end;
    assert!(until <= asked + TTL && until + TTL / 2 > asked + TTL, "from the answer to `ask`");
    // It is extended by a later promise, and not shortened by an earlier one.
    say(Said::Ask {});
    say(got(None, Some(1.0)));
    assert_eq!(record.lock().held_now().next().unwrap().end, until);
    say(got(None, Some(200_000.0)));
    assert!(record.lock().held_now().next().unwrap().end > until);
    let before = now();
    say(Said::Release {});
    let lease = record.lock().leases.first().cloned().unwrap();
    assert!(lease.start < lease.end && before <= lease.end && lease.end <= now());
    // A promise behind the end of another leaves out what lies between, also where that began before.
    for said in [Said::Ask {}, got(None, Some(0.0))] {
        say(said);
    }
    let between = now();
    for said in [Said::Ask {}, got(None, None), Said::Release {}] {
        say(said);
    }
    let leases = record.lock().leases.clone();
    let [.., first, second] = &leases[..] else { panic!("three leases") };
    assert!(first.end < between && between < second.start && second.start < second.end);
    // One that was over by the time in which it was said is not held.
    say(Said::Ask {});
    say(got(None, Some(0.0)));
    say(Said::Release {});
    let lease = record.lock().leases.last().cloned().unwrap();
    assert_eq!(lease.start, lease.end);
    assert_eq!(record.lock().granted, 3);
}

#[test]
fn what_is_lost_was_held_up_to_the_line_before() {
    let (record, counter) = (Record::default(), Arc::new(Counter::new(true)));
    let mut worker = heard(0, &record, &counter);
    for said in [Said::Ask {}, got(Some(4), None), Said::Read {}] {
        worker.take(said).unwrap();
    }
    let before = now();
    worker.take(Said::Lost { why: Some("gone\u{1b}".repeat(99)) }).unwrap();
    let history = record.lock();
    assert!(history.leases[0].end < before && history.losses[0].why == r"gone\x1b".repeat(40));
}

#[test]
fn a_late_write_is_refused_where_there_are_tokens_and_taken_where_there_are_none() {
    for (tokens, late) in [([Some(1), Some(2)], Answer::Stale), ([None, None], Answer::Done)] {
        let (record, counter) = (Record::default(), Arc::new(Counter::new(true)));
        let mut workers = [heard(0, &record, &counter), heard(1, &record, &counter)];
        for (worker, token) in workers.iter_mut().zip(tokens) {
            worker.take(Said::Ask {}).unwrap();
            worker.take(got(token, Some(0.0))).unwrap();
            worker.take(Said::Read {}).unwrap();
        }
        assert_eq!(workers[1].take(Said::Write {}), Ok(Answer::Done));
        assert_eq!(workers[0].take(Said::Write {}), Ok(late));
        workers[0].take(Said::Release {}).unwrap();
        let lost = usize::from(late == Answer::Done);
        assert_eq!((counter.found().lost, record.lock().effects.len()), (lost, 2));
        assert!(record.lock().effects.iter().all(|effect| !effect.held));
    }
}

#[test]
fn a_write_stands_still_with_its_worker_and_is_gone_with_it() {
    for killed in [false, true] {
        let (record, counter) = (Record::default(), Arc::new(Counter::new(true)));
        let mut worker = heard(0, &record, &counter);
        let fate = Arc::clone(&worker.fate);
        for said in [Said::Ask {}, got(None, None), Said::Read {}] {
            worker.take(said).unwrap();
        }
        fate.stopped.store(true, Relaxed);
        let writing = std::thread::spawn(move || {
            let ended = worker.take(Said::Write {});
            worker.was_killed();
            ended
        });
        sleep(Duration::from_millis(150));
        assert!(!writing.is_finished() && record.lock().effects.is_empty());
        let fated = if killed { &fate.killed } else { &fate.stopped };
        fated.store(killed, Relaxed);
        assert_eq!(writing.join().unwrap().is_err(), killed);
        assert_eq!(record.lock().effects.len(), usize::from(!killed));
        // What is held ends with the last line, as nobody knows better.
        assert!(record.lock().held_now().next().unwrap().end < now());
    }
}

#[test]
fn a_holder_that_is_refused_is_none_where_its_lock_tells_of_the_loss() {
    for (next, held) in [(Said::Lost { why: None }, false), (Said::Release {}, true)] {
        let (record, counter) = (Record::default(), Arc::new(Counter::new(true)));
        let mut workers = [heard(0, &record, &counter), heard(1, &record, &counter)];
        for (worker, token) in workers.iter_mut().zip([1, 2]) {
            for said in [Said::Ask {}, got(Some(token), None), Said::Read {}] {
                assert_eq!(worker.take(said), Ok(Answer::Done));
            }
        }
        assert_eq!(workers[0].take(Said::Write {}), Ok(Answer::Stale));
        workers[0].take(next).unwrap();
        let history = record.lock();
        assert_eq!((history.effects[0].held, history.effects[0].accepted), (held, false));
    }
}

/// Some give up the lock where an extension fails, so that others may have it before that is said.
#[test]
fn a_lock_lost_by_a_failed_extension_was_held_up_to_the_question() {
    let (record, counter) = (Record::default(), Arc::new(Counter::new(true)));
    let mut worker = heard(0, &record, &counter);
    for said in [Said::Ask {}, got(None, None), Said::Ask {}] {
        worker.take(said).unwrap();
    }
    let asked = now();
    worker.take(Said::Failed { why: None }).unwrap();
    worker.take(Said::Lost { why: None }).unwrap();
    assert!(record.lock().leases[0].end < asked);
}

#[test]
fn what_comes_out_of_turn_is_told() {
    let (record, counter) = (Record::default(), Arc::new(Counter::new(true)));
    for (said, why) in [
        (&[got(None, None)][..], "before its `ask`"),
        (&[Said::Ask {}, got(None, None), Said::Release {}, got(None, None)], "before its `ask`"),
        (&[Said::Read {}], "holds nothing"),
        (&[Said::Release {}], "holds nothing"),
        (&[Said::Lost { why: None }], "holds nothing"),
        (&[Said::Ask {}, got(None, None), Said::Write {}], "before any `read`"),
        (&[Said::Ask {}, got(None, None), Said::Release {}, Said::Write {}], "holds nothing"),
        (&[Said::Ask {}, got(None, None), got(Some(1), None)], "another token"),
        (&[Said::Ask {}, got(Some(1), None)], "with each `got`"),
        (&[Said::Ask {}, got(None, Some(-1.0))], "validity_ms"),
    ] {
        let mut worker = heard(0, &record, &counter);
        let mut told = said.iter().cloned().map(|said| worker.take(said));
        let last = told.by_ref().last().unwrap().unwrap_err();
        assert!(last.contains(why), "{last}");
    }
}
