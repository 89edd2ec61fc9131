//! Goal: `--worker` finds what a lock of somebody's loses, and nothing where it loses nothing; a worker that says what it must not ends
//! the run in words.
//!
//! Method: workers in a few lines of shell. `flock` is the lock that is right, as on the page: a worker that is killed gives it up, and
//! one that is stopped keeps it. Beside it stand one that takes no lock at all, with and without tokens, and our own by the same lines.

use std::fs;

use tempfile::TempDir;

use super::{Ended, chaos_with, ends::Run};

/// What each worker begins with: it says a line and reads the answer, and ends where there is none.
const SAY: &str = r#"say() { echo "{\"event\":\"$1\"$2}"; read -r answer || exit 0; }"#;

const NONE: &str = "
while say ask; do
    say got
    for _ in 1 2 3; do say read; say write; done
    say release
done";

/// Tokens that rise, of a lock that keeps nobody out.
const TOKENS: &str = r#"
while say ask; do
    exec 9>>"$1"
    flock 9
    token=$(($(cat "$1") + 1))
    echo $token >"$1"
    exec 9>&-
    say got ",\"token\":$token"
    for _ in 1 2 3; do
        say read && [ "$answer" = ok ] && say write && [ "$answer" = ok ] || break
    done
    say release
done"#;

/// The same of one that keeps others out, and says now and then that it holds on, with the token that it has.
const RENEWS: &str = r#"
while say ask; do
    exec 9>>"$1"
    flock -n 9 || { say failed; sleep 0.03; continue; }
    token=$(($(cat "$1") + 1))
    echo $token >"$1"
    say got ",\"token\":$token"
    for _ in 1 2 3 4 5 6; do
        say read && [ "$answer" = ok ] && say write && [ "$answer" = ok ] || break
        say ask && say got ",\"token\":$token"
    done
    say release
    exec 9>&-
done"#;

/// A directory with the script, which is given a file beside it, and the command that runs it.
fn script(lines: &str) -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let (script, lock) = (dir.path().join("worker.sh"), dir.path().join("lock"));
    fs::write(&script, format!("{SAY}\n{lines}\n")).unwrap();
    fs::write(&lock, "").unwrap();
    let command = format!("sh '{}' '{}'", script.display(), lock.display());
    (dir, command)
}

/// The worker of the page.
fn right() -> (TempDir, String) {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let (_, worker) = page.split_once("```sh\n").unwrap();
    let (worker, _) = worker.split_once("```").unwrap();
    assert!(worker.contains("/tmp/lock") && worker.starts_with("say()"), "{worker}");
    script(&worker.replace("/tmp/lock", "\"$1\""))
}

fn with(command: &str, args: &str) -> Ended {
    let fixed = format!("--nodes 3 --workers 3 --ttl 1s --seed 1 {args}");
    chaos_with(fixed.split_whitespace().chain(["--worker", command]))
}

#[test]
fn a_lock_that_is_right_loses_nothing() {
    let (_dir, command) = right();
    let ended = with(&command, "--seconds 10");
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.count("writes") > 20 && ended.count("faults") > 1, "{}", ended.found);
    assert_eq!(["overlaps", "lost_updates"].map(|name| ended.count(name)), [0; 2]);
    let fields = ["clean", "worker", "fenced"].map(|name| ended.found[name].as_bool().unwrap());
    assert_eq!(fields, [true, true, false]);
    // Nothing is said of tokens that there are not.
    assert!(ended.picture.contains("have no tokens") && !ended.picture.contains("refused by"));
    ended.liveness(3, 3);
}

#[test]
fn without_a_lock_two_hold_it_and_updates_are_lost() {
    let (_dir, command) = script(NONE);
    let ended = with(&command, "--seconds 5");
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(ended.count("overlaps") > 0 && ended.count("lost_updates") > 0, "{}", ended.found);
    let verdict = ended.found["verdict"].as_str().unwrap();
    let lost = format!("{} of {} updates lost", ended.count("lost_updates"), ended.count("writes"));
    assert!(verdict.contains(&lost) && verdict.contains("at once"), "{verdict}");
    let [_, _, wrong] = ended.liveness(3, 3);
    assert_eq!(wrong, 3 * usize::try_from(ended.count("overlaps")).unwrap());
}

/// What a store that compares is worth: nothing is lost, whoever holds the lock.
#[test]
fn with_tokens_two_hold_it_and_nothing_is_lost_unless_nobody_compares() {
    let (_dir, command) = script(TOKENS);
    let ended = with(&command, "--seconds 5");
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(ended.count("overlaps") > 0 && ended.count("holders_refused") > 0, "{}", ended.found);
    assert_eq!(
        ["lost_updates", "stale_writes_taken", "falls_at_the_store", "wrong_tokens"]
            .map(|name| ended.count(name)),
        [0; 4]
    );
    assert_eq!(ended.found["fenced"], true);
    let ended = with(&command, "--seconds 5 --no-fence");
    assert!(ended.count("lost_updates") > 0 && ended.count("falls_at_the_store") > 0);
    assert_eq!((ended.code, &ended.found["fenced"]), (1, &false.into()));
}

/// Where it was stopped past its ttl, it holds on with the same token.
#[test]
fn a_lock_that_says_that_it_holds_on_is_not_blamed_for_its_token() {
    let (_dir, command) = script(RENEWS);
    let ended = with(&command, "--seconds 12");
    assert_eq!((ended.code, ended.count("wrong_tokens")), (0, 0), "{} {}", ended.err, ended.found);
    assert!(ended.count("faults") > 0, "{}", ended.found);
}

/// By the same lines, measured in the same way.
#[test]
fn ours_loses_nothing_as_anybodys() {
    let command = format!("'{}' chaos-worker --own", env!("CARGO_BIN_EXE_quorlock"));
    let ended = with(&command, "--seconds 10");
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.count("writes") > 20 && ended.count("faults") > 1, "{}", ended.found);
    assert_eq!(ended.found["fenced"], true);
}

#[test]
fn a_worker_that_says_what_it_must_not_is_told_with_its_number() {
    let ask = r#"echo '{"event":"ask"}'; read -r ok"#;
    for (command, whys) in [
        ("echo 'Traceback: no module'; sleep 1000", &["Traceback: no module", "no event"][..]),
        (r#"echo '{"event":"grabbed"}'; sleep 1000"#, &["grabbed"]),
        ("exit 3", &["ended by itself", "exit status: 3"]),
        ("no-such-worker-of-anybody", &["ended by itself", "exit status: 127"]),
        (r#"yes '{"event":"failed"}'"#, &["before it was answered"]),
        (r"yes | tr -d '\n'", &["longer than 4096 bytes"]),
        (
            &format!(r#"{ask}; echo '{{"event":"write"}}'; sleep 1000"#),
            &["`write`", "holds nothing"],
        ),
        (
            &format!(r#"{ask}; echo '{{"event":"got","validity_ms":-1}}'; sleep 1000"#),
            &["validity_ms"],
        ),
    ] {
        let ended = with(command, "--seconds 600");
        assert_eq!(ended.code, 64, "{command}: {}", ended.err);
        let has = |why: &&str| ended.err.contains(why);
        assert!(whys.iter().all(has) && ended.err.contains("worker "), "{command}: {}", ended.err);
        assert!(ended.err.contains("no verdict") && !ended.err.contains("panicked"));
        assert!(ended.picture.is_empty() && ended.found.is_null(), "{command}");
    }
}

#[test]
fn silent_workers_are_told() {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let ended = with("sleep 1000", "--seconds 600");
            assert_eq!(ended.code, 64, "{}", ended.err);
            assert!(ended.err.contains("no worker was granted a lease"), "{}", ended.err);
        });
        scope.spawn(|| {
            let ended = with(r#"echo '{"event":"ask"}'; read ok; echo '{"event":"failed","why":"no route"}'; sleep 1000"#, "--seconds 600");
            assert_eq!(ended.code, 64, "{}", ended.err);
            assert!(ended.err.contains("no route"), "{}", ended.err);
        });
        scope.spawn(|| {
            let (_dir, command) = right();
            let some = format!("[ $CHAOS_WORKER = 2 ] && sleep 1000; {command}");
            let ended = with(&some, "--seconds 1");
            assert_eq!(ended.code, 64, "{}", ended.err);
            assert!(ended.err.contains("worker 2: it has not ended"), "{}", ended.err);
        });
    });
}

#[test]
fn what_a_worker_has_started_ends_with_the_run() {
    let (_dir, command) = right();
    // The shell waits for another process, which is the one that speaks.
    let run = Run::start_with(&["--worker", &format!("{command}; true")], "worker.sh");
    run.kill();
    run.nothing_is_left();
}

#[test]
fn a_worker_of_yours_is_no_plain_redlock_of_ours() {
    let ended = with("true", "--classic");
    assert_eq!(ended.code, 64, "{}", ended.err);
    assert!(ended.err.contains("--classic"), "{}", ended.err);
}
