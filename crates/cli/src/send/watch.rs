//! What the daemon says while messages are sent, and what it means for them.
use super::SendSummary;
use crate::clock;
use crate::failure::{Code, Failure, Outcome, note};
use crate::figures::thousands;
use crate::progress::Progress;
use consort::{Error, Event, Receiver, WaitCause};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

/// How long nothing may be ordered before the user is told what is waited for.
const PATIENCE: u64 = 1_000_000_000;
/// How often is looked whether all is done, and whether time is up.
const STEP: Duration = Duration::from_millis(20);

/// How far the sending thread is.
#[derive(Debug, Default)]
pub struct SendingProgress {
    messages: AtomicU64,
    /// Millionths of the work; 0 where nobody knows.
    share: AtomicU64,
}

impl SendingProgress {
    /// So many messages are sent, and this share of all if that is known.
    pub fn came(&self, messages: u64, share: Option<f64>) {
        self.messages.store(messages, Ordering::Relaxed);
        self.share.store((share.unwrap_or(0.0) * 1e6) as u64, Ordering::Relaxed);
    }

    fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    fn share(&self) -> Option<f64> {
        Some(self.share.load(Ordering::Relaxed)).filter(|share| *share > 0).map(|share| share as f64 / 1e6)
    }
}

/// Runs `sending` in a thread of its own, because reading lines may block for ever, and hears what the daemon says until
/// all is ordered. `sending` keeps account of how far it is, which is shown if `talks`.
pub fn watch(
    sending: impl FnOnce(&SendingProgress) -> Outcome<SendSummary> + Send + 'static,
    mut receiver: Receiver,
    timeout: Option<Duration>,
    talks: bool,
) -> Outcome<SendSummary> {
    let deadline = timeout.map(|timeout| clock::now_ns() + timeout.as_nanos() as u64);
    let far = Arc::new(SendingProgress::default());
    let (tell, told) = mpsc::channel();
    let going = Arc::clone(&far);
    // Nobody waits for the outcome any more if the daemon ended first.
    std::thread::spawn(move || drop(tell.send(sending(&going))));
    let (mut quiet, mut progress) = (Quiet::new(), Progress::new(talks));
    loop {
        match told.try_recv() {
            Ok(outcome) => return outcome,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Err(Failure::new("the sending thread ended unexpectedly")),
        }
        if let Some(Event::Refused { send, refusal }) = receiver.receive(STEP).map_err(ended)? {
            return Err(Failure::new(format!("message {send} was refused: {refusal}")));
        }
        let (sent, ordered) = (far.messages(), receiver.progress().ordered);
        quiet.note(sent, ordered, receiver.wait_cause(), &mut progress);
        progress.show(ordered, far.share());
        if deadline.is_some_and(|deadline| clock::now_ns() > deadline) {
            // All may have been ordered while the daemon was listened to.
            return told.try_recv().unwrap_or_else(|_| Err(out_of_time(sent, ordered, receiver.wait_cause())));
        }
    }
}

/// Tells once when nothing is ordered for long although something waits.
struct Quiet {
    ordered: u64,
    since: u64,
    told: bool,
}

impl Quiet {
    fn new() -> Self {
        Self { ordered: 0, since: clock::now_ns(), told: false }
    }

    fn note(&mut self, sent: u64, ordered: u64, cause: Option<WaitCause>, progress: &mut Progress) {
        if ordered != self.ordered || sent <= ordered {
            (self.ordered, self.since) = (ordered, clock::now_ns());
        } else if !self.told && clock::now_ns() > self.since + PATIENCE {
            self.told = true;
            progress.clear();
            note(format!(
                "{} messages are under way, but none was ordered for a while{}; do all nodes of the cluster run? \
                 `consort status` tells",
                thousands(sent - ordered),
                because(cause)
            ));
        }
    }
}

fn because(cause: Option<WaitCause>) -> String {
    cause.map_or_else(String::new, |cause| format!(" ({cause}: {})", cause.explain()))
}

fn out_of_time(sent: u64, ordered: u64, cause: Option<WaitCause>) -> Failure {
    let fate = match sent.saturating_sub(ordered) {
        0 => "sending had not ended".into(),
        waiting => format!("{} more may still be", thousands(waiting)),
    };
    let (are, because) = (are(ordered), because(cause));
    Failure::new(format!("the time ran out: of what was sent, {are} ordered, {fate}{because}")).with(Code::Timeout)
}

fn are(messages: u64) -> String {
    if messages == 1 { "1 message is".into() } else { format!("{} messages are", thousands(messages)) }
}

/// The session is over: says which messages may or may not have been ordered.
pub fn ended(error: Error) -> Failure {
    let Some(unknown) = error.unknown_fate().cloned() else { return Failure::new(error.to_string()) };
    let why = match &error {
        Error::ConnectionLost { why, .. } => format!("the connection to the daemon was lost ({why})"),
        Error::Disconnected { farewell, .. } => format!("the daemon ended the session: {farewell}"),
        other => other.to_string(),
    };
    let fate = match unknown.end.saturating_sub(unknown.start) {
        0 => "every message that was sent is ordered, later ones were not sent".into(),
        1 => format!("message {} may or may not have been ordered, later ones were not sent", unknown.start),
        _ => format!(
            "messages {} to {} may or may not have been ordered; those before are, later ones were not sent",
            unknown.start,
            unknown.end - 1
        ),
    };
    let code = if unknown.is_empty() { Code::NoDaemon } else { Code::UnknownFate };
    Failure::new(format!("{why}; {fate}")).with(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_time_says_what_it_waits_for() {
        let told = |cause| out_of_time(1_200, 1_000, cause).message;
        assert!(told(None).ends_with("1,000 messages are ordered, 200 more may still be"), "{}", told(None));
        let all = out_of_time(1, 1, None).message;
        assert!(all.ends_with("of what was sent, 1 message is ordered, sending had not ended"), "{all}");
        let membership = told(Some(WaitCause::Membership));
        assert!(membership.ends_with("(membership: the daemons are agreeing on who is there)"), "{membership}");
    }

    #[test]
    fn an_ended_session_says_what_is_unknown() {
        let lost = |unknown_fate| ended(Error::ConnectionLost { why: "closed".into(), unknown_fate });
        assert_eq!([lost(4..9).code, lost(4..4).code], [Code::UnknownFate, Code::NoDaemon]);
        assert!(lost(4..9).message.contains("messages 4 to 8 may or may not have been ordered"));
        assert!(lost(4..5).message.contains("message 4 may or may not have been ordered"));
        assert!(lost(4..4).message.contains("every message that was sent is ordered"));
    }
}
