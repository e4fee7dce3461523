//! The terminal: keys in, screens out. Another thread asks the daemons, so that one that does not answer stops no key.
use crate::draw;
use crate::failure::{Failure, Outcome, Trying};
use crate::keys;
use crate::look::{Look, Looker};
use crate::model::Model;
use crate::screen::Screen;
use ratatui::Terminal;
use ratatui::backend::{Backend, TermionBackend};
use ratatui::termion;
use ratatui::termion::event::Key;
use ratatui::termion::input::TermRead;
use ratatui::termion::raw::IntoRawMode;
use ratatui::termion::screen::IntoAlternateScreen;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

pub use draw::LEAST;

/// The window may have another size: so often that is seen.
const RESIZED: Duration = Duration::from_millis(200);

/// How large the terminal is, if there is one.
pub fn size() -> Option<(u16, u16)> {
    termion::terminal_size().ok().filter(|(width, height)| *width > 0 && *height > 0)
}

/// Whether there can be a screen.
///
/// # Errors
/// What is in the way, and what to do.
pub fn check(is_terminal: bool, size: Option<(u16, u16)>) -> Outcome {
    let size = size.filter(|_| is_terminal).ok_or_else(|| {
        Failure::usage("input and output are no terminal; consort top --once prints text, and with --json an object")
    })?;
    if size.0 < LEAST.0 || size.1 < LEAST.1 {
        let problem = draw::too_small(size);
        return Err(Failure::new(format!("{problem}; make it larger, or use consort top --once")));
    }
    Ok(())
}

/// What happens.
enum Input {
    Key(Key),
    /// Keys cannot be read any more.
    NoKeys(Option<io::Error>),
    Look(Look),
}

/// Shows what is seen until a key ends it.
pub fn run(looker: Looker, first: Look, every: Duration) -> Outcome {
    let (tell, inputs) = channel();
    let keys = tell.clone();
    let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
        let thread = std::thread::Builder::new().name(name.into());
        thread.spawn(work).trying(|| "cannot start a thread".into())
    };
    // They end with the process.
    start("asks", Box::new(move || ask(looker, every, &tell)))?;
    let taken = || "cannot take over the terminal".to_owned();
    // Given back when it is dropped, be it by a panic.
    let screen = io::stdout().into_raw_mode().and_then(IntoAlternateScreen::into_alternate_screen).trying(taken)?;
    let mut terminal = Terminal::new(TermionBackend::new(screen)).trying(taken)?;
    start("keys", Box::new(move || read_keys(&keys)))?;
    let shown = show(&mut terminal, first, &inputs);
    let cursor = terminal.show_cursor().trying(|| "cannot give the terminal back; `reset` does".into());
    shown.and(cursor)
}

/// Looks until nobody wants to know any more.
fn ask(mut looker: Looker, every: Duration, tell: &Sender<Input>) {
    loop {
        std::thread::sleep(every);
        if tell.send(Input::Look(looker.look())).is_err() {
            return;
        }
    }
}

fn read_keys(tell: &Sender<Input>) {
    for key in io::stdin().keys() {
        let input = key.map_or_else(|error| Input::NoKeys(Some(error)), Input::Key);
        let last = matches!(input, Input::NoKeys(_));
        if tell.send(input).is_err() || last {
            return;
        }
    }
    // Whoever has shut the window does not hear it.
    let _ = tell.send(Input::NoKeys(None));
}

fn show<B>(terminal: &mut Terminal<B>, first: Look, inputs: &Receiver<Input>) -> Outcome
where
    B: Backend,
    B::Error: std::fmt::Display,
{
    let (mut model, mut last, mut screen) = (Model::new(None, &first), first, Screen::default());
    loop {
        terminal.draw(|frame| draw::draw(frame.buffer_mut(), &model, &screen)).trying(|| "cannot draw".into())?;
        match inputs.recv_timeout(RESIZED) {
            // Drawn anew for the size that there is now.
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Input::Key(key)) => {
                let table = draw::table(&model, &screen);
                let action = keys::action(screen.mode, key);
                if action.is_some_and(|action| !screen.apply(action, table.rows.len(), table.columns.len())) {
                    return Ok(());
                }
            }
            Ok(Input::Look(look)) => {
                let news = Model::new(Some(&last), &look);
                last = look;
                if !screen.frozen {
                    model = news;
                }
            }
            Ok(Input::NoKeys(Some(error))) => return Err(error).trying(|| "cannot read the keys".into()),
            Ok(Input::NoKeys(None)) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Code;
    use crate::tests::look;
    use crate::text;
    use ratatui::backend::TestBackend;

    /// What is on the screen when these inputs are over.
    fn shown(inputs: Vec<Input>) -> (Outcome, Vec<String>) {
        let (tell, told) = channel();
        inputs.into_iter().for_each(|input| tell.send(input).unwrap());
        drop(tell);
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let outcome = show(&mut terminal, look(0), &told);
        (outcome, text::lines(terminal.backend().buffer()))
    }

    #[test]
    fn news_are_shown_unless_the_screen_is_frozen() {
        let (outcome, lines) = shown(vec![Input::Look(look(1))]);
        assert!(outcome.is_ok() && lines[1].starts_with("Ordered 621.0k/s"), "{lines:?}");
        let (_, lines) = shown(vec![Input::Key(Key::Char('Z')), Input::Look(look(1))]);
        assert!(lines[0].contains("FROZEN") && lines[1].starts_with("Rates come with"), "{lines:?}");
    }

    #[test]
    fn a_daemon_that_goes_away_is_shown_with_the_reason_and_its_rates_when_it_is_back() {
        let mut gone = look(1);
        gone.daemons[1].told = Err("cannot connect: it is gone".into());
        let (_, lines) = shown(vec![Input::Look(gone.clone())]);
        assert!(lines.iter().any(|line| line.starts_with("n2") && line.contains("cannot connect")), "{lines:?}");
        assert!(lines[5].starts_with("Held back by n2"), "{lines:?}");
        let (_, lines) = shown([gone, look(2), look(3)].map(Input::Look).into());
        let row = lines.iter().find(|line| line.starts_with("n2")).unwrap();
        assert!(row.contains("operational") && row.contains("207.0k"), "{row}");
        assert!(lines[5].starts_with("Held back by nobody"));
    }

    #[test]
    fn a_key_ends_it_and_so_does_the_end_of_keys() {
        let (outcome, lines) =
            shown(vec![Input::Key(Key::Char('2')), Input::Key(Key::Char('q')), Input::Look(look(1))]);
        assert!(outcome.is_ok() && lines[1].starts_with("Rates come with"), "{lines:?}");
        assert!(lines[7].starts_with("GROUP"), "{lines:?}");
        assert!(shown(vec![Input::NoKeys(None), Input::Look(look(1))]).0.is_ok());
        let failed = shown(vec![Input::NoKeys(Some(io::Error::other("torn")))]).0.unwrap_err();
        assert_eq!(failed.message, "cannot read the keys: torn");
    }

    #[test]
    fn what_is_no_terminal_or_too_small_is_told_with_the_remedy() {
        assert!(check(true, Some((80, 24))).is_ok() && check(true, Some(LEAST)).is_ok());
        for (is_terminal, size) in [(false, Some((80, 24))), (true, None)] {
            let failure = check(is_terminal, size).unwrap_err();
            assert_eq!(failure.code, Code::Usage);
            assert!(failure.message.contains("no terminal") && failure.message.contains("--once"));
        }
        let failure = check(true, Some((79, 24))).unwrap_err();
        assert_eq!(
            failure.message,
            "this terminal has 79 x 24 characters; consort top needs 80 x 16; make it larger, or use consort top --once"
        );
    }
}
