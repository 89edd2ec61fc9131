//! Goal: what a kind of lease cannot do is no method that fails, but code that does not compile; and the compiler says why.
//!
//! Method: the compiler is given one line at a time, with the library that this test was built with. A line that is right goes
//! first, so that an error of the lines behind it is not one of how they are compiled.
#![cfg(feature = "tokio")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests are free to"
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Lines that compile: settings of a plain lease; the token of any kind, in a task.
const RIGHT: [&str; 2] = [
    "redlock.acquire(\"r\").linger(SECOND).lock_delay(SECOND)",
    "fn of_any<K: quorlock::Kind>(lease: quorlock::Lease<K>) -> impl Future<Output = bool> + Send + 'static {
         async move { let token = lease.token(); lease.lost().await; token == lease.token() }
     }",
];

/// What does not, and what the compiler says of it.
const WRONG: [(&str, &[&str]); 7] = [
    (
        "redlock.read(\"r\").linger(SECOND)",
        &[
            "a lease of the kind `quorlock::Shared` cannot linger",
            "of a reader it would keep writers out",
        ],
    ),
    (
        "redlock.semaphore(\"s\", 2).unwrap().acquire().linger(SECOND)",
        &["a lease of the kind `quorlock::Slot` cannot linger", "`Redlock::acquire`"],
    ),
    (
        "redlock.read(\"r\").lock_delay(SECOND)",
        &[
            "kind `quorlock::Shared` keeps nobody out for longer than it is held",
            "`Redlock::write`",
        ],
    ),
    ("redlock.read(\"r\").hold_at_least(SECOND)", &["keeps nobody out for longer than it is held"]),
    (
        "redlock.read(\"r\").blocking().unwrap().let_expire()",
        &["no method named `let_expire` found"],
    ),
    (
        "redlock.reentrant().acquire(\"r\").blocking().unwrap().let_expire()",
        &["no method named `let_expire` found"],
    ),
    ("<quorlock::Shared as quorlock::Kind>::token(None)", &["cannot find method"]),
];

fn program(line: &str) -> String {
    format!(
        "#![allow(unused_must_use)]\nconst SECOND: std::time::Duration = std::time::Duration::from_secs(1);\n\
         fn main() {{}}\npub fn asks(redlock: quorlock::Redlock) {{\n    {line};\n}}\n"
    )
}

/// Compiles it with one build of the library: what the compiler says, where it refuses.
fn compile(library: &Path, folder: &Path, line: &str) -> Result<(), String> {
    let source = folder.join("main.rs");
    fs::write(&source, program(line)).unwrap();
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command.args(["--edition=2024", "--emit=metadata", "--color=never", "--out-dir"]).arg(folder);
    command.arg(format!("--extern=quorlock={}", library.display()));
    command.arg(format!("-Ldependency={}", library.parent().unwrap().display())).arg(&source);
    let output = command.output().expect("the compiler that has built this");
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into())
    }
}

/// The builds of the library beside this test, the newest first: one of them is of other features, perhaps.
fn libraries() -> Vec<PathBuf> {
    let beside = env::current_exe().unwrap().parent().unwrap().to_owned();
    let mut found: Vec<PathBuf> = fs::read_dir(beside)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("libquorlock-") && name.ends_with(".rlib")
        })
        .collect();
    found.sort_by_key(|path| std::cmp::Reverse(fs::metadata(path).unwrap().modified().unwrap()));
    found
}

#[test]
fn what_a_kind_cannot_do_does_not_compile_and_the_compiler_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let right =
        |library: &PathBuf| RIGHT.iter().try_for_each(|line| compile(library, folder.path(), line));
    let libraries = libraries();
    let library = libraries.iter().find(|library| right(library).is_ok());
    let library = library.unwrap_or_else(|| panic!("{:?}", libraries.first().map(right)));
    for (line, reasons) in WRONG {
        let said = compile(library, folder.path(), line).expect_err(line);
        for reason in reasons {
            assert!(said.contains(reason), "{line}: {said}");
        }
    }
}
