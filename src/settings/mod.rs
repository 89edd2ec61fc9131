//! Settings as text: their names, the form of a value, and the error for a wrong one.
//!
//! It decides what can be read; the configuration checks the ranges. It must never ignore an unknown word.

mod error;
mod value;

use std::{fmt, str::FromStr, time::Duration};

pub use self::error::{SettingsError, WrongVariable};
use self::value::Value;

/// The settings, by the names of the methods of [`Builder`](crate::Builder) that document them.
macro_rules! settings {
    ($($name:ident: $kind:ty,)*) => {
        /// Settings as text, for a configuration file or a command line: `ttl=10s wait=15s fleet=billing`.
        ///
        /// Names are those of the methods of [`Builder`](crate::Builder), which document each setting: `ttl`,
        /// `max_ttl`, `wait`, `min_validity`, `node_timeout`, `connect_timeout`, `close_timeout`, `counter_retention`,
        /// `max_hold`, `linger`, `lock_delay`, `key_prefix`, `fleet`, `label`, `require_all_nodes` and
        /// `wait_through_outages`. Blanks separate settings, and none stand around the `=`. A duration is a whole
        /// number and a unit of `us`, `ms`, `s`, `m`, `h` and `d`; the last two settings are `true` or `false`. A
        /// setting that is not named stays as it is. Settings that give up safety, `classic` and the `danger_` methods,
        /// have no name here: they belong in the code, where a reviewer sees them.
        ///
        /// [`Builder::settings`](crate::Builder::settings) applies it, and
        /// [`Builder::from_env`](crate::Builder::from_env) reads the same from the environment. Its `Display` is text
        /// that reads as the same settings.
        ///
        /// ```
        /// use quorlock::{Redlock, Settings, node::MemoryNode};
        ///
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// let settings: Settings = "ttl=8s wait=1m fleet=billing".parse()?;
        /// assert_eq!(settings.to_string(), "ttl=8s wait=1m fleet=billing");
        /// let redlock = Redlock::builder().node(MemoryNode::new()).settings(settings).build()?;
        ///
        /// let error = "ttl=8".parse::<Settings>().unwrap_err();
        /// assert_eq!(
        ///     error.to_string(),
        ///     "`ttl` is `8` and must be a whole number and a unit (us, ms, s, m, h or d), as in `10s`"
        /// );
        /// # drop(redlock);
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Clone, Debug, Default, Eq, PartialEq)]
        pub struct Settings {
            $(pub(crate) $name: Option<$kind>,)*
        }

        /// All names, in the order in which they are written.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

        impl Settings {
            /// Reads one value.
            pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), SettingsError> {
                match name {
                    $(stringify!($name) => read(&mut self.$name, name, value),)*
                    _ => Err(SettingsError::unknown(name)),
                }
            }

            /// Names and texts of the settings that are given.
            fn shown(&self) -> impl Iterator<Item = (&'static str, String)> {
                let all = [$((stringify!($name), self.$name.as_ref().map(Value::write))),*];
                all.into_iter().filter_map(|(name, value)| Some((name, value?)))
            }
        }
    };
}

settings! {
    ttl: Duration,
    max_ttl: Duration,
    wait: Duration,
    min_validity: Duration,
    node_timeout: Duration,
    connect_timeout: Duration,
    close_timeout: Duration,
    counter_retention: Duration,
    max_hold: Duration,
    linger: Duration,
    lock_delay: Duration,
    key_prefix: String,
    fleet: String,
    label: String,
    require_all_nodes: bool,
    wait_through_outages: bool,
}

fn read<T: Value>(setting: &mut Option<T>, name: &str, text: &str) -> Result<(), SettingsError> {
    let value = T::read(text).ok_or_else(|| SettingsError::value(name, T::EXPECTED, text))?;
    if setting.replace(value).is_some() {
        return Err(SettingsError::Twice { name: name.into() });
    }
    Ok(())
}

impl FromStr for Settings {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut settings = Self::default();
        for setting in text.split_whitespace() {
            let Some((name, value)) = setting.split_once('=') else {
                return Err(SettingsError::no_value(setting));
            };
            settings.set(name, value)?;
        }
        Ok(settings)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.shown().enumerate() {
            let blank = if index == 0 { "" } else { " " };
            write!(f, "{blank}{name}={value}")?;
        }
        Ok(())
    }
}
