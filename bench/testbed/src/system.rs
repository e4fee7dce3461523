//! Other systems than ours, and what the two ends of a client do whatever they speak to.
use crate::job::{Go, Job, Sent};
use consort_daemon::failure::{Failure, Outcome};

/// Another system than ours: how its clients speak.
pub trait System: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Connects a sender.
    ///
    /// # Errors
    /// No daemon there, or one that does not answer as expected.
    fn speak<'j>(&self, job: &'j Job, at: &str) -> Outcome<Box<dyn Speaker + 'j>>;

    /// Connects a receiver, and waits until all receivers are in the group.
    ///
    /// # Errors
    /// As [`speak`](Self::speak).
    fn listen(&self, job: &Job, at: &str) -> Outcome<Box<dyn Listener>>;

    /// Replaces this process by a client, where clients are a program of their own: returns only why that failed.
    fn become_client(&self, _job: &Job, _at: &str) -> Option<Failure> {
        None
    }
}

/// A client that sends to the job's group.
pub trait Speaker {
    /// Sends a message, at once or together with those that follow.
    fn multicast(&mut self, message: &[u8]) -> Outcome;

    /// Writes all that was collected.
    fn flush(&mut self) -> Outcome;

    /// Writes all that was collected and, where a daemon tells, waits until it is ordered.
    fn finish(&mut self) -> Outcome;

    /// Has the daemon send everything, where a client only tells it what is due when.
    fn send_all(&mut self, _go: Go) -> Option<Outcome<Sent>> {
        None
    }
}

/// What a listener gives each message to, with the time at which it came.
pub type Take<'t> = &'t mut dyn FnMut(u64, &[u8]) -> Outcome;

/// A client that is in the job's group with all other receivers.
pub trait Listener {
    /// Waits for messages and hands over all that came together.
    fn receive(&mut self, take: Take<'_>) -> Outcome;
}
