//! What is drawn: the same numbers for the same seed.
//!
//! SplitMix64. It is good enough to shuffle faults, and must never be used for an owner or a secret.

/// Numbers that a seed determines.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    /// From the one to the other.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        let part = f64::from(u32::try_from(self.next() >> 32).unwrap_or(0)) / f64::from(u32::MAX);
        part.mul_add(high - low, low)
    }

    pub(crate) fn shuffled<T>(&mut self, items: impl IntoIterator<Item = T>) -> Vec<T> {
        let mut items: Vec<T> = items.into_iter().collect();
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_what_is_drawn() {
        let draw = |seed| {
            let mut dice = Dice::new(seed);
            (dice.shuffled(0..20), dice.below(7), dice.between(2.0, 3.0))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7).0, draw(8).0);
        let (mut items, below, between) = draw(7);
        items.sort_unstable();
        assert_eq!(items, (0..20).collect::<Vec<_>>());
        assert!(below < 7 && (2.0..=3.0).contains(&between));
    }
}
