//! A URL as an error may show it: without anything that may be part of a password.
//!
//! It shows what it recognises as a scheme, a host, a port or a path, and hides the rest. It hides everything before
//! the last `@`, however a password is broken. It must never be made to show more in order to say more.

use std::net::Ipv6Addr;

/// Replaces everything that is not shown.
const HIDDEN: &str = "***";

/// The URL without what may be secret. A text that is no URL and looks like no address is hidden whole.
pub(super) fn quoted(url: &str) -> String {
    let url = url.trim();
    let (scheme, rest) = split_scheme(url)
        .map_or((String::new(), url), |(scheme, rest)| (format!("{scheme}://"), rest));
    let place = if scheme.to_ascii_lowercase().ends_with("+sentinel://") { places } else { place };
    let Some(at) = rest.rfind('@') else {
        let shown = place(rest);
        // One word may be a password that was given in the wrong place.
        let known = !scheme.is_empty() || rest.is_empty() || is_address(rest);
        return if known { format!("{scheme}{shown}") } else { HIDDEN.to_owned() };
    };
    let (before, after) = rest.split_at(at);
    if before.contains('?') {
        // Either the password has a `?`, or the query has an `@`: then its end would be secret too.
        return format!("{scheme}{HIDDEN}");
    }
    format!("{scheme}{HIDDEN}@{}", place(after.trim_start_matches('@')))
}

/// The scheme, and what follows `://`, if the text has one.
pub(super) fn split_scheme(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let word = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let is_scheme = !scheme.is_empty() && scheme.len() <= 24 && scheme.chars().all(word);
    is_scheme.then_some((scheme, rest))
}

/// Whether a text without a scheme is shown: `localhost`, and what has a dot, a port or brackets.
pub(super) fn is_address(text: &str) -> bool {
    let (authority, _) = text.split_at(authority_end(text));
    let Some((host, port)) = split_port(authority) else { return false };
    let has_port = port.is_some_and(is_port);
    let is_named = host == "localhost" || host.contains('.') || host.contains(':');
    is_host(host) && (has_port || port.is_none() && is_named)
}

/// Where host and port end.
pub(super) fn authority_end(text: &str) -> usize {
    text.find(['/', '?', '#']).unwrap_or(text.len())
}

/// Host and port, without the brackets of an IPv6 address; `None` where they cannot be told apart.
pub(super) fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    match authority.split_once(':') {
        Some((_, port)) if port.contains(':') => {
            authority.parse::<Ipv6Addr>().is_ok().then_some((authority, None))
        }
        Some((host, port)) => Some((host, Some(port))),
        None => Some((authority, None)),
    }
}

pub(super) fn is_host(host: &str) -> bool {
    let is_ipv6 = host.contains(':') && host.parse::<Ipv6Addr>().is_ok();
    is_ipv6 || host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
}

/// Few enough digits for a port, which may still be out of its range.
fn is_port(port: &str) -> bool {
    (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Shows several hosts as `place` shows one, if nothing of any is hidden.
fn places(text: &str) -> String {
    let (authority, rest) = text.split_at(authority_end(text));
    let hosts = authority.split(',');
    let (first, last) = match authority.rsplit_once(',') {
        Some((first, last)) => (format!("{first},"), last),
        None => (String::new(), authority),
    };
    if hosts.map(place).eq(authority.split(',')) {
        first + &place(&[last, rest].concat())
    } else {
        HIDDEN.to_owned()
    }
}

/// Shows what follows the credentials, up to the first part that is no host, port or path.
fn place(text: &str) -> String {
    let (authority, rest) = text.split_at(authority_end(text));
    let Some((host, port)) = split_port(authority) else { return HIDDEN.to_owned() };
    if !is_host(host) {
        return HIDDEN.to_owned();
    }
    let mut shown = if authority.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
    match port {
        // A number without a host may be a password that lacks its `@`.
        Some(port) if host.is_empty() && !port.is_empty() || !port.is_empty() && !is_port(port) => {
            return format!("{shown}:{HIDDEN}");
        }
        Some(port) => shown.extend([":", port]),
        None => {}
    }
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (path, secret) = rest.split_at(end);
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-._".contains(c);
    shown.push_str(if path.chars().all(plain) { path } else { "/***" });
    // A password may follow, and one that is not escaped has any character.
    for (mark, hidden) in [('?', "?***"), ('#', "#***")] {
        if secret.starts_with(mark) {
            shown.push_str(hidden);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_secret_is_shown() {
        for url in [
            "127.0.0.1:7401",
            "localhost",
            "redis-1:6379",
            "[::1]:7401",
            "[::1]",
            "10.0.0.1",
            "redis.internal/3",
            "redis://127.0.0.1:",
            "redis://127.0.0.1:74011",
            "redis://127.0.0.1/abc",
            "reds://10.0.0.1:7401/3",
            "redis://fe80::1",
            "unix:///run/redis.sock",
            "http://10.0.0.1",
            "redis+sentinel://10.0.0.1,s2:26379,[::1]/mymaster/3",
            "redis://",
            "",
        ] {
            assert_eq!(quoted(url), url);
        }
        assert_eq!(quoted(" redis://10.0.0.1\n"), "redis://10.0.0.1");
    }

    #[test]
    fn what_may_be_secret_is_hidden() {
        for (url, shown) in [
            ("redis://app:hunter2@10.0.0.1:7401/3", "redis://***@10.0.0.1:7401/3"),
            ("redis://hunter2@10.0.0.1", "redis://***@10.0.0.1"),
            ("redis://app:hun@ter/2#@10.0.0.1", "redis://***@10.0.0.1"),
            ("redis://app:hun?ter2@10.0.0.1", "redis://***"),
            ("redis://10.0.0.1?password=hun@ter2", "redis://***"),
            ("redis://10.0.0.1?password=hunter2", "redis://10.0.0.1?***"),
            ("redis://10.0.0.1#hunter2", "redis://10.0.0.1#***"),
            ("redis://app:hunter2", "redis://app:***"),
            ("redis+sentinel://app:hun,ter2", "redis+sentinel://***"),
            ("redis+sentinel://app:hun,ter2@s1,s2/a", "redis+sentinel://***@s1,s2/a"),
            ("redis+sentinel://s1/a?sentinel_password=hunter2", "redis+sentinel://s1/a?***"),
            ("redis://:1234", "redis://:***"),
            ("redis://app:1234567/x", "redis://app:***"),
            ("redis://app:hunter2:x/y", "redis://***"),
            ("redis//app:hunter2@10.0.0.1", "***@10.0.0.1"),
            ("app:hunter2@10.0.0.1:7401", "***@10.0.0.1:7401"),
            ("unix:///run/redis.sock?pass=hunter2", "unix:///run/redis.sock?***"),
            ("hunter2", "***"),
            ("app:hunter2", "***"),
            ("redis:hunter2", "***"),
        ] {
            assert_eq!(quoted(url), shown, "{url}");
        }
    }
}
