//! The scripts: their sources, their digests, and one call of one of them.
//!
//! It decides which keys a script touches. The sources are files, reviewed as code.

use std::sync::LazyLock;

use redis::Cmd;

use super::link::Room;
use crate::protocol::Resource;

/// The key of a node's marker.
pub(super) const MARKER: &[u8] = b"quorlock:node";

/// A script, with its digest.
pub(super) struct Source {
    text: &'static str,
    sha1: String,
}

impl Source {
    pub(super) const fn text(&self) -> &'static str {
        self.text
    }

    fn new(text: &'static str) -> Self {
        Self { text, sha1: redis::Script::new(text).get_hash().to_owned() }
    }
}

/// A script that votes stands behind the check of the marker. (`acquire.lua` makes that check itself, where it
/// cannot do without.)
macro_rules! voting {
    ($file:literal) => {
        LazyLock::new(|| {
            Source::new(concat!(include_str!("scripts/marker.lua"), include_str!($file)))
        })
    };
}

/// The same script in classic mode, where nodes have no marker and their clock is not read.
macro_rules! classic {
    ($file:literal) => {
        LazyLock::new(|| Source::new(concat!("local now = 0\n", include_str!($file))))
    };
}

pub(super) static ACQUIRE: LazyLock<Source> =
    LazyLock::new(|| Source::new(include_str!("scripts/acquire.lua")));
pub(super) static CONFIRM: LazyLock<Source> = voting!("scripts/confirm.lua");
pub(super) static EXTEND: LazyLock<Source> = voting!("scripts/extend.lua");
pub(super) static RESTORE: LazyLock<Source> = voting!("scripts/restore.lua");
pub(super) static EXTEND_CLASSIC: LazyLock<Source> = classic!("scripts/extend.lua");
pub(super) static RESTORE_CLASSIC: LazyLock<Source> = classic!("scripts/restore.lua");
pub(super) static RELEASE: LazyLock<Source> =
    LazyLock::new(|| Source::new(include_str!("scripts/release.lua")));
pub(super) static JOIN: LazyLock<Source> =
    LazyLock::new(|| Source::new(include_str!("scripts/join.lua")));
pub(super) static ADMIT: LazyLock<Source> =
    LazyLock::new(|| Source::new(include_str!("scripts/admit.lua")));

/// The key of a resource's counter, in the same hash slot.
pub(super) fn fence_key(resource: &Resource) -> Vec<u8> {
    [b"fence:{", resource.as_bytes(), b"}"].concat()
}

/// One call of a script: its keys, and a function that adds the arguments.
pub(super) struct Script<'a> {
    pub(super) source: &'static Source,
    pub(super) keys: &'a [&'a [u8]],
    pub(super) args: &'a (dyn Fn(&mut Cmd) + Send + Sync),
}

impl Script<'_> {
    /// By digest.
    pub(super) fn evalsha(&self) -> Cmd {
        self.command("EVALSHA", &self.source.sha1)
    }

    /// By source, where the server does not know the digest.
    pub(super) fn eval(&self) -> Cmd {
        self.command("EVAL", self.source.text)
    }

    /// Whose limit it counts against.
    pub(super) fn room(&self) -> Room {
        if std::ptr::eq(self.source, &raw const *ACQUIRE) { Room::Acquires } else { Room::Others }
    }

    fn command(&self, verb: &str, script: &str) -> Cmd {
        // Room for what it will hold spares it growing on the hot path.
        let bytes: usize = self.keys.iter().map(|key| key.len()).sum();
        let mut command = Cmd::with_capacity(self.keys.len() + 12, bytes + script.len() + 192);
        command.arg(verb).arg(script).arg(self.keys.len()).arg(self.keys);
        (self.args)(&mut command);
        command
    }
}
