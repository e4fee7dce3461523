//! What the driver does about the ways between nodes.
use super::Driver;
use crate::advisor::Advisor;
use crate::links::Links;
use crate::path_mtu::{News, PathMtus};
use consort_node::Engine;
use consort_types::NodeId;

impl<E: Engine> Driver<E> {
    /// Takes probes that came, sends those that are due, and tells the outbox what passes.
    pub(super) fn keep_paths(&mut self) {
        while let Some(probed) = self.inbox.next_probe() {
            if let Some(paths) = &mut self.path_mtus {
                paths.handle_probe(self.now, probed.from, probed.size, probed.by_group, &probed.probe);
            }
        }
        while let Some((node, told)) = self.inbox.next_settings() {
            self.shared.take(self.now, self.node.identity().config, node, told);
        }
        if self.path_mtus.as_ref().is_some_and(|paths| paths.poll_timeout() <= self.now) {
            self.probe_paths();
        }
        self.follow_paths();
    }

    fn probe_paths(&mut self) {
        let Some(paths) = &mut self.path_mtus else { return };
        let members = self.node.view().into_iter().flat_map(|view| view.members.iter().map(|member| member.node));
        let Some(round) = paths.handle_timeout(self.now, members) else { return };
        for size in round.sizes {
            let size = size.saturating_sub(self.seals.overhead());
            self.outbox.push_probe(round.probe.seal(self.node.identity(), size));
            self.counters.probes_sent += 1;
        }
        self.inbox.expire(self.now);
        self.tell_of_settings();
        self.note_facts();
    }

    /// Somebody who is missing, or is heard and belongs to no view, may be so for its settings, or for this node's.
    fn tell_of_settings(&mut self) {
        //= W12
        let here = |node: &NodeId| self.node.view().is_some_and(|view| view.members.iter().any(|m| m.node == *node));
        let missing = !self.met.iter().all(here);
        let strange = self.shared.hears_stranger(self.now, self.node.datagrams_of_other_settings());
        if let Some(packet) = self.shared.packet(self.node.identity()).filter(|_| missing || strange) {
            self.outbox.push_probe(packet);
        }
        for (node, what) in self.shared.news(self.now) {
            tracing::warn!(%node, "the node has other settings, so it is not heard: {what}; make the files alike and restart those that change");
        }
    }

    fn follow_paths(&mut self) {
        if let Some(limits) = self.path_mtus.as_mut().and_then(PathMtus::poll_narrow) {
            self.follow_limits(limits);
        }
        let Some(paths) = &mut self.path_mtus else { return };
        while let Some(news) = paths.poll_news() {
            tell(paths, news);
        }
    }

    /// What it says of itself beside the ways.
    pub(super) fn own_facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![("scheduling".to_owned(), self.scheduling.to_owned())];
        facts.push(("security".to_owned(), self.seals.words()));
        let (epochs, apart) = (self.seals.epochs(), self.seals.apart(self.now));
        let keys = [("key_epochs", epochs), ("keys_apart", apart)];
        facts.extend(
            keys.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key.to_owned(), value)),
        );
        self.seals.observe(&mut |name, value| facts.push((name.to_owned(), value.to_string())));
        facts.extend(self.networks.iter().map(|(number, how)| (format!("network_{number}"), how.clone())));
        facts.extend(self.group_fact());
        facts.extend(self.advisor.iter().flat_map(Advisor::facts));
        let word = |up| if up { "up" } else { "down" }.to_owned();
        let links = self.links.iter().flat_map(Links::each);
        facts.extend(links.map(|(node, up)| (format!("link_{node}"), word(up))));
        facts.extend(self.disk_facts());
        self.counters.observe(&mut |name, value| facts.push((name.to_owned(), value.to_string())));
        facts
    }

    /// Something of that has changed.
    pub(super) fn note_facts(&mut self) {
        self.settle_counters();
        let mut facts = self.own_facts();
        if let Some(paths) = &self.path_mtus {
            let known = paths.known(self.now);
            facts.extend(known.map(|(node, passes)| (format!("path_{node}"), words(paths, passes))));
            facts.extend(self.shared.differences(self.now).map(|(node, what)| (format!("settings_{node}"), what)));
        }
        self.node.note_driver(facts);
    }
}

fn words(paths: &PathMtus, passes: u16) -> String {
    format!("datagrams up to {passes} of {} bytes pass", paths.full())
}

fn tell(paths: &PathMtus, news: News) {
    let (node, passes, datagram) = (news.node, news.passes, paths.full());
    if news.all {
        tracing::info!(%node, passes, "datagrams of every size pass to the node again, and go whole");
    } else {
        tracing::warn!(
            %node,
            passes,
            datagram,
            "large datagrams vanish on the way to the node and go in pieces, which costs more; raise the MTU of what lies between (a switch without jumbo frames, a tunnel), or set `datagram` to what passes, on all nodes"
        );
    }
}
