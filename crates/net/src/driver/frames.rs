//! What the driver does about reliable links.
use super::{CLOCK_EVERY, Driver, PACKETS};
use crate::error::RunError;
use crate::links::{LinkInput, Links};
use consort_node::{Datagram, Destination, Engine};

impl<E: Engine> Driver<E> {
    /// Feeds the node with what links have brought.
    pub(super) fn take_frames(&mut self) -> Result<bool, RunError> {
        if self.links.is_none() {
            return Ok(false);
        }
        self.tick();
        self.links.iter_mut().for_each(|links| links.tend(self.now, &mut self.counters));
        for taken in 0..PACKETS {
            if taken > 0 && taken % CLOCK_EVERY == 0 {
                self.tick();
                if self.is_due() {
                    return Ok(true);
                }
            }
            let input = self.links.as_mut().and_then(|links| links.next(self.now, &mut self.counters));
            let Some(input) = input else {
                if !self.has_frames() {
                    self.lag.catch_up();
                }
                return Ok(taken > 0);
            };
            self.handle_link_input(input)?;
        }
        Ok(true)
    }

    fn handle_link_input(&mut self, input: LinkInput) -> Result<(), RunError> {
        match input {
            LinkInput::Changed(node, link) => {
                self.node.handle_link(self.now, node, link);
                self.note_facts();
            }
            LinkInput::Frame(from, bytes) => {
                let at = self.lag.arrival(self.now);
                if !self.node.handle_frame(self.now, at, from, bytes)
                    && let Some(links) = &mut self.links
                {
                    links.reject(self.now, from.node, &mut self.counters);
                }
            }
        }
        self.drain()
    }

    /// Whether links have brought more than was taken.
    pub(super) fn has_frames(&self) -> bool {
        self.links.as_ref().is_some_and(Links::has_more)
    }

    /// Puts a frame into a link.
    pub(super) fn push_frame(&mut self, to: Destination, frame: &Datagram) {
        match &mut self.links {
            Some(links) => links.push(self.now, to, frame, &mut self.counters),
            None => self.counters.send_errors += 1,
        }
    }

    /// Sends everything that waits.
    pub(super) fn flush(&mut self) {
        self.outbox.flush(&mut self.counters);
        if let Some(links) = &mut self.links {
            links.flush(self.now, &mut self.counters);
        }
    }
}
