//! Goal: whatever stands on a command line is read as it is meant, or refused in words, and nothing panics.
//!
//! Method: words that are drawn at random from those of command lines and from anything else, for the values that have a
//! form of their own, and for whole lines.

use clap::Parser as _;
use proptest::{collection::vec, prelude::*, sample::select};
use quorlock::Settings;

use super::*;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// A number and a unit, and what is nearly that.
fn time() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        4 => any::<u64>().prop_map(|number| number.to_string()),
        4 => (0..200_000_u64).prop_map(|number| number.to_string()),
        1 => "[0-9]{15,25}",
        1 => select(vec!["", "-1", "+1", "1.5", " 1", "٣", "4294967296"]).prop_map(str::to_owned),
    ];
    let unit = select(vec!["us", "ms", "s", "m", "h", "d", "", "S", "ns", "s ", " s", "ss"]);
    prop_oneof![
        8 => (number, unit).prop_map(|(number, unit)| [&number, unit].concat()),
        1 => any::<String>(),
    ]
}

fn word() -> impl Strategy<Value = String> {
    let known = select(vec![
        "run",
        "hold",
        "holder",
        "doctor",
        "list",
        "watch",
        "release",
        "bench",
        "chaos",
        "completions",
        "man",
        "hold-for-run",
        "become",
        "job",
        "--",
        "true",
        "--help",
        "--nodes",
        "redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3",
        "--set",
        "max_ttl=30s",
        "--wait",
        "--ttl",
        "--grace",
        "--hold-at-least",
        "--lock-delay",
        "--semaphore",
        "--busy-status",
        "--servers",
        "--rate",
        "--seconds",
        "--workers",
        "--over",
        "--every",
        "--json",
        "--elect",
        "--caller",
        "--also",
        "-w",
        "-E",
        "-n",
        "3",
        "256",
        "max",
        "bash",
        "",
        "=",
        "--=",
        "-",
    ]);
    prop_oneof![8 => known.prop_map(str::to_owned), 2 => time(), 1 => any::<String>()]
}

proptest! {
    #![proptest_config(config(2_000))]

    /// One form for both: what is an argument today may be a setting tomorrow.
    #[test]
    fn a_time_is_one_of_the_settings_or_is_refused(text in time()) {
        let setting = if text.contains(char::is_whitespace) {
            None
        } else {
            format!("wait={text}").parse::<Settings>().ok()
        };
        match (duration(&text), setting) {
            (Ok(time), Some(setting)) => {
                let same = format!("wait={}us", time.as_micros());
                prop_assert_eq!(same.parse::<Settings>().unwrap(), setting);
            }
            (Err(said), None) => prop_assert!(!said.is_empty()),
            (read, setting) => prop_assert!(false, "{text:?} is {read:?}, and as a setting {setting:?}"),
        }
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn any_line_is_read_or_refused_in_words(words in vec(word(), 0..10)) {
        let line = std::iter::once("quorlock".to_owned()).chain(words);
        if let Err(error) = Line::try_parse_from(line) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

/// What `--set` and the environment say.
fn wait(set: &[&str], environment: Option<&str>) -> Option<Duration> {
    let nodes = Nodes {
        nodes: Vec::new(),
        set: set.iter().map(|&setting| setting.to_owned()).collect(),
        classic: false,
        danger_skip_quarantine: false,
    };
    nodes.wait_beside(environment)
}

#[test]
fn a_wait_is_that_of_the_line_and_otherwise_that_of_the_environment() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(wait(&[], None), None);
    assert_eq!(wait(&[], Some("2s")), seconds(2));
    assert_eq!(wait(&["ttl=1s wait=3s"], Some("2s")), seconds(3));
    assert_eq!(wait(&[], Some(" 2s\n")), seconds(2), "the environment is read without blanks");
    // The error comes where the handle is made, and names the setting.
    assert_eq!(wait(&[], Some("soon")), None);
}
