//! What the small numbers of the steps stand for: owners, clients, resources, semaphores, notes, and values that
//! another program writes. It decides nothing.

use crate::protocol::{ClientId, KeyHolder, Label, Note, Owner, Resource, Slots};

/// How many names there are, of resources and of keys of other programs.
pub(super) const NAMES: u8 = 6;

pub(super) fn name(number: u8) -> Vec<u8> {
    match number {
        0 => b"a".to_vec(),
        1 => b"\0".to_vec(),
        2 => b"\xff\xfe \r\n{}$%".to_vec(),
        3 => b"quorlock".to_vec(),
        // The name of a slot.
        4 => b"s0/1".to_vec(),
        _ => vec![b'n'; 200],
    }
}

pub(super) fn owner(number: u8) -> Owner {
    Owner::from_random([number; 16])
}

pub(super) fn client_id(number: u8) -> ClientId {
    ClientId::new([0xa0 + number; 8])
}

/// The number of the client with this name.
pub(super) fn number_of(client: ClientId) -> String {
    let number = (0..64).find(|number| client_id(*number) == client);
    number.map_or_else(|| client.to_string(), |number| number.to_string())
}

pub(super) fn label() -> Label {
    Label::new(b"host\0 7\xff").expect("a label")
}

pub(super) fn note(number: u8) -> Note {
    Note::new(if number == 0 { 0 } else { u64::from(number) << 50 }, label())
}

pub(super) fn resource(number: u8) -> Resource {
    Resource::new(name(number)).expect("a name")
}

pub(super) fn slots(number: u8) -> Slots {
    let count = [4, 1, 256][usize::from(number)];
    Slots::new(b"", format!("s{number}"), count).expect("a semaphore")
}

/// What another program writes: text, the name of an owner, or what readers write.
pub(super) fn foreign(number: u8) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1 => b"theirs".to_vec(),
        2 => vec![0xff; 100],
        3 => owner(0).to_hex().to_vec(),
        4 => owner(1).to_hex().to_vec(),
        5 => KeyHolder::SHARED.to_vec(),
        6 => [owner(2).to_hex().as_slice(), b"x"].concat(),
        7 => b"shared by readers, see quorlock!".to_vec(),
        8 => [owner(2).to_hex().as_slice(), b"\0"].concat(),
        _ => owner(2).to_hex().repeat(2),
    }
}
