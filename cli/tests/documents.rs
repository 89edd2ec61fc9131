//! The command lines in the README and in packaging/ are such that the command takes them.
//!
//! Method: each is read as its reader would, and run without nodes: a command line that is wrong is status 64, nodes that are not
//! named are 78, and those that are not there are 69. What it would do is shown by the other tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

use std::{fs::read_to_string, path::Path, process::Command};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Words as a shell has them, without any substitution, up to where another command begins.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ';' | '&' | '|' | '>' | '#') => break,
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Behind each `quorlock` that begins a command in a block of code.
fn in_page(text: &str) -> Vec<Vec<String>> {
    // A line that ends with a backslash goes on in the next.
    let text = text.replace("\\\n", "");
    let blocks = text.split("```").skip(1).step_by(2).flat_map(str::lines);
    let commands = blocks.filter_map(|line| {
        let at = line
            .find("quorlock ")
            .filter(|at| matches!(line[..*at].chars().last(), None | Some(' ' | '/')))?;
        Some(words(&line[at..]))
    });
    commands.collect()
}

fn in_unit(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("ExecStart="));
    lines.map(|line| words(&line[line.find("quorlock ").unwrap()..])).collect()
}

/// Each list that begins with `- quorlock`, or stands behind `command:` of an image whose entry point that is.
fn in_yaml(text: &str) -> Vec<Vec<String>> {
    let (mut all, mut indent) = (Vec::<Vec<String>>::new(), None);
    for line in text.lines() {
        let (spaces, item) =
            (line.len() - line.trim_start().len(), line.trim_start().strip_prefix("- "));
        match (item.map(|item| item.trim_matches('"').to_owned()), indent) {
            (Some(item), None) if item == "quorlock" || item == "run" => {
                indent = Some(spaces);
                all.push(vec!["quorlock".to_owned()]);
                all.last_mut().unwrap().extend((item == "run").then_some(item));
            }
            (Some(item), Some(begun)) if begun == spaces => all.last_mut().unwrap().push(item),
            _ => indent = None,
        }
    }
    all
}

#[test]
fn every_command_line_is_taken() {
    let mut all = in_page(&read_to_string(root().join("cli/README.md")).unwrap());
    let of_page = all.len();
    for (folder, end, read) in [
        ("packaging/systemd", "service", in_unit as fn(&str) -> Vec<Vec<String>>),
        ("packaging/kubernetes", "yaml", in_yaml),
        ("packaging", "yaml", in_yaml),
    ] {
        for file in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == end) {
                all.extend(read(&read_to_string(path).unwrap()));
            }
        }
    }
    assert!(of_page >= 7 && all.len() >= of_page + 5, "{of_page} in the page: {all:#?}");
    for words in all {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorlock"));
        let pages = tempfile::tempdir().unwrap();
        let is_folder = |word: &String| word.starts_with("/usr/local/share/man");
        let words: Vec<String> = words
            .into_iter()
            .map(|word| if is_folder(&word) { pages.path().display().to_string() } else { word })
            // Nobody listens there, whoever has the fleet of the page.
            .map(|word| word.replace("redis://127.0.0.1:740", "redis://127.0.0.1:"))
            .collect();
        command.args(&words[1..]).env_remove("QUORLOCK_NODES");
        // Without a program for servers `chaos` starts nothing.
        command.env("PATH", "/nowhere").env_remove("REDIS_SERVER_BIN");
        let output = command.output().unwrap();
        let expected = match &*words[1] {
            "completions" | "man" => 0,
            "chaos" if words.iter().any(|word| word == "--nodes") => 69,
            _ => 78,
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{words:?}: {said}");
    }
}

#[test]
fn each_page_that_a_page_names_is_there_and_says_all_options() {
    let pages = tempfile::tempdir().unwrap();
    let quorlock = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_quorlock")).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        // As it is read: without the marks of the formatter.
        String::from_utf8(output.stdout).unwrap().replace("\\-", "-").replace("\\fR", "")
    };
    quorlock(&["man", "--dir", pages.path().to_str().unwrap()]);
    let first = quorlock(&["man"]);
    let named: Vec<&str> = first.lines().filter_map(|line| line.strip_suffix("(1)")).collect();
    assert!(named.len() >= 9, "{first}");
    for page in named {
        assert!(pages.path().join(format!("{page}.1")).exists(), "{page}");
        let name = page.strip_prefix("quorlock-").unwrap();
        let (page, help) = (quorlock(&["man", name]), quorlock(&[name, "--help"]));
        let options = help.split_whitespace().filter(|word| word.starts_with("--"));
        for option in options.filter(|word| word.len() > 3 && !word.contains(['.', '`'])) {
            let option = option.trim_end_matches([',', ':', ';', ')']);
            assert!(page.contains(option), "{name}: {option}: {page}");
        }
    }
}

#[test]
fn completions_name_what_people_may_use() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = Command::new(env!("CARGO_BIN_EXE_quorlock"))
            .args(["completions", shell])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("doctor") && text.contains("hold-at-least"), "{shell}");
        for hidden in ["hold-for-run", "become", "chaos-worker"] {
            assert!(!text.contains(hidden), "{shell}: {hidden}");
        }
    }
}

#[test]
fn words_are_those_of_a_shell() {
    assert_eq!(
        words("quorlock run a -- sh -c 'b \"c\"; d' &"),
        ["quorlock", "run", "a", "--", "sh", "-c", "b \"c\"; d"]
    );
    assert_eq!(
        in_yaml("x:\n  - run\n  - job\n  - \"--\"\n  - true\ny: 1\n"),
        [["quorlock", "run", "job", "--", "true"]]
    );
}
