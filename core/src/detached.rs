//! A lease that its holder has let go of without releasing it, for whoever adopts it: a plain value, and its text.
//!
//! It decides the form of the text, and refuses any other. It knows neither whether the keys still stand nor who adopts
//! them.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::{fmt, str::FromStr, time::Duration};

use super::{
    fencing::FencingToken,
    owner::Owner,
    resource::{Resource, ResourceError},
    target::{ResourceSet, Target},
};

/// What the text begins with: the version of its form.
const FORM: &str = "quorlock-lease-1";

/// A lease that nobody holds and that keeps all others out, until it is adopted or its keys expire.
///
/// `Lease::detach` makes it, in the step in which its lease ends. Its text goes to another process, or to a file; with
/// the feature `serde` it is a string. Any process that has the text can adopt it, by `Redlock::adopt`, and of several
/// who try one succeeds. So keep it from those who must not have the lease.
///
/// ```
/// use core::time::Duration;
/// use quorlock_core::{DetachedLease, FencingToken, Owner, Resource};
///
/// let (owner, token) = (Owner::from_random([7; 16]), FencingToken::new(42));
/// let resource = Resource::new("invoice:42")?;
/// let lease = DetachedLease::new(resource.into(), owner, token, "default", Duration::from_secs(9));
/// let text = lease.to_string();
/// assert_eq!(text, "quorlock-lease-1 07070707070747078707070707070707 42 9000 default invoice:42");
/// assert_eq!(text.parse(), Ok(lease));
/// # Ok::<(), quorlock_core::ResourceError>(())
/// ```
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct DetachedLease {
    target: Target,
    owner: Owner,
    token: FencingToken,
    fleet: Arc<str>,
    left: Duration,
}

/// A text that is no detached lease.
#[derive(Clone, Copy, Eq, PartialEq)]
#[non_exhaustive]
pub enum DetachedLeaseError {
    /// It has another form: it was cut off, changed, or made by another version. Detach the lease again, or acquire.
    Form,
    /// What it names cannot be held.
    Resource(ResourceError),
}

debug_is_text! { enum DetachedLeaseError {
    Form,
    Resource(error),
} }

impl DetachedLease {
    /// The lease of `owner` on one resource or a set, with `left` of its life.
    pub fn new(
        target: Target,
        owner: Owner,
        token: FencingToken,
        fleet: &str,
        left: Duration,
    ) -> Self {
        Self { target, owner, token, fleet: Arc::from(fleet), left }
    }

    /// What is held.
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// The resource, with any prefix. Of several, the first in byte order.
    pub fn resource(&self) -> &Resource {
        self.target.resource()
    }

    /// All resources, in byte order.
    pub fn resources(&self) -> &[Resource] {
        self.target.resources()
    }

    /// The value of the keys on the nodes, until they are adopted.
    pub const fn owner(&self) -> Owner {
        self.owner
    }

    /// The fencing token of the lease. That of who adopts it is above.
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// The name of its fleet.
    pub fn fleet(&self) -> &str {
        &self.fleet
    }

    /// What was left of its life when it was detached, in whole milliseconds: for so long from then it can be adopted,
    /// as long as a quorum of the nodes keeps its keys.
    pub const fn left(&self) -> Duration {
        self.left
    }
}

impl fmt::Display for DetachedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, token, fleet, left, .. } = self;
        write!(f, "{FORM} {owner} {} {} ", token.get(), left.as_millis())?;
        escape(fleet.as_bytes(), f)?;
        for resource in self.resources() {
            f.write_str(" ")?;
            escape(resource.as_bytes(), f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for DetachedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for DetachedLease {
    type Err = DetachedLeaseError;

    fn from_str(text: &str) -> Result<Self, DetachedLeaseError> {
        let mut words = text.trim().split(' ');
        let mut word = || words.next().ok_or(DetachedLeaseError::Form);
        if word()? != FORM {
            return Err(DetachedLeaseError::Form);
        }
        let owner = Owner::from_hex(word()?.as_bytes()).ok_or(DetachedLeaseError::Form)?;
        let token = number(word()?)?;
        let token = FencingToken::try_from(token).map_err(|_| DetachedLeaseError::Form)?;
        let left = Duration::from_millis(number(word()?)?);
        let fleet = unescape(word()?).and_then(|fleet| String::from_utf8(fleet).ok());
        let fleet = fleet.ok_or(DetachedLeaseError::Form)?;
        let resources = words.map(|word| {
            let name = unescape(word).ok_or(DetachedLeaseError::Form)?;
            Resource::new(name).map_err(DetachedLeaseError::Resource)
        });
        let resources = resources.collect::<Result<Vec<_>, _>>()?;
        let set = ResourceSet::new(resources).map_err(DetachedLeaseError::Resource)?;
        let lease = Self::new(set.into(), owner, token, &fleet, left);
        // Any other text for it, as with its resources in another order, was not written here.
        let is_ours = alloc::string::ToString::to_string(&lease) == text.trim();
        if is_ours { Ok(lease) } else { Err(DetachedLeaseError::Form) }
    }
}

fn number(word: &str) -> Result<u64, DetachedLeaseError> {
    word.parse().map_err(|_| DetachedLeaseError::Form)
}

/// Writes printing ASCII as it is, and any other byte, blanks and `%` as `%` and two digits.
fn escape(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for byte in bytes {
        match byte {
            b'!'..=b'~' if *byte != b'%' => fmt::Write::write_char(f, char::from(*byte))?,
            _ => write!(f, "%{byte:02x}")?,
        }
    }
    Ok(())
}

fn unescape(word: &str) -> Option<Vec<u8>> {
    let mut bytes = word.bytes();
    let mut all = Vec::with_capacity(word.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            all.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
        all.push(u8::try_from(high << 4 | low).ok()?);
    }
    Some(all)
}

impl fmt::Display for DetachedLeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str(
                "this is no text of a detached lease: it was cut off, changed, or made by another version; detach the lease \
                 again, or acquire",
            ),
            Self::Resource(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for DetachedLeaseError {}

#[cfg(test)]
mod tests {
    use alloc::{
        format,
        string::{String, ToString},
        vec::Vec,
    };
    use core::time::Duration;

    use super::*;

    fn lease(names: &[&[u8]], fleet: &str) -> DetachedLease {
        let all: Result<Vec<_>, _> = names.iter().map(|name| Resource::new(*name)).collect();
        let target = ResourceSet::new(all.unwrap()).unwrap().into();
        let owner = Owner::from_random([0xab; 16]);
        DetachedLease::new(target, owner, FencingToken::new(7), fleet, Duration::from_millis(1_500))
    }

    #[test]
    fn every_name_comes_back_from_its_text_and_a_text_is_one_line_of_ascii() {
        let odd: Vec<u8> = (0..=255).collect();
        for names in [&[&b"a"[..]][..], &[b" ", b"%", b"%20"], &[&odd, b"b"], &[b"\xff\n"]] {
            for fleet in ["default", "two words", "für", ""] {
                let lease = lease(names, fleet);
                let text = lease.to_string();
                assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text}");
                assert_eq!(text.parse(), Ok(lease.clone()));
                assert_eq!(format!("{text}\n").parse(), Ok(lease), "as a file ends");
            }
        }
    }

    #[test]
    fn a_text_that_is_cut_or_changed_anywhere_is_refused_or_is_another_lease() {
        let (lease, many) = (lease(&[b"a:1", b"b"], "default"), lease(&[b"x"], "f"));
        let text = lease.to_string();
        for end in 0..text.len() {
            assert_ne!(text[..end].parse(), Ok(lease.clone()));
        }
        for at in 0..text.len() {
            for byte in [b' ', b'%', b'0', b'~', b'\n', b'A'] {
                let mut changed = text.clone().into_bytes();
                changed[at] = byte;
                let changed = String::from_utf8(changed).unwrap();
                if changed != text {
                    assert_ne!(changed.parse(), Ok(lease.clone()), "{changed}");
                }
            }
        }
        for wrong in
            ["", "x", &many.to_string().replace("lease-1", "lease-2"), &format!("{many} a")]
        {
            assert_eq!(wrong.parse::<DetachedLease>(), Err(DetachedLeaseError::Form), "{wrong}");
        }
        let reserved = text.replace("a:1", "quorlock:node");
        assert!(matches!(reserved.parse::<DetachedLease>(), Err(DetachedLeaseError::Resource(_))));
    }
}
