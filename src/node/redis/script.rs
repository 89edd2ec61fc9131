//! The scripts: their sources, their digests, and one call of one of them.
//!
//! It decides which keys a script touches. The sources are files, reviewed as code.

use std::sync::LazyLock;

use redis::Cmd;

use super::link::Room;

/// The node's own keys: its marker, the counters of this generation, and those of the one before. Names that begin
/// like them are refused as resources.
pub(super) const OWN: [&[u8]; 3] = [b"quorlock:node", b"quorlock:counters", b"quorlock:older"];

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

/// Puts a script behind what it shares with others.
macro_rules! script {
    ($($file:literal)+) => {
        LazyLock::new(|| Source::new(concat!($(include_str!(concat!("scripts/", $file))),+)))
    };
}

pub(super) static ACQUIRE: LazyLock<Source> = script!("prelude.lua" "acquire.lua");
pub(super) static CONFIRM: LazyLock<Source> = script!("prelude.lua" "confirm.lua");
pub(super) static EXTEND: LazyLock<Source> = script!("prelude.lua" "admitted.lua" "extend.lua");
pub(super) static RESTORE: LazyLock<Source> = script!("prelude.lua" "admitted.lua" "restore.lua");
pub(super) static EXTEND_CLASSIC: LazyLock<Source> = script!("classic.lua" "extend.lua");
pub(super) static RESTORE_CLASSIC: LazyLock<Source> = script!("classic.lua" "restore.lua");
pub(super) static RELEASE: LazyLock<Source> = script!("release.lua");
pub(super) static JOIN: LazyLock<Source> = script!("prelude.lua" "join.lua");
pub(super) static ADMIT: LazyLock<Source> = script!("prelude.lua" "admit.lua");
pub(super) static RIGHTS: LazyLock<Source> = script!("rights.lua");

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

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst of acquires must never keep a held lease from being renewed or released, nor a node from being looked at.
    #[test]
    fn only_acquires_count_against_the_limit_of_acquires() {
        let room = |source| Script { source, keys: &[], args: &|_| () }.room();
        assert_eq!(room(&ACQUIRE), Room::Acquires);
        for source in [
            &CONFIRM,
            &EXTEND,
            &RESTORE,
            &EXTEND_CLASSIC,
            &RESTORE_CLASSIC,
            &RELEASE,
            &JOIN,
            &ADMIT,
            &RIGHTS,
        ] {
            assert_eq!(room(source), Room::Others, "{}", source.text());
        }
    }
}
