//! What an error of a server, or of the client library, means.
//!
//! It decides, in this one place, whether the command can have taken effect, whether the node may vote at all, whether
//! the connection is of use still, and what its user is told. It must never say "not sent" of what
//! may have been executed.

use std::sync::Arc;

use redis::{ErrorKind, RedisError};

use crate::node::{NodeError, Refusal};

/// The errors that come before a script has written anything. `WRONGTYPE` is one: a script first reads the marker, which
/// another program may have made something else.
const BEFORE_ANY_WRITE: [&str; 7] =
    ["NOSCRIPT", "WRONGTYPE", "OOM", "READONLY", "MISCONF", "LOADING", "BUSY"];

/// What an error says about a command: certainly not executed, or unknown.
pub(super) fn of_command(error: &RedisError) -> NodeError {
    let text = || Arc::<str>::from(error.to_string());
    let rejected = |code: &str| NodeError::Rejected {
        sent: false,
        code: Arc::from(code),
        message: Arc::from(error.detail().unwrap_or_default()),
    };
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => rejected(error.code().unwrap_or("ERR")),
        ErrorKind::AuthenticationFailed => rejected("WRONGPASS"),
        ErrorKind::Io => NodeError::ConnectionLost { reason: text() },
        _ => NodeError::Unexpected { message: text() },
    }
}

/// The same of a script: an error from within one may come after its first write.
pub(super) fn of_script(error: NodeError) -> NodeError {
    match error {
        NodeError::Rejected { code, message, .. } => {
            // A script that may not be run at all, and not one in which a command may not.
            let refused = &*code == "NOPERM" && !message.contains("script");
            let sent = !BEFORE_ANY_WRITE.contains(&&*code) && !refused;
            NodeError::Rejected { sent, code, message }
        }
        other => other,
    }
}

/// The same of an attempt to connect, at which nothing has been sent yet.
pub(super) fn of_connect(error: &RedisError, database: i64) -> NodeError {
    let message = || Arc::<str>::from(error.detail().unwrap_or_default());
    if let Some(command) = error.detail().and_then(missing_right) {
        let command = Arc::from(command);
        return NodeError::Refused(Refusal::MissingRight { command, message: message() });
    }
    let says = |text: &str| error.detail().is_some_and(|detail| detail.contains(text));
    match (error.kind(), error.code()) {
        _ if says("DB index is out of range") || says("invalid DB index") => {
            NodeError::Refused(Refusal::NoSuchDatabase { database, message: message() })
        }
        _ if says("SELECT is not allowed in cluster mode") => NodeError::Refused(Refusal::Cluster),
        (ErrorKind::Io, _) if is_of_tls(&error.to_string()) => {
            NodeError::Refused(Refusal::Tls { message: Arc::from(error.to_string()) })
        }
        (_, Some("DENIED")) => NodeError::Refused(Refusal::ProtectedMode { message: message() }),
        (ErrorKind::Parse, _) => {
            // What the parser expected fills lines, and does not help a user with a wrong port.
            let text = error.to_string();
            let message = Arc::from(text.lines().next().unwrap_or_default());
            NodeError::Refused(Refusal::NotRedis { message })
        }
        (_, Some("NOAUTH")) => NodeError::Refused(Refusal::PasswordMissing { message: message() }),
        (ErrorKind::AuthenticationFailed, _) | (_, Some("WRONGPASS")) => {
            NodeError::Refused(Refusal::WrongCredentials { message: message() })
        }
        (ErrorKind::RESP3NotSupported, _) => {
            NodeError::Refused(Refusal::TooOld { version: Arc::from("without RESP3") })
        }
        _ => match of_command(error) {
            NodeError::ConnectionLost { reason } => NodeError::NotConnected { reason },
            other => other,
        },
    }
}

/// Whether this is what the TLS library says of a handshake that will fail again.
fn is_of_tls(text: &str) -> bool {
    const SAYS: [&str; 4] = [
        "invalid peer certificate",
        "received fatal alert",
        "received corrupt message",
        "peer is incompatible",
    ];
    SAYS.iter().any(|says| text.contains(says))
}

/// The same of a command by which a new connection is checked, and without which the node is of no use.
pub(super) fn of_check(command: &str, error: NodeError) -> NodeError {
    match error {
        // The right to the command is missing, and not that to the key that it was tried with.
        NodeError::Rejected { code, message, .. }
            if &*code == "NOPERM" && missing_right(&message).is_some() =>
        {
            NodeError::Refused(Refusal::MissingRight { command: Arc::from(command), message })
        }
        NodeError::Rejected { message, .. } if message.starts_with("unknown command") => {
            // Behind that it quotes what was sent.
            let message = message.split(", with args").next().map_or_else(Arc::default, Arc::from);
            NodeError::Refused(Refusal::MissingCommand { command: Arc::from(command), message })
        }
        NodeError::Rejected { code, message, .. } if &*code == "NOAUTH" => {
            NodeError::Refused(Refusal::PasswordMissing { message })
        }
        other => other,
    }
}

/// The command that, by the server's message, the user may not run.
fn missing_right(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("permissions to run the '")?;
    rest.split_once('\'').map(|(command, _)| command)
}

/// Why a connection on which a command ended like this must not be used any more.
pub(super) fn ends_connection(error: &NodeError) -> Option<&str> {
    match error {
        NodeError::ConnectionLost { reason } => Some(reason),
        NodeError::Rejected { code, .. } if &**code == "READONLY" => Some(BECAME_A_REPLICA),
        _ => None,
    }
}

/// The connection stays when a master becomes a replica. It is given up, so that a new one is checked.
pub(super) const BECAME_A_REPLICA: &str = "it has become a replica";

/// Whether the server does not have the script, of which it was given the digest alone. It forgets all of them in a
/// restart.
pub(super) fn is_unknown_script(error: &NodeError) -> bool {
    matches!(error, NodeError::Rejected { code, .. } if &**code == "NOSCRIPT")
}

/// What to do about an error of this code, as a part of its text.
pub(in crate::node) fn advice(code: &str) -> &'static str {
    match code {
        "NOPERM" => "; grant its ACL user the rights that docs/deploying.md lists",
        "OOM" => "; it is out of memory; raise its maxmemory",
        "READONLY" => "; it is a replica; configure the master",
        "MISCONF" => "; it cannot persist; free its disk, or switch snapshots off with `save \"\"`",
        "LOADING" => "; it is still loading its data; wait",
        "MOVED" | "CROSSSLOT" | "CLUSTERDOWN" => {
            "; it belongs to a Redis Cluster; use independent masters"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(code: &str, message: &str) -> NodeError {
        NodeError::Rejected { sent: false, code: Arc::from(code), message: Arc::from(message) }
    }

    #[test]
    fn a_script_that_failed_half_way_may_have_written() {
        let sent = |code, message| of_script(rejected(code, message)).sent();
        for code in BEFORE_ANY_WRITE {
            assert!(!sent(code, ""), "{code}");
        }
        assert!(!sent("NOPERM", "this user has no permissions to run the 'evalsha' command"));
        assert!(sent("NOPERM", "ACL failure in script: this user has no permissions to run 'set'"));
        assert!(sent("ERR", "user_script:3: whatever"));
        assert!(of_script(NodeError::TimedOut).sent(), "what is no error of the server's stays");
    }

    #[test]
    fn an_error_of_the_network_leaves_open_what_was_executed_but_for_a_connect() {
        let broken = RedisError::from(std::io::Error::other("broken"));
        assert!(matches!(of_command(&broken), NodeError::ConnectionLost { .. }));
        assert!(matches!(of_connect(&broken, 0), NodeError::NotConnected { .. }));
        assert!(ends_connection(&of_command(&broken)).is_some());
        let garbage = RedisError::from((ErrorKind::Parse, "no RESP"));
        assert!(of_command(&garbage).sent(), "it was sent, and the answer says nothing");
    }

    /// Where the connection is not reset before that can be read.
    #[test]
    fn what_is_permanent_is_refused_by_name_at_connect() {
        let error = |code: &str, text: &str| {
            redis::make_extension_error(code.to_owned(), Some(text.to_owned()))
        };
        let denied = of_connect(&error("DENIED", "Redis is running in protected mode"), 0);
        assert!(matches!(denied, NodeError::Refused(Refusal::ProtectedMode { .. })), "{denied}");
        let database = of_connect(&error("ERR", "DB index is out of range"), 9);
        assert!(
            matches!(database, NodeError::Refused(Refusal::NoSuchDatabase { database: 9, .. })),
            "{database}"
        );
        let loading = of_connect(&error("LOADING", "Redis is loading the dataset"), 0);
        assert!(!matches!(loading, NodeError::Refused(_)), "that passes: {loading}");
        let unknown = "unknown command 'EVAL', with args beginning with: 'return' ";
        let missing = of_check("eval", rejected("ERR", unknown));
        let expected = Refusal::MissingCommand {
            command: Arc::from("eval"),
            message: Arc::from("unknown command 'EVAL'"),
        };
        assert_eq!(missing, NodeError::Refused(expected));
    }

    #[test]
    fn a_master_that_has_become_a_replica_ends_its_connection() {
        assert_eq!(ends_connection(&rejected("READONLY", "")), Some(BECAME_A_REPLICA));
        for error in [rejected("OOM", ""), NodeError::TimedOut, NodeError::Overloaded] {
            assert_eq!(ends_connection(&error), None, "{error}");
        }
    }

    #[test]
    fn a_check_without_its_right_names_the_command_and_never_the_right_to_a_key() {
        let text = "this user has no permissions to run the 'eval' command";
        let missing = of_check("eval", rejected("NOPERM", text));
        assert!(matches!(
            missing,
            NodeError::Refused(Refusal::MissingRight { command, .. }) if &*command == "eval"
        ));
        let key = rejected("NOPERM", "this user has no permissions to access one of the keys");
        assert_eq!(of_check("eval", key.clone()), key);
        let wrong = of_check("info", rejected("NOAUTH", "Authentication required."));
        assert!(matches!(wrong, NodeError::Refused(Refusal::PasswordMissing { .. })));
    }
}
