//! Makes `docs/evidence.md` of the sentences in `tests/evidence/claims.txt` and of figures.
//!
//! Goal: no figure in the page is typed by hand. Method: `collect` adds up the lines that runs have left in `target/evidence`,
//! with their dates and commits, and they are kept in `docs/evidence.json`; `about` says which of them are of code that has been changed since; `page` fills them in. A
//! test in `tests/documents.rs` makes the page again of what is committed, asks git what has been changed, and compares.
//!
//! - `cargo run -p quorlock-evidence`: figures from `target/evidence`, where there are any, and the page;
//! - `… -- COMMIT…`: figures of these commits alone, as their directories are named;
//! - `… -- --page`: the page alone, of the figures that are committed, with what has been changed since;
//! - `… -- --summary COMMIT`: says what was run, and writes nothing.

mod about;
mod collect;
mod page;

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::Value;

/// The directories of figures: of these commits, or all.
fn directories(runs: &Path, commits: &[String]) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    if !commits.is_empty() {
        return Ok(commits.iter().map(|commit| runs.join(commit)).collect());
    }
    if !runs.exists() {
        return Ok(Vec::new());
    }
    let all = fs::read_dir(runs)?.map(|entry| Ok(entry?.path()));
    let mut all = all.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    all.retain(|directory| directory.join("runs").exists());
    // The latest comes last: of two searches that saw equally many states it is shown.
    all.sort_by_key(|directory| {
        fs::metadata(directory.join("runs")).and_then(|it| it.modified()).ok()
    });
    Ok(all)
}

fn run(root: &Path, arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let (runs, kept) = (root.join("target/evidence"), root.join("docs/evidence.json"));
    if let [summary, commits @ ..] = arguments
        && summary == "--summary"
    {
        let directories = directories(&runs, commits)?;
        let directories: Vec<_> = directories.iter().map(PathBuf::as_path).collect();
        print!("{}", page::summary(&collect::figures(&directories, None)?));
        return Ok(());
    }
    let is_page = arguments.first().is_some_and(|argument| argument == "--page");
    let directories = if is_page { Vec::new() } else { directories(&runs, arguments)? };
    let mut figures = if directories.is_empty() {
        serde_json::from_str::<Value>(&fs::read_to_string(&kept)?)?
    } else {
        let directories: Vec<_> = directories.iter().map(PathBuf::as_path).collect();
        collect::figures(&directories, Some(&root.join("tests/evidence")))?
    };
    if !about::has_history(root) {
        return Err("what has been changed since the runs is not known: a git checkout with its whole history is".into());
    }
    if let Some(all) = figures.as_object_mut() {
        all.insert("changed".to_owned(), about::changed(root, &Value::Object(all.clone())));
    }
    fs::write(&kept, serde_json::to_string_pretty(&figures)? + "\n")?;
    let claims = fs::read_to_string(root.join("tests/evidence/claims.txt"))?;
    fs::write(root.join("docs/evidence.md"), page::page(&claims, &figures)?)?;
    Ok(())
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_known = |argument: &&String| ["--page", "--summary"].contains(&argument.as_str());
    if let Some(other) = arguments.iter().find(|it| it.starts_with('-') && !is_known(it)) {
        eprintln!("{other}: take --page, --summary, commits, or nothing");
        return ExitCode::from(2);
    }
    match run(&root, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quorlock-evidence: {error}");
            ExitCode::FAILURE
        }
    }
}
