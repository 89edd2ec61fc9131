//! What is judged together: in which copy, by which test programs, and whose mutants.

use std::{collections::BTreeSet, path::Path};

use super::list::Mutant;

/// Some folders, and their judges.
#[derive(Debug)]
pub(crate) struct Part {
    /// What the paths of its files begin with.
    pub(crate) folders: &'static [&'static str],
    /// Builds that are repeated until everything woven compiles.
    pub(crate) checks: &'static [&'static [&'static str]],
    /// The test programs, as `cargo test` selects them: the quickest to build comes first.
    pub(crate) programs: &'static [&'static [&'static str]],
    /// Whether it is judged in a copy of the whole repository, by tests that wait for servers and for each other.
    pub(crate) is_whole: bool,
}

/// A crate of its own.
pub(crate) const CORE: Part = Part {
    folders: &["core/src"],
    // A constant of the tests may call what is woven.
    checks: &[
        &["build", "--lib"],
        &["test", "--no-run", "--lib"],
        &["test", "--no-run", "--test", "protocol"],
    ],
    programs: &[&["--lib"], &["--test", "protocol"]],
    is_whole: false,
};

/// What a handle decides: a folder of the core that its tests drive with the driver around it.
pub(crate) const CLIENT: Part = Part {
    folders: &["core/src/client", "core/src/client.rs"],
    checks: &[
        &["test", "--no-run", "-p", "quorlock", "--all-features", "--lib"],
        &["test", "--no-run", "-p", "quorlock-core", "--lib"],
        &["test", "--no-run", "-p", "quorlock-proof", "--test", "protocol"],
    ],
    programs: &[
        &["-p", "quorlock-core", "--lib"],
        &[
            "-p",
            "quorlock",
            "--all-features",
            "--test",
            "leases",
            "--test",
            "reentrant",
            "--test",
            "waiting",
            "--test",
            "testing",
            "--test",
            "api",
            "--test",
            "subscriber",
        ],
        &["-p", "quorlock-proof", "--test", "protocol", "--test", "cancellation"],
    ],
    is_whole: true,
};

/// The folders that are the core, whose figures are evidence.
pub(crate) const CORES: [&str; 2] = [CORE.folders[0], CLIENT.folders[0]];

/// What stands around the core: what asks nodes, the nodes, and what holders are given.
pub(crate) const CRATE: Part = Part {
    folders: &[
        "src/engine",
        "src/node",
        // It is judged beside the scripts, whose rules it states.
        "core/src/node_store",
        // The core's own tests do not build it.
        "core/src/serde.rs",
        "src/lease",
        "src/acquire/nested.rs",
        "src/kind.rs",
        "src/holder.rs",
        "src/shield.rs",
    ],
    checks: &[&["test", "--no-run", "-p", "quorlock", "--all-features", "--lib"]],
    programs: &[
        &[
            "-p",
            "quorlock",
            "--all-features",
            "--lib",
            "--test",
            "leases",
            "--test",
            "admission",
            "--test",
            "inspect",
            "--test",
            "redis",
            "--test",
            "reentrant",
            "--test",
            "waiting",
            "--test",
            "night",
            "--test",
            "executors",
            "--test",
            "metrics",
            "--test",
            "api",
            "--test",
            "stored",
        ],
        &["-p", "quorlock-core", "--lib"],
        &["-p", "quorlock-proof", "--test", "cancellation"],
    ],
    is_whole: true,
};

/// The command.
pub(crate) const COMMAND: Part = Part {
    folders: &["cli/src"],
    checks: &[&["test", "--no-run", "-p", "quorlock-cli", "--bins"]],
    programs: &[&["-p", "quorlock-cli", "--bins", "--test", "run", "--test", "operators"]],
    is_whole: true,
};

/// The scripts, whose text is changed in the test programs themselves.
pub(crate) const SCRIPTS: Part = Part {
    folders: &["src/node/redis/scripts"],
    checks: &[],
    programs: &[&[
        "-p",
        "quorlock",
        "--all-features",
        "--lib",
        "--test",
        "redis",
        "--test",
        "scenarios",
    ]],
    is_whole: true,
};

/// Parts of the names of tests that are likely to find a mutant of a file, beside the file's own name.
const LIKELY: [(&str, &[&str]); 34] = [
    ("redis/scripts/", &["kept::", "known::", "fast_path"]),
    ("scripts/join", &["joining", "late_commands", "quarantines", "marked"]),
    ("scripts/acquire", &["standing::", "lines::", "together"]),
    ("node/memory/", &["alike_test", "outages"]),
    ("redis/codec/", &["kept::", "votes_test"]),
    ("client/undo", &["semaphore", "late"]),
    ("client/on_nodes", &["line::", "standing::", "turns::"]),
    ("client/queues", &["line::", "together", "woken::"]),
    ("client/resources", &["line::", "together", "woken::", "gone::", "ranges::"]),
    ("client/releasing", &["told::", "woken::"]),
    ("client/turns", &["crowd"]),
    ("client/passing", &["handover"]),
    ("client/ending", &["linger", "downgrade"]),
    ("client/grants", &["times::", "told::", "handover"]),
    ("client/renewals", &["times::", "restored", "crowd"]),
    ("client/attempts", &["told::", "standing::", "together"]),
    ("client/asking", &["line::", "told::", "turns::"]),
    ("client/rounds", &["semaphore", "turns::", "line::"]),
    ("engine/line", &["line::", "standing::", "turns::"]),
    ("engine/resources", &["line::", "together", "woken::", "gone::"]),
    ("engine/release", &["told::", "woken::"]),
    ("engine/driver", &["own_clock::", "adverse::", "turns::"]),
    ("engine/shield", &["cannot_be_a_semaphore"]),
    ("grant/handing", &["handover"]),
    ("grant/lingering", &["linger"]),
    ("grant/downgrading", &["downgrade"]),
    ("grant/term", &["times::", "told::"]),
    ("engine/probe", &["looks", "seals", "restored", "gone::"]),
    ("engine/extend", &["times::", "crowd"]),
    ("acquire/rounds", &["semaphore", "turns::"]),
    ("redis/address/", &["urls::"]),
    ("redis/votes", &["one_by_one"]),
    ("node_store/slots", &["any_slot", "slot"]),
    ("core/src/node_store/", &["kept::", "known::", "conformance"]),
];

/// Whether a test is likely to find a mutant of a file.
pub(crate) fn is_likely(test: &str, file: &str) -> bool {
    let stem = Path::new(file).file_stem().and_then(|it| it.to_str()).unwrap_or("-");
    let likely = LIKELY.iter().filter(|(of, _)| file.contains(of));
    let mut likely = likely.flat_map(|(_, names)| *names);
    test.contains(stem) || likely.any(|name| test.contains(name))
}

/// A folder inside another comes first.
pub(crate) const PARTS: [&Part; 5] = [&SCRIPTS, &CRATE, &COMMAND, &CLIENT, &CORE];

/// The folder of a file, as the page counts.
pub(crate) fn folder(file: &str) -> &'static str {
    let folders = PARTS.iter().flat_map(|part| part.folders);
    let folder = folders.copied().find(|folder| file.starts_with(folder)).unwrap_or("others");
    if folder == "core/src/node_store" {
        "src/node"
    } else if CRATE.folders.contains(&folder) && !["src/engine", "src/node"].contains(&folder) {
        "leases"
    } else {
        folder
    }
}

/// The rows of the page.
pub(crate) fn folders() -> BTreeSet<&'static str> {
    PARTS.iter().flat_map(|part| part.folders).map(|of| folder(of)).collect()
}

/// So many mutants of each folder, drawn from a seed, each with a note of the draw. The draw depends on a mutant's name
/// alone: changes elsewhere do not alter it.
pub(crate) fn sample(mutants: Vec<Mutant>, count: usize, seed: u64) -> Vec<Mutant> {
    let mut drawn = Vec::new();
    let mut folders: Vec<&str> = mutants.iter().map(|mutant| folder(&mutant.file)).collect();
    folders.sort_unstable();
    folders.dedup();
    for of in folders {
        let mut here: Vec<Mutant> =
            mutants.iter().filter(|mutant| folder(&mutant.file) == of).cloned().collect();
        let all = here.len();
        here.sort_by_key(|mutant| drawn_as(&mutant.name, seed));
        here.truncate(count);
        for mutant in &mut here {
            mutant.drawn = format!("{} of {all} drawn with seed {seed}", count.min(all));
        }
        drawn.extend(here);
    }
    drawn.sort_by_key(|mutant| mutant.number);
    drawn
}

/// FNV-1a, and one step of splitmix behind it.
fn drawn_as(name: &str, seed: u64) -> u64 {
    let hash = name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^ (hash >> 31)
}
