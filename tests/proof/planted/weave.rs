//! The copy of `core/src` into which the faults are woven.
//!
//! Goal: one build in which each fault can be switched on, and a build that fails when a fault has lost its place. Method:
//! every original text becomes a choice between itself and what is wrong, by `crate::switch::is`. Functions are not
//! `const` in the copy, since what is chosen depends on when it runs; tests that stand in the production's files are left out;
//! and what is the root of a crate there is the module `protocol` here.

use std::{fmt::Write as _, fs, ops::Range, path::Path};

use super::faults::{Edit, FAULTS, Fault};

/// Files in which functions stay `const`: constants are made of them.
const CONST: [&str; 1] = ["time.rs"];

/// Copies everything below `from`, with the faults of all files.
pub(crate) fn weave(from: &Path, to: &Path) {
    let mut woven = 0;
    copy(from, from, to, &mut woven);
    let edits: usize = FAULTS.iter().map(|fault| fault.edits.len()).sum();
    assert_eq!(woven, edits, "a fault names a file that is not there");
}

fn copy(root: &Path, from: &Path, to: &Path, woven: &mut usize) {
    fs::create_dir_all(to).expect("a directory in OUT_DIR");
    for entry in fs::read_dir(from).expect("the production's core") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(root, &path, &target, woven);
            continue;
        }
        let name = path.strip_prefix(root).expect("below the root").to_str().expect("a plain name");
        let edits =
            FAULTS.iter().flat_map(|fault| fault.edits.iter().map(move |edit| (fault, edit)));
        let edits: Vec<(&Fault, &Edit)> = edits.filter(|(_, edit)| edit.file == name).collect();
        *woven += edits.len();
        let text = fs::read_to_string(&path).expect("a source file").replace("#![no_std]\n", "");
        let text = text.replace("crate::", "crate::protocol::").replace("$crate::protocol::", "");
        let mut text = with(&text, &edits).replace("#[cfg(test)]", "#[cfg(any())]");
        if !CONST.contains(&name) {
            text = text.replace("const fn ", "fn ");
        }
        if fs::read_to_string(&target).ok().as_ref() != Some(&text) {
            fs::write(&target, text).expect("a file in OUT_DIR");
        }
    }
}

/// A part of a text, and what may stand there instead.
type Place<'a> = (Range<usize>, Vec<(&'a Fault, &'a Edit)>);

/// The text with all faults of its file.
fn with(text: &str, edits: &[(&Fault, &Edit)]) -> String {
    // Those for the same place are one choice.
    let mut places: Vec<Place<'_>> = Vec::new();
    for (fault, edit) in edits {
        let found: Vec<usize> = text.match_indices(edit.original).map(|(at, _)| at).collect();
        let [at] = found[..] else {
            panic!(
                "fault {} ({}): its original text stands {} times in {}, and must stand there once:\n{}",
                fault.number,
                fault.name,
                found.len(),
                edit.file,
                edit.original
            );
        };
        let range = at..at + edit.original.len();
        match places.iter_mut().find(|(other, _)| *other == range) {
            Some((_, same)) => same.push((fault, edit)),
            None => places.push((range, vec![(fault, edit)])),
        }
    }
    places.sort_by_key(|(range, _)| range.start);
    let (mut woven, mut at) = (String::new(), 0);
    for (range, edits) in places {
        assert!(range.start >= at, "two faults overlap at {:?} of {}", range, edits[0].1.file);
        woven.push_str(&text[at..range.start]);
        woven.push_str(&choice(&text[range.clone()], &edits));
        at = range.end;
    }
    woven.push_str(&text[at..]);
    woven
}

fn choice(original: &str, edits: &[(&Fault, &Edit)]) -> String {
    let is = |fault: &Fault| format!("crate::switch::is({})", fault.number);
    if let [(fault, Edit { broken, .. })] = edits
        && broken.contains("$is")
    {
        return broken.replace("$is", &is(fault));
    }
    let is_statement = original.ends_with(';') || original.ends_with('}');
    let mut choice = String::new();
    for (fault, Edit { broken, .. }) in edits {
        assert!(!broken.contains("$is"), "fault {} shares its place with another", fault.number);
        write!(choice, "if {} {{ {broken} }} else ", is(fault)).expect("a string");
    }
    write!(choice, "{{ {original} }}").expect("a string");
    if is_statement { choice } else { format!("({choice})") }
}
