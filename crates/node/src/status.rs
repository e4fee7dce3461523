//! What a node tells about itself.
use crate::{Node, change};
use consort_group::{KeyAnswer, KeyName, Mismatch};
use consort_order::{Engine, Fact, Offers, Overfull, each_counter, state_of};
use consort_types::{NodeId, Service, View};

impl<E: Engine> Node<E> {
    /// Counters and gauges by name: the engine's, rejected datagrams by cause, the sessions'.
    pub fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        each_counter(&self.engine, self.now, &mut |name, value| see(name, value));
        self.datagrams.observe(see);
        self.clients.observe(see);
        self.groups.observe(see);
        self.readers.observe(see);
        self.rights.observe(see);
        self.retention.observe(see);
        self.keys.observe(see);
        see("delivery_slice_max_bytes", self.pending.most() as u64);
        see("messages_ordered", self.counts.messages_ordered);
        see("message_bytes_ordered", self.counts.message_bytes_ordered);
        see("ordered_malformed", self.counts.ordered_malformed);
        see("group_parts_refused", self.counts.parts_refused);
        see("group_digests_malformed", self.counts.digests_malformed);
        see("frames_misplaced", self.counts.frames_misplaced);
    }

    /// The answer to a client's status request.
    pub fn status(&self) -> Vec<(String, String)> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        let mut say = |key: &str, value: String| pairs.push((key.to_owned(), value));
        let identity = self.datagrams.identity();
        let capability = self.engine.capability();
        say("node", identity.me.node.to_string());
        say("incarnation", identity.me.incarnation.to_string());
        say("cluster", identity.cluster.to_string());
        say("configuration", identity.config.to_string());
        say("protocol", capability.protocol.to_owned());
        say(
            "services",
            capability.services.iter().map(|service| Service::name(*service)).collect::<Vec<_>>().join(" "),
        );
        let offers = match capability.offers {
            Offers::None => "no",
            Offers::Fifo => "fifo",
            Offers::Likely => "yes",
        };
        say("optimistic", offers.to_owned());
        say("state", state_of(&self.engine, self.now));
        say("ready", self.unready().map_or_else(|| "yes".into(), |unready| unready.to_string()));
        if let Some(hold) = self.wait_monitor.held() {
            say("requests_wait_for", hold.to_string());
        }
        let slow = self.clients.slow_clients(self.now, identity.me.node);
        if !slow.is_empty() {
            say("slow_clients", slow);
        }
        let held: Vec<_> = self.holds.culprits().take(8).map(|(node, client, _)| format!("{client}@{node}")).collect();
        if !held.is_empty() {
            say("groups_wait_for", held.join(" "));
        }
        if let Some(overfull) = self.engine.overfull() {
            say("log_full", log_full(overfull));
        }
        let lacking: Vec<_> = self.keys.rotation.lacking().map(|(node, key, how)| lacks(node, key, how)).collect();
        if !lacking.is_empty() {
            say("keys_lacking", lacking.join("; "));
        }
        if let Some(view) = &self.view {
            say_view(view, &mut say);
            say("primary", self.primary_now().unwrap_or(view.primary).word().to_owned());
        }
        if let Some(Mismatch { member, at }) = self.mismatch {
            say("group_mismatch", format!("{member} has other groups than this node after message {at} of its view"));
        }
        self.engine.observe(self.now, &mut |fact| match fact {
            // How many daemons of one machine will run is not known: there those that never ran are not missed.
            Fact::Peer(reach) if !self.expects_others && reach.is_unknown() => {}
            Fact::Peer(reach) => say(&format!("peer_{}", reach.node), reach.to_string()),
            Fact::Part { what, part, value } => say(&format!("{what}_{part}"), value),
            Fact::Program { name, value } => say(&format!("copies_of_{name}"), value),
            Fact::SentOn { ring, topics } => say(&format!("sends_on_{ring}"), self.sent_on(topics.as_deref())),
            Fact::Trouble(text) => say("trouble", text),
            Fact::Counter(..) | Fact::State(_) => {}
        });
        for (number, (at, change)) in self.history.iter().enumerate() {
            say(&format!("change_{number}"), format!("{} ms ago: {change}", self.now.since(*at).as_millis()));
        }
        self.observe(&mut |name, value| say(name, value.to_string()));
        pairs.extend_from_slice(&self.driver);
        pairs
    }
}

pub(crate) fn log_full(overfull: &Overfull) -> String {
    let whose = if overfull.all { "all clients" } else { "their groups" };
    format!("messages of {whose} wait until copies of {} make checkpoints", overfull.programs.join(" and "))
}

/// How a member stands to a key that it could not take up.
fn lacks(node: NodeId, key: KeyName, how: KeyAnswer) -> String {
    let epoch = key.epoch;
    match how {
        KeyAnswer::Differs => format!("{node} has another key of epoch {epoch}"),
        KeyAnswer::Superseded => format!("{node} uses a newer key than that of epoch {epoch}"),
        KeyAnswer::Holds | KeyAnswer::Lacks => format!("{node} lacks the key of epoch {epoch}"),
    }
}

fn say_view(view: &View, say: &mut impl FnMut(&str, String)) {
    say("view", view.id.to_string());
    say("view_cause", view.why());
    say("members", change::list(&view.members));
}
