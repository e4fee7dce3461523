//! The four tables.
use crate::figures::bytes;
use crate::model::{ClientRow, DaemonRow, GroupRow, Model, OtherRow};
use crate::table::{Cell, Column, Row, Table};
use crate::words::{standing, without_incarnations};
use consort_inquiry::story::{ToldChange, span};

/// Which table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    #[default]
    Daemons,
    Groups,
    Clients,
    Changes,
}

const DAEMONS: [Column; 17] = [
    Column::text("NODE", 5),
    Column::text("STATE", 14),
    Column::text("VIEW", 9),
    Column::number("MEMBERS", 8),
    Column::text("PRIMARY", 9),
    Column::number("CLIENTS", 8),
    Column::number("TAKEN/s", 8),
    Column::number("DELIV/s", 8),
    Column::number("ROTATION", 9).wide(),
    Column::number("ORDERED/s", 10).wide(),
    Column::number("BYTES/s", 10).wide(),
    Column::number("RESENT/s", 9).wide(),
    Column::number("QUEUED", 10).wide(),
    Column::number("UNREAD", 10).wide(),
    Column::number("MEMORY", 10).wide(),
    Column::text("WAITS FOR", 11).wide(),
    Column::number("PID", 8).wide(),
];
const GROUPS: [Column; 3] = [Column::text("GROUP", 20), Column::number("MEMBERS", 9), Column::text("SENDERS", 12)];
const CLIENTS: [Column; 9] = [
    Column::text("NAME", 14),
    Column::text("NODE", 5),
    Column::text("LISTENER", 11),
    Column::text("STATE", 10),
    Column::number("GROUPS", 7),
    Column::number("UNREAD", 10),
    Column::number("UNDER WAY", 10),
    Column::number("CREDIT", 10).wide(),
    Column::number("NUMBER", 11).wide(),
];
const CHANGES: [Column; 5] = [
    Column::number("AGO", 14),
    Column::text("VIEW", 9),
    Column::text("WHAT", 55),
    Column::text("PRIMARY", 9).wide(),
    Column::text("MEMBERS", 30).wide(),
];

impl Pane {
    /// All, in the order of the screen.
    pub const ALL: [Self; 4] = [Self::Daemons, Self::Groups, Self::Clients, Self::Changes];

    /// Its place among all.
    pub const fn place(self) -> usize {
        self as usize
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Daemons => "Daemons",
            Self::Groups => "Groups",
            Self::Clients => "Clients",
            Self::Changes => "Changes",
        }
    }

    /// By what it is sorted at first, and whether the other way round: who leaves most unread, and what came last, stand
    /// first.
    pub const fn sorted_by(self) -> (usize, bool) {
        match self {
            Self::Daemons | Self::Groups => (0, false),
            Self::Clients => (5, false),
            Self::Changes => (0, true),
        }
    }

    /// How many rows there are in all, of which the table may have fewer.
    pub fn total(self, model: &Model) -> u32 {
        match self {
            Self::Daemons => u32::try_from(model.daemons.len() + model.others.len()).unwrap_or(u32::MAX),
            Self::Groups => model.groups_total,
            Self::Clients => model.clients_total,
            Self::Changes => u32::try_from(self.table(model).rows.len()).unwrap_or(u32::MAX),
        }
    }

    /// Its table, as the daemons told it.
    pub fn table(self, model: &Model) -> Table {
        match self {
            Self::Daemons => {
                let others = model.others.iter().map(other);
                Table { columns: &DAEMONS, flexible: 1, rows: model.daemons.iter().map(daemon).chain(others).collect() }
            }
            Self::Groups => Table { columns: &GROUPS, flexible: 0, rows: model.groups.iter().map(group).collect() },
            Self::Clients => Table { columns: &CLIENTS, flexible: 0, rows: model.clients.iter().map(client).collect() },
            Self::Changes => {
                Table { columns: &CHANGES, flexible: 2, rows: model.changes.iter().filter_map(change).collect() }
            }
        }
    }
}

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

fn number(number: impl Into<f64>) -> Cell {
    let number = number.into();
    Cell::Number(number, format!("{number:.0}"))
}

fn size(count: u64) -> Cell {
    Cell::Number(count as f64, bytes(count))
}

/// Sorts as a number does, but upward: its column is one of text.
fn node(node: u16) -> Cell {
    Cell::Number(f64::from(node), format!("n{node}"))
}

/// How often, in at most seven characters.
pub fn rate(per_s: f64) -> String {
    match per_s {
        per_s if per_s < 9_999.5 => format!("{per_s:.0}"),
        per_s if per_s < 999_950.0 => format!("{:.1}k", per_s / 1e3),
        per_s if per_s < 999_950_000.0 => format!("{:.2}M", per_s / 1e6),
        per_s => format!("{:.2}G", per_s / 1e9),
    }
}

fn daemon(daemon: &DaemonRow) -> Row {
    if let Some(problem) = &daemon.problem {
        let mut cells = vec![Cell::none(); DAEMONS.len()];
        (cells[0], cells[1]) = (node(daemon.node), text(problem.as_str()));
        return Row { cells, notable: true };
    }
    let optional = |count: Option<u64>, cell: fn(u64) -> Cell| count.map_or_else(Cell::none, cell);
    let per_s = |of: fn(&crate::rates::Rates) -> f64| {
        daemon.rates.as_ref().map_or_else(Cell::none, |rates| Cell::Number(of(rates), rate(of(rates))))
    };
    let state = standing(&daemon.ready, &daemon.state);
    let cells = vec![
        node(daemon.node),
        text(state),
        text(daemon.view.as_str()),
        number(u32::try_from(daemon.members.len()).unwrap_or(u32::MAX)),
        text(daemon.primary.as_str()),
        number(daemon.clients),
        per_s(|rates| rates.taken_requests_per_s),
        per_s(|rates| rates.delivered_messages_per_s),
        optional(daemon.rotation_us, |us| Cell::Number(us as f64, format!("{us} us"))),
        per_s(|rates| rates.ordered_messages_per_s),
        daemon.rates.map_or_else(Cell::none, |rates| size(rates.ordered_bytes_per_s as u64)),
        per_s(|rates| rates.resent_packets_per_s),
        optional(daemon.queued_bytes, size),
        size(daemon.unread_bytes),
        optional(daemon.resident_bytes, size),
        text(daemon.requests_wait_for.clone().unwrap_or_else(|| "-".into())),
        daemon.pid.map_or_else(Cell::none, number),
    ];
    let waits = daemon.requests_wait_for.as_deref().is_some_and(|cause| cause != "window");
    Row { cells, notable: waits || daemon.ready != "yes" }
}

fn other(other: &OtherRow) -> Row {
    let heard: Vec<String> = other.heard_by.iter().map(|node| format!("n{node}")).collect();
    let state = match (other.in_view, heard.is_empty()) {
        (true, _) => "elsewhere".to_owned(),
        (false, true) => "not heard".to_owned(),
        (false, false) => format!("heard by {}", heard.join(" ")),
    };
    let mut cells = vec![Cell::none(); DAEMONS.len()];
    (cells[0], cells[1]) = (node(other.node), text(state));
    Row { cells, notable: !other.in_view && !other.heard_by.is_empty() }
}

fn group(group: &GroupRow) -> Row {
    let senders = if group.closed { "members only" } else { "all" };
    Row { cells: vec![text(group.group.as_str()), number(group.members), text(senders)], notable: false }
}

fn client(client: &ClientRow) -> Row {
    let cells = vec![
        text(client.name.as_deref().unwrap_or("-")),
        node(client.node),
        text(format!("{} {}", client.listener, client.transport)),
        text(client.state),
        number(client.groups),
        size(client.unread_bytes),
        size(u64::from(client.under_way_bytes)),
        size(u64::from(client.credit_bytes)),
        number(client.client),
    ];
    Row { cells, notable: client.unread_bytes > 256 << 10 }
}

/// What a change was and why it came, in a line; nothing for the closing of a view.
pub fn sentence(change: &ToldChange) -> Option<String> {
    match change.what {
        "view" => Some(format!("{}: {}", change.news(), change.why.as_deref().unwrap_or("no cause is told"))),
        "primary" => Some("is primary now: all its members have installed it".into()),
        _ => None,
    }
}

fn change(change: &ToldChange) -> Option<Row> {
    let members: Vec<String> = change.members.iter().map(|member| without_incarnations(member)).collect();
    let cells = vec![
        Cell::Number(change.ms_ago as f64, ago(change.ms_ago)),
        text(without_incarnations(&change.view)),
        text(sentence(change)?),
        text(change.primary.unwrap_or_default()),
        text(members.join(" ")),
    ];
    Some(Row { cells, notable: !change.gone.is_empty() })
}

/// How long ago, in the two units that matter.
pub fn ago(ms: u64) -> String {
    format!("{} ago", span(ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::model;

    #[test]
    fn every_row_has_a_cell_for_every_column() {
        let model = model();
        for pane in Pane::ALL {
            let table = pane.table(&model);
            assert!(!table.rows.is_empty(), "{}", pane.name());
            assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()), "{}", pane.name());
            assert!(pane.sorted_by().0 < table.columns.len() && table.flexible < table.columns.len());
        }
    }

    #[test]
    fn rates_take_few_characters() {
        let rates = [0.4, 9_999.0, 9_999.6, 621_000.0, 999_960.0, 4_200_000.0, 1.5e9].map(rate);
        assert_eq!(rates, ["0", "9999", "10.0k", "621.0k", "1.00M", "4.20M", "1.50G"]);
    }

    #[test]
    fn nodes_beyond_nine_stand_behind_those_before() {
        let row = |n: u16| Row { cells: vec![node(n)], notable: false };
        let table = Table { columns: &DAEMONS, flexible: 1, rows: vec![row(10), row(9), row(101), row(100)] };
        let shown: Vec<String> = table.sorted(0, false).rows.iter().map(|row| format!("{:?}", row.cells[0])).collect();
        assert!(shown[0].contains("n9") && shown[3].contains("n101"), "{shown:?}");
    }
}
