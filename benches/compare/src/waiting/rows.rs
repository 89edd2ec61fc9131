//! What is kept of a contender in a scenario of one run; medians over runs; and all of it as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{case::Case, who::Who};
use crate::stats::median;

/// The numbers of one contender in one scenario of one run, by name.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) run: usize,
    pub(crate) case: Case,
    pub(crate) who: Who,
    pub(crate) numbers: BTreeMap<String, f64>,
    /// The curve of the waits in microseconds, in steps of half a percent, where there is one.
    pub(crate) curve: Vec<f64>,
    /// Why there is nothing here, or what went wrong first.
    pub(crate) note: Option<String>,
}

impl Row {
    pub(crate) fn new(run: usize, case: Case, who: Who) -> Self {
        Self { run, case, who, numbers: BTreeMap::new(), curve: Vec::new(), note: None }
    }

    pub(crate) fn put(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.numbers.insert(name.to_owned(), value);
        }
    }

    fn to_json(&self) -> Value {
        let Self { run, case, who, numbers, curve, note } = self;
        json!({
            "run": run, "scenario": case.id(), "contender": who.id(),
            "numbers": numbers, "curve": curve, "note": note,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name)?.as_str();
        let mut row = Self::new(
            usize::try_from(value.get("run")?.as_u64()?).ok()?,
            text("scenario")?.parse().ok()?,
            text("contender")?.parse().ok()?,
        );
        for (name, number) in value.get("numbers")?.as_object()? {
            row.put(name, number.as_f64());
        }
        row.curve = value.get("curve")?.as_array()?.iter().filter_map(Value::as_f64).collect();
        row.note = text("note").map(str::to_owned);
        Some(row)
    }
}

/// All that was measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows(pub(crate) Vec<Row>);

impl Rows {
    pub(crate) fn of(&self, case: Case, who: Who) -> impl Iterator<Item = &Row> {
        self.0.iter().filter(move |row| row.case == case && row.who == who)
    }

    /// The median of a number over the runs.
    pub(crate) fn number(&self, case: Case, who: Who, name: &str) -> Option<f64> {
        median(self.of(case, who).filter_map(|row| row.numbers.get(name).copied()))
    }

    /// The median over the runs of a ratio within each.
    pub(crate) fn ratio(
        &self,
        case: Case,
        (above, below): ((Who, &str), (Who, &str)),
    ) -> Option<f64> {
        median(self.of(case, above.0).filter_map(|row| {
            let other = self.of(case, below.0).find(|other| other.run == row.run)?;
            Some(row.numbers.get(above.1)? / other.numbers.get(below.1)?)
        }))
    }

    /// The median curve over the runs, point by point.
    pub(crate) fn curve(&self, case: Case, who: Who) -> Vec<f64> {
        let curves: Vec<_> = self.of(case, who).map(|row| &row.curve).collect();
        let points = curves.iter().map(|curve| curve.len()).max().unwrap_or_default();
        let point = |at| median(curves.iter().filter_map(|curve| curve.get(at).copied()));
        (0..points).filter_map(point).collect()
    }

    pub(crate) fn to_json(&self) -> String {
        let rows: Vec<_> = self.0.iter().map(Row::to_json).collect();
        format!("{:#}\n", json!({ "rows": rows }))
    }

    pub(crate) fn from_json(text: &str) -> Result<Self, String> {
        let all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let rows = all.get("rows").and_then(Value::as_array).ok_or("there are no rows")?;
        let row = |row: &Value| Row::from_json(row).ok_or_else(|| format!("no row: {row}"));
        rows.iter().map(row).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        let row = |run, who, value| {
            let mut row = Row::new(run, Case::HotTasks, who);
            row.put("grants_s", Some(value));
            row.curve = vec![value, 2.0 * value];
            row
        };
        let ours = [20.0, 90.0, 50.0].iter().enumerate();
        let mut rows: Vec<_> = ours.map(|(run, value)| row(run, Who::Quorlock, *value)).collect();
        let theirs = [10.0, 30.0, 50.0].iter().enumerate();
        rows.extend(theirs.map(|(run, value)| row(run, Who::Local, *value)));
        Rows(rows)
    }

    #[test]
    fn a_ratio_is_the_median_of_those_within_the_runs() {
        let (rows, name) = (rows(), "grants_s");
        let ratio = rows.ratio(Case::HotTasks, ((Who::Quorlock, name), (Who::Local, name)));
        assert_eq!(ratio, Some(2.0), "and not 50 / 30");
        assert_eq!(rows.number(Case::HotTasks, Who::Quorlock, name), Some(50.0));
        assert_eq!(rows.number(Case::HotTasks, Who::Rslock, name), None);
        assert_eq!(rows.curve(Case::HotTasks, Who::Quorlock), [50.0, 100.0]);
    }

    #[test]
    fn rows_survive_as_json() {
        let rows = rows();
        let read = Rows::from_json(&rows.to_json()).unwrap();
        assert_eq!(read.to_json(), rows.to_json());
        assert!(Rows::from_json("{}").is_err());
    }
}
