//! Tables for people.

/// The lines of a table below its head, columns as wide as their widest cell; the last one as long as it is.
pub fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> Vec<String> {
    let rows: Vec<[String; N]> = std::iter::once(head.map(String::from)).chain(rows).collect();
    let widths: [usize; N] = std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
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
