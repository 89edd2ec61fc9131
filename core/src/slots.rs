//! The slots of a semaphore: each of them is a resource of its own, and the holder of one has a permit.
//!
//! It decides what they are called, and in which line those stand who wait for any of them. It must never let two
//! semaphores with one name have different slots: that of a larger one begins with those of a smaller one.

use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use core::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
};

use super::resource::{Resource, ResourceError};

/// All slots of one semaphore. A clone is cheap.
///
/// ```
/// use quorlock_core::Slots;
///
/// let slots = Slots::new(b"", "api", 2)?;
/// assert_eq!(slots.all().iter().map(ToString::to_string).collect::<Vec<_>>(), ["api/0", "api/1"]);
/// assert_eq!(slots.line().as_bytes(), b"quorlock:slots:api");
/// # Ok::<(), quorlock_core::ResourceError>(())
/// ```
#[derive(Clone)]
pub struct Slots(Arc<Named>);

struct Named {
    name: Resource,
    line: Resource,
    all: Box<[Resource]>,
}

impl Slots {
    /// The most slots of a semaphore. A node looks through all of them in one step, and answers nobody meanwhile.
    pub const MOST: usize = 256;

    /// So many slots of a name behind a prefix: slot 7 is the resource that is called as the semaphore, `/` and 7.
    ///
    /// # Errors
    ///
    /// [`ResourceError::Permits`] for none, or more than [`Slots::MOST`]; the others for a name that no resource can
    /// have.
    pub fn new(prefix: &[u8], name: impl AsRef<[u8]>, count: usize) -> Result<Self, ResourceError> {
        if !(1..=Self::MOST).contains(&count) {
            return Err(ResourceError::Permits { permits: count, max: Self::MOST });
        }
        let name = name.as_ref();
        let key = Resource::behind(prefix, name)?;
        let line = Resource::line_of_slots(&key)?;
        let called = |end: &[u8]| Resource::behind(prefix, [name, b"/", end].concat());
        let slots = (0..count).map(|number| called(format!("{number}").as_bytes()));
        let all = slots.collect::<Result<Box<[Resource]>, ResourceError>>()?;
        Ok(Self(Arc::new(Named { name: key, line, all })))
    }

    /// In whose line those wait who want any slot, where a resource is called as a slot of a semaphore.
    ///
    /// ```
    /// use quorlock_core::{Resource, Slots};
    ///
    /// let line = Slots::line_of(&Resource::new("api/7")?);
    /// assert_eq!(line.as_ref(), Some(Slots::new(b"", "api", 8)?.line()));
    /// assert_eq!(Slots::line_of(&Resource::new("api/x")?), None);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn line_of(slot: &Resource) -> Option<Resource> {
        let name = slot.as_bytes();
        let at = name.iter().rposition(|byte| *byte == b'/')?;
        let (semaphore, number) = (name.get(..at)?, name.get(at + 1..)?);
        // As the scripts look for it.
        let is_number = (1..=3).contains(&number.len()) && number.iter().all(u8::is_ascii_digit);
        let semaphore = Resource::new(semaphore).ok().filter(|_| is_number)?;
        Resource::line_of_slots(&semaphore).ok()
    }

    /// The name of the semaphore, where those who stand in the line of this name wait for any of its slots.
    ///
    /// ```
    /// use quorlock_core::Slots;
    ///
    /// let line = Slots::new(b"app:", "api", 8)?.line().clone();
    /// assert_eq!(Slots::semaphore_of_line(line.as_bytes()), Some(&b"app:api"[..]));
    /// assert_eq!(Slots::semaphore_of_line(b"app:api"), None);
    /// # Ok::<(), quorlock_core::ResourceError>(())
    /// ```
    pub fn semaphore_of_line(line: &[u8]) -> Option<&[u8]> {
        line.strip_prefix(Resource::SLOTS.as_bytes())
    }

    /// The slots, by their numbers.
    pub fn all(&self) -> &[Resource] {
        &self.0.all
    }

    /// How many there are.
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.0.all.len()
    }

    /// What the semaphore is called, with the prefix of its keys.
    pub fn name(&self) -> &Resource {
        &self.0.name
    }

    /// In whose line those stand who wait for any of them. Nobody can lock it.
    pub fn line(&self) -> &Resource {
        &self.0.line
    }

    /// One of them; `None` where there are not so many.
    pub fn slot(&self, number: u8) -> Option<Slot> {
        let is_there = usize::from(number) < self.len();
        is_there.then(|| Slot { slots: self.clone(), number })
    }

    /// All in the order that begins with this one, with their numbers.
    pub fn from(&self, first: u8) -> impl Iterator<Item = (u8, &Resource)> + Clone {
        let numbered = (0..=u8::MAX).zip(self.all());
        let (skipped, first) = (numbered.clone(), usize::from(first) % self.len());
        numbered.skip(first).chain(skipped.take(first))
    }

    /// All but this one, for a release: what their numbers are makes no difference there. `None` where no other is left.
    #[must_use]
    pub fn without(&self, number: u8) -> Option<Self> {
        let others: Vec<Resource> = self
            .from(0)
            .filter(|(other, _)| *other != number)
            .map(|(_, name)| name.clone())
            .collect();
        let (name, line) = (self.0.name.clone(), self.line().clone());
        (!others.is_empty())
            .then(|| Self(Arc::new(Named { name, line, all: others.into_boxed_slice() })))
    }
}

impl PartialEq for Slots {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.line() == other.line() && self.all() == other.all()
    }
}

impl Eq for Slots {}

impl Ord for Slots {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        (self.line(), self.len(), self.all()).cmp(&(other.line(), other.len(), other.all()))
    }
}

impl PartialOrd for Slots {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Slots {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The slots follow from these two, but for those of a release.
        (self.line(), self.len()).hash(state);
    }
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/*", self.0.name)
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slots({self}, {})", self.len())
    }
}

/// One slot of a semaphore.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Slot {
    slots: Slots,
    number: u8,
}

impl Slot {
    /// Its number, from zero.
    pub const fn number(&self) -> u8 {
        self.number
    }

    /// The resource that it is.
    pub fn resource(&self) -> &Resource {
        self.slots.all().get(usize::from(self.number)).unwrap_or_else(|| self.slots.line())
    }

    /// In whose line those stand who wait for any of them.
    pub fn line(&self) -> &Resource {
        self.slots.line()
    }
}
