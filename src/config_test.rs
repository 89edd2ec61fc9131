//! The defaults are valid, and each knob is refused beyond either end.

use super::*;

#[test]
fn the_defaults_are_valid() {
    Config::default().validate().unwrap();
}

#[test]
fn every_knob_is_refused_beyond_either_end() {
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 18] = [
        ("ttl", |c| c.ttl = Duration::ZERO),
        ("drift per mille", |c| c.drift_per_mille = 0),
        ("drift per mille", |c| c.drift_per_mille = 501),
        ("drift fixed part", |c| c.drift_fixed = Duration::from_secs(2)),
        ("node_timeout", |c| c.node_timeout = Duration::ZERO),
        ("node_timeout", |c| c.node_timeout = Duration::from_secs(61)),
        ("connect_timeout", |c| c.connect_timeout = Duration::ZERO),
        ("retry minimum", |c| c.retry_min = Duration::ZERO),
        ("retry maximum", |c| c.retry_max = Duration::from_micros(500)),
        ("retry maximum", |c| c.retry_max = Duration::from_secs(61)),
        ("close_timeout", |c| c.close_timeout = Duration::MAX),
        ("counter_retention", |c| c.counter_retention = Duration::from_millis(999)),
        ("counter_retention", |c| c.counter_retention = Duration::from_secs(31 * 86_400)),
        ("key_prefix bytes", |c| c.key_prefix = vec![b'x'; MAX_PREFIX + 1]),
        ("fleet name bytes", |c| c.fleet.clear()),
        ("label bytes", |c| c.label = Err(0)),
        ("label bytes", |c| c.label = Err(Label::MAX_BYTES + 1)),
        ("fleet name bytes", |c| c.fleet = "x".repeat(MAX_FLEET + 1)),
    ];
    for (expected, change) in changes {
        let mut config = Config::default();
        change(&mut config);
        match config.validate() {
            Err(ConfigError::OutOfRange { knob, .. }) => assert_eq!(knob, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn a_ttl_above_max_ttl_is_refused_with_what_raising_that_costs() {
    let most = Duration::from_secs(40);
    let of = |ttl| Config { ttl, max_ttl: most, ..Config::default() };
    of(most).validate().unwrap();
    for long in [most + Duration::from_nanos(1), Duration::MAX] {
        let error = of(long).validate().unwrap_err();
        let says = matches!(error, ConfigError::TtlTooLong { ttl, max_ttl } if (ttl, max_ttl) == (long, most));
        assert!(says, "{error:?}");
        assert!(
            error.to_string().contains(
                "waits the new max_ttl, a tenth of it and two node timeouts before it votes"
            ),
            "{error}"
        );
    }
    // There is no such limit in classic mode, and so none to raise.
    let config = Config { classic: true, ..of(Duration::MAX) };
    assert!(matches!(config.validate(), Err(ConfigError::OutOfRange { knob: "ttl", .. })));
}

#[test]
fn a_ttl_that_leaves_nothing_is_refused() {
    let config = Config { min_validity: Duration::from_secs(10), ..Config::default() };
    assert!(matches!(config.validate(), Err(ConfigError::TtlTooShort { .. })));
}

#[test]
fn node_counts_are_judged() {
    let config = Config::default();
    assert!(matches!(config.check_node_count(0), Err(ConfigError::NoNodes)));
    assert!(matches!(config.check_node_count(2), Err(ConfigError::TwoNodes)));
    assert!(matches!(config.check_node_count(33), Err(ConfigError::TooManyNodes { nodes: 33 })));
    for nodes in [1, 3, 4, 5, 32] {
        config.check_node_count(nodes).unwrap();
    }
    let config = Config { allow_two_nodes: true, ..config };
    config.check_node_count(2).unwrap();
}
