//! What is wrong with settings that are given as text.
//!
//! A value is shown only where its name is known: behind an unknown name there may be a password.

use std::{fmt, sync::Arc};

use thiserror::Error;

use super::NAMES;
use crate::suggest::nearest;

/// Why a text cannot be read as [`Settings`](crate::Settings).
#[derive(Clone, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum SettingsError {
    /// There is no setting of this name.
    #[error("there is no setting `{name}`; {hint}")]
    Unknown {
        /// The name, or `***` where it cannot be one.
        name: Arc<str>,
        /// The name that may have been meant, or all names.
        hint: Arc<str>,
    },
    /// A word has no value: write `name=value`, without blanks.
    #[error("`{word}` has no value; write `name=value`, as in `ttl=10s`, without blanks")]
    NoValue {
        /// The word, or `***` where it cannot be a name.
        word: Arc<str>,
    },
    /// A value cannot be read.
    #[error("`{name}` is `{value}` and must be {expected}")]
    Value {
        /// The setting.
        name: Arc<str>,
        /// What it must be.
        expected: &'static str,
        /// What was given, with special characters escaped.
        value: Arc<str>,
    },
    /// A setting is named twice.
    #[error("`{name}` is given twice; remove one")]
    Twice {
        /// The setting.
        name: Arc<str>,
    },
}

debug_is_text! { enum SettingsError {
    Unknown { name, hint },
    NoValue { word },
    Value { name, expected, value },
    Twice { name },
} }

impl SettingsError {
    pub(super) fn unknown(name: &str) -> Self {
        let hint = match nearest(name, NAMES.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("settings are `{}`", NAMES.join("`, `")),
        };
        Self::Unknown { name: shown(name), hint: Arc::from(hint) }
    }

    pub(super) fn no_value(word: &str) -> Self {
        Self::NoValue { word: shown(word) }
    }

    pub(super) fn value(name: &str, expected: &'static str, value: &str) -> Self {
        Self::Value {
            name: Arc::from(name),
            expected,
            value: Arc::from(value.escape_debug().to_string()),
        }
    }
}

/// The word where it may be a name; `***` otherwise, since it may be a secret.
fn shown(name: &str) -> Arc<str> {
    let word = |c: char| c.is_ascii_lowercase() || c == '_';
    Arc::from(if name.len() <= 24 && name.chars().all(word) { name } else { "***" })
}

/// A variable of the environment that cannot be used.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct WrongVariable {
    /// Its name.
    pub variable: Arc<str>,
    /// What is wrong, and what to write.
    pub reason: Arc<str>,
}

impl WrongVariable {
    pub(crate) fn new(variable: impl Into<Arc<str>>, reason: impl fmt::Display) -> Self {
        Self { variable: variable.into(), reason: Arc::from(reason.to_string()) }
    }
}

impl fmt::Display for WrongVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.variable, self.reason)
    }
}
