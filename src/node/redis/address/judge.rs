//! What a URL must look like, part by part, before the client library sees it.
//!
//! It decides which URLs are accepted, and names the first part that is wrong with what to write instead. It is
//! stricter than the library, which takes an empty port for 6379, leaves out what it does not know, and reads a password
//! that is not escaped as a host. It must never put a part into a text that may be secret: `quote` says which may not.

use std::net::Ipv6Addr;

use super::{
    error::UrlPart,
    quote::{authority_end, is_address, is_host, quoted, split_port, split_scheme},
};
use crate::suggest::nearest;

/// What is wrong with which part.
type Fault = (UrlPart, String);

/// All schemes, and what each is of.
const SCHEMES: [(&str, Kind); 7] = [
    ("redis", Kind::Tcp { tls: false }),
    ("valkey", Kind::Tcp { tls: false }),
    ("rediss", Kind::Tcp { tls: true }),
    ("valkeys", Kind::Tcp { tls: true }),
    ("unix", Kind::Unix),
    ("redis+unix", Kind::Unix),
    ("valkey+unix", Kind::Unix),
];

/// How a server is reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Tcp { tls: bool },
    Unix,
}

/// Judges a URL that has no blanks around it.
pub(super) fn judge(url: &str) -> Result<Kind, Fault> {
    if url.is_empty() {
        return fault(UrlPart::Whole, "the URL is empty, write `redis://host:port`");
    }
    if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        let reason = "there is a blank or a control character, take it out (in a password \
                      write a blank as %20), and give each URL by itself";
        return fault(UrlPart::Whole, reason);
    }
    let Some((scheme, rest)) = split_scheme(url) else { return Err(without_scheme(url)) };
    let known = SCHEMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(scheme));
    let Some((_, kind)) = known else { return Err(unknown_scheme(scheme, url)) };
    match kind {
        Kind::Tcp { tls } => judge_tcp(rest, *tls)?,
        Kind::Unix => judge_unix(rest)?,
    }
    Ok(*kind)
}

fn fault<T>(part: UrlPart, reason: impl Into<String>) -> Result<T, Fault> {
    Err((part, reason.into()))
}

fn without_scheme(url: &str) -> Fault {
    let lower = url.to_ascii_lowercase();
    let begins = |(name, _): &&(&str, Kind)| {
        lower.strip_prefix(name).is_some_and(|rest| rest.starts_with([':', '/']))
            // `redis:6379` is a server of that name.
            && !is_address(url)
    };
    let reason = if let Some((name, _)) = SCHEMES.iter().find(begins) {
        format!("`://` must follow the scheme, write `{name}://host`")
    } else if url.starts_with('/') {
        "the scheme is missing, write `unix:///path` for a socket, or `redis://host:port`".into()
    } else {
        match quoted(url) {
            shown if shown.starts_with("***") && !shown.contains('@') => {
                "the scheme is missing, write `redis://host:port`".into()
            }
            shown => format!("the scheme is missing, write `redis://{shown}`"),
        }
    };
    (UrlPart::Scheme, reason)
}

fn unknown_scheme(scheme: &str, url: &str) -> Fault {
    let lower = scheme.to_ascii_lowercase();
    let near = nearest(&lower, SCHEMES.map(|(name, _)| name));
    let shown = quoted(url);
    let rest = split_scheme(&shown).map_or("host", |(_, rest)| rest);
    let reason = match (near, &*lower) {
        (Some("redis"), _) => {
            format!("the scheme `{scheme}` is not known, did you mean `redis://`?")
        }
        (Some(name), _) => format!(
            "the scheme `{scheme}` is not known, did you mean `{name}://`? (TCP is `redis://`)"
        ),
        (_, "https" | "tls" | "ssl" | "rediss+tls" | "redis+tls" | "redis+ssl") => format!(
            "the scheme `{scheme}` is not one of a Redis server, write `rediss://{rest}`, or \
             `redis://` without TLS"
        ),
        (_, "http" | "tcp") => {
            format!("the scheme `{scheme}` is not one of a Redis server, write `redis://{rest}`")
        }
        _ => format!(
            "the scheme `{scheme}` is not known, write `redis://`, `rediss://` for TLS, or \
             `unix:///path`"
        ),
    };
    (UrlPart::Scheme, reason)
}

fn judge_tcp(rest: &str, tls: bool) -> Result<(), Fault> {
    let (authority, tail) = rest.split_at(authority_end(rest));
    if tail.contains('@') {
        let reason = "a user name or password must be percent-encoded, write `/` as %2F, `?` as \
                      %3F, `#` as %23 and `@` as %40";
        return fault(UrlPart::Credentials, reason);
    }
    let place = match authority.rsplit_once('@') {
        Some((credentials, place)) => {
            judge_credentials(credentials)?;
            place
        }
        None => authority,
    };
    judge_place(place)?;
    let (before, fragment) =
        tail.split_once('#').map_or((tail, None), |(before, after)| (before, Some(after)));
    let (path, query) = before.split_once('?').unwrap_or((before, ""));
    let database = path.strip_prefix('/').unwrap_or(path);
    judge_database(database.strip_suffix('/').unwrap_or(database))?;
    judge_query(query, &["protocol"], "the database stands in the path, as in `redis://host/3`")?;
    match fragment {
        Some(INSECURE) if tls => Ok(()),
        fragment => judge_name(fragment),
    }
}

/// What the client library takes a fragment for, which is then no name.
const INSECURE: &str = "insecure";

/// What the node is called in the list of its fleet.
fn judge_name(fragment: Option<&str>) -> Result<(), Fault> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    match fragment {
        Some(name) if name == INSECURE || name.is_empty() || !name.chars().all(is_plain) => fault(
            UrlPart::Fragment,
            "what follows `#` is the name of the node, of letters, digits, `-`, `.`, `_` and `:`, write it, or leave it \
             out (in a password write `#` as %23)",
        ),
        _ => Ok(()),
    }
}

/// A URL that has passed, and the name behind it.
pub(super) fn split_name(url: &str) -> (&str, Option<&str>) {
    match url.split_once('#') {
        Some((before, name)) if name != INSECURE => (before, Some(name)),
        _ => (url, None),
    }
}

fn judge_credentials(credentials: &str) -> Result<(), Fault> {
    let reason = if credentials.contains('@') {
        "there is more than one `@`, write those of the user name and the password as %40"
    } else if !credentials.contains(':') {
        "there is a user name without a password, write `user:password@`, or `:password@` for the \
         default user"
    } else if !is_utf8(credentials) {
        "the user name or the password is not UTF-8 when it is percent-decoded, write `%` as %25"
    } else {
        return Ok(());
    };
    fault(UrlPart::Credentials, reason)
}

/// Whether the text is UTF-8 once the percent-encoded bytes in it are decoded.
fn is_utf8(text: &str) -> bool {
    let mut parts = text.split('%');
    let mut decoded: Vec<u8> = parts.next().unwrap_or_default().into();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                decoded.extend(part.bytes().skip(2));
            }
            None => {
                decoded.push(b'%');
                decoded.extend(part.bytes());
            }
        }
    }
    std::str::from_utf8(&decoded).is_ok()
}

fn judge_place(place: &str) -> Result<(), Fault> {
    if place.contains(',') {
        let reason = "a URL names one server, give each a URL of its own";
        return fault(UrlPart::Host, reason);
    }
    let bracketed = place.starts_with('[');
    let Some((host, port)) = split_port(place) else {
        let reason = if bracketed {
            "the bracket of an IPv6 address is not closed, or something other than `:port` follows \
             it, write `redis://[::1]:6379`"
        } else {
            "there is more than one `:` after the host, write `host:port`, and an IPv6 address in \
             brackets, as in `redis://[::1]:6379`"
        };
        return fault(UrlPart::Host, reason);
    };
    if host.is_empty() {
        let reason = "the host is missing, write `redis://host:port`, with credentials \
                      `redis://user:password@host:port`";
        return fault(UrlPart::Host, reason);
    }
    match (bracketed, host.parse::<Ipv6Addr>()) {
        (false, Ok(address)) => {
            let reason = format!(
                "an IPv6 address stands in brackets, write `redis://[{address}]`, and a port after \
                 them"
            );
            return fault(UrlPart::Host, reason);
        }
        (true, Err(_)) => {
            let reason = "there is no IPv6 address in the brackets, write `redis://[::1]:6379` \
                          (without a zone), and other hosts without brackets";
            return fault(UrlPart::Host, reason);
        }
        (true, Ok(address)) if address.is_unspecified() => return listens(host),
        _ if host == "0.0.0.0" => return listens(host),
        _ if !is_host(host) => {
            let reason = "a host has letters and digits of ASCII, `.`, `-` and `_` alone, write \
                          `redis://host:port` (special characters of a password are \
                          percent-encoded)";
            return fault(UrlPart::Host, reason);
        }
        _ => {}
    }
    port.map_or(Ok(()), judge_port)
}

/// For the address on which a server listens everywhere.
fn listens(host: &str) -> Result<(), Fault> {
    let reason = format!("a server listens on `{host}` and is not reached there, name its address");
    fault(UrlPart::Host, reason)
}

fn judge_port(port: &str) -> Result<(), Fault> {
    let reason = if port.is_empty() {
        "the port is missing after `:`, write it, or leave out the `:` for 6379"
    } else if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        "the port must be a number from 1 to 65535, write `redis://host:port`, with credentials \
         `redis://user:password@host:port`"
    } else if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        "the port is out of range, it must be from 1 to 65535"
    } else {
        return Ok(());
    };
    fault(UrlPart::Port, reason)
}

/// Servers count their databases in an `int`.
fn judge_database(database: &str) -> Result<(), Fault> {
    let digits = database.bytes().all(|byte| byte.is_ascii_digit());
    if database.is_empty() || digits && database.parse::<i32>().is_ok() {
        return Ok(());
    }
    fault(UrlPart::Database, "the database must be a number, as in `redis://host/3`")
}

/// Nothing that is written there may be left out without a word.
fn judge_query(query: &str, known: &[&str], database: &str) -> Result<(), Fault> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "db" if known.contains(&"db") => {
                if value.is_empty() {
                    return judge_database("-");
                }
                judge_database(value)?;
            }
            "protocol" if !matches!(value, "3" | "resp3") => {
                let reason = "the protocol is always RESP3, leave `protocol` out";
                return fault(UrlPart::Query, reason);
            }
            _ if known.contains(&name) => {}
            "db" | "database" => return fault(UrlPart::Query, database),
            _ => return Err(unknown_parameter(name, pair, known)),
        }
    }
    Ok(())
}

fn unknown_parameter(name: &str, pair: &str, known: &[&str]) -> Fault {
    // Only what certainly is a name is shown: after a password with a `&`, a part of that would stand here.
    const USUAL: [&str; 12] = [
        "timeout",
        "connect_timeout",
        "connection_timeout",
        "socket_timeout",
        "password",
        "username",
        "user",
        "pass",
        "ssl",
        "tls",
        "pool_size",
        "client_name",
    ];
    let named = USUAL.contains(&name) && pair.len() > name.len();
    let name = if named { format!(" `{name}`") } else { String::new() };
    let known = known.join("`, `");
    let reason = format!(
        "there is a parameter{name} beside the known ones (`{known}`), leave it out, and set on the \
         builder what it is to set"
    );
    (UrlPart::Query, reason)
}

fn judge_unix(rest: &str) -> Result<(), Fault> {
    let (before, fragment) =
        rest.split_once('#').map_or((rest, None), |(before, after)| (before, Some(after)));
    let (path, query) = before.split_once('?').unwrap_or((before, ""));
    if path.contains('@') {
        let reason = "the credentials of a socket stand in the query, write \
                      `unix:///path?user=name&pass=password`, and `@` in a path as %40";
        return fault(UrlPart::Credentials, reason);
    }
    if !path.starts_with('/') || path == "/" {
        let reason = "the path of the socket is missing or does not begin with `/`, write three \
                      slashes, as in `unix:///run/redis.sock` (`redis://host:port` for TCP)";
        return fault(UrlPart::Path, reason);
    }
    let database = "the database is `db`, as in `unix:///path?db=3`";
    judge_query(query, &["db", "user", "pass", "protocol"], database)?;
    let has_password = query.split('&').any(|pair| pair.starts_with("pass="));
    if fragment.is_some() && has_password {
        let reason = "what follows `#` may be a part of the password, write `#` in it as %23, and name the node by \
                      `NodeSpec::named`";
        return fault(UrlPart::Fragment, reason);
    }
    judge_name(fragment)
}
