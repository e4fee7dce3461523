//! A client of a measurement and whoever started it: one signal to go, reports, and the end of everything.
use super::job::{Go, Report};
use consort_daemon::failure::{Failure, Outcome, Trying};
use serde::Serialize;
use std::io::{self, Read, Write};

/// Tells whoever started us, as one line of JSON.
pub fn tell(report: &impl Serialize) -> Outcome {
    let text = serde_json::to_string(report).trying(|| "cannot write a report".into())?;
    let mut out = io::stdout();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Whoever started a client.
pub trait Starter {
    /// Tells it.
    fn tell(&self, report: &Report) -> Outcome;

    /// Waits for its signal to go.
    fn go(&self) -> Outcome<Go>;

    /// Stays, so that what this client cost can still be read, until it is not wanted any more.
    fn stay(&self);
}

/// Another process, which started this one for a single client: they talk by standard input and output.
pub struct Parent;

impl Starter for Parent {
    fn tell(&self, report: &Report) -> Outcome {
        tell(report)
    }

    fn go(&self) -> Outcome<Go> {
        let mut text = String::new();
        let read = io::stdin().read_line(&mut text).trying(|| "cannot read the standard input".into())?;
        if read == 0 {
            return Err(Failure::new("whoever started this is gone"));
        }
        end_with_stdin();
        serde_json::from_str(&text).trying(|| format!("`{}` is not a signal to go", text.trim()))
    }

    fn stay(&self) {
        loop {
            std::thread::park();
        }
    }
}

/// Ends this process when its input ends: whoever started it is through, or gone.
pub fn end_with_stdin() {
    std::thread::spawn(|| {
        while matches!(io::stdin().read(&mut [0; 64]), Ok(n) if n > 0) {}
        std::process::exit(0);
    });
}
