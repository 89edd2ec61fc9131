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
pub(super) type Fault = (UrlPart, String);

/// All schemes, and what each is of.
const SCHEMES: [(&str, Kind); 11] = [
    ("redis", Kind::Tcp { tls: false }),
    ("valkey", Kind::Tcp { tls: false }),
    ("rediss", Kind::Tcp { tls: true }),
    ("valkeys", Kind::Tcp { tls: true }),
    ("unix", Kind::Unix),
    ("redis+unix", Kind::Unix),
    ("valkey+unix", Kind::Unix),
    ("redis+sentinel", Kind::Sentinels { tls: false }),
    ("valkey+sentinel", Kind::Sentinels { tls: false }),
    ("rediss+sentinel", Kind::Sentinels { tls: true }),
    ("valkeys+sentinel", Kind::Sentinels { tls: true }),
];

/// How a server is reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Tcp {
        tls: bool,
    },
    Unix,
    /// By Sentinels, which name it.
    Sentinels {
        tls: bool,
    },
}

/// Judges a URL that has no blanks around it.
pub(super) fn judge(url: &str) -> Result<Kind, Fault> {
    if url.is_empty() {
        return fault(UrlPart::Whole, "the URL is empty; write `redis://host:port`");
    }
    if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        let reason = "there is a blank or a control character; take it out (in a password write a blank as %20), and give each URL by itself";
        return fault(UrlPart::Whole, reason);
    }
    let Some((scheme, rest)) = split_scheme(url) else { return Err(without_scheme(url)) };
    let known = SCHEMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(scheme));
    let Some((_, kind)) = known else { return Err(unknown_scheme(scheme, url)) };
    match kind {
        Kind::Tcp { tls } => judge_tcp(rest, *tls)?,
        Kind::Unix => judge_unix(rest)?,
        // Their URL is taken apart first.
        Kind::Sentinels { .. } => {}
    }
    Ok(*kind)
}

pub(super) fn fault<T>(part: UrlPart, reason: impl Into<String>) -> Result<T, Fault> {
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
        format!("`://` must follow the scheme; write `{name}://host`")
    } else if url.starts_with('/') {
        "the scheme is missing; write `unix:///path` for a socket, or `redis://host:port`".into()
    } else {
        match quoted(url) {
            shown if shown.starts_with("***") && !shown.contains('@') => {
                "the scheme is missing; write `redis://host:port`".into()
            }
            shown => format!("the scheme is missing; write `redis://{shown}`"),
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
            format!("the scheme `{scheme}` is not known; did you mean `redis://`?")
        }
        (Some(name), _) => format!(
            "the scheme `{scheme}` is not known; did you mean `{name}://`? (TCP is `redis://`)"
        ),
        (_, "https" | "tls" | "ssl" | "rediss+tls" | "redis+tls" | "redis+ssl") => format!(
            "the scheme `{scheme}` is not one of a Redis server; write `rediss://{rest}`, or \
             `redis://` without TLS"
        ),
        (_, "http" | "tcp") => {
            format!("the scheme `{scheme}` is not one of a Redis server; write `redis://{rest}`")
        }
        _ => format!(
            "the scheme `{scheme}` is not known; write `redis://`, `rediss://` for TLS, or \
             `unix:///path`"
        ),
    };
    (UrlPart::Scheme, reason)
}

/// A part, whether it is wrong, and what is to be written instead: `{host}` stands for the host.
type Check<F> = (UrlPart, F, &'static str);

/// The first thing that is wrong.
fn check<T, F: Fn(&T) -> bool>(checks: &[Check<F>], parts: &T, host: &str) -> Result<(), Fault> {
    match checks.iter().find(|(_, is_wrong, _)| is_wrong(parts)) {
        Some((part, _, reason)) => Err((*part, reason.replace("{host}", &shown(host)))),
        None => Ok(()),
    }
}

/// An IPv6 address in its short form.
fn shown(host: &str) -> String {
    host.parse::<Ipv6Addr>().map_or_else(|_| host.to_owned(), |address| address.to_string())
}

/// The parts behind `redis://`.
struct Tcp<'a> {
    credentials: Option<&'a str>,
    place: &'a str,
    /// Of the place, where it can be split.
    host: Option<&'a str>,
    port: Option<&'a str>,
    /// What follows the place.
    tail: &'a str,
    database: &'a str,
}

impl Tcp<'_> {
    fn credentials(&self, is_wrong: impl Fn(&str) -> bool) -> bool {
        self.credentials.is_some_and(is_wrong)
    }

    fn host(&self, is_wrong: impl Fn(&str) -> bool) -> bool {
        self.host.is_some_and(is_wrong)
    }

    fn port(&self, is_wrong: impl Fn(&str) -> bool) -> bool {
        self.port.is_some_and(is_wrong)
    }

    fn in_brackets(&self) -> bool {
        self.place.starts_with('[')
    }
}

type TcpWrong = fn(&Tcp<'_>) -> bool;

#[rustfmt::skip]
const TCP: [Check<TcpWrong>; 16] = [
    (UrlPart::Credentials, |it| it.tail.contains('@'),
     "a user name or password must be percent-encoded; write `/` as %2F, `?` as %3F, `#` as %23 and `@` as %40"),
    (UrlPart::Credentials, |it| it.credentials(|text| text.contains('@')),
     "there is more than one `@`; write those of the user name and the password as %40"),
    (UrlPart::Credentials, |it| it.credentials(|text| !text.contains(':')),
     "there is a user name without a password; write `user:password@`, or `:password@` for the default user"),
    (UrlPart::Credentials, |it| it.credentials(|text| !is_utf8(text)),
     "the user name or the password is not UTF-8 after percent-decoding; write `%` as %25"),
    (UrlPart::Host, |it| it.place.contains(','),
     "a URL names one server; give each server a URL of its own"),
    (UrlPart::Host, |it| it.host.is_none() && it.in_brackets(),
     "the bracket of an IPv6 address is not closed, or something other than `:port` follows it; write `redis://[::1]:6379`"),
    (UrlPart::Host, |it| it.host.is_none(),
     "there is more than one `:` after the host; write `host:port`, and an IPv6 address in brackets, as in `redis://[::1]:6379`"),
    (UrlPart::Host, |it| it.host(str::is_empty),
     "the host is missing; write `redis://host:port`, with credentials `redis://user:password@host:port`"),
    (UrlPart::Host, |it| !it.in_brackets() && it.host(is_ipv6),
     "an IPv6 address stands in brackets; write `redis://[{host}]`, and a port after them"),
    (UrlPart::Host, |it| it.in_brackets() && !it.host(is_ipv6),
     "there is no IPv6 address in the brackets; write `redis://[::1]:6379` (without a zone), and other hosts without brackets"),
    (UrlPart::Host, |it| it.host(is_everywhere),
     "a server listens on `{host}` but is not reached there; name its address"),
    (UrlPart::Host, |it| !it.in_brackets() && !it.host(is_host),
     "a host has only ASCII letters and digits, `.`, `-` and `_`; write `redis://host:port` (special characters of a password are percent-encoded)"),
    (UrlPart::Port, |it| it.port(str::is_empty),
     "the port is missing after `:`; write it, or leave out the `:` for 6379"),
    (UrlPart::Port, |it| it.port(|port| !port.bytes().all(|byte| byte.is_ascii_digit())),
     "the port must be a number from 1 to 65535; write `redis://host:port`, with credentials `redis://user:password@host:port`"),
    (UrlPart::Port, |it| it.port(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)),
     "the port is out of range; it must be from 1 to 65535"),
    (UrlPart::Database, |it| is_no_database(it.database), NO_DATABASE),
];

fn judge_tcp(rest: &str, tls: bool) -> Result<(), Fault> {
    let (authority, tail) = rest.split_at(authority_end(rest));
    let (credentials, place) = match authority.rsplit_once('@') {
        Some((credentials, place)) => (Some(credentials), place),
        None => (None, authority),
    };
    let (host, port) = split_port(place).map_or((None, None), |(host, port)| (Some(host), port));
    let (before, fragment) =
        tail.split_once('#').map_or((tail, None), |(before, after)| (before, Some(after)));
    let (path, query) = before.split_once('?').unwrap_or((before, ""));
    let database = path.strip_prefix('/').unwrap_or(path);
    let database = database.strip_suffix('/').unwrap_or(database);
    let parts = Tcp { credentials, place, host, port, tail, database };
    check(&TCP, &parts, host.unwrap_or_default())?;
    judge_query(query, &["protocol"], "the database stands in the path, as in `redis://host/3`")?;
    match fragment {
        Some(INSECURE) if tls => Ok(()),
        fragment => judge_name(fragment),
    }
}

fn is_ipv6(host: &str) -> bool {
    host.parse::<Ipv6Addr>().is_ok()
}

/// The address on which a server listens everywhere.
fn is_everywhere(host: &str) -> bool {
    host == "0.0.0.0" || host.parse::<Ipv6Addr>().is_ok_and(|address| address.is_unspecified())
}

/// What the client library takes a fragment for, which is then no name.
pub(super) const INSECURE: &str = "insecure";

/// What the node is called in the list of its fleet.
fn judge_name(fragment: Option<&str>) -> Result<(), Fault> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    match fragment {
        Some(name) if name == INSECURE || name.is_empty() || !name.chars().all(is_plain) => fault(
            UrlPart::Fragment,
            "what follows `#` is the name of the node, of letters, digits, `-`, `.`, `_` and `:`; write it, or leave it out (in a password write `#` as %23)",
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

const NO_DATABASE: &str = "the database must be a number, as in `redis://host/3`";

/// Servers count their databases in an `int`.
fn is_no_database(database: &str) -> bool {
    let digits = database.bytes().all(|byte| byte.is_ascii_digit());
    !(database.is_empty() || digits && database.parse::<i32>().is_ok())
}

/// Nothing that is written there may be left out without a word.
pub(super) fn judge_query(query: &str, known: &[&str], database: &str) -> Result<(), Fault> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "db" if known.contains(&"db") => {
                if value.is_empty() || is_no_database(value) {
                    return fault(UrlPart::Database, NO_DATABASE);
                }
            }
            "protocol" if !matches!(value, "3" | "resp3") => {
                let reason = "the protocol is always RESP3; leave `protocol` out";
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
        "there is a parameter{name} beside the known ones (`{known}`); leave it out, and use a setting of the builder instead"
    );
    (UrlPart::Query, reason)
}

/// The parts behind `unix://`.
struct Unix<'a> {
    path: &'a str,
    query: &'a str,
    fragment: Option<&'a str>,
}

type UnixWrong = fn(&Unix<'_>) -> bool;

#[rustfmt::skip]
const UNIX: [Check<UnixWrong>; 2] = [
    (UrlPart::Credentials, |it| it.path.contains('@'),
     "the credentials of a socket stand in the query; write `unix:///path?user=name&pass=password`, and `@` in a path as %40"),
    (UrlPart::Path, |it| !it.path.starts_with('/') || it.path == "/",
     "the path of the socket is missing or does not begin with `/`; write three slashes, as in `unix:///run/redis.sock` (`redis://host:port` for TCP)"),
];

#[rustfmt::skip]
const UNIX_NAME: [Check<UnixWrong>; 1] = [
    (UrlPart::Fragment, |it| it.fragment.is_some() && it.query.split('&').any(|pair| pair.starts_with("pass=")),
     "what follows `#` may be a part of the password; write `#` in it as %23, and name the node by `NodeSpec::named`"),
];

fn judge_unix(rest: &str) -> Result<(), Fault> {
    let (before, fragment) =
        rest.split_once('#').map_or((rest, None), |(before, after)| (before, Some(after)));
    let (path, query) = before.split_once('?').unwrap_or((before, ""));
    let parts = Unix { path, query, fragment };
    check(&UNIX, &parts, "")?;
    let database = "the database is `db`, as in `unix:///path?db=3`";
    judge_query(query, &["db", "user", "pass", "protocol"], database)?;
    check(&UNIX_NAME, &parts, "")?;
    judge_name(fragment)
}
