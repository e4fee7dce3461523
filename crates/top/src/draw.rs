//! The screen as a pure function of what is known and what is chosen.
use crate::figures::bytes;
use crate::keys::{FOOT, HELP};
use crate::model::Model;
use crate::panes::{self, Pane, rate};
use crate::screen::{Mode, Screen};
use crate::table::{Table, cut, wrap};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// The smallest screen: width and height.
pub const LEAST: (u16, u16) = (80, 16);
/// How many lines stand above the panes' names.
pub const HEAD: u16 = 6;

/// The table of the pane that is shown, as it is shown.
pub fn table(model: &Model, screen: &Screen) -> Table {
    let (column, inverted) = screen.sort(screen.pane);
    screen.pane.table(model).filtered(&screen.filter).sorted(column, inverted)
}

/// Draws all of it.
pub fn draw(buffer: &mut Buffer, model: &Model, screen: &Screen) {
    let area = buffer.area;
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = too_small((area.width, area.height));
        for (y, line) in (0..area.height).zip(wrap(&text, usize::from(area.width), usize::from(area.height))) {
            put(buffer, y, &line, Style::new());
        }
        return;
    }
    head(buffer, model, screen.frozen);
    tabs(buffer, HEAD, model, screen);
    let below = Rect { y: HEAD + 1, height: area.height - HEAD - 2, ..area };
    if screen.mode == Mode::Help {
        for (y, line) in (below.y..below.bottom()).zip(HELP) {
            put(buffer, y, line, Style::new());
        }
    } else {
        rows(buffer, below, &table(model, screen), screen);
    }
    foot(buffer, area.height - 1, screen);
}

/// Says that a terminal has too little room.
pub fn too_small((width, height): (u16, u16)) -> String {
    format!("this terminal has {width} x {height} characters; consort top needs {} x {}", LEAST.0, LEAST.1)
}

/// Draws the lines above the panes.
pub fn head(buffer: &mut Buffer, model: &Model, frozen: bool) {
    let strong = Style::new().add_modifier(Modifier::BOLD);
    let frozen = if frozen { "  FROZEN" } else { "" };
    put(buffer, 0, &format!("{}{frozen}", title(model)), strong.add_modifier(Modifier::REVERSED));
    put(buffer, 1, &rates(model), Style::new());
    put(buffer, 2, &gauges(model), Style::new());
    let width = usize::from(buffer.area.width);
    for (y, line) in (3..5).zip(wrap(&last_change(model), width, 2)) {
        put(buffer, y, &line, Style::new());
    }
    let style = if model.held_back_by.is_empty() { Style::new() } else { Style::new().fg(Color::Red) };
    put(buffer, 5, &held_back(model), style);
}

fn title(model: &Model) -> String {
    let asked = model.daemons.len();
    let answer = model.daemons.iter().filter(|daemon| daemon.problem.is_none()).count();
    let daemons = if asked == answer { format!("{asked} asked") } else { format!("{answer} of {asked} asked answer") };
    let Some(speaker) = model.speaker() else {
        return format!("consort top  {}  {daemons}", model.cluster);
    };
    let (view, members) = (&speaker.view, speaker.members.len());
    let primary = match speaker.primary.as_str() {
        "yes" => ", primary",
        "no" => ", not primary",
        "pending" => ", primary pending",
        _ => "",
    };
    format!("consort top  {}  {}, view {view} of {members}{primary}, {daemons}", model.cluster, speaker.protocol)
}

fn rates(model: &Model) -> String {
    let Some(all) = model.rates() else { return "Rates come with the second look".to_owned() };
    let size = |per_s: f64| bytes(per_s as u64);
    format!(
        "Ordered {}/s, {}/s  Delivered {}/s, {}/s  Resent {}/s",
        rate(all.ordered_messages_per_s),
        size(all.ordered_bytes_per_s),
        rate(all.delivered_messages_per_s),
        size(all.delivered_bytes_per_s),
        rate(all.resent_packets_per_s)
    )
}

fn gauges(model: &Model) -> String {
    let rotation = model.daemons.iter().filter_map(|daemon| daemon.rotation_us).max();
    let rotation = rotation.map_or_else(String::new, |us| format!("  Rotation {us} us"));
    let queued: u64 = model.daemons.iter().filter_map(|daemon| daemon.queued_bytes).sum();
    let unread: u64 = model.daemons.iter().map(|daemon| daemon.unread_bytes).sum();
    format!(
        "Groups {}  Clients {}{rotation}  Queued {}  Unread {}",
        model.groups_total,
        model.clients_total,
        bytes(queued),
        bytes(unread)
    )
}

fn last_change(model: &Model) -> String {
    let last = model.changes.iter().rev().find(|change| change.what == "view");
    let told = last.and_then(|change| Some((change, panes::sentence(change)?)));
    told.map_or_else(String::new, |(change, told)| format!("Last change {}: {told}", panes::ago(change.ms_ago)))
}

fn held_back(model: &Model) -> String {
    let Some(worst) = model.held_back_by.first() else { return "Held back by nobody".to_owned() };
    let more = model.held_back_by.len() - 1;
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    format!("Held back by {}{more}: {}", worst.who, worst.why)
}

fn tabs(buffer: &mut Buffer, y: u16, model: &Model, screen: &Screen) {
    let mut x = 0;
    for pane in Pane::ALL {
        let label = format!(" {} {} {} ", pane.place() + 1, pane.name(), pane.total(model));
        let style = Style::new().fg(Color::Cyan);
        let style = if pane == screen.pane { style.add_modifier(Modifier::REVERSED) } else { style };
        x = buffer.set_stringn(x, y, &label, usize::from(buffer.area.width - x), style).0;
    }
    if !screen.filter.is_empty() || screen.mode == Mode::Filter {
        let cursor = if screen.mode == Mode::Filter { "_" } else { "" };
        let filter = format!("  Filter: {}{cursor}", screen.filter);
        buffer.set_stringn(x, y, filter, usize::from(buffer.area.width - x), Style::new().fg(Color::Yellow));
    }
}

fn rows(buffer: &mut Buffer, area: Rect, table: &Table, screen: &Screen) {
    let width = usize::from(area.width);
    let (column, _) = screen.sort(screen.pane);
    put(buffer, area.y, &table.head(width, Some(column)), Style::new().fg(Color::Black).bg(Color::Green));
    let height = usize::from(area.height.saturating_sub(1));
    let marked = screen.marked().min(table.rows.len().saturating_sub(1));
    let from = marked.saturating_sub(height.saturating_sub(1));
    if table.rows.is_empty() {
        let why = if screen.filter.is_empty() { "none" } else { "no row has the text of the filter" };
        put(buffer, area.y + 1, why, Style::new());
    }
    for (y, (at, row)) in (area.y + 1..area.bottom()).zip(table.rows.iter().enumerate().skip(from)) {
        let style = if row.notable { Style::new().fg(Color::Red) } else { Style::new() };
        let style = if at == marked { style.add_modifier(Modifier::REVERSED) } else { style };
        put(buffer, y, &table.row(row, width), style);
    }
}

fn foot(buffer: &mut Buffer, y: u16, screen: &Screen) {
    if screen.mode == Mode::Filter {
        return put(buffer, y, "Write what rows must show; Enter keeps the filter, Esc drops it", Style::new());
    }
    let mut x = 0;
    for (key, what) in FOOT {
        let room = |x: u16| usize::from(buffer.area.width.saturating_sub(x));
        x = buffer.set_stringn(x, y, key, room(x), Style::new()).0;
        let style = Style::new().fg(Color::Black).bg(Color::Cyan);
        let room = usize::from(buffer.area.width.saturating_sub(x));
        x = buffer.set_stringn(x, y, format!("{what:<7}"), room, style).0;
    }
}

/// Writes a line over the whole width.
fn put(buffer: &mut Buffer, y: u16, text: &str, style: Style) {
    let area = buffer.area;
    if y < area.height {
        buffer.set_style(Rect { y, height: 1, ..area }, style);
        buffer.set_stringn(0, y, cut(text, usize::from(area.width)), usize::from(area.width), style);
    }
}
