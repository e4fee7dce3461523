//! A helper's ear to whoever started it: one signal to go, and the end of its input as the end of everything.
use super::job::Go;
use crate::failure::{Failure, Outcome, Trying};
use std::io::{self, Read};

/// Waits for the signal to go.
pub fn go() -> Outcome<Go> {
    let mut text = String::new();
    let read = io::stdin().read_line(&mut text).trying(|| "cannot read the standard input".into())?;
    match read {
        0 => Err(Failure::new("whoever started this is gone")),
        _ => serde_json::from_str(&text).trying(|| format!("`{}` is not a signal to go", text.trim())),
    }
}

/// Ends this process when its input ends: whoever started it is through, or gone.
pub fn end_with_stdin() {
    std::thread::spawn(|| {
        while matches!(io::stdin().read(&mut [0; 64]), Ok(n) if n > 0) {}
        std::process::exit(0);
    });
}

/// Stays, so that what this process cost can still be read, until its input ends.
pub fn stay() {
    loop {
        std::thread::park();
    }
}
