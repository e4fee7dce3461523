//! Screens of a cluster that is made up, compared with those that a person has looked at.
use crate::draw::{self, draw};
use crate::look::{DaemonLook, Look, Told};
use crate::model::Model;
use crate::panes::Pane;
use crate::screen::{Action, Screen};
use crate::text;
use consort_session::listing::{Connection, ConnectionStage, GroupEntry, Transport};
use consort_session::{ClientName, SlowPolicy};
use consort_types::{ClientId, GroupName};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::path::PathBuf;

/// A client of that name for whom so many bytes wait.
pub(crate) fn client(name: &str, waiting: u64) -> Connection {
    Connection {
        client: ClientId(2 + u32::from(name.as_bytes()[0])),
        name: ClientName::new(name.as_bytes()),
        transport: Transport::Tcp,
        stage: ConnectionStage::Open,
        groups: 2,
        waiting,
        under_way: 12 << 10,
        credit: 256 << 10,
        slow: SlowPolicy::Disconnect,
        spooled: 0,
    }
}

fn status(node: u16, second: u64) -> Vec<(&'static str, String)> {
    let at = |per_s: u64| (per_s * second + 1_000_000).to_string();
    let other = if node == 1 { "peer_n2" } else { "peer_n1" };
    vec![
        ("node", format!("n{node}")),
        ("incarnation", "17".into()),
        ("cluster", "00c0ffee".into()),
        ("protocol", "ring".into()),
        ("state", "operational: ring 13@n1.17 of 3, rotation 180µs".into()),
        ("ready", "yes".into()),
        ("view", "13@n1.17".into()),
        ("primary", "yes".into()),
        ("members", "n1.17 n2.17 n3.18".into()),
        (other, "heard 12 ms ago, hears us".into()),
        ("peer_n3", "heard 40 ms ago, hears us".into()),
        ("groups", "3".into()),
        ("rotation_us", "180".into()),
        ("queued_bytes", "12345".into()),
        ("client_output_bytes", if node == 1 { "5242880" } else { "0" }.into()),
        ("messages_ordered", at(621_000)),
        ("message_bytes_ordered", at(838_350_000)),
        ("requests_accepted", at(207_000)),
        ("messages_delivered", at(1_242_000)),
        ("message_bytes_delivered", at(1_676_700_000)),
        ("retransmissions_sent", at(3)),
        ("change_0", "71900 ms ago: view 5@n1.17 of n1.17 n2.17 n3.9, primary pending (started; n2, n3 joined)".into()),
        (
            "change_1",
            "9040 ms ago: view 9@n1.17 of n1.17 n2.17, primary pending (token lost after 151 ms; n3 silent for 369 ms)"
                .into(),
        ),
        ("change_2", "810 ms ago: view 13@n1.17 of n1.17 n2.17 n3.18, primary pending (n3 joined)".into()),
        ("change_3", "809 ms ago: view 13@n1.17 is primary: all its members have installed it".into()),
    ]
}

fn daemon(node: u16, second: u64, clients: Vec<Connection>) -> DaemonLook {
    let group = |(name, members, closed): &(&str, u32, bool)| GroupEntry {
        name: GroupName::new(name.as_bytes()).unwrap(),
        members: *members,
        closed: *closed,
    };
    let groups = [("audit", 1, true), ("lobby", 12, false), ("orders", 3, false)].iter().map(group).collect();
    let told = Told {
        status: status(node, second).into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        groups: (node == 1).then_some((groups, 3)),
        clients: (clients.clone(), clients.len() as u32),
    };
    let address = format!("unix:/run/user/1000/consort/prod/node-{node}.sock");
    DaemonLook { node, address, pid: Some(4_710 + u32::from(node)), resident: Some(21 << 20), told: Ok(told) }
}

/// What is seen in this second.
pub(crate) fn look(second: u64) -> Look {
    let daemons = vec![daemon(1, second, Vec::new()), daemon(2, second, Vec::new())];
    Look { at_ns: second * 1_000_000_000, cluster: "prod".into(), daemons }
}

/// What two looks say, with clients and one of them behind.
pub(crate) fn model() -> Model {
    let mut now = look(1);
    now.daemons[0] = daemon(1, 1, vec![client("ann", 0), client("bob", 5 << 20)]);
    now.daemons[1] =
        daemon(2, 1, vec![Connection { name: None, stage: ConnectionStage::Connecting, ..client("eve", 0) }]);
    Model::new(Some(&look(0)), &now)
}

/// Ten thousand clients and groups, long names, a daemon that is gone, and one that waits.
fn crowded() -> Model {
    let mut now = look(1);
    let clients = (0..1_000).map(|n| client(&format!("client-{n:04}-of-many"), n << 10)).collect();
    now.daemons[0] = daemon(1, 1, clients);
    let told = now.daemons[0].told.as_mut().unwrap();
    let name = |n: u32| GroupName::new(format!("{n:04}-{}", "x".repeat(59)).as_bytes()).unwrap();
    let group = |n: u32| GroupEntry { name: name(n), members: n, closed: n.is_multiple_of(2) };
    told.groups = Some(((0..1_000).map(group).collect(), 10_000));
    told.status.insert("requests_wait_for".into(), "slow:n3".into());
    let gone = "cannot connect to unix:/run/user/1000/consort/prod/node-2.sock: Connection refused (os error 111); start one \
                with `consort daemon`";
    now.daemons[1].told = Err(gone.into());
    Model::new(Some(&look(0)), &now)
}

fn drawn(model: &Model, screen: &Screen, (width, height): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame.buffer_mut(), model, screen)).unwrap();
    text::lines(terminal.backend().buffer())
}

fn after(model: &Model, actions: &[Action]) -> Screen {
    let mut screen = Screen::default();
    for action in actions {
        let table = draw::table(model, &screen);
        assert!(screen.apply(*action, table.rows.len(), table.columns.len()));
    }
    screen
}

/// Compares with the file of that name. `CONSORT_TOP_ACCEPT=1` writes it anew: look at it then.
fn assert_looks_like(name: &str, lines: &[String]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/tests/screens").join(format!("{name}.txt"));
    let text = lines.join("\n") + "\n";
    if std::env::var_os("CONSORT_TOP_ACCEPT").is_some_and(|accept| accept == "1") {
        std::fs::write(&path, &text).unwrap();
    }
    let accepted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(accepted == text, "{} looks otherwise now:\n{text}", path.display());
}

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (200, 50);

#[test]
fn each_pane_looks_as_it_should_on_a_small_and_on_a_large_terminal() {
    let model = model();
    for (size, name) in [(SMALL, "80x24"), (LARGE, "200x50")] {
        for pane in Pane::ALL {
            let lines = drawn(&model, &after(&model, &[Action::Show(pane)]), size);
            assert_eq!(lines.len(), usize::from(size.1));
            assert_looks_like(&format!("{}-{name}", pane.name().to_lowercase()), &lines);
        }
    }
}

#[test]
fn help_and_filter_look_as_they_should() {
    let model = model();
    assert_looks_like("help-80x24", &drawn(&model, &after(&model, &[Action::Help]), SMALL));
    let typed: Vec<Action> = "bo".chars().map(Action::Type).collect();
    let filter = [&[Action::Show(Pane::Clients), Action::BeginFilter][..], &typed].concat();
    assert_looks_like("filter-80x24", &drawn(&model, &after(&model, &filter), SMALL));
}

#[test]
fn a_crowd_long_names_and_trouble_break_no_line() {
    let model = crowded();
    let end = [Action::Show(Pane::Clients), Action::Last];
    assert_looks_like("trouble-80x24", &drawn(&model, &Screen::default(), SMALL));
    assert_looks_like("crowd-80x24", &drawn(&model, &after(&model, &end), SMALL));
    for width in [80, 81, 97, 120, 200, 400] {
        for pane in Pane::ALL {
            for line in drawn(&model, &after(&model, &[Action::Show(pane)]), (width, 30)) {
                assert!(line.chars().count() <= usize::from(width));
            }
        }
    }
}

#[test]
fn the_marked_row_is_always_on_the_screen() {
    let model = crowded();
    let mut screen = after(&model, &[Action::Show(Pane::Groups)]);
    for _ in 0..120 {
        let table = draw::table(&model, &screen);
        screen.apply(Action::Down(9), table.rows.len(), table.columns.len());
        let name = format!("{:04}-", screen.marked());
        assert!(drawn(&model, &screen, SMALL).iter().any(|line| line.starts_with(&name)), "{name}");
    }
    assert_eq!(screen.marked(), 999);
}

#[test]
fn a_terminal_that_became_too_small_says_so_and_nothing_panics_however_small() {
    let model = model();
    for size in [(79, 24), (80, 15), (20, 5), (1, 1), (0, 0), (300, 2)] {
        let said = drawn(&model, &Screen::default(), size).join(" ");
        assert!(size.0 < 20 || said.starts_with("this terminal has"), "{size:?}: {said}");
    }
    assert!(drawn(&model, &Screen::default(), draw::LEAST)[0].starts_with("consort top"));
}

#[test]
fn before_the_second_look_and_without_anybody_there_is_a_screen_too() {
    let first = Model::new(None, &look(0));
    assert!(drawn(&first, &Screen::default(), SMALL)[1].starts_with("Rates come with the second look"));
    let nothing = Model::default();
    for pane in Pane::ALL {
        let lines = drawn(&nothing, &after(&nothing, &[Action::Show(pane)]), SMALL);
        assert!(lines[8].starts_with("none"), "{lines:?}");
    }
}

#[test]
fn the_plain_text_has_every_pane() {
    let model = model();
    let lines: Vec<String> = text::of(&model, 80).lines().map(str::to_owned).collect();
    assert_looks_like("once-80", &lines);
    assert!(lines.iter().all(|line| line.chars().count() <= 80));
}
