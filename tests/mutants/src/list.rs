//! The mutants of what is Rust, as `cargo mutants` lists them.

use std::{fs, ops::Range, path::Path, process::Command};

use serde_json::Value;

use super::{
    Result,
    part::{self, Part},
};

/// One change of one place.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// Counted from one, in the order of the list.
    pub(crate) number: u32,
    /// From the root of the repository.
    pub(crate) file: String,
    /// Where, and what is done there: `core/src/queue.rs:1:2: replace < with <= in …`.
    pub(crate) name: String,
    /// What is replaced, in bytes.
    pub(crate) place: Range<usize>,
    pub(crate) replacement: String,
    /// The function around it, if there is one.
    pub(crate) function: Option<Range<usize>>,
    /// For a mutant of a script, the branch that a test must reach to find it. For others, `weave` says which function.
    pub(crate) group: u32,
    /// The size and the seed of the sample that it was drawn in.
    pub(crate) drawn: String,
}

impl Mutant {
    /// What is done, without the place.
    pub(crate) fn what(&self) -> &str {
        self.name.splitn(4, ':').nth(3).unwrap_or(&self.name).trim()
    }

    /// The line of the source in which it begins.
    pub(crate) fn line<'a>(&self, text: &'a str) -> &'a str {
        let begins = text[..self.place.start].rfind('\n').map_or(0, |end| end + 1);
        text[begins..].lines().next().unwrap_or_default().trim()
    }
}

/// All of a part.
pub(crate) fn list(root: &Path, part: &Part) -> Result<Vec<Mutant>> {
    let mut command = Command::new("cargo");
    command.args(["mutants", "--list", "--json", "--no-config", "--workspace"]).current_dir(root);
    for folder in part.folders {
        let glob = if folder.ends_with(".rs") { "" } else { "/**/*.rs" };
        command.arg("--file").arg(format!("{folder}{glob}"));
    }
    let listed = command.output()?;
    if !listed.status.success() {
        let said = String::from_utf8_lossy(&listed.stderr).into_owned();
        return Err(format!("{said}\nis it installed? cargo install cargo-mutants").into());
    }
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout)?;
    let mut mutants = Vec::new();
    let mut last = (String::new(), String::new());
    for (value, number) in listed.iter().zip(1..) {
        let text = |of: &str| value[of].as_str().map(str::to_owned).ok_or("a list of another form");
        let (file, name) = (text("file")?, text("name")?);
        if last.0 != file {
            last = (file.clone(), fs::read_to_string(root.join(&file))?);
        }
        let span = |of: &Value| Some(at(&last.1, &of["start"])?..at(&last.1, &of["end"])?);
        mutants.push(Mutant {
            number,
            place: span(&value["span"]).ok_or("a place that is not there")?,
            function: span(&value["function"]["span"]),
            replacement: text("replacement")?,
            file,
            name,
            group: 0,
            drawn: String::new(),
        });
    }
    // A subfolder that another part judges is left out.
    let of = |file: &str| part::folder(file);
    mutants.retain(|mutant| part.folders.iter().any(|folder| of(folder) == of(&mutant.file)));
    Ok(mutants)
}

/// Lines and columns are counted from one, and columns in characters.
fn at(text: &str, place: &Value) -> Option<usize> {
    let line = usize::try_from(place["line"].as_u64()?).ok()?;
    let column = usize::try_from(place["column"].as_u64()?).ok()?;
    let mut begins = 0;
    for _ in 1..line {
        begins += text[begins..].find('\n')? + 1;
    }
    let rest = &text[begins..];
    let chars = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    Some(begins + chars.into_iter().nth(column.checked_sub(1)?)?)
}
