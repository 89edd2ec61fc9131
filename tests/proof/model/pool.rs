//! Parts of states, each kept once and known by a number.
//!
//! Goal: a state that consists of a few machines takes a few bytes, however large the machines are. Method: parts that are
//! equal in all that they hold have one number, so that states are equal exactly where their numbers are.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hash, Hasher},
    ops::Deref,
    rc::Rc,
};

/// A quick hash, for tables that compare what they find.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mixer(u64);

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Mixer {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(ODD);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }
    fn write_u8(&mut self, number: u8) {
        self.mix(u64::from(number));
    }
    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }
    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }
    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }
    fn write_isize(&mut self, number: isize) {
        self.mix(number as u64);
    }
    fn finish(&self) -> u64 {
        let high = (self.0 ^ self.0 >> 32).wrapping_mul(ODD);
        high ^ high >> 29
    }
}

/// One part of a state, which may be shared by many; with its number, where it has not changed since it was given one.
#[derive(Debug)]
pub(crate) struct Part<T> {
    value: Rc<T>,
    number: Option<u32>,
}

impl<T> Clone for Part<T> {
    fn clone(&self) -> Self {
        Self { value: Rc::clone(&self.value), number: self.number }
    }
}

impl<T> Deref for Part<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Clone> Part<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Rc::new(value), number: None }
    }

    /// The same for a change of it.
    pub(crate) fn edit(&mut self) -> &mut T {
        self.number = None;
        Rc::make_mut(&mut self.value)
    }
}

/// All parts of one kind.
pub(crate) struct Pool<T> {
    numbers: HashMap<Rc<T>, u32, BuildHasherDefault<Mixer>>,
    parts: Vec<Rc<T>>,
}

impl<T: Clone + Eq + Hash> Pool<T> {
    pub(crate) fn new() -> Self {
        Self { numbers: HashMap::default(), parts: Vec::new() }
    }

    pub(crate) fn number(&mut self, part: &Part<T>) -> u32 {
        if let Some(number) = part.number {
            return number;
        }
        if let Some(number) = self.numbers.get(&part.value) {
            return *number;
        }
        let number = u32::try_from(self.parts.len()).unwrap();
        self.parts.push(Rc::clone(&part.value));
        self.numbers.insert(Rc::clone(&part.value), number);
        number
    }

    pub(crate) fn part(&self, number: u32) -> Part<T> {
        Part { value: Rc::clone(&self.parts[number as usize]), number: Some(number) }
    }
}
