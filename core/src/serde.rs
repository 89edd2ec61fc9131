//! Values that users store, for `serde`: the fencing token as a number, the owner, a detached lease and the reason of a
//! loss as text.
//!
//! It decides how they are written. It reads only what this crate would have written: a number that is no token is an
//! error, and never cut.

use core::{fmt, marker::PhantomData, str::FromStr};

use serde_core::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};

use crate::{DetachedLease, FencingToken, LossReason, Owner};

impl Serialize for FencingToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

impl<'de> Deserialize<'de> for FencingToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer)?.try_into().map_err(Error::custom)
    }
}

impl Serialize for Owner {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Owner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expects = "the owner of a lease, in hexadecimal digits";
        deserializer.deserialize_str(Text { expects, value: PhantomData })
    }
}

impl Serialize for DetachedLease {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DetachedLease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expects = "the text of a detached lease";
        deserializer.deserialize_str(Text { expects, value: PhantomData })
    }
}

/// The text of a value, borrowed or not.
struct Text<T> {
    expects: &'static str,
    value: PhantomData<T>,
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expects)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Its name in `snake_case`. It is for logs and reports, and so is written and not read.
impl Serialize for LossReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
