//! Goal: the parts of a lease that users store come back as they were, in every form, and anything else is refused.
//!
//! Method: round trips at the edges, and texts that differ from a good one by little.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

use quorlock::{FencingToken, Owner};

const BEYOND: u64 = FencingToken::MAX.get() + 1;

#[test]
fn a_token_is_the_same_number_in_every_form() {
    for number in [0, 1, 1_795_170_000_123_457, FencingToken::MAX.get()] {
        let token = FencingToken::new(number);
        let (unsigned, signed, text) = (u64::from(token), i64::from(token), String::from(token));
        assert_eq!(
            (unsigned, signed.cast_unsigned(), &text),
            (number, number, &number.to_string())
        );
        assert_eq!(FencingToken::try_from(unsigned), Ok(token));
        assert_eq!(FencingToken::try_from(signed), Ok(token));
        assert_eq!(text.parse(), Ok(token));
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let in_a_double = unsigned as f64 as u64;
        assert_eq!(in_a_double, number, "exact in JSON and Lua");
    }
}

#[test]
fn what_is_no_token_is_refused() {
    for number in [BEYOND, u64::MAX] {
        assert!(FencingToken::try_from(number).is_err());
        assert_eq!(FencingToken::new(number), FencingToken::MAX);
    }
    for number in [-1, i64::MIN, BEYOND.cast_signed()] {
        assert!(FencingToken::try_from(number).is_err());
    }
    for text in ["", " 7", "7 ", "-7", "0x7", "7.0", "9007199254740992", "18446744073709551616"] {
        assert!(text.parse::<FencingToken>().is_err(), "{text:?}");
    }
}

#[test]
fn an_owner_comes_back_from_its_text_and_from_no_other() {
    let owner = Owner::from_random([0xab; 16]);
    let text = owner.to_string();
    assert_eq!(text.parse(), Ok(owner));
    let changed = |at: usize, to: &str| {
        let mut text = text.clone();
        text.replace_range(at..=at, to);
        text
    };
    // The version, the variant, case, length, and what is no digit.
    let wrong = [
        changed(12, "5"),
        changed(16, "c"),
        changed(0, "A"),
        changed(0, ""),
        changed(0, "aa"),
        changed(0, "g"),
        changed(0, "é"),
        String::new(),
    ];
    for wrong in wrong {
        assert!(wrong.parse::<Owner>().is_err(), "{wrong:?}");
    }
}

#[cfg(feature = "serde")]
#[test]
fn serde_writes_a_number_and_texts_and_reads_nothing_else() {
    use quorlock::LossReason;

    let owner = Owner::from_random([7; 16]);
    let stored = (FencingToken::MAX, owner);
    let json = serde_json::to_string(&stored).unwrap();
    assert_eq!(json, format!("[9007199254740991,\"{owner}\"]"));
    assert_eq!(serde_json::from_str::<(FencingToken, Owner)>(&json).unwrap(), stored);
    let lost = serde_json::to_string(&LossReason::ShutDown).unwrap();
    assert_eq!(lost, "\"shut_down\"");
    for wrong in ["9007199254740992", "-1", "1.5", "\"7\"", "null"] {
        assert!(serde_json::from_str::<FencingToken>(wrong).is_err(), "{wrong}");
    }
    let line = format!("quorlock-lease-1 {owner} 7 1500 default a%20b");
    let detached: quorlock::DetachedLease = line.parse().unwrap();
    let json = serde_json::to_string(&detached).unwrap();
    assert_eq!(json, format!("\"{line}\""));
    assert_eq!(serde_json::from_str::<quorlock::DetachedLease>(&json).unwrap(), detached);
    for wrong in ["7", "\"7\"", "null"] {
        assert!(serde_json::from_str::<Owner>(wrong).is_err(), "{wrong}");
        assert!(serde_json::from_str::<quorlock::DetachedLease>(wrong).is_err(), "{wrong}");
    }
}
