//! Values that users store, for `serde`: the fencing token as a number, the owner and the reason of a loss as text.
//!
//! It decides how they are written. It reads only what this crate would have written: a number that is no token is an
//! error, and never cut.

use core::fmt;

use serde_core::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};

use crate::{FencingToken, LossReason, Owner};

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
        deserializer.deserialize_str(Text)
    }
}

/// The text of an owner, borrowed or not.
struct Text;

impl Visitor<'_> for Text {
    type Value = Owner;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the owner of a lease, in hexadecimal digits")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Owner, E> {
        text.parse().map_err(E::custom)
    }
}

/// Its name in `snake_case`. It is for logs and reports, and so is written and not read.
impl Serialize for LossReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
