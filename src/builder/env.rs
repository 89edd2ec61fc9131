//! The builder from text: settings by their names, and nodes and settings as variables of the environment.
//!
//! It names every variable that is wrong, and one that it does not know is wrong: a name that was mistyped must not leave
//! a default in force without a word. It must never show a URL.

use std::{env, ffi::OsString};

use super::Builder;
use crate::{
    config::{Config, ConfigError},
    error::ConnectError,
    redlock::Redlock,
    settings::{self, Settings, SettingsError, WrongVariable},
    suggest::nearest,
};

/// What all variables begin with.
const PREFIX: &str = "QUORLOCK_";
/// The list of nodes.
const NODES: &str = "QUORLOCK_NODES";
/// What `quorlock run` tells the command that it runs, which may use this crate itself.
const OF_A_LEASE: [&str; 5] = ["RESOURCE", "TOKEN", "OWNER", "SLOT", "TERM"];

impl Redlock {
    /// Connects to the nodes that the environment names, with the settings that it names:
    /// [`Builder::from_env`] without a change.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: as for [`Redlock::connect`], and [`ConfigError::Environment`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections. Nothing has been set on any node.
    pub async fn from_env() -> Result<Self, ConnectError> {
        Builder::from_env()?.connect().await
    }

    /// [`from_env`](Redlock::from_env), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`from_env`](Redlock::from_env), and [`ConnectError::WouldDeadlock`].
    pub fn blocking_from_env() -> Result<Self, ConnectError> {
        Builder::from_env()?.blocking_connect()
    }
}

impl Builder {
    /// Takes over what these settings name, and leaves the rest as it is: see [`Settings`] for their form. A setting is
    /// what it was set to last, whether by this or by a method of its own.
    pub fn settings(mut self, mut settings: Settings) -> Self {
        let label = settings.label.take();
        apply(&mut self.config, settings);
        match label {
            Some(label) => self.label(label),
            None => self,
        }
    }

    /// A builder with the nodes and settings of the environment.
    ///
    /// `QUORLOCK_NODES` has the URLs of the nodes, with commas or blanks between them (a comma in a password is `%2C`).
    /// `QUORLOCK_TTL=10s` and the like are the settings of [`Settings`], by their names in capitals. Every other
    /// variable that begins with `QUORLOCK_` is an error, and so is one that is empty; those that Kubernetes sets for a
    /// service of that name (`…_SERVICE_HOST`, `…_PORT_6379_TCP`) are passed over, and what the command `quorlock run` tells
    /// what it runs (`QUORLOCK_TOKEN`, `…_RESOURCE`, `…_OWNER`, `…_SLOT`, `…_TERM`).
    ///
    /// ```
    /// use quorlock::{Builder, ConfigError};
    ///
    /// // Where nothing is set.
    /// let error = Builder::from_env().unwrap_err();
    /// assert!(matches!(error, ConfigError::Environment { .. }));
    /// assert!(error.to_string().contains("QUORLOCK_NODES: it is not set"), "{error}");
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConfigError::Environment`], which names all variables that are wrong, and says what is wrong with each.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_variables(env::vars_os())
    }

    fn from_variables(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let mut read = Variables::read(variables);
        if read.nodes.is_none() {
            let reason = "it is not set, write the URLs of the nodes, as in \
                          `redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3`";
            read.wrong.push(WrongVariable::new(NODES, reason));
        }
        let nodes = read.nodes.take().unwrap_or_default();
        Ok(Self::default().nodes(nodes).settings(read.settings()?))
    }
}

impl Settings {
    /// The settings of the environment, without the nodes, which are given otherwise: as
    /// [`Builder::from_env`] reads them, but that `QUORLOCK_NODES` is passed over.
    ///
    /// # Errors
    ///
    /// As for [`Builder::from_env`].
    pub fn from_env() -> Result<Self, ConfigError> {
        let variables = env::vars_os().filter(|(name, _)| name != NODES);
        Variables::read(variables).settings()
    }
}

/// What the variables of the environment say.
struct Variables {
    /// `None` where no variable names them.
    nodes: Option<Vec<String>>,
    settings: Settings,
    wrong: Vec<WrongVariable>,
}

impl Variables {
    fn read(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut all = Self { nodes: None, settings: Settings::default(), wrong: Vec::new() };
        for (variable, value) in variables {
            let variable = variable.to_string_lossy().into_owned();
            let Some(name) = variable.strip_prefix(PREFIX) else { continue };
            if of_a_service(name) || OF_A_LEASE.contains(&name) {
                continue;
            }
            let is_nodes = variable == NODES;
            let nodes = is_nodes.then(|| all.nodes.get_or_insert_default());
            let read = match (value.to_str().map(str::trim), nodes) {
                (None, _) => Err("it is not UTF-8".to_owned()),
                (Some(""), _) => Err("it is empty, give it a value or unset it".to_owned()),
                (Some(urls), Some(nodes)) => read_nodes(urls, nodes),
                (Some(value), None) => read_setting(name, value, &mut all.settings),
            };
            all.wrong.extend(read.err().map(|reason| WrongVariable::new(variable, reason)));
        }
        all
    }

    fn settings(mut self) -> Result<Settings, ConfigError> {
        if self.wrong.is_empty() {
            return Ok(self.settings);
        }
        // The environment has no order.
        self.wrong.sort_by(|a, b| a.variable.cmp(&b.variable));
        Err(ConfigError::Environment { wrong: self.wrong.into() })
    }
}

fn apply(config: &mut Config, settings: Settings) {
    fn put<T>(knob: &mut T, value: Option<T>) {
        if let Some(value) = value {
            *knob = value;
        }
    }
    // Without `..`, so that none can be forgotten.
    let Settings {
        ttl,
        max_ttl,
        wait,
        min_validity,
        node_timeout,
        connect_timeout,
        close_timeout,
        counter_retention,
        max_hold,
        linger,
        lock_delay,
        key_prefix,
        fleet,
        // It can be wrong in itself, so that its own method takes it.
        label: _,
        require_all_nodes,
        wait_through_outages,
    } = settings;
    put(&mut config.ttl, ttl);
    put(&mut config.max_ttl, max_ttl);
    put(&mut config.wait, wait);
    put(&mut config.min_validity, min_validity);
    put(&mut config.node_timeout, node_timeout);
    put(&mut config.connect_timeout, connect_timeout);
    put(&mut config.close_timeout, close_timeout);
    put(&mut config.counter_retention, counter_retention);
    put(&mut config.linger, linger);
    put(&mut config.lock_delay, lock_delay);
    put(&mut config.key_prefix, key_prefix.map(String::into_bytes));
    put(&mut config.fleet, fleet);
    put(&mut config.require_all_nodes, require_all_nodes);
    put(&mut config.through_outages, wait_through_outages);
    config.renewal.max_hold = max_hold.or(config.renewal.max_hold);
}

/// What Kubernetes, and links of Docker, set for a service of this name.
fn of_a_service(name: &str) -> bool {
    let is = |what: &str| name == what || name.ends_with(&format!("_{what}"));
    let port = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_digit())
            && (part.contains("_TCP") || part.contains("_UDP") || part.contains("_SCTP"))
    };
    is("SERVICE_HOST")
        || is("SERVICE_PORT")
        || is("PORT")
        || name.contains("SERVICE_PORT_")
        || name.split("PORT_").skip(1).any(port)
}

fn read_nodes(urls: &str, nodes: &mut Vec<String>) -> Result<(), String> {
    let urls = urls.split(|c: char| c == ',' || c.is_whitespace());
    nodes.extend(urls.filter(|url| !url.is_empty()).map(str::to_owned));
    if nodes.is_empty() {
        return Err("it names no node, write the URLs with commas between them".to_owned());
    }
    check_urls(nodes)
}

/// Here it can be said by which variable a URL came.
#[cfg(feature = "redis")]
fn check_urls(urls: &[String]) -> Result<(), String> {
    let check = |(index, url): (usize, &String)| {
        let error = crate::node::redis::Address::check(url).err()?;
        Some(format!("node {index}: {error}"))
    };
    let wrong: Vec<String> = urls.iter().enumerate().filter_map(check).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

#[cfg(not(feature = "redis"))]
const fn check_urls(_: &[String]) -> Result<(), String> {
    Ok(())
}

fn read_setting(name: &str, value: &str, settings: &mut Settings) -> Result<(), String> {
    let unknown = || {
        let known =
            || settings::NAMES.iter().map(|name| name.to_uppercase()).chain(["NODES".to_owned()]);
        let (all, name) = (known().collect::<Vec<_>>(), name.to_uppercase());
        match nearest(&name, all.iter().map(String::as_str)) {
            Some(near) => format!("there is no such setting, did you mean `{PREFIX}{near}`?"),
            None => format!(
                "there is no such setting, there are `{PREFIX}{}`",
                all.join(&format!("`, `{PREFIX}"))
            ),
        }
    };
    // Only capitals: a system may tell `quorlock_ttl` from `QUORLOCK_TTL`, and have both.
    if name != name.to_uppercase() {
        return Err(unknown());
    }
    settings.set(&name.to_lowercase(), value).map_err(|error| match error {
        SettingsError::Unknown { .. } => unknown(),
        SettingsError::Value { expected, value, .. } => {
            format!("it is `{value}` and must be {expected}")
        }
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
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
        assert_eq!(
            (&*builder.config.fleet, &*builder.config.key_prefix),
            ("billing", &b"app:"[..])
        );
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
             QUORLOCK_FLEET: it is empty, give it a value or unset it; \
             QUORLOCK_NODES: it is not set, write the URLs of the nodes, as in \
             `redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3`; \
             QUORLOCK_TTL: it is `8` and must be a whole number and a unit (us, ms, s, m, h or d), as \
             in `10s`; \
             QUORLOCK_WIAT: there is no such setting, did you mean `QUORLOCK_WAIT`?; \
             QUORLOCK_wait: there is no such setting, did you mean `QUORLOCK_WAIT`?"
        );
        let unknown = told(&[(NODES, URLS), ("QUORLOCK_PASSWORD", "hunter2")]);
        assert!(
            unknown.contains(
                "QUORLOCK_PASSWORD: there is no such setting, there are `QUORLOCK_TTL`, "
            )
        );
        assert!(
            unknown.ends_with("`QUORLOCK_WAIT_THROUGH_OUTAGES`, `QUORLOCK_NODES`"),
            "{unknown}"
        );
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
             node 0: in `redis://app:***` the port must be a number from 1 to 65535, write \
             `redis://host:port`, with credentials `redis://user:password@host:port`; \
             node 1: in `***@10.0.0.1` the scheme is missing, write `redis://***@10.0.0.1`; \
             node 3: in `10.0.0.3:7401` the scheme is missing, write `redis://10.0.0.3:7401`"
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
        let name =
            prop_oneof![6 => setting, 4 => word.prop_map(str::to_owned), 1 => any::<String>()];
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

        /// Whatever a variable says is taken over, or named; and one that is right is not named.
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
                    // They are settings by the same names, and the text of both says the same.
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
}
