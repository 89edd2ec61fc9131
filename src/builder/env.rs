//! The builder from text: settings by their names, and nodes and settings as variables of the environment.
//!
//! It names every wrong variable. An unknown variable is wrong: a mistyped name must not leave a default in force
//! without a word. It must never show the password of a URL.

use std::{env, ffi::OsString};

use super::Builder;
use crate::{
    config::{Config, ConfigError},
    error::ConnectError,
    node::NodeSpec,
    redlock::Redlock,
    settings::{self, Settings, SettingsError, WrongVariable},
    suggest::nearest,
};

/// The prefix of all variables.
const PREFIX: &str = "QUORLOCK_";
/// The list of nodes.
const NODES: &str = "QUORLOCK_NODES";
/// The list before a change.
const BEFORE: &str = "QUORLOCK_NODES_BEFORE";
/// Set by `quorlock run` for its command, which may use this crate itself; and the program that `clients/` start.
const OTHERS: [&str; 6] = ["RESOURCE", "TOKEN", "OWNER", "SLOT", "TERM", "BIN"];

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
    /// Applies the settings that are given, and leaves the rest as it is: see [`Settings`] for their form. The last
    /// call wins, whether this or a setting's own method.
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
    /// `QUORLOCK_NODES` has the URLs of the nodes, with commas or blanks between them (a comma in a password is `%2C`), and
    /// `QUORLOCK_NODES_BEFORE` those of [`nodes_before`](Builder::nodes_before).
    /// `QUORLOCK_TTL=10s` and the like are the settings of [`Settings`], by their names in capitals. Every other
    /// variable that begins with `QUORLOCK_` is an error, and so is an empty one. Ignored are the variables
    /// that Kubernetes sets for a service whose name begins with `quorlock` (`…_SERVICE_HOST`, `…_PORT_6379_TCP`),
    /// those that `quorlock run` sets for its command (`QUORLOCK_TOKEN`, `…_RESOURCE`, `…_OWNER`, `…_SLOT`, `…_TERM`), and
    /// `QUORLOCK_BIN`, by which clients in other languages find that program.
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
    /// [`ConfigError::Environment`], which names every wrong variable, and says what is wrong with it.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_variables(env::vars_os())
    }

    fn from_variables(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let mut read = Variables::read(variables);
        if read.nodes.is_none() {
            let reason = "it is not set; write the URLs of the nodes, as in \
                          `redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3`";
            read.wrong.push(WrongVariable::new(NODES, reason));
        }
        let nodes = read.nodes.take().unwrap_or_default();
        let before = read.before.take().unwrap_or_default();
        Ok(Self::default().nodes(nodes).nodes_before(before).settings(read.settings()?))
    }
}

impl Settings {
    /// The settings of the environment, as [`Builder::from_env`] reads them. `QUORLOCK_NODES` and `QUORLOCK_NODES_BEFORE` are
    /// ignored: the nodes are given otherwise.
    ///
    /// # Errors
    ///
    /// As for [`Builder::from_env`].
    pub fn from_env() -> Result<Self, ConfigError> {
        let variables = env::vars_os().filter(|(name, _)| name != NODES && name != BEFORE);
        Variables::read(variables).settings()
    }
}

/// What the variables of the environment say.
struct Variables {
    /// `None` where no variable names them.
    nodes: Option<Vec<String>>,
    before: Option<Vec<String>>,
    settings: Settings,
    wrong: Vec<WrongVariable>,
}

impl Variables {
    fn read(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut all =
            Self { nodes: None, before: None, settings: Settings::default(), wrong: Vec::new() };
        for (variable, value) in variables {
            let variable = variable.to_string_lossy().into_owned();
            let Some(name) = variable.strip_prefix(PREFIX) else { continue };
            if of_a_service(name) || OTHERS.contains(&name) {
                continue;
            }
            let nodes = match &*variable {
                NODES => Some(all.nodes.get_or_insert_default()),
                BEFORE => Some(all.before.get_or_insert_default()),
                _ => None,
            };
            let read = match (value.to_str().map(str::trim), nodes) {
                (None, _) => Err("it is not UTF-8".to_owned()),
                (Some(""), _) => Err("it is empty; give it a value or unset it".to_owned()),
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
        // A label may be invalid, so its own method takes it.
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

/// Whether Kubernetes, or a link of Docker, sets this variable for a service.
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
    nodes.extend(NodeSpec::urls(urls).map(str::to_owned));
    if nodes.is_empty() {
        return Err("it names no node; write the URLs with commas between them".to_owned());
    }
    check_urls(nodes)
}

/// Checked here, where the error can name the variable.
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
            Some(near) => format!("there is no such setting; did you mean `{PREFIX}{near}`?"),
            None => format!(
                "there is no such setting; settings are `{PREFIX}{}`",
                all.join(&format!("`, `{PREFIX}"))
            ),
        }
    };
    // Only capitals: a system may distinguish `quorlock_ttl` from `QUORLOCK_TTL`, and have both.
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
#[path = "env_test.rs"]
mod tests;
