//! A URL of Sentinels, taken apart into one of each Sentinel, and one of the master that they name.
//!
//! It decides what such a URL may have that one of a server may not. Every part is judged as that of a server's URL. It
//! must never put a part into a text that may be secret.

use std::fmt::Write as _;

use super::{
    error::UrlPart,
    judge::{self, Fault, INSECURE, fault, judge_query},
    quote::{authority_end, split_port, split_scheme},
};

/// The port of a Sentinel whose URL names none.
const PORT: u16 = 26379;

const USER: &str = "sentinel_username";
const PASSWORD: &str = "sentinel_password";

/// The parts of `redis+sentinel://user:password@host,host/master/database?query#name`.
pub(super) struct Parts<'a> {
    scheme: &'static str,
    credentials: &'a str,
    hosts: Vec<&'a str>,
    pub(super) master: &'a str,
    database: &'a str,
    query: &'a str,
    fragment: Option<&'a str>,
}

/// Takes a URL apart whose scheme has been judged.
pub(super) fn split(url: &str, tls: bool) -> Parts<'_> {
    let rest = split_scheme(url).map_or(url, |(_, rest)| rest);
    let (authority, tail) = rest.split_at(authority_end(rest));
    let at = authority.rfind('@').map_or(0, |at| at + 1);
    let (credentials, hosts) = authority.split_at(at);
    let (before, fragment) =
        tail.split_once('#').map_or((tail, None), |(before, after)| (before, Some(after)));
    let (path, query) = before.split_once('?').unwrap_or((before, ""));
    let path = path.strip_prefix('/').unwrap_or(path);
    let (master, database) = path.split_once('/').unwrap_or((path, ""));
    let scheme = if tls { "rediss" } else { "redis" };
    Parts {
        scheme,
        credentials,
        hosts: hosts.split(',').collect(),
        master,
        database,
        query,
        fragment,
    }
}

impl Parts<'_> {
    /// The URL of each Sentinel.
    pub(super) fn sentinels(&self) -> impl Iterator<Item = String> {
        let (user, password) = (self.value(USER), self.value(PASSWORD));
        let credentials = match (user, password) {
            (None, None) => String::new(),
            (user, password) => {
                format!("{}:{}@", user.unwrap_or_default(), password.unwrap_or_default())
            }
        };
        self.hosts.iter().map(move |host| {
            let mut url = format!("{}://{credentials}{host}", self.scheme);
            if matches!(split_port(host), Some((_, None))) {
                let _ = write!(url, ":{PORT}");
            }
            if self.fragment == Some(INSECURE) {
                url.extend(["#", INSECURE]);
            }
            url
        })
    }

    /// The URL of the master, at the place of the first Sentinel.
    pub(super) fn master(&self) -> String {
        let host = self.hosts.first().copied().unwrap_or_default();
        let mut url = format!("{}://{}{host}/{}", self.scheme, self.credentials, self.database);
        let mut mark = '?';
        for pair in self.query.split('&').filter(|pair| is_of_master(pair)) {
            url.push(mark);
            url.push_str(pair);
            mark = '&';
        }
        if let Some(fragment) = self.fragment {
            url.extend(["#", fragment]);
        }
        url
    }

    fn value(&self, name: &str) -> Option<&str> {
        let mut pairs = self.query.split('&');
        pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }
}

fn is_of_master(pair: &str) -> bool {
    let name = pair.split_once('=').map_or(pair, |(name, _)| name);
    !pair.is_empty() && name != USER && name != PASSWORD
}

pub(super) fn judge(url: &str, tls: bool) -> Result<(), Fault> {
    let rest = split_scheme(url).map_or(url, |(_, rest)| rest);
    if rest.split_at(authority_end(rest)).1.contains('@') {
        // Of credentials that are not escaped, as in a URL of a server.
        judge::judge(&format!("redis://{rest}"))?;
    }
    let parts = split(url, tls);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if parts.master.is_empty() || !parts.master.chars().all(is_plain) {
        let reason = "the name of the master, of letters, digits, `-`, `.` and `_`, must follow the Sentinels; write `redis+sentinel://host,host,host/mymaster`";
        return fault(UrlPart::Path, reason);
    }
    let database =
        "the database stands behind the master, as in `redis+sentinel://host/mymaster/3`";
    judge_query(parts.query, &[USER, PASSWORD, "protocol"], database)?;
    let given = |name: &str| {
        let is = |pair: &&str| pair.split_once('=').map_or(*pair, |(name, _)| name) == name;
        parts.query.split('&').filter(is).count()
    };
    let empty = |name: &str| parts.value(name).is_some_and(str::is_empty);
    let wrong = [
        (
            given(USER) > 1 || given(PASSWORD) > 1,
            UrlPart::Query,
            "there are two users or passwords of the Sentinels; write one",
        ),
        (
            given(USER) > 0 && given(PASSWORD) == 0,
            UrlPart::Query,
            "there is a user of the Sentinels without a password; add `sentinel_password`",
        ),
        (
            empty(USER) || empty(PASSWORD),
            UrlPart::Query,
            "the user or the password of the Sentinels is empty; write it, or leave it out",
        ),
        (
            parts.value(USER).is_some_and(|user| user.contains(':')),
            UrlPart::Query,
            "there is a `:` in the user of the Sentinels; write it as %3A",
        ),
        (
            given(PASSWORD) > 0 && parts.fragment.is_some_and(|name| name != INSECURE),
            UrlPart::Fragment,
            "what follows `#` may be a part of the password; write `#` in it as %23, and name the node by `NodeSpec::named`",
        ),
    ];
    if let Some((_, part, reason)) = wrong.into_iter().find(|(is_wrong, ..)| *is_wrong) {
        return fault(part, reason);
    }
    judge::judge(&parts.master())?;
    let mut seen = Vec::new();
    for sentinel in parts.sentinels() {
        judge::judge(&sentinel)?;
        let sentinel = sentinel.to_ascii_lowercase();
        if seen.contains(&sentinel) {
            return fault(UrlPart::Host, "a Sentinel is named twice; name each once");
        }
        seen.push(sentinel);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sentinel_and_the_master_has_what_concerns_it() {
        let url = "rediss+sentinel://app:a%40b@s1,s2:7,[::1]/main/3?sentinel_password=x&protocol=3&sentinel_username=me";
        assert_eq!(judge(url, true), Ok(()));
        let parts = split(url, true);
        assert_eq!(parts.master, "main");
        assert_eq!(parts.master(), "rediss://app:a%40b@s1/3?protocol=3");
        let sentinels: Vec<_> = parts.sentinels().collect();
        assert_eq!(
            sentinels,
            ["rediss://me:x@s1:26379", "rediss://me:x@s2:7", "rediss://me:x@[::1]:26379"]
        );
        let parts = split("redis+sentinel://s1/main#insecure", true);
        assert_eq!(parts.sentinels().collect::<Vec<_>>(), ["rediss://s1:26379#insecure"]);
        assert_eq!(parts.master(), "rediss://s1/#insecure");
    }

    #[test]
    fn what_is_wrong_is_named_by_its_part() {
        for (rest, part) in [
            ("s1,s2,s3", UrlPart::Path),
            ("s1,s2/", UrlPart::Path),
            ("s1/my*master", UrlPart::Path),
            ("s1/main/x", UrlPart::Database),
            ("s1,,s2/main", UrlPart::Host),
            ("s1,s1:26379/main", UrlPart::Host),
            ("s1,s2:0/main", UrlPart::Port),
            ("s1:99999/main", UrlPart::Port),
            ("user@s1/main", UrlPart::Credentials),
            ("user:pass/word@s1/main", UrlPart::Credentials),
            ("s1/main?sentinel_username=me", UrlPart::Query),
            ("s1/main?sentinel_user=me", UrlPart::Query),
            ("s1/main?db=3", UrlPart::Query),
            ("s1/main#a*b", UrlPart::Fragment),
            ("s1/main?sentinel_password=hunter#2secret", UrlPart::Fragment),
            ("s1/main?sentinel_password=", UrlPart::Query),
            ("s1/main?sentinel_password=a&sentinel_password=b", UrlPart::Query),
            ("s1/main?sentinel_username=a:b&sentinel_password=c", UrlPart::Query),
            ("s1,S1/main", UrlPart::Host),
        ] {
            let found = judge(&format!("redis+sentinel://{rest}"), false).unwrap_err();
            assert_eq!(found.0, part, "{rest}: {}", found.1);
        }
    }
}
