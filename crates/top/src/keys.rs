//! Keys, as in htop.
use crate::panes::Pane;
use crate::screen::{Action, Mode};
use ratatui::termion::event::Key;

/// How far a page is.
const PAGE: usize = 10;

/// What stands at the foot of the screen: a key, and what it does.
pub const FOOT: [(&str, &str); 7] = [
    ("F1", "Help"),
    ("Tab", "Pane"),
    ("F4", "Filter"),
    ("F6", "SortBy"),
    ("I", "Invert"),
    ("Z", "Freeze"),
    ("F10", "Quit"),
];

/// The help.
pub const HELP: [&str; 12] = [
    "F1 h ?            this help; any key closes it",
    "Tab Shift-Tab     next and previous pane, as right and left; 1 to 4 choose one",
    "up down k j       move the mark; PgUp, PgDn by ten rows; Home, End",
    "F4 \\ /            show only rows with a text: Enter keeps it, Esc drops it",
    "F6 > <            sort by the next column (>) or the one before (<)",
    "I                 sort the other way round",
    "Z Space           freeze the screen, or go on",
    "F10 q Ctrl-C      quit",
    "",
    "Rates count a second between two looks. TAKEN are requests of a daemon's own",
    "clients, DELIV messages handed to them, ORDERED all that got a place anywhere.",
    "A row in red needs a look: gone, not in full, waited for, or behind.",
];

/// What a key asks for; nothing for keys without a meaning.
pub const fn action(mode: Mode, key: Key) -> Option<Action> {
    match (key, mode) {
        (Key::Ctrl('c') | Key::F(10), _) => Some(Action::Quit),
        (_, Mode::Browse) => browse(key),
        (_, Mode::Filter) => filter(key),
        (_, Mode::Help) => Some(Action::CloseHelp),
    }
}

const fn browse(key: Key) -> Option<Action> {
    Some(match key {
        Key::F(1) | Key::Char('h' | '?') => Action::Help,
        Key::Char('q') => Action::Quit,
        Key::Char('\t') | Key::Right => Action::NextPane,
        Key::BackTab | Key::Left => Action::PreviousPane,
        Key::Char('1') => Action::Show(Pane::Daemons),
        Key::Char('2') => Action::Show(Pane::Groups),
        Key::Char('3') => Action::Show(Pane::Clients),
        Key::Char('4') => Action::Show(Pane::Changes),
        Key::Up | Key::Char('k') => Action::Up(1),
        Key::Down | Key::Char('j') => Action::Down(1),
        Key::PageUp => Action::Up(PAGE),
        Key::PageDown => Action::Down(PAGE),
        Key::Home => Action::First,
        Key::End => Action::Last,
        Key::F(4) | Key::Char('\\' | '/') => Action::BeginFilter,
        Key::F(6) | Key::Char('>' | '.') => Action::SortByNext,
        Key::Char('<' | ',') => Action::SortByPrevious,
        Key::Char('I') => Action::InvertSort,
        Key::Char('Z' | ' ') => Action::Freeze,
        Key::Esc => Action::ClearFilter,
        _ => return None,
    })
}

const fn filter(key: Key) -> Option<Action> {
    Some(match key {
        Key::Char('\n') | Key::F(4) => Action::EndFilter,
        Key::Char('\t') => return None,
        Key::Char(letter) => Action::Type(letter),
        Key::Backspace => Action::Erase,
        Key::Esc => Action::ClearFilter,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_mean_something_else_while_a_filter_is_written() {
        assert_eq!(action(Mode::Browse, Key::Char('q')), Some(Action::Quit));
        assert_eq!(action(Mode::Filter, Key::Char('q')), Some(Action::Type('q')));
        assert_eq!(action(Mode::Help, Key::Char('q')), Some(Action::CloseHelp));
        for mode in [Mode::Browse, Mode::Filter, Mode::Help] {
            assert_eq!([action(mode, Key::F(10)), action(mode, Key::Ctrl('c'))], [Some(Action::Quit); 2]);
        }
        assert_eq!([action(Mode::Browse, Key::Ctrl('x')), action(Mode::Filter, Key::Char('\t'))], [None, None]);
    }

    #[test]
    fn every_key_at_the_foot_has_a_meaning() {
        for (key, _) in FOOT {
            let pressed = match key {
                "Tab" => Key::Char('\t'),
                key if key.len() > 1 => Key::F(key[1..].parse().unwrap()),
                key => Key::Char(key.chars().next().unwrap()),
            };
            assert!(action(Mode::Browse, pressed).is_some(), "{key}");
        }
        assert_eq!([action(Mode::Browse, Key::F(9)), action(Mode::Filter, Key::Up)], [None, None]);
        assert!(HELP.iter().all(|line| line.chars().count() <= 79));
    }
}
