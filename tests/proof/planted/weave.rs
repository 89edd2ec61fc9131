//! The copy of `src/protocol` into which the faults are woven.
//!
//! Goal: one build in which each fault can be switched on, and a build that fails when a fault has lost its place. Method:
//! every original text becomes a choice between itself and what is wrong, by `crate::switch::is`. Functions are not
//! `const` in the copy, since what is chosen depends on when it runs; and tests that stand in the production's files are left out.

use std::{fmt::Write as _, fs, ops::Range, path::Path};

use super::faults::{FAULTS, Fault};

/// Here they are: constants are made of them.
const CONST: [&str; 1] = ["time.rs"];

/// Copies everything below `from`, with the faults of all files.
pub(crate) fn weave(from: &Path, to: &Path) {
    let mut woven = 0;
    copy(from, from, to, &mut woven);
    assert_eq!(woven, FAULTS.len(), "a fault names a file that is not there");
}

fn copy(root: &Path, from: &Path, to: &Path, woven: &mut usize) {
    fs::create_dir_all(to).expect("a directory in OUT_DIR");
    for entry in fs::read_dir(from).expect("the production's protocol") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(root, &path, &target, woven);
            continue;
        }
        let name = path.strip_prefix(root).expect("below the root").to_str().expect("a plain name");
        let faults: Vec<&Fault> = FAULTS.iter().filter(|fault| fault.file == name).collect();
        *woven += faults.len();
        let text = fs::read_to_string(&path).expect("a source file");
        let mut text = with(&text, &faults).replace("#[cfg(test)]", "#[cfg(any())]");
        if !CONST.contains(&name) {
            text = text.replace("const fn ", "fn ");
        }
        if fs::read_to_string(&target).ok().as_ref() != Some(&text) {
            fs::write(&target, text).expect("a file in OUT_DIR");
        }
    }
}

/// The text with all faults of its file.
fn with(text: &str, faults: &[&Fault]) -> String {
    // Those for the same place are one choice.
    let mut places: Vec<(Range<usize>, Vec<&Fault>)> = Vec::new();
    for fault in faults {
        let found: Vec<usize> = text.match_indices(fault.original).map(|(at, _)| at).collect();
        let [at] = found[..] else {
            panic!(
                "fault {} ({}): its original text stands {} times in {}, and must stand there once:\n{}",
                fault.number,
                fault.name,
                found.len(),
                fault.file,
                fault.original
            );
        };
        let range = at..at + fault.original.len();
        match places.iter_mut().find(|(other, _)| *other == range) {
            Some((_, same)) => same.push(fault),
            None => places.push((range, vec![fault])),
        }
    }
    places.sort_by_key(|(range, _)| range.start);
    let (mut woven, mut at) = (String::new(), 0);
    for (range, faults) in places {
        assert!(range.start >= at, "two faults overlap at {:?} of {}", range, faults[0].file);
        woven.push_str(&text[at..range.start]);
        woven.push_str(&choice(&text[range.clone()], &faults));
        at = range.end;
    }
    woven.push_str(&text[at..]);
    woven
}

fn choice(original: &str, faults: &[&Fault]) -> String {
    let is_statement = original.ends_with(';') || original.ends_with('}');
    let mut choice = String::new();
    for fault in faults {
        let Fault { number, broken, .. } = fault;
        write!(choice, "if crate::switch::is({number}) {{ {broken} }} else ").expect("a string");
    }
    write!(choice, "{{ {original} }}").expect("a string");
    if is_statement { choice } else { format!("({choice})") }
}
