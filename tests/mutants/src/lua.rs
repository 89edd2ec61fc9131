//! The mutants of the scripts. Their texts stand in the test programs as they are: a mutant is written over its script there,
//! in as many bytes, so that neither the crate nor a test knows of it, and nothing is built anew.
//!
//! What a test reaches, the server says: in one run of each, scripts without comments tell the log of each branch they take.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _},
    ops::Range,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{
    Result,
    list::Mutant,
    work::{Program, Work},
};

const FOLDER: &str = "src/node/redis/scripts";

/// Texts, and what may replace each. The first that fits counts, so the longer one comes first.
const CHANGES: [(&str, &[&str]); 15] = [
    ("<=", &["<"]),
    (">=", &[">"]),
    ("==", &["~="]),
    ("~=", &["=="]),
    ("<", &["<="]),
    (">", &[">="]),
    ("..", &[]),
    ("+", &["-"]),
    ("-", &["+"]),
    ("*", &["/"]),
    ("and", &["or"]),
    ("or", &["and"]),
    ("not", &[""]),
    ("true", &["false"]),
    ("false", &["true"]),
];

/// All scripts: path and text.
fn texts(root: &Path) -> Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(root.join(FOLDER))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        texts.push((format!("{FOLDER}/{name}"), fs::read_to_string(&path)?));
    }
    texts.sort();
    Ok(texts)
}

/// Those that compile: each line that is a statement deleted, each comparison, operator and number another one.
pub(crate) fn list(work: &Work) -> Result<Vec<Mutant>> {
    let mut checker = Checker::start(&work.below)?;
    let (mut mutants, mut group) = (Vec::new(), 0);
    for (file, text) in texts(&work.root)? {
        let blocks = Blocks::of(&text, &mut group);
        let mut begins = 0;
        for (row, line) in text.split_inclusive('\n').enumerate() {
            for (place, replacement, what) in changes(line) {
                let mutant = Mutant {
                    number: u32::try_from(mutants.len())? + 1,
                    name: format!("{file}:{}:{}: {what}", row + 1, place.start + 1),
                    place: begins + place.start..begins + place.end,
                    replacement,
                    file: file.clone(),
                    function: None,
                    group: blocks.around(row),
                    drawn: String::new(),
                };
                if checker.compiles(&mutated(&text, &mutant))? {
                    mutants.push(mutant);
                }
            }
            begins += line.len();
        }
    }
    Ok(mutants)
}

/// The changes of a line: each with its place, its new text, and a name in words.
fn changes(line: &str) -> Vec<(Range<usize>, String, String)> {
    let mut changes = Vec::new();
    let code = code(line);
    let (first, end) = (line.len() - line.trim_start().len(), code.trim_end().len());
    // Without its declaration a name is unknown, which any call of the script shows.
    if end > first && !code.trim_start().starts_with("local ") {
        changes.push((first..end, String::new(), "delete the line".to_owned()));
    }
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = code.as_bytes();
    let mut at = first;
    while at < end {
        let here = &code[at..end];
        if bytes[at] == b'\'' {
            let length = here[1..].find('\'').map_or(here.len(), |it| it + 2);
            let inner = here[1..length].trim_end_matches('\'');
            if let Ok(number) = inner.parse::<i64>() {
                let other = format!("'{}'", number + 1);
                changes.push((
                    at..at + length,
                    other.clone(),
                    format!("replace '{inner}' with {other}"),
                ));
            }
            at += length;
        } else if is_word(bytes[at]) {
            let length = here.bytes().take_while(|byte| is_word(*byte)).count();
            let word = &here[..length];
            if let Ok(number) = word.parse::<u64>() {
                for other in [Some(number + 1), number.checked_sub(1)].into_iter().flatten() {
                    changes.push((
                        at..at + length,
                        other.to_string(),
                        format!("replace {word} with {other}"),
                    ));
                }
            }
            for (_, others) in CHANGES.iter().filter(|(it, _)| *it == word) {
                changes.extend(others.iter().map(|other| {
                    (at..at + length, (*other).to_owned(), format!("replace {word} with {other}"))
                }));
            }
            if matches!(word, "max" | "min") && code[..at].ends_with("math.") {
                let other = if word == "max" { "min" } else { "max" };
                changes.push((
                    at..at + length,
                    other.to_owned(),
                    format!("replace {word} with {other}"),
                ));
            }
            at += length;
        } else if let Some((it, others)) = CHANGES.iter().find(|(it, _)| here.starts_with(it)) {
            changes.extend(others.iter().map(|other| {
                (at..at + it.len(), (*other).to_owned(), format!("replace {it} with {other}"))
            }));
            at += it.len();
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    changes
}

/// A line without its comment.
fn code(line: &str) -> &str {
    let mut in_text = false;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'\'' => in_text = !in_text,
            b'-' if !in_text && line[at..].starts_with("--") => return &line[..at],
            _ => {}
        }
    }
    line
}

/// The script with a mutant, in as many bytes: room for more is taken from the comment with which each script begins.
fn mutated(text: &str, mutant: &Mutant) -> String {
    let mut mutated = text.to_owned();
    let (place, width) = (mutant.place.clone(), mutant.place.len());
    mutated.replace_range(place, &format!("{:width$}", mutant.replacement));
    let (more, end) = (mutated.len() - text.len(), text.find('\n').unwrap_or(0));
    mutated.replace_range(end - more..end, "");
    mutated
}

/// The call by which a script tells of a branch.
fn told(number: u32) -> String {
    format!("redis.log(3,'@{number}')\n")
}

/// The branches of a script, each with a number of its own. A branch without room for its call belongs to the one
/// around.
#[derive(Debug)]
struct Blocks<'a> {
    lines: Vec<&'a str>,
    /// By the line that opens it.
    numbers: BTreeMap<usize, u32>,
    all: u32,
}

impl<'a> Blocks<'a> {
    fn of(text: &'a str, group: &mut u32) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        *group += 1;
        let mut blocks = Self { lines, numbers: BTreeMap::new(), all: *group };
        let bare: usize = blocks.lines.iter().map(|line| code(line).trim().len() + 1).sum();
        let mut room = text.len().saturating_sub(bare + told(*group).len());
        for row in 0..blocks.lines.len() {
            let takes = told(*group + 1).len();
            if takes <= room && blocks.opened_until(row).is_some() {
                *group += 1;
                room -= takes;
                blocks.numbers.insert(row, *group);
            }
        }
        blocks
    }

    /// The last line of what opens a block, if this is its first.
    fn opened_until(&self, row: usize) -> Option<usize> {
        let line = code(self.lines[row]).trim();
        let begins = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
        if begins(&["local function "]) {
            return Some(row);
        }
        let ends = |row: usize| {
            let line = code(self.lines[row]).trim_end();
            line.ends_with(" then") || line.ends_with(" do")
        };
        if line == "else" {
            Some(row)
        } else if begins(&["if ", "elseif ", "for ", "while "]) && !line.ends_with(" end") {
            (row..self.lines.len()).find(|row| ends(*row))
        } else {
            None
        }
    }

    /// The branch in which a line stands. Lines are set in by the blocks in which they are.
    fn around(&self, row: usize) -> u32 {
        let depth = |row: usize| self.lines[row].len() - self.lines[row].trim_start().len();
        let mut inner = depth(row);
        let mut goes_on = code(self.lines[row]).trim_start().starts_with("and ")
            || code(self.lines[row]).trim_start().starts_with("or ");
        for above in (0..row).rev() {
            if code(self.lines[above]).trim().is_empty() || depth(above) >= inner {
                continue;
            }
            inner = depth(above);
            match self.numbers.get(&above) {
                Some(number) if !goes_on => return *number,
                _ => goes_on = false,
            }
        }
        self.all
    }

    /// The script without comments, as long as it is with them, telling of its branches.
    fn telling(&self, length: usize) -> String {
        let mut telling = told(self.all);
        let due = self.numbers.iter().filter_map(|(row, it)| Some((self.opened_until(*row)?, *it)));
        let due: BTreeMap<usize, u32> = due.collect();
        for (row, line) in self.lines.iter().enumerate() {
            let line = code(line).trim();
            if !line.is_empty() {
                telling += line;
                telling += "\n";
            }
            if let Some(number) = due.get(&row) {
                telling += &told(*number);
            }
        }
        format!("{telling:length$}")
    }
}

/// A server that compiles scripts, and runs none.
struct Checker(Child, BufReader<UnixStream>);

impl Checker {
    fn start(below: &Path) -> Result<Self> {
        let socket = below.join(format!("checker-{}.sock", std::process::id()));
        let _ = fs::remove_file(&socket);
        let mut server = Command::new("redis-server");
        server.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
        let server = server.stdout(Stdio::null()).spawn()?;
        loop {
            if let Ok(stream) = UnixStream::connect(&socket) {
                return Ok(Self(server, BufReader::new(stream)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn compiles(&mut self, text: &str) -> Result<bool> {
        let size = text.len();
        let head = format!("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${size}\r\n");
        self.1.get_mut().write_all(format!("{head}{text}\r\n").as_bytes())?;
        let mut said = String::new();
        self.1.read_line(&mut said)?;
        if !said.starts_with('$') {
            return Ok(false);
        }
        self.1.read_line(&mut said)?;
        Ok(true)
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where the scripts stand in the test programs.
#[derive(Debug)]
pub(crate) struct Places {
    texts: BTreeMap<String, String>,
    /// By program and script.
    at: BTreeMap<(String, String), Vec<u64>>,
}

impl Places {
    pub(crate) fn find(work: &Work, programs: &[Program]) -> Result<Self> {
        let texts: BTreeMap<String, String> = texts(&work.root)?.into_iter().collect();
        let mut at = BTreeMap::<_, Vec<u64>>::new();
        for program in programs {
            let bytes = fs::read(&program.path)?;
            for (place, _) in bytes.windows(3).enumerate().filter(|(_, it)| *it == b"-- ") {
                for (file, text) in &texts {
                    if bytes[place..].starts_with(text.as_bytes()) {
                        let key = (program.name.clone(), file.clone());
                        at.entry(key).or_default().push(u64::try_from(place)?);
                    }
                }
            }
        }
        match texts.keys().find(|file| !at.keys().any(|(_, it)| it == *file)) {
            Some(file) => Err(format!("{file} stands in no test program").into()),
            None => Ok(Self { texts, at }),
        }
    }

    /// Lets all scripts of these programs tell of their branches.
    pub(crate) fn tell(&self, programs: &[Program]) -> Result<()> {
        let mut group = 0;
        for (file, text) in &self.texts {
            let telling = Blocks::of(text, &mut group).telling(text.len());
            if telling.len() != text.len() {
                return Err(format!("{file} has no room to tell of what it does").into());
            }
            for program in programs {
                self.write(program, file, &telling)?;
            }
        }
        Ok(())
    }

    /// Writes a mutant into these programs, or the original script.
    pub(crate) fn choose(&self, programs: &[Program], mutant: &Mutant, is_on: bool) -> Result<()> {
        let text = self.texts.get(&mutant.file).ok_or("an unknown script")?;
        let mutated = mutated(text, mutant);
        for program in programs {
            self.write(program, &mutant.file, if is_on { &mutated } else { text })?;
        }
        Ok(())
    }

    fn write(&self, program: &Program, file: &str, text: &str) -> Result<()> {
        let places = self.at.get(&(program.name.clone(), file.to_owned())).into_iter().flatten();
        let mut opened = OpenOptions::new().write(true).open(&program.path)?;
        for place in places {
            opened.seek(SeekFrom::Start(*place))?;
            opened.write_all(text.as_bytes())?;
        }
        Ok(())
    }
}
