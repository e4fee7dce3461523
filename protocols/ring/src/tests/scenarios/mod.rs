//! What has broken such systems before, as scripts: one test for each scenario, named by its number.
mod forming;
mod lives;

use super::*;
use crate::packet::{Commit, Join};
use std::collections::BTreeSet;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

impl Net {
    /// A JOIN as this node would send it now in Operational: wants its ring's members and nobody out.
    fn join_of(&self, i: usize) -> Join {
        let view = self.view(i);
        Join {
            proc: view.members.iter().copied().collect(),
            fail: BTreeSet::new(),
            number: view.id.number,
            ring: view.id,
            heard: (1..=self.rings.len() as u16).map(NodeId).collect(),
            leave: false,
            episode: self.rings[i].io().episode,
            attempt: None,
        }
    }

    /// All commit tokens that were sent, with who sent them.
    fn commits(&self) -> Vec<(MemberId, Commit)> {
        self.sent.iter().filter_map(|flying| Some((flying.from, flying.commit()?.clone()))).collect()
    }

    /// Each node submits some messages, with texts of their own, every third of them safe.
    fn chatter(&mut self, word: &str, each: usize) {
        for i in 0..self.rings.len() {
            for k in 0..each {
                let service = if k % 3 == 2 { Service::Safe } else { Service::Agreed };
                if self.lives[i].is_some() {
                    self.submit(i, service, format!("{word} {k} of n{}", i + 1));
                }
            }
        }
    }
}
