//! The owner: the random value of one acquire round, which proves whose key it is.
//!
//! It is handed in as random bytes and never drawn here. A value is never used for two rounds: a
//! late release of one round must not delete what another round has set.

use core::{fmt, str::FromStr};

/// The random value of one acquire round, a version 4 UUID.
///
/// It is the value of the Redis key, written as 32 hexadecimal digits: ASCII, because some clients
/// mangle other bytes.
///
/// ```
/// use quorlock_core::Owner;
///
/// let owner = Owner::from_random([0xab; 16]);
/// assert_eq!(owner.to_string(), "abababababab4b".to_owned() + &"ab".repeat(9));
/// assert_eq!(owner.to_hex().as_slice(), owner.to_string().as_bytes());
/// assert_eq!(owner.to_string().parse(), Ok(owner));
/// ```
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Owner([u8; 16]);

impl Owner {
    /// Makes an owner of 16 random bytes, of which six bits become the UUID's version and variant.
    ///
    /// The bytes must come from a cryptographic source, fresh for every round.
    pub const fn from_random(mut bytes: [u8; 16]) -> Self {
        // RFC 9562: version 4 in the high half of byte 6, variant 0b10 in the top bits of byte 8.
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }

    /// Reads the value on a node; `None` unless [`to_hex`](Owner::to_hex) writes it.
    pub fn from_hex(text: &[u8]) -> Option<Self> {
        let digit =
            |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks(2)) {
            let [high, low] = pair else { return None };
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        // A value that differs from what we write, in length, case or the version's bits, is another program's.
        let owner = Self::from_random(bytes);
        (owner.to_hex() == text).then_some(owner)
    }

    /// A random byte that spreads out clients which would act at the same time.
    pub(crate) const fn random_byte(self) -> u8 {
        let [.., last] = self.0;
        last
    }

    /// The value on the nodes: 32 lower-case hexadecimal digits.
    pub fn to_hex(self) -> [u8; 32] {
        const fn digit(half: u8) -> u8 {
            if half < 10 { b'0' + half } else { b'a' + half - 10 }
        }
        let mut hex = [0; 32];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0x0f)]);
        }
        hex
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

impl FromStr for Owner {
    type Err = InvalidOwner;

    /// Reads what [`to_hex`](Owner::to_hex) and `Display` write, and nothing else.
    fn from_str(text: &str) -> Result<Self, InvalidOwner> {
        const fn digit(byte: u8) -> Option<u8> {
            match byte {
                b'0'..=b'9' => Some(byte - b'0'),
                b'a'..=b'f' => Some(byte - b'a' + 10),
                _ => None,
            }
        }
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let mut bytes = [0; 16];
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return Err(InvalidOwner);
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
                return Err(InvalidOwner);
            };
            *byte = high << 4 | low;
        }
        // The version and the variant are part of what an owner is.
        let owner = Self::from_random(bytes);
        if owner.0 == bytes { Ok(owner) } else { Err(InvalidOwner) }
    }
}

/// The text is no owner of a lease, which is 32 lower-case hexadecimal digits of a version 4 UUID. It is the value of a
/// key that another program has set.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct InvalidOwner;

debug_is_text! { struct InvalidOwner }

impl fmt::Display for InvalidOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an owner is 32 lower-case hexadecimal digits of a version 4 UUID")
    }
}

impl core::error::Error for InvalidOwner {}
