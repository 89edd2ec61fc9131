//! URLs: what each wrong one is told, and that no text ever shows a password.

use std::fmt::Write as _;

use proptest::prelude::*;
use quorlock::{AddressError, ConfigError, Redlock, UrlPart, node::NodeSpec};

/// What the last of three nodes is told of this URL.
fn told(url: &str) -> (UrlPart, String) {
    let builder = Redlock::builder().nodes(["redis://127.0.0.1:1", "redis://127.0.0.1:2"]);
    let error = match builder.node(url).build() {
        Err(error) => error,
        Ok(redlock) => panic!("`{url}` is accepted as {:?}", redlock.nodes()),
    };
    let text = error.to_string();
    let ConfigError::Address { wrong } = &error else { panic!("{url}: {text}") };
    let [wrong] = &**wrong else { panic!("{url}: {text}") };
    assert_eq!(wrong.index, 2);
    let message = text.strip_prefix("the address of node 2 cannot be used: ").expect(&text);
    assert_eq!(message, wrong.error.to_string());
    let AddressError::Invalid { part, .. } = wrong.error else { panic!("{url}: {text}") };
    (part, message.to_owned())
}

#[test]
fn each_wrong_url_is_told_which_part_is_wrong_and_what_to_write() {
    use UrlPart::*;
    let escape = "a user name or password must be percent-encoded; write `/` as %2F, `?` as %3F, \
                  `#` as %23 and `@` as %40";
    let no_host = "the host is missing; write `redis://host:port`, with credentials \
                   `redis://user:password@host:port`";
    let blank = "there is a blank or a control character; take it out (in a password write a blank as %20), and give each URL by itself";
    let no_number = "the port must be a number from 1 to 65535; write `redis://host:port`, with \
                     credentials `redis://user:password@host:port`";
    let no_path = "the path of the socket is missing or does not begin with `/`; write three slashes, as in `unix:///run/redis.sock` (`redis://host:port` for TCP)";
    let colons = "there is more than one `:` after the host; write `host:port`, and an IPv6 address \
                  in brackets, as in `redis://[::1]:6379`";
    let cases = [
        ("", Whole, "the URL is empty; write `redis://host:port`", ""),
        (" \n", Whole, "the URL is empty; write `redis://host:port`", ""),
        ("redis://10.0.0.1 redis://10.0.0.2", Whole, blank, "redis://***"),
        ("redis://app:open sesame@10.0.0.1", Whole, blank, "redis://***@10.0.0.1"),
        (
            "127.0.0.1:7401",
            Scheme,
            "the scheme is missing; write `redis://127.0.0.1:7401`",
            "127.0.0.1:7401",
        ),
        ("localhost", Scheme, "the scheme is missing; write `redis://localhost`", "localhost"),
        ("redis:6379", Scheme, "the scheme is missing; write `redis://redis:6379`", "redis:6379"),
        ("hunter2", Scheme, "the scheme is missing; write `redis://host:port`", "***"),
        (
            "app:hunter2@10.0.0.1",
            Scheme,
            "the scheme is missing; write `redis://***@10.0.0.1`",
            "***@10.0.0.1",
        ),
        (
            "/run/redis.sock",
            Scheme,
            "the scheme is missing; write `unix:///path` for a socket, or `redis://host:port`",
            "***",
        ),
        ("redis:/10.0.0.1", Scheme, "`://` must follow the scheme; write `redis://host`", "***"),
        (
            "reds://10.0.0.1:7401",
            Scheme,
            "the scheme `reds` is not known; did you mean `redis://`?",
            "reds://10.0.0.1:7401",
        ),
        (
            "redsis://app:hunter2@10.0.0.1",
            Scheme,
            "the scheme `redsis` is not known; did you mean `redis://`?",
            "redsis://***@10.0.0.1",
        ),
        (
            "valky://10.0.0.1",
            Scheme,
            "the scheme `valky` is not known; did you mean `valkey://`? (TCP is `redis://`)",
            "valky://10.0.0.1",
        ),
        (
            "http://10.0.0.1:7401",
            Scheme,
            "the scheme `http` is not one of a Redis server; write `redis://10.0.0.1:7401`",
            "http://10.0.0.1:7401",
        ),
        (
            "https://10.0.0.1",
            Scheme,
            "the scheme `https` is not one of a Redis server; write `rediss://10.0.0.1`, or \
             `redis://` without TLS",
            "https://10.0.0.1",
        ),
        (
            "amqp://10.0.0.1",
            Scheme,
            "the scheme `amqp` is not known; write `redis://`, `rediss://` for TLS, or `unix:///path`",
            "amqp://10.0.0.1",
        ),
        ("redis://", Host, no_host, "redis://"),
        ("redis://:7401", Host, no_host, "redis://:***"),
        ("redis://app:hunter2@", Host, no_host, "redis://***@"),
        ("redis://app:hunter2@:7401/1", Host, no_host, "redis://***@:***"),
        (
            "redis://a,b",
            Host,
            "a URL names one server; give each server a URL of its own",
            "redis://***",
        ),
        (
            "redis://0.0.0.0:7401",
            Host,
            "a server listens on `0.0.0.0` but is not reached there; name its address",
            "redis://0.0.0.0:7401",
        ),
        (
            "redis://fe80::1",
            Host,
            "an IPv6 address stands in brackets; write `redis://[fe80::1]`, and a port after them",
            "redis://fe80::1",
        ),
        ("redis://10.0.0.1:7401:7402", Host, colons, "redis://***"),
        (
            "redis://[::1",
            Host,
            "the bracket of an IPv6 address is not closed, or something other than `:port` follows it; write \
             `redis://[::1]:6379`",
            "redis://***",
        ),
        (
            "redis://[10.0.0.1]",
            Host,
            "there is no IPv6 address in the brackets; write `redis://[::1]:6379` (without a zone), \
             and other hosts without brackets",
            "redis://[10.0.0.1]",
        ),
        (
            "redis://ho!st",
            Host,
            "a host has only ASCII letters and digits, `.`, `-` and `_`; write \
             `redis://host:port` (special characters of a password are percent-encoded)",
            "redis://***",
        ),
        (
            "redis://127.0.0.1:",
            Port,
            "the port is missing after `:`; write it, or leave out the `:` for 6379",
            "redis://127.0.0.1:",
        ),
        ("redis://127.0.0.1:port", Port, no_number, "redis://127.0.0.1:***"),
        ("redis://app:hunter2", Port, no_number, "redis://app:***"),
        (
            "redis://127.0.0.1:74011",
            Port,
            "the port is out of range; it must be from 1 to 65535",
            "redis://127.0.0.1:74011",
        ),
        (
            "redis://127.0.0.1:0",
            Port,
            "the port is out of range; it must be from 1 to 65535",
            "redis://127.0.0.1:0",
        ),
        (
            "redis://127.0.0.1/abc",
            Database,
            "the database must be a number, as in `redis://host/3`",
            "redis://127.0.0.1/abc",
        ),
        (
            "redis://127.0.0.1/-1",
            Database,
            "the database must be a number, as in `redis://host/3`",
            "redis://127.0.0.1/-1",
        ),
        (
            "unix:///run/redis.sock?db=x",
            Database,
            "the database must be a number, as in `redis://host/3`",
            "unix:///run/redis.sock?***",
        ),
        (
            "redis://app:hun@ter2@10.0.0.1",
            Credentials,
            "there is more than one `@`; write those of the user name and the password as %40",
            "redis://***@10.0.0.1",
        ),
        ("redis://app:hunter/2@10.0.0.1", Credentials, escape, "redis://***@10.0.0.1"),
        // A library would take `app` for a host and 12 for its port, and leave out the rest.
        ("redis://app:12#34@10.0.0.1", Credentials, escape, "redis://***@10.0.0.1"),
        ("redis://app:hun?ter2@10.0.0.1", Credentials, escape, "redis://***"),
        (
            "redis://hunter2@10.0.0.1",
            Credentials,
            "there is a user name without a password; write `user:password@`, or `:password@` for \
             the default user",
            "redis://***@10.0.0.1",
        ),
        (
            "redis://app:%ff@10.0.0.1",
            Credentials,
            "the user name or the password is not UTF-8 after percent-decoding; write `%` as %25",
            "redis://***@10.0.0.1",
        ),
        (
            "redis://10.0.0.1?timeout=5",
            Query,
            "there is a parameter `timeout` beside the known ones (`protocol`); leave it out, and use a setting of \
             the builder instead",
            "redis://10.0.0.1?***",
        ),
        (
            "redis://10.0.0.1?hunter2",
            Query,
            "there is a parameter beside the known ones (`protocol`); leave it out, and use a setting of the builder \
             instead",
            "redis://10.0.0.1?***",
        ),
        (
            "redis://10.0.0.1?db=3",
            Query,
            "the database stands in the path, as in `redis://host/3`",
            "redis://10.0.0.1?***",
        ),
        (
            "redis://10.0.0.1?protocol=resp2",
            Query,
            "the protocol is always RESP3; leave `protocol` out",
            "redis://10.0.0.1?***",
        ),
        (
            "redis://10.0.0.1#insecure",
            Fragment,
            "what follows `#` is the name of the node, of letters, digits, `-`, `.`, `_` and `:`; write it, or leave \
             it out (in a password write `#` as %23)",
            "redis://10.0.0.1#***",
        ),
        (
            "unix:///run/redis.sock?pass=abc#hunter2",
            Fragment,
            "what follows `#` may be a part of the password; write `#` in it as %23, and name the \
             node by `NodeSpec::named`",
            "unix:///run/redis.sock?***",
        ),
        ("unix://", Path, no_path, "unix://"),
        ("unix:///", Path, no_path, "unix:///"),
        ("unix://run/redis.sock", Path, no_path, "unix://run/redis.sock"),
        (
            "unix://app:hunter2@/run/redis.sock",
            Credentials,
            "the credentials of a socket stand in the query; write \
             `unix:///path?user=name&pass=password`, and `@` in a path as %40",
            "unix://***@/run/redis.sock",
        ),
    ];
    let mut wrong = String::new();
    for (url, part, reason, shown) in cases {
        let text = if shown.is_empty() { reason.into() } else { format!("in `{shown}` {reason}") };
        let expected = (part, text);
        let was = told(url);
        if was != expected {
            writeln!(wrong, "{url:?}\n  is told {was:?}\n  and not {expected:?}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn a_wrong_url_of_sentinels_is_told_which_part_is_wrong() {
    let master = "the name of the master, of letters, digits, `-`, `.` and `_`, must follow the Sentinels; write `redis+sentinel://host,host,host/mymaster`";
    let cases = [
        ("redis+sentinel://s1,s2,s3", UrlPart::Path, master, "redis+sentinel://s1,s2,s3"),
        (
            "valkey+sentinel://app:hunter2@s1,s2/",
            UrlPart::Path,
            master,
            "valkey+sentinel://***@s1,s2/",
        ),
        (
            "redis+sentinel://s1,s1/main",
            UrlPart::Host,
            "a Sentinel is named twice; name each once",
            "redis+sentinel://s1,s1/main",
        ),
        (
            "redis+sentinel://s1/main?sentinel_username=hunter2",
            UrlPart::Query,
            "there is a user of the Sentinels without a password; add `sentinel_password`",
            "redis+sentinel://s1/main?***",
        ),
        (
            "redis+sentinels://s1/main",
            UrlPart::Scheme,
            "the scheme `redis+sentinels` is not known; did you mean `redis+sentinel://`? (TCP is `redis://`)",
            "redis+sentinels://s1/main",
        ),
    ];
    for (url, part, reason, shown) in cases {
        assert_eq!(told(url), (part, format!("in `{shown}` {reason}")), "{url}");
    }
}

#[test]
fn a_list_is_split_at_commas_and_blanks_that_are_not_between_sentinels() {
    let group = "redis+sentinel://s1,s2:7,s3/main?protocol=3";
    for (list, urls) in [
        ("", &[][..]),
        (" , ,", &[]),
        ("redis://a", &["redis://a"]),
        ("redis://a,redis://b redis://c\n", &["redis://a", "redis://b", "redis://c"]),
        (group, &[group]),
        (&format!("{group},redis://a"), &[group, "redis://a"]),
        ("REDIS+SENTINEL://a,b/c", &["REDIS+SENTINEL://a,b/c"]),
        (&format!("redis://a,{group},{group}"), &["redis://a", group, group]),
        ("redis+sentinel://s1,s2 redis://a/3", &["redis+sentinel://s1,s2", "redis://a/3"]),
        ("redis://ü,ü+sentinel://ü,ü/ü,ü", &["redis://ü", "ü+sentinel://ü,ü/ü", "ü"]),
    ] {
        assert_eq!(NodeSpec::urls(list).collect::<Vec<_>>(), urls, "{list}");
    }
}

#[test]
fn every_wrong_url_of_a_list_is_named() {
    let urls = ["redis://10.0.0.1:", "redis://10.0.0.2", "redis://app:hunter2@10.0.0.3/x"];
    let error = Redlock::builder().nodes(urls).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the addresses of 2 nodes cannot be used: \
         node 0: in `redis://10.0.0.1:` the port is missing after `:`; write it, or leave out the `:` \
         for 6379; \
         node 2: in `redis://***@10.0.0.3/x` the database must be a number, as in `redis://host/3`"
    );
    let ConfigError::Address { wrong } = error else { unreachable!() };
    assert_eq!(wrong.iter().map(|wrong| wrong.index).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn what_is_right_is_accepted() {
    for url in [
        "redis://localhost",
        "redis://redis-1.example:7401/",
        "redis://under_score/15/",
        " REDIS://127.0.0.1:1\n",
        "valkey://[::1]:65535",
        "redis://:p%40ss%2Fw%23rd@10.0.0.1/0",
        "redis://app:p:w%25@10.0.0.1?protocol=resp3",
        "redis://app:@10.0.0.1",
        "unix:///run/redis%401.sock?db=3&user=app&pass=a%40b",
        "redis+unix:///run/redis.sock",
    ] {
        if url.contains("unix") && cfg!(not(unix)) {
            continue;
        }
        let redlock = Redlock::builder().node(url).build();
        assert!(redlock.is_ok(), "{url}: {redlock:?}");
    }
}

/// With a feature of TLS it depends on the provider of the process.
#[cfg(not(feature = "tls-rustls"))]
#[test]
fn a_url_for_tls_without_the_feature_names_it() {
    let error = Redlock::builder().node("rediss://app:hunter2@10.0.0.1").build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the address of node 0 cannot be used: `rediss://***@10.0.0.1` asks for TLS, which is not compiled in; enable \
         the feature `tls-rustls-ring` of quorlock (or `tls-rustls`, and install \
         a crypto provider), or write `redis://`"
    );
}

/// A character of a password: letters that stand in no text of ours, and what has a meaning in a URL.
fn secret() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        6 => proptest::sample::select(vec!['Z', 'Y', 'é', '7']),
        3 => proptest::sample::select(r#"/?#@:%&=[]\+-. "<>~!$,;"#.chars().collect::<Vec<_>>()),
    ];
    proptest::collection::vec(letter, 4..16).prop_map(String::from_iter)
}

fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(texts)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    /// A password as users put it, with anything around it, and in a query.
    #[test]
    fn no_text_shows_a_password(
        scheme in one_of(&[
            "redis://", "rediss://", "valkey://", "unix://", "unix:///", "reds://", "http://", "redis:", "redis:/",
            "redis//", "redis", "", " redis://", "REDIS://", "redis://redis://", "::", "//", "re dis://",
            "redis+sentinel://", "valkey+sentinel://",
        ]),
        user in one_of(&["", ":", "app:", "a@b:", "a/b:", "a#b:", "a?b:", "a b:", "app::", "%:", "localhost:"]),
        password in secret(),
        place in one_of(&[
            "", "host", "10.0.0.1:7401", "[::1]:7401", "[::1", "host:port", "host:", "host:74011", "host/abc",
            "host/3/4", "::1", "host?db=1", "host#x", "a b", "host:1:2", "/run/redis.sock", "host,other", "s1,s2:1/main", "s1/main/3",
        ]),
        query in proptest::option::of(one_of(&["pass=", "password=", "user=app&pass=", "db=1&pass=", "db=x&pass=", "", "sentinel_password="])),
    ) {
        let url = match query {
            // A secret of a query is a query of its own: a second `?` belongs to it.
            Some(name) => format!("{scheme}{place}?{name}{password}"),
            None => format!("{scheme}{user}{password}@{place}"),
        };
        let spec = NodeSpec::from(&url);
        let builder = Redlock::builder().node(spec.clone());
        let mut shown = format!("{spec:?} {builder:?}");
        match builder.build() {
            Ok(redlock) => write!(shown, "{redlock:?} {:?}", redlock.nodes()).unwrap(),
            Err(error) => {
                write!(shown, "{error} {error:?} {}", quorlock::ConnectError::from(error.clone())).unwrap();
            }
        }
        prop_assert!(!shown.contains(&password), "{url:?} is shown as {shown}");
        prop_assert!(!shown.contains(['Z', 'Y', 'é']), "{url:?}: {shown}");
    }

    /// Whatever it is, it is judged and does not panic.
    #[test]
    fn garbage_is_judged(url in "\\PC{0,40}|[a-z:/?#@%\\[\\].0-9 ]{0,30}") {
        let _ = Redlock::builder().node(url).build();
    }
}
