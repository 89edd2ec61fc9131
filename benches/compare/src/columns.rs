//! Aligned text.

use std::fmt::Write as _;

/// Columns as wide as their widest cell, those of `numbers` to the right and the others to the left. A line that ends
/// early keeps its last cell as it is.
pub(crate) fn aligned(lines: &[Vec<String>], numbers: impl Fn(usize) -> bool) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let whole = lines.iter().filter(|line| line.len() == columns);
        whole.filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let _ = if numbers(column) && line.len() == columns {
                write!(row, "  {cell:>width$}")
            } else {
                write!(row, "  {cell:<width$}")
            };
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}
