//! The same as plain text: the lines above the panes, then each pane whole.
use crate::draw::{HEAD, head};
use crate::model::Model;
use crate::panes::Pane;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// All of it in lines of at most so many characters.
pub fn of(model: &Model, width: u16) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, HEAD));
    head(&mut buffer, model, false);
    let mut text = lines(&buffer);
    for pane in Pane::ALL {
        let (column, inverted) = pane.sorted_by();
        let table = pane.table(model).sorted(column, inverted);
        let width = usize::from(width);
        text.push(String::new());
        text.push(format!("{} ({})", pane.name(), pane.total(model)));
        text.push(table.head(width, None));
        text.extend(table.rows.iter().map(|row| table.row(row, width)));
    }
    text.join("\n") + "\n"
}

/// The lines of a screen, without the blanks at their ends.
pub fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let line = |y: u16| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..area.height).map(line).collect()
}
