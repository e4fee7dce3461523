//! Tables for people.

/// The lines of a table below its head, columns as wide as their widest cell; the last one as long as it is.
pub fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> Vec<String> {
    lines(std::iter::once(head.map(String::from)).chain(rows).map(Vec::from).collect())
}

/// The same of rows of any width.
pub fn lines(rows: Vec<Vec<String>>) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_with_the_last() {
        let rows = [["1", "abc"], ["22222", "d"]].map(|row| row.map(String::from));
        assert_eq!(table(["NODE", "X"], rows.into_iter()), ["NODE   X", "1      abc", "22222  d"]);
    }
}
