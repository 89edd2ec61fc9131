//! The judge: which commands ran at once, by what they have logged themselves.
//!
//! A command runs from its first line to its last. The judge knows nothing of faults; a line that the end of its
//! process cut off does not count.

use std::collections::BTreeMap;

/// A command ran while one that had begun before was still running.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Overlap {
    pub(crate) before: usize,
    pub(crate) behind: usize,
    pub(crate) micros: u128,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    number: usize,
    token: u64,
    first: u128,
    last: u128,
}

pub(crate) struct Log {
    /// In the order in which they began.
    runs: Vec<Run>,
    lines: usize,
    refused: usize,
}

impl Log {
    pub(crate) fn read(text: &str) -> Self {
        let mut runs = BTreeMap::<usize, Run>::new();
        let (mut lines, mut refused) = (0, 0);
        for line in text.split_inclusive('\n') {
            let Some((is_refused, number, token, at)) = parse(line) else { continue };
            lines += 1;
            refused += usize::from(is_refused);
            let run = runs.entry(number).or_insert(Run { number, token, first: at, last: at });
            assert_eq!(run.token, token, "one run has one token");
            run.first = run.first.min(at);
            run.last = run.last.max(at);
        }
        let mut runs: Vec<Run> = runs.into_values().collect();
        runs.sort_by_key(|run| run.first);
        Self { runs, lines, refused }
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    pub(crate) fn refused(&self) -> usize {
        self.refused
    }

    pub(crate) fn overlaps(&self) -> Vec<Overlap> {
        let mut all = Vec::new();
        for (index, behind) in self.runs.iter().enumerate() {
            let before = self.runs[..index].iter().filter(|before| before.last >= behind.first);
            all.extend(before.map(|before| Overlap {
                before: before.number,
                behind: behind.number,
                micros: before.last.min(behind.last) - behind.first,
            }));
        }
        all
    }

    /// Two runs of which the later has no larger token.
    pub(crate) fn tokens_that_do_not_grow(&self) -> Vec<(usize, usize)> {
        let pairs = self.runs.windows(2).filter(|pair| pair[0].token >= pair[1].token);
        pairs.map(|pair| (pair[0].number, pair[1].number)).collect()
    }
}

fn parse(line: &str) -> Option<(bool, usize, u64, u128)> {
    let [what, number, token, at] =
        line.strip_suffix('\n')?.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let is_refused = match what {
        "runs" => false,
        "refused" => true,
        _ => return None,
    };
    Some((is_refused, number.parse().ok()?, token.parse().ok()?, at.parse().ok()?))
}

/// Writes that a store took behind one with a larger token: both tokens.
pub(crate) fn late_writes(store: &str) -> Vec<(u64, u64)> {
    let mut largest = 0;
    let mut late = Vec::new();
    for line in store.lines() {
        let token = line.split_once(' ').and_then(|(_, token)| token.parse().ok());
        let token: u64 = token.unwrap_or_else(|| panic!("a line of the store: {line}"));
        if token < largest {
            late.push((token, largest));
        }
        largest = largest.max(token);
    }
    late
}

#[test]
fn an_overlap_is_found_wherever_it_is() {
    let one_behind_the_other = "runs 0 7 100\nruns 0 7 200\nruns 1 8 201\nruns 1 8 300\n";
    assert_eq!(Log::read(one_behind_the_other).overlaps(), []);
    let of = |more: &str| Log::read(&format!("{one_behind_the_other}{more}")).overlaps();
    // By one line of the first, of which a part of the next is none.
    let one = [Overlap { before: 0, behind: 1, micros: 0 }];
    assert_eq!(of("runs 0 7 201\nruns 0 7 2"), one);
    // One that lasts for longer than several others.
    assert_eq!(of("runs 2 9 150\nruns 2 9 250\n").len(), 2);
    assert_eq!(of("runs 0 7 900\nruns 2 9 800\n").len(), 2);
    // A refused write shows that it ran, too.
    assert_eq!(of("refused 0 7 250\n").len(), 1);
    assert_eq!(Log::read("runs 0 8 1\nruns 1 8 5\n").tokens_that_do_not_grow(), [(0, 1)]);
}
