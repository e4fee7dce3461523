//! The log on the standard error: what it tells, how, and that SIGUSR1 has it tell more for a minute.
use crate::failure::{Failure, Outcome};
use crate::signals;
use signal_hook::consts::SIGUSR1;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::Duration;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// How long SIGUSR1 has the log tell more.
const RAISED: Duration = Duration::from_secs(60);

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A line for people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// The forms, by name.
pub const FORMATS: [(&str, Format); 2] = [("text", Format::Text), ("json", Format::Json)];

/// The filter of this process, for changing it.
static FILTER: OnceLock<(String, reload::Handle<EnvFilter, Registry>)> = OnceLock::new();

/// How many lines wait for a reader that is stuck. The others are lost: the daemon must not wait.
const LINES: usize = 4096;

/// Begins to log what `filter` says, or the variable CONSORT_LOG, or all of level `info`. Dropped, what is returned writes the
/// lines that wait, for a second at most.
pub fn start(filter: Option<&str>, format: Format) -> Outcome<WorkerGuard> {
    let from_variable = std::env::var("CONSORT_LOG").ok().filter(|filter| !filter.is_empty());
    let (source, text) = match (filter, from_variable) {
        (Some(filter), _) => ("--log", filter.to_owned()),
        (None, Some(filter)) => ("CONSORT_LOG", filter),
        (None, None) => ("--log", "info".into()),
    };
    let filter = parse(&text).map_err(|problem| Failure::usage(format!("{source}: {problem}")))?;
    let (filter, handle) = reload::Layer::new(filter);
    let (writer, guard) = NonBlockingBuilder::default().buffered_lines_limit(LINES).lossy(true).finish(io::stderr());
    let lines = fmt::layer()
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(writer)
        // It would tell of a log that cannot be written by a line on the standard error, and panic where that fails, too.
        .log_internal_errors(false);
    let log = tracing_subscriber::registry().with(filter);
    match format {
        Format::Text => log.with(lines).init(),
        Format::Json => log.with(lines.json().flatten_event(true).with_target(true)).init(),
    }
    let _ = FILTER.set((text, handle));
    Ok(guard)
}

/// A filter in the words of `EnvFilter`; a single word must be a level, for else it would be taken for a part of the program
/// that there is not, and nothing logged.
fn parse(text: &str) -> Result<EnvFilter, String> {
    let remedy = "give error, warn, info, debug or trace, or those for parts of the program: info,consort_net=debug";
    let whole = |directive: &&str| !directive.contains(['=', '[']);
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    if let Some(wrong) = text.split(',').filter(whole).find(|word| !is_level(word.trim())) {
        return Err(format!("`{}` does not fit; {remedy}", wrong.trim()));
    }
    EnvFilter::builder().parse(text).map_err(|error| format!("`{text}` does not fit ({error}); {remedy}"))
}

/// Has each SIGUSR1 log all of level debug for a minute.
pub fn raise_on_signal() -> io::Result<()> {
    signals::catch(&[SIGUSR1])?.each("log-level", raise)
}

fn raise() {
    let Some((text, handle)) = FILTER.get() else { return };
    let more = raised(text);
    for (filter, seconds) in [(more.as_str(), RAISED.as_secs()), (text, 0)] {
        if let Ok(filter) = parse(filter)
            && let Err(error) = handle.reload(filter)
        {
            tracing::warn!(%error, "cannot change what is logged");
        }
        if seconds > 0 {
            tracing::info!(seconds, "told by SIGUSR1 to log more");
            std::thread::sleep(RAISED);
        }
    }
    tracing::info!("logs as before");
}

/// All of level debug, and what the filter tells beyond it.
fn raised(filter: &str) -> String {
    let traces = filter.split(',').filter(|directive| directive.to_lowercase().trim().ends_with("trace"));
    std::iter::once("debug").chain(traces).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_parts_of_the_program_are_understood() {
        for text in ["error", "info", "TRACE", "off", "info,consort_net=debug", "consort_net=warn", "warn, info"] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn the_signal_never_has_it_tell_less() {
        assert_eq!(raised("warn,consort_net=error"), "debug");
        assert_eq!(raised("info,consort_node=trace"), "debug,consort_node=trace");
        let level = |filter: &str| parse(&raised(filter)).unwrap().max_level_hint();
        assert_eq!((level("off"), level("trace")), (Some(LevelFilter::DEBUG), Some(LevelFilter::TRACE)));
    }

    #[test]
    fn a_word_that_is_no_level_is_not_taken_for_a_part_of_the_program() {
        for text in ["loud", "info,loud", "consort_net", ""] {
            let wrong = text.rsplit(',').next().unwrap();
            let problem = parse(text).unwrap_err();
            assert!(problem.starts_with(&format!("`{wrong}` does not fit; give error, warn, info")), "{problem}");
        }
        assert!(parse("consort_net=loud").unwrap_err().starts_with("`consort_net=loud` does not fit ("));
    }
}
