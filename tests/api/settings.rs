//! Settings as text and from the environment.

use std::process::Command;

use proptest::prelude::*;
use quorlock::{Builder, Redlock, Settings, SettingsError, node::MemoryNode};

const DURATIONS: [&str; 11] = [
    "ttl",
    "max_ttl",
    "wait",
    "min_validity",
    "node_timeout",
    "connect_timeout",
    "close_timeout",
    "counter_retention",
    "max_hold",
    "linger",
    "lock_delay",
];
const TEXTS: [&str; 3] = ["key_prefix", "fleet", "label"];
const FLAGS: [&str; 2] = ["require_all_nodes", "wait_through_outages"];

#[track_caller]
fn told(text: &str) -> String {
    text.parse::<Settings>().unwrap_err().to_string()
}

#[test]
fn wrong_settings_say_what_is_wrong_and_what_to_write() {
    assert_eq!(told("tll=10s"), "there is no setting `tll`; did you mean `ttl`?");
    assert_eq!(
        told("password=hunter2"),
        "there is no setting `password`; settings are `ttl`, `max_ttl`, `wait`, `min_validity`, \
         `node_timeout`, `connect_timeout`, `close_timeout`, `counter_retention`, `max_hold`, \
         `linger`, `lock_delay`, `key_prefix`, `fleet`, `label`, `require_all_nodes`, `wait_through_outages`"
    );
    let duration = "and must be a whole number and a unit (us, ms, s, m, h or d), as in `10s`";
    assert_eq!(told("wait=1s ttl=10"), format!("`ttl` is `10` {duration}"));
    assert_eq!(told("ttl=1.5s"), format!("`ttl` is `1.5s` {duration}"));
    assert_eq!(
        told("require_all_nodes=yes"),
        "`require_all_nodes` is `yes` and must be `true` or `false`"
    );
    assert_eq!(told("fleet="), "`fleet` is `` and must be text without blanks");
    assert_eq!(told("ttl=1s ttl=1s"), "`ttl` is given twice; remove one");
    assert_eq!(
        told("ttl = 10s"),
        "`ttl` has no value; write `name=value`, as in `ttl=10s`, without blanks"
    );
    assert_eq!(
        told("redis://app:hunter2@10.0.0.1"),
        "`***` has no value; write `name=value`, as in `ttl=10s`, without blanks"
    );
}

#[test]
fn settings_are_applied_and_checked_with_all_others() {
    let settings: Settings = "ttl=1s\n\tmax_ttl=2s max_hold=1h".parse().unwrap();
    let builder = Redlock::builder().node(MemoryNode::new());
    let debug = format!("{:?}", builder.clone().settings(settings.clone()));
    for text in ["ttl: 1s", "max_ttl: 2s", "max_hold: Some(3600s)", "node_timeout: 100ms"] {
        assert!(debug.contains(text), "{text}: {debug}");
    }
    // The last word counts, and what is not named stays.
    let later = builder.clone().settings(settings).settings("ttl=500ms".parse().unwrap());
    let debug = format!("{later:?}");
    assert!(debug.contains("ttl: 500ms") && debug.contains("max_ttl: 2s"), "{debug}");
    let beyond = builder.settings("node_timeout=1h".parse().unwrap()).build().unwrap_err();
    let text = beyond.to_string();
    assert!(text.contains("node_timeout") && text.contains("3600s"), "{text}");
}

/// The environment of a process cannot be changed safely, so that it is that of another process: this very program.
#[test]
fn the_environment_is_read() {
    const CHILD: &str = "CHILD_OF_THE_ENVIRONMENT_TEST";
    if std::env::var_os(CHILD).is_some() {
        println!("{:?}", Builder::from_env().map_err(|error| error.to_string()));
        return;
    }
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "settings::the_environment_is_read", "--nocapture"]);
        let foreign = std::env::vars_os().map(|(name, _)| name);
        for name in foreign.filter(|name| name.to_string_lossy().starts_with("QUORLOCK_")) {
            command.env_remove(name);
        }
        let output = command.env(CHILD, "1").envs(variables.iter().copied()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let nodes =
        ("QUORLOCK_NODES", "redis://app:hunter2@10.0.0.1 redis://10.0.0.2,redis://10.0.0.3");
    let read = run(&[nodes, ("QUORLOCK_TTL", "8s")]);
    assert!(read.contains("Ok(Builder") && read.contains("ttl: 8s"), "{read}");
    assert_eq!(read.matches("Url(..)").count(), 3, "{read}");
    let wrong = run(&[nodes, ("QUORLOCK_TTLL", "8s")]);
    let expected = "the environment cannot be used: QUORLOCK_TTLL: there is no such setting; did you mean `QUORLOCK_TTL`?";
    assert!(wrong.contains(expected), "{wrong}");
    assert!(run(&[]).contains("QUORLOCK_NODES: it is not set"));
    assert!(!format!("{read}{wrong}").contains("hunter2"));
}

/// Settings as they may be written: each name at most once, in any order, with any blanks.
fn written() -> impl Strategy<Value = Vec<String>> {
    let duration = |name: &'static str| {
        let unit = proptest::sample::select(vec!["us", "ms", "s", "m", "h", "d"]);
        (0..200_000_000_u64, unit).prop_map(move |(number, unit)| format!("{name}={number}{unit}"))
    };
    let text =
        |name: &'static str| "[^\\s\\pC]{1,20}".prop_map(move |value| format!("{name}={value}"));
    let mut each: Vec<BoxedStrategy<String>> =
        DURATIONS.map(|name| duration(name).boxed()).to_vec();
    each.extend(TEXTS.map(|name| text(name).boxed()));
    each.extend(FLAGS.map(|name| any::<bool>().prop_map(move |on| format!("{name}={on}")).boxed()));
    each.prop_flat_map(|all| {
        let count = all.len();
        proptest::sample::subsequence(all, 0..=count).prop_shuffle()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn settings_are_read_as_they_were_written(settings in written(), blank in "[ \\t\\n]{1,3}") {
        let read: Settings = settings.join(&blank).parse().unwrap();
        let text = read.to_string();
        prop_assert_eq!(text.split_whitespace().count(), settings.len());
        prop_assert_eq!(&text.parse::<Settings>().unwrap(), &read);
        prop_assert_eq!(text.parse::<Settings>().unwrap().to_string(), text);
    }

    #[test]
    fn garbage_is_an_error_and_shows_nothing_of_what_it_does_not_know(
        name in "\\PC{0,12}|[a-z_]{0,12}|ttl|fleet|label|require_all_nodes",
        value in "[ZY=]{4,12}",
    ) {
        let text = format!("{name}={value}");
        match text.parse::<Settings>() {
            Ok(settings) => {
                prop_assert!(TEXTS.contains(&name.trim()), "{}", text);
                prop_assert_eq!(&settings.to_string().parse::<Settings>().unwrap(), &settings);
            }
            Err(SettingsError::Value { name, .. }) => prop_assert!(DURATIONS.contains(&&*name) || FLAGS.contains(&&*name)),
            Err(error) => {
                let shown = format!("{error} {error:?}");
                prop_assert!(!shown.contains(&value), "{}: {}", text, shown);
                let is_word = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                prop_assert!(is_word || !shown.contains(&format!("`{name}`")), "{}: {}", text, shown);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*|([a-z_]{1,18}=?[0-9a-z.]{0,24} ?){0,6}") {
        if let Ok(settings) = text.parse::<Settings>() {
            prop_assert_eq!(&settings.to_string().parse::<Settings>().unwrap(), &settings);
        }
    }
}
