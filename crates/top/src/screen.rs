//! What a person has chosen to see.
use crate::panes::Pane;

/// What keys do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Walk through tables.
    Browse,
    /// Write the filter.
    Filter,
    /// Read the help.
    Help,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Quit,
    Show(Pane),
    NextPane,
    PreviousPane,
    Up(usize),
    Down(usize),
    First,
    Last,
    SortByNext,
    SortByPrevious,
    InvertSort,
    BeginFilter,
    Type(char),
    Erase,
    EndFilter,
    ClearFilter,
    Help,
    CloseHelp,
    /// Stop or go on taking in what is new.
    Freeze,
}

/// No longer filter is taken.
const FILTER_MAX: usize = 32;

/// What is chosen.
#[derive(Clone, Debug)]
pub struct Screen {
    pub pane: Pane,
    pub mode: Mode,
    pub filter: String,
    pub frozen: bool,
    /// Of each pane: the row that is marked, and the column by which it is sorted.
    marked: [usize; 4],
    sorted_by: [usize; 4],
    inverted: [bool; 4],
}

impl Default for Screen {
    fn default() -> Self {
        let sorted = Pane::ALL.map(Pane::sorted_by);
        Self {
            pane: Pane::default(),
            mode: Mode::Browse,
            filter: String::new(),
            frozen: false,
            marked: [0; 4],
            sorted_by: sorted.map(|(column, _)| column),
            inverted: sorted.map(|(_, inverted)| inverted),
        }
    }
}

impl Screen {
    /// The marked row of the pane that is shown.
    pub const fn marked(&self) -> usize {
        self.marked[self.pane.place()]
    }

    /// By which column a pane is sorted, and whether the other way round.
    pub const fn sort(&self, pane: Pane) -> (usize, bool) {
        (self.sorted_by[pane.place()], self.inverted[pane.place()])
    }

    /// Does what was asked for, where so many rows and columns are. False to end.
    pub fn apply(&mut self, action: Action, rows: usize, columns: usize) -> bool {
        let place = self.pane.place();
        let last = rows.saturating_sub(1);
        let marked = &mut self.marked[place];
        // Rows may have gone since.
        *marked = (*marked).min(last);
        match action {
            Action::Quit => return false,
            Action::Show(pane) => self.pane = pane,
            Action::NextPane => self.pane = Pane::ALL[(place + 1) % Pane::ALL.len()],
            Action::PreviousPane => self.pane = Pane::ALL[(place + Pane::ALL.len() - 1) % Pane::ALL.len()],
            Action::Up(by) => *marked = marked.saturating_sub(by),
            Action::Down(by) => *marked = marked.saturating_add(by).min(last),
            Action::First => *marked = 0,
            Action::Last => *marked = last,
            Action::SortByNext => self.sorted_by[place] = (self.sorted_by[place] + 1) % columns.max(1),
            Action::SortByPrevious => {
                self.sorted_by[place] = (self.sorted_by[place] + columns.max(1) - 1) % columns.max(1);
            }
            Action::InvertSort => self.inverted[place] = !self.inverted[place],
            Action::Type(letter) if self.filter.chars().count() < FILTER_MAX => self.filter.push(letter),
            Action::Type(_) => {}
            Action::Erase => drop(self.filter.pop()),
            Action::BeginFilter => self.mode = Mode::Filter,
            Action::Help => self.mode = Mode::Help,
            Action::EndFilter | Action::CloseHelp => self.mode = Mode::Browse,
            Action::ClearFilter => {
                self.filter.clear();
                self.mode = Mode::Browse;
            }
            Action::Freeze => self.frozen = !self.frozen,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stays_within_the_rows_also_when_they_go() {
        let mut screen = Screen::default();
        screen.apply(Action::Up(1), 3, 8);
        assert_eq!(screen.marked(), 0);
        screen.apply(Action::Down(10), 3, 8);
        assert_eq!(screen.marked(), 2);
        screen.apply(Action::Up(1), 1, 8);
        assert_eq!(screen.marked(), 0);
        for action in [Action::Last, Action::Down(usize::MAX), Action::First, Action::Up(1)] {
            screen.apply(action, 0, 0);
            assert_eq!(screen.marked(), 0, "there is no row");
        }
        screen.apply(Action::SortByNext, 0, 0);
    }

    #[test]
    fn panes_come_round_and_keep_their_own_choices() {
        let mut screen = Screen::default();
        screen.apply(Action::PreviousPane, 1, 1);
        assert_eq!(screen.pane, Pane::Changes);
        screen.apply(Action::NextPane, 1, 1);
        screen.apply(Action::SortByPrevious, 1, 17);
        screen.apply(Action::InvertSort, 1, 17);
        screen.apply(Action::Show(Pane::Clients), 1, 1);
        assert_eq!([screen.sort(Pane::Daemons), screen.sort(Pane::Clients)], [(16, true), (5, false)]);
    }

    #[test]
    fn a_filter_is_written_erased_and_cleared_and_stays_short() {
        let mut screen = Screen::default();
        screen.apply(Action::BeginFilter, 1, 1);
        "anna".chars().for_each(|letter| assert!(screen.apply(Action::Type(letter), 1, 1)));
        screen.apply(Action::Erase, 1, 1);
        screen.apply(Action::EndFilter, 1, 1);
        assert_eq!((screen.filter.as_str(), screen.mode), ("ann", Mode::Browse));
        (0..99).for_each(|_| assert!(screen.apply(Action::Type('µ'), 1, 1)));
        assert_eq!(screen.filter.chars().count(), FILTER_MAX);
        screen.apply(Action::ClearFilter, 1, 1);
        assert!(screen.filter.is_empty() && !screen.apply(Action::Quit, 1, 1));
    }
}
