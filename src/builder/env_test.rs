//! Environments: what is read of one, and the report on each wrong variable.

use std::{collections::BTreeMap, time::Duration};

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

const URLS: &str = "redis://10.0.0.1,redis://10.0.0.2 redis://10.0.0.3\n";

fn read(variables: &[(&str, &str)]) -> Result<Builder, ConfigError> {
    Builder::from_variables(variables.iter().map(|(name, value)| (name.into(), value.into())))
}

#[track_caller]
fn told(variables: &[(&str, &str)]) -> String {
    read(variables).unwrap_err().to_string()
}

#[test]
fn nodes_and_settings_are_read() {
    let builder = read(&[
        ("PATH", "/bin"),
        (NODES, URLS),
        ("QUORLOCK_TTL", "8s"),
        ("QUORLOCK_MAX_HOLD", " 1h "),
        ("QUORLOCK_FLEET", "billing"),
        ("QUORLOCK_KEY_PREFIX", "app:"),
        ("QUORLOCK_LABEL", "pod-7"),
        ("QUORLOCK_REQUIRE_ALL_NODES", "true"),
        // Of the lease under which this process runs.
        ("QUORLOCK_TOKEN", "17"),
        ("QUORLOCK_SLOT", "0"),
        ("QUORLOCK_TERM", "17"),
        ("QUORLOCK_BIN", "/usr/local/bin/quorlock"),
        // Of a Service named `quorlock`, and of one named `quorlock-nodes`.
        ("QUORLOCK_SERVICE_HOST", "10.0.0.9"),
        ("QUORLOCK_PORT", "tcp://10.0.0.9:6379"),
        ("QUORLOCK_PORT_6379_TCP_ADDR", "10.0.0.9"),
        ("QUORLOCK_NODES_SERVICE_PORT_REDIS", "6379"),
        ("QUORLOCK_NODES_PORT_6379_TCP", "tcp://10.0.0.9:6379"),
    ]);
    let builder = builder.unwrap();
    assert_eq!(builder.nodes.len(), 3);
    assert_eq!(builder.config.ttl, Duration::from_secs(8));
    assert_eq!(builder.config.renewal.max_hold, Some(Duration::from_secs(3600)));
    assert_eq!((&*builder.config.fleet, &*builder.config.key_prefix), ("billing", &b"app:"[..]));
    assert!(builder.config.require_all_nodes && !builder.config.through_outages);
    assert!(matches!(builder.config.label, Ok(Some(_))));
    let default = Builder::default().config;
    assert_eq!(builder.config.wait, default.wait);
}

#[test]
fn every_variable_that_is_wrong_is_named() {
    assert_eq!(
        told(&[
            ("QUORLOCK_TTL", "8"),
            ("QUORLOCK_WIAT", "1s"),
            ("QUORLOCK_wait", "1s"),
            ("QUORLOCK_FLEET", ""),
        ]),
        "the environment cannot be used: \
         QUORLOCK_FLEET: it is empty; give it a value or unset it; \
         QUORLOCK_NODES: it is not set; write the URLs of the nodes, as in \
         `redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3`; \
         QUORLOCK_TTL: it is `8` and must be a whole number and a unit (us, ms, s, m, h or d), as \
         in `10s`; \
         QUORLOCK_WIAT: there is no such setting; did you mean `QUORLOCK_WAIT`?; \
         QUORLOCK_wait: there is no such setting; did you mean `QUORLOCK_WAIT`?"
    );
    let unknown = told(&[(NODES, URLS), ("QUORLOCK_PASSWORD", "hunter2")]);
    assert!(
        unknown
            .contains("QUORLOCK_PASSWORD: there is no such setting; settings are `QUORLOCK_TTL`, ")
    );
    assert!(unknown.ends_with("`QUORLOCK_WAIT_THROUGH_OUTAGES`, `QUORLOCK_NODES`"), "{unknown}");
    assert!(!unknown.contains("hunter2"), "{unknown}");
    assert!(told(&[(NODES, " , ")]).contains("QUORLOCK_NODES: it names no node"));
    let twins = told(&[(NODES, URLS), ("QUORLOCK_NODE", "redis://10.0.0.4")]);
    assert!(twins.ends_with("did you mean `QUORLOCK_NODES`?"), "{twins}");
}

#[cfg(feature = "redis")]
#[test]
fn urls_of_the_environment_are_judged_there_and_not_shown() {
    assert_eq!(
        told(&[(NODES, "redis://app:hun,ter2@10.0.0.1,redis://10.0.0.2,10.0.0.3:7401")]),
        "the environment cannot be used: QUORLOCK_NODES: \
         node 0: in `redis://app:***` the port must be a number from 1 to 65535; write \
         `redis://host:port`, with credentials `redis://user:password@host:port`; \
         node 1: in `***@10.0.0.1` the scheme is missing; write `redis://***@10.0.0.1`; \
         node 3: in `10.0.0.3:7401` the scheme is missing; write `redis://10.0.0.3:7401`"
    );
}

#[cfg(unix)]
#[test]
fn a_value_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStringExt;

    let value = OsString::from_vec(vec![0xff]);
    let variables = [(NODES.into(), URLS.into()), ("QUORLOCK_FLEET".into(), value)];
    let error = Builder::from_variables(variables).unwrap_err().to_string();
    assert!(error.ends_with("QUORLOCK_FLEET: it is not UTF-8"), "{error}");
}

/// A password, where a URL has one.
const SECRET: &str = "hunter2xyz";

fn name() -> impl Strategy<Value = String> {
    let setting = select(settings::NAMES).prop_map(str::to_uppercase);
    let word = select(vec![
        "NODES",
        "NODE",
        "PASSWORD",
        "TOKEN",
        "PORT",
        "PORT_1_TCP",
        "SERVICE_HOST",
        "ttl",
        "",
        "=",
        "é",
    ]);
    let name = prop_oneof![6 => setting, 4 => word.prop_map(str::to_owned), 1 => any::<String>()];
    let prefix = select(vec!["QUORLOCK_", "QUORLOCK_", "QUORLOCK_", "quorlock_", ""]);
    (prefix, name).prop_map(|(prefix, name)| [prefix, &name].concat())
}

fn value() -> impl Strategy<Value = OsString> {
    let word = select(vec![
        "0",
        "1",
        "10",
        "18446744073709551615",
        "18446744073709551616",
        "us",
        "ms",
        "s",
        "m",
        "h",
        "d",
        "-",
        "+",
        ".",
        "true",
        "false",
        "billing",
        "redis://",
        "rediss://",
        "redis://10.0.0.1",
        "10.0.0.2:6379",
        "/1",
        "user:hunter2xyz@",
        ",",
        " ",
        "\n",
        "\0",
        "%",
        "é",
        "\u{202e}",
    ]);
    let part = prop_oneof![8 => word.prop_map(str::to_owned), 1 => any::<String>()];
    let text = vec(part, 0..6).prop_map(|parts| OsString::from(parts.concat()));
    prop_oneof![8 => text, 1 => no_text()]
}

#[cfg(unix)]
fn no_text() -> impl Strategy<Value = OsString> {
    use std::os::unix::ffi::OsStringExt;

    vec(any::<u8>(), 0..8).prop_map(OsString::from_vec)
}

#[cfg(not(unix))]
fn no_text() -> impl Strategy<Value = OsString> {
    Just(OsString::new())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every variable is applied or named as wrong, and a valid one is not named.
    #[test]
    fn any_environment_is_a_builder_or_every_variable_that_is_wrong(
        variables in proptest::collection::btree_map(name(), value(), 0..6),
    ) {
        let all = |variables: &BTreeMap<String, OsString>| {
            Builder::from_variables(variables.iter().map(|(name, value)| (name.into(), value.clone())))
        };
        let alone = |name: &str, value: &OsString| {
            let nodes = (name != NODES).then(|| (NODES.into(), URLS.into()));
            Builder::from_variables(nodes.into_iter().chain([(name.into(), value.clone())]))
        };
        let mut wrong: Vec<&str> = variables
            .iter()
            .filter(|(name, value)| alone(name, value).is_err())
            .map(|(name, _)| name.as_str())
            .collect();
        if !variables.contains_key(NODES) {
            wrong.push(NODES);
        }
        wrong.sort_unstable();
        match all(&variables) {
            Ok(builder) => {
                prop_assert!(wrong.is_empty(), "{wrong:?} are wrong");
                prop_assert!(!builder.nodes.is_empty());
                // They are settings by the same names, and the same text gives the same configuration.
                let known = |name: &str| settings::NAMES.contains(&name);
                let text: Vec<String> = variables
                    .iter()
                    .filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?.to_lowercase(), value.to_str()?)))
                    .filter(|(name, _)| known(name))
                    .map(|(name, value)| format!("{name}={}", value.trim()))
                    .collect();
                let settings: Settings = text.join(" ").parse().unwrap();
                let other = Builder::default().settings(settings);
                prop_assert_eq!(format!("{:?}", builder.config), format!("{:?}", other.config));
                let _ = builder.config.validate();
            }
            Err(ConfigError::Environment { wrong: named }) => {
                let names: Vec<&str> = named.iter().map(|wrong| &*wrong.variable).collect();
                prop_assert_eq!(&names, &wrong);
                prop_assert!(named.iter().all(|wrong| !wrong.reason.is_empty()));
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn the_nodes_of_the_environment_are_named_without_their_passwords(urls in value()) {
        if let Err(error) = Builder::from_variables([(NODES.into(), urls.clone())]) {
            let said = error.to_string();
            prop_assert!(!said.contains(SECRET), "{urls:?}: {said}");
        }
    }
}
