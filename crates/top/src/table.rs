//! Rows in columns: sorted, filtered, and cut to the width that there is.
use std::cmp::Ordering;

/// A column. Those that are only for wide screens follow those that are for all.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub title: &'static str,
    /// In characters; the flexible column's least.
    pub width: usize,
    /// Numbers stand to the right.
    pub right: bool,
    /// Left out where there is no room for it.
    pub wide: bool,
}

impl Column {
    /// One of text.
    pub const fn text(title: &'static str, width: usize) -> Self {
        Self { title, width, right: false, wide: false }
    }

    /// One of numbers.
    pub const fn number(title: &'static str, width: usize) -> Self {
        Self { title, width, right: true, wide: false }
    }

    /// The same where there is room.
    pub const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }
}

/// What a cell shows, and by what it is sorted.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// By its text.
    Text(String),
    /// By a number.
    Number(f64, String),
}

impl Cell {
    /// Nothing is known.
    pub fn none() -> Self {
        Self::Number(-1.0, "-".into())
    }

    fn shown(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(_, text) => text,
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a, _), Self::Number(b, _)) => a.total_cmp(b),
            _ => self.shown().cmp(other.shown()),
        }
    }
}

/// A row; one that should be looked at is notable.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub cells: Vec<Cell>,
    pub notable: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    pub columns: &'static [Column],
    /// Which of them takes the room that is left.
    pub flexible: usize,
    pub rows: Vec<Row>,
}

impl Table {
    /// Only rows that show this text somewhere, upper or lower case alike.
    pub fn filtered(mut self, text: &str) -> Self {
        let text = text.to_lowercase();
        self.rows.retain(|row| row.cells.iter().any(|cell| cell.shown().to_lowercase().contains(&text)));
        self
    }

    /// Sorted by a column: texts upward, numbers downward, or the other way round. Rows that are equal there stay in their
    /// order.
    pub fn sorted(mut self, column: usize, inverted: bool) -> Self {
        let downward = self.columns.get(column).is_some_and(|column| column.right) != inverted;
        self.rows.sort_by(|a, b| match (a.cells.get(column), b.cells.get(column)) {
            (Some(a), Some(b)) if downward => b.order(a),
            (Some(a), Some(b)) => a.order(b),
            _ => Ordering::Equal,
        });
        self
    }

    /// The titles in so many characters; the column by which it is sorted is marked.
    pub fn head(&self, width: usize, sorted_by: Option<usize>) -> String {
        let title = |at: usize| {
            let mark = if sorted_by == Some(at) { "*" } else { "" };
            format!("{}{mark}", self.columns[at].title)
        };
        self.line(width, title)
    }

    /// A row in so many characters.
    pub fn row(&self, row: &Row, width: usize) -> String {
        self.line(width, |at| row.cells.get(at).map_or_else(String::new, |cell| cell.shown().to_owned()))
    }

    fn line(&self, width: usize, text: impl Fn(usize) -> String) -> String {
        let cells: Vec<String> = self
            .layout(width)
            .into_iter()
            .map(|(at, width)| {
                let text = cut(&text(at), width);
                if self.columns[at].right { format!("{text:>width$}") } else { format!("{text:<width$}") }
            })
            .collect();
        cut(cells.join(" ").trim_end(), width)
    }

    /// Which columns are shown, and how wide each is.
    fn layout(&self, width: usize) -> Vec<(usize, usize)> {
        let mut left = width;
        let mut shown = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            let needs = column.width + usize::from(!shown.is_empty());
            if column.wide && needs > left {
                break;
            }
            left = left.saturating_sub(needs);
            shown.push((at, column.width));
        }
        let flexible = shown.iter_mut().find(|(at, _)| *at == self.flexible);
        flexible.into_iter().for_each(|(_, width)| *width += left);
        shown
    }
}

/// A text in at most so many characters; what is cut off is told by the last.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let front: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { front } else { front + "…" }
}

/// A text in at most so many lines of so many characters, broken between words where that is possible.
pub fn wrap(text: &str, width: usize, lines: usize) -> Vec<String> {
    let mut wrapped = Vec::new();
    let mut rest = text.trim();
    while wrapped.len() + 1 < lines && rest.chars().count() > width {
        let end = rest.char_indices().nth(width).map_or(rest.len(), |(at, _)| at);
        let at = rest[..end].rfind(' ').filter(|at| *at > 0).unwrap_or(end);
        wrapped.push(rest[..at].to_owned());
        rest = rest[at..].trim_start();
    }
    if !rest.is_empty() && lines > 0 {
        wrapped.push(cut(rest, width));
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] =
        [Column::text("NAME", 4), Column::number("N", 3), Column::text("X", 3).wide(), Column::text("Y", 3).wide()];

    fn table(rows: &[(&str, f64)]) -> Table {
        let row = |(name, n): &(&str, f64)| {
            let cells = vec![
                Cell::Text((*name).into()),
                Cell::Number(*n, format!("{n}")),
                Cell::Text("x".into()),
                Cell::Text("y".into()),
            ];
            Row { cells, notable: false }
        };
        Table { columns: &COLUMNS, flexible: 0, rows: rows.iter().map(row).collect() }
    }

    fn names(table: &Table) -> Vec<&str> {
        table.rows.iter().map(|row| row.cells[0].shown()).collect()
    }

    #[test]
    fn columns_for_wide_screens_come_as_there_is_room_and_one_column_takes_the_rest() {
        let table = table(&[("ann", 7.0)]);
        assert_eq!(table.head(8, None), "NAME   N");
        assert_eq!(table.head(12, Some(1)), "NAME  N* X");
        assert_eq!(table.row(&table.rows[0], 12), "ann    7 x");
        assert_eq!(table.row(&table.rows[0], 20), "ann        7 x   y");
        assert_eq!(table.row(&table.rows[0], 3).chars().count(), 3, "never more than there is");
    }

    #[test]
    fn numbers_are_sorted_downward_and_texts_upward_unless_inverted() {
        let rows = [("bob", 2.0), ("ann", 10.0), ("eve", 2.0)];
        assert_eq!(names(&table(&rows).sorted(0, false)), ["ann", "bob", "eve"]);
        assert_eq!(names(&table(&rows).sorted(1, false)), ["ann", "bob", "eve"]);
        assert_eq!(names(&table(&rows).sorted(1, true)), ["bob", "eve", "ann"]);
        assert_eq!(names(&table(&rows).sorted(9, true)), ["bob", "ann", "eve"], "there is no such column");
    }

    #[test]
    fn a_filter_looks_at_every_cell() {
        let rows = [("bob", 2.0), ("Ann", 10.0)];
        assert_eq!(names(&table(&rows).filtered("aN")), ["Ann"]);
        assert_eq!(names(&table(&rows).filtered("10")), ["Ann"]);
        assert_eq!(names(&table(&rows).filtered("")).len(), 2);
        assert!(names(&table(&rows).filtered("zebra")).is_empty());
    }

    #[test]
    fn texts_are_cut_and_wrapped_by_characters() {
        assert_eq!([cut("rotation 80µs", 13), cut("rotation 80µs", 12)], ["rotation 80µs", "rotation 80…"]);
        assert_eq!([cut("ab", 1), cut("ab", 0)], ["…", ""]);
        assert_eq!(wrap("one two three four", 9, 2), ["one two", "three fo…"]);
        assert_eq!(wrap("one two three", 9, 2), ["one two", "three"]);
        assert_eq!(wrap("µµµµµµ", 4, 2), ["µµµµ", "µµ"]);
        assert_eq!((wrap("", 9, 2).len(), wrap("word", 9, 0).len()), (0, 0));
    }
}
