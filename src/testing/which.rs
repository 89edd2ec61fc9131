//! Some nodes of a fleet, as a test writes them.

use std::ops::{Range, RangeFull, RangeInclusive};

/// Nodes by their places, counted from zero: `1`, `0..3`, `0..=2`, `[0, 4]`, or `..` for all.
pub trait Which: sealed::Sealed {}

impl<T: sealed::Sealed> Which for T {}

mod sealed {
    #[allow(unnameable_types, reason = "nobody else implements it")]
    pub trait Sealed {
        fn places(self, count: usize) -> Vec<usize>;
    }
}

impl sealed::Sealed for usize {
    fn places(self, _: usize) -> Vec<usize> {
        vec![self]
    }
}

impl sealed::Sealed for Range<usize> {
    fn places(self, _: usize) -> Vec<usize> {
        self.collect()
    }
}

impl sealed::Sealed for RangeInclusive<usize> {
    fn places(self, _: usize) -> Vec<usize> {
        self.collect()
    }
}

impl sealed::Sealed for RangeFull {
    fn places(self, count: usize) -> Vec<usize> {
        (0..count).collect()
    }
}

impl<const N: usize> sealed::Sealed for [usize; N] {
    fn places(self, _: usize) -> Vec<usize> {
        self.to_vec()
    }
}
