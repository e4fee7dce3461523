//! What has broken such systems before, as scripts: one test for each scenario, named by its number.
mod bounds;
mod edges;
mod forming;
mod holes;
mod incarnations;
mod late;
mod links;
mod pauses;
mod recovery;
mod windows;

use super::*;
use crate::packet::{Beacon, Commit, Join, Proposal};
use std::collections::BTreeSet;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

impl Net {
    /// A JOIN as this node would send it now in Operational: wants its ring's members and nobody out.
    pub(super) fn join_of(&self, i: usize) -> Join {
        let view = self.view(i);
        let proposal = Proposal {
            proc: view.members.iter().copied().collect(),
            number: view.id.number,
            heard: (1..=self.rings.len() as u16).map(NodeId).collect(),
            episode: self.rings[i].io().presence.episode,
            ..Proposal::default()
        };
        Join { proposal, ring: view.id, attempt: None }
    }

    /// Tokens are lost until everybody that runs has missed them.
    fn lose_the_token(&mut self) {
        let span = self.rings[0].config().timers.patience() * 2;
        let mut everybody = |net: &Self| net.living().all(|i| net.state(i) == "gather");
        self.run_dropping_until(span, &mut Flying::is_token, &mut everybody);
    }

    /// The indices of the nodes that run.
    fn living(&self) -> impl Iterator<Item = usize> {
        (0..self.rings.len()).filter(|i| self.incarnations[*i].is_some())
    }

    /// Submits messages that fill a packet each.
    fn submit_packets(&mut self, i: usize, service: Service, n: usize) {
        for k in 0..n {
            let mut text = format!("packet {k} of n{}", i + 1);
            text.extend(std::iter::repeat_n('.', 1_300 - text.len()));
            self.submit(i, service, text);
        }
    }

    /// The first words of what a node delivered.
    fn words(&self, i: usize) -> Vec<String> {
        self.texts(i).iter().map(|text| text.trim_end_matches('.').to_owned()).collect()
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
                if self.incarnations[i].is_some() {
                    self.submit(i, service, format!("{word} {k} of n{}", i + 1));
                }
            }
        }
    }
}
