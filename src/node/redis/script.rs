//! The scripts: their sources, their digests, and one call of one of them.
//!
//! It decides which keys a script touches. The sources are files, reviewed as code.

use std::{io::Write, ops::Deref, sync::LazyLock};

use redis::{Cmd, RedisWrite, ToRedisArgs};

use super::{liveness::Room, texts};
use crate::protocol::{ClientId, Owner, Resource};

/// The node's own keys: its marker, the counters of this generation, and those of the one before. Names that begin
/// like them are refused as resources.
pub(super) const OWN: [&[u8]; 3] = [b"quorlock:node", b"quorlock:counters", b"quorlock:older"];

/// The key that declares a server a throwaway, whose quarantine may be skipped. Nothing here sets it.
pub(super) const THROWAWAY: &[u8] = b"quorlock:throwaway";

/// The prefix of the key of a resource's line.
pub(super) const LINE: &[u8] = b"quorlock:line:";

/// The prefix of the key of a resource's readers.
pub(super) const READERS: &[u8] = b"quorlock:readers:";

/// The prefix of the key of what is done of a resource.
pub(super) const DONE: &[u8] = b"quorlock:done:";

/// The prefix of the channel on which a client is told of lines.
pub(super) const WAKE: &str = "quorlock:wake:";

/// A script, with its digest.
#[derive(Debug)]
pub(super) struct Source {
    text: &'static str,
    sha1: String,
    /// Whether the keys of the readers follow those of the resources.
    reads: bool,
}

impl Source {
    pub(super) const fn text(&self) -> &'static str {
        self.text
    }

    fn new(text: &'static str, reads: bool) -> Self {
        Self { text, sha1: redis::Script::new(text).get_hash().to_owned(), reads }
    }
}

/// The scripts by the names of their texts, and whether they take the keys of readers too.
macro_rules! sources {
    ($($name:ident)+; reads $($reading:ident)+) => {
        $(pub(super) static $name: LazyLock<Source> =
            LazyLock::new(|| Source::new(texts::$name, false));)+
        $(pub(super) static $reading: LazyLock<Source> =
            LazyLock::new(|| Source::new(texts::$reading, true));)+
    };
}

sources! {
    ACQUIRE ACQUIRE_SET ACQUIRE_ANY ADOPT HAND_BACK CONFIRM EXTEND EXTEND_CLASSIC RESTORE RESTORE_CLASSIC RELEASE RELEASE_SET
    LEAVE JOIN ADMIT HOLDER HOLDER_CLASSIC PROCLAIM COMPLETED RIGHTS LINE_RIGHTS;
    reads ACQUIRE_READ CONFIRM_READ EXTEND_READ EXTEND_DOWNGRADED RESTORE_READ RELEASE_READ
}

/// One call of a script, as a value.
#[derive(Debug)]
pub(super) struct Script<'a> {
    pub(super) source: &'static Source,
    pub(super) keys: List<&'a [u8]>,
    /// The resources whose lines follow as keys.
    pub(super) lines: &'a [Resource],
    pub(super) args: List<Arg<'a>>,
}

/// Keys or arguments. Those of acquire, confirm and release, the frequent scripts, need no memory of their own.
#[derive(Clone, Debug)]
pub(super) enum List<T> {
    One([T; 1]),
    Two([T; 2]),
    Three([T; 3]),
    Four([T; 4]),
    Six([T; 6]),
    Many(Vec<T>),
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::One(items) => items,
            Self::Two(items) => items,
            Self::Three(items) => items,
            Self::Four(items) => items,
            Self::Six(items) => items,
            Self::Many(items) => items,
        }
    }
}

impl<T: PartialEq, const N: usize> PartialEq<[T; N]> for List<T> {
    fn eq(&self, other: &[T; N]) -> bool {
        **self == other[..]
    }
}

/// An argument of a script.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Arg<'a> {
    /// As it is.
    Bytes(&'a [u8]),
    /// The same, made for this call.
    Owned(Vec<u8>),
    /// In hex.
    Owner(Owner),
    /// In hex.
    Client(ClientId),
    /// In digits.
    Number(u64),
    /// In digits, with a minus before them where it is negative.
    Count(i64),
    /// In sixteen digits.
    Counter([u8; 16]),
    Text(String),
}

impl ToRedisArgs for Arg<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        match self {
            Self::Bytes(bytes) => out.write_arg(bytes),
            Self::Owned(bytes) => out.write_arg(bytes),
            Self::Owner(owner) => out.write_arg(owner.to_hex().as_slice()),
            Self::Client(client) => out.write_arg(client.to_hex().as_slice()),
            Self::Number(number) => number.write_redis_args(out),
            Self::Count(number) => number.write_redis_args(out),
            Self::Counter(digits) => out.write_arg(digits),
            Self::Text(text) => out.write_arg(text.as_bytes()),
        }
    }
}

/// A key beside that of a resource, written in two parts, so that it needs no memory of its own.
struct Beside<'a>(&'static [u8], &'a [u8]);

impl ToRedisArgs for Beside<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut key = out.writer_for_next_arg();
        // It is written to memory, which does not fail.
        let _ = key.write_all(self.0).and_then(|()| key.write_all(self.1));
    }
}

impl Script<'_> {
    /// By digest.
    pub(super) fn evalsha(&self, command: &mut Cmd) {
        self.write(command, "EVALSHA", &self.source.sha1);
    }

    /// By source, where the server does not know the digest.
    pub(super) fn eval(&self, command: &mut Cmd) {
        self.write(command, "EVAL", self.source.text);
    }

    /// The limit that it counts against.
    pub(super) fn room(&self) -> Room {
        // By address: each source is one static.
        let acquires = [
            &raw const *ACQUIRE,
            &raw const *ACQUIRE_SET,
            &raw const *ACQUIRE_READ,
            &raw const *ACQUIRE_ANY,
            &raw const *ADOPT,
        ];
        if acquires.contains(&std::ptr::from_ref(self.source)) {
            Room::Acquires
        } else {
            Room::Others
        }
    }

    fn write(&self, command: &mut Cmd, verb: &str, script: &str) {
        let read = if self.source.reads { &*self.keys } else { &[] };
        let read = read.iter().filter(|key| !OWN.contains(key));
        let count = self.keys.len() + read.clone().count() + self.lines.len();
        command.arg(verb).arg(script).arg(count);
        self.keys.iter().for_each(|key| {
            command.arg(*key);
        });
        read.for_each(|key| {
            command.arg(Beside(READERS, key));
        });
        self.lines.iter().for_each(|resource| {
            command.arg(Beside(LINE, resource.as_bytes()));
        });
        self.args.iter().for_each(|arg| {
            command.arg(arg);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst of acquires must never keep a held lease from being renewed or released, nor a node from being checked.
    #[test]
    fn only_acquires_count_against_the_limit_of_acquires() {
        let room = |source| {
            let (keys, args) = (List::Many(Vec::new()), List::Many(Vec::new()));
            Script { source, keys, lines: &[], args }.room()
        };
        for source in [&ACQUIRE, &ACQUIRE_SET, &ACQUIRE_READ, &ACQUIRE_ANY, &ADOPT] {
            assert_eq!(room(source), Room::Acquires, "{}", source.text());
        }
        for source in [
            &HAND_BACK,
            &CONFIRM,
            &CONFIRM_READ,
            &EXTEND,
            &EXTEND_READ,
            &EXTEND_DOWNGRADED,
            &EXTEND_CLASSIC,
            &RESTORE,
            &RESTORE_READ,
            &RESTORE_CLASSIC,
            &RELEASE,
            &RELEASE_SET,
            &RELEASE_READ,
            &LEAVE,
            &JOIN,
            &ADMIT,
            &RIGHTS,
            &LINE_RIGHTS,
            &HOLDER,
            &HOLDER_CLASSIC,
            &PROCLAIM,
            &COMPLETED,
        ] {
            assert_eq!(room(source), Room::Others, "{}", source.text());
        }
    }
}
