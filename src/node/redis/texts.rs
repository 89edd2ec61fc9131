//! The text of each script: a constant that selects what of it runs, and the files of `scripts` in this order.
//!
//! Text alone, so that tests can run the same scripts against a server.

/// The text of a script for one kind of lease.
macro_rules! text {
    ($kind:literal $($file:literal)+) => {
        concat!("local KIND = '", $kind, "'\n", $(include_str!(concat!("scripts/", $file))),+)
    };
}

/// The texts of one verb, one for each kind.
macro_rules! verb {
    ($($name:ident $kind:literal),+ = $files:tt) => {
        $(verb!(@one $name $kind $files);)+
    };
    (@one $name:ident $kind:literal ($($file:literal)+)) => {
        pub(crate) const $name: &str = text!($kind $($file)+);
    };
}

verb!(ACQUIRE "one", ACQUIRE_SET "set", ACQUIRE_ANY "any" =
    ("prelude.lua" "acquire_free.lua" "tools.lua" "line.lua" "acquire.lua"));
verb!(ACQUIRE_READ "read" =
    ("prelude.lua" "acquire_free.lua" "tools.lua" "line.lua" "readers.lua" "acquire.lua"));
verb!(ADOPT "one" = ("prelude.lua" "tools.lua" "adopt.lua"));
verb!(HAND_BACK "one" = ("prelude.lua" "hand_back.lua"));
verb!(CONFIRM "one" = ("prelude.lua" "tools.lua" "confirm.lua"));
verb!(CONFIRM_READ "read" = ("prelude.lua" "tools.lua" "readers.lua" "confirm.lua"));
verb!(EXTEND "one", EXTEND_CLASSIC "classic" =
    ("prelude.lua" "tools.lua" "admitted.lua" "extend.lua"));
verb!(EXTEND_READ "read" =
    ("prelude.lua" "tools.lua" "admitted.lua" "readers.lua" "extend.lua"));
verb!(EXTEND_DOWNGRADED "downgraded" =
    ("prelude.lua" "tools.lua" "admitted.lua" "line.lua" "readers.lua" "extend.lua"));
verb!(RESTORE "one", RESTORE_CLASSIC "classic" =
    ("prelude.lua" "tools.lua" "admitted.lua" "restore.lua"));
verb!(RESTORE_READ "read" =
    ("prelude.lua" "tools.lua" "admitted.lua" "readers.lua" "restore.lua"));
verb!(RELEASE "one", RELEASE_SET "set", RELEASE_READ "read" =
    ("release.lua" "line.lua" "wake.lua"));
verb!(LEAVE "one" = ("line.lua" "leave.lua"));
verb!(JOIN "one" = ("prelude.lua" "tools.lua" "record.lua" "join.lua"));
verb!(ADMIT "one" = ("prelude.lua" "tools.lua" "record.lua" "admit.lua"));
verb!(HOLDER "one", HOLDER_CLASSIC "classic" =
    ("prelude.lua" "tools.lua" "admitted.lua" "holder.lua"));
verb!(PROCLAIM "one" = ("prelude.lua" "tools.lua" "admitted.lua" "proclaim.lua"));
verb!(COMPLETED "one" = ("prelude.lua" "tools.lua" "admitted.lua" "completed.lua"));
verb!(RIGHTS "votes", LINE_RIGHTS "line" = ("rights.lua"));
