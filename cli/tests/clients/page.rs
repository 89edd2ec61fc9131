//! What `clients/README.md` shows runs as it stands there, and each client is as small as is said of it.

use std::{fs, path::Path, process::Command};

use super::{
    caller::{Caller, Language, built_from},
    fleet::Fleet,
};

fn clients() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../clients"))
}

/// The block of code in this language.
fn shown(language: &str) -> String {
    let page = fs::read_to_string(clients().join("README.md")).unwrap();
    let begun = page.split_once(&format!("```{language}\n")).unwrap().1;
    begun.split_once("```").unwrap().0.to_owned()
}

/// The program of the page, in a directory of its own.
fn program(language: Language, place: &Path) -> Command {
    let copy = |client: &str, to: &str| fs::copy(clients().join(client), place.join(to)).unwrap();
    let run = |program: &str, file: &str, text: String| {
        fs::write(place.join(file), text).unwrap();
        let mut command = Command::new(program);
        command.arg(file).current_dir(place);
        command
    };
    match language {
        Language::Python => {
            copy("python/quorlock.py", "quorlock.py");
            run("python3", "page.py", shown("python"))
        }
        Language::Node => {
            copy("node/quorlock.mjs", "quorlock.mjs");
            run("node", "page.mjs", shown("js"))
        }
        Language::Go => {
            // In a folder of the user's module, as the page says.
            fs::create_dir(place.join("quorlock")).unwrap();
            copy("go/quorlock.go", "quorlock/quorlock.go");
            let before = "package main\n\nimport (\n\"context\"\n\"fmt\"\n\"log\"\n\n\"mine/quorlock\"\n)\n\n";
            let after = "\nfunc main() {\nif err := pay(context.Background()); err != nil {\nlog.Fatal(\"later: \", err)\n}\n}\n";
            fs::write(place.join("main.go"), [before, &shown("go"), after].concat()).unwrap();
            fs::write(place.join("go.mod"), "module mine\n\ngo 1.19\n").unwrap();
            Command::new(built_from(place))
        }
    }
}

pub(super) fn what_the_page_shows_runs(language: Language) {
    let fleet = Fleet::start();
    let Some(mut other) = Caller::start(language, &fleet) else { return };
    let place = tempfile::tempdir().unwrap();
    let mut program = program(language, place.path());
    fleet.around(&mut program);
    let mut said = || {
        let output = program.output().unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat()
    };
    let [free, before] = [said(), other.granted("invoice:42").to_string()];
    let token = free.trim().strip_prefix("UPDATE … WHERE fence <= ");
    assert!(token.is_some_and(|token| token < &*before), "{free}");
    let busy = said();
    assert!(busy.contains("later: ") && busy.contains("invoice:42"), "{busy}");
    assert_eq!(other.ask("release"), "released");
    fleet.is_given_back("invoice:42");
}

#[test]
fn each_client_is_a_file_that_can_be_read_in_a_few_minutes() {
    // The lines of Go are short. What must not hold up, leave or believe anything has cost the last thirty of each.
    for (client, most) in
        [("python/quorlock.py", 160), ("node/quorlock.mjs", 150), ("go/quorlock.go", 200)]
    {
        let text = fs::read_to_string(clients().join(client)).unwrap();
        assert!(text.lines().count() <= most, "{client}");
        assert!(text.lines().all(|line| line.chars().count() <= 135), "{client}");
    }
}
