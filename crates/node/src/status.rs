//! What a node tells about itself.
use crate::Node;
use consort_order::Engine;
use consort_types::{Primary, Service, View};

impl<E: Engine> Node<E> {
    /// Counters and gauges by name: the engine's, rejected datagrams by cause, the sessions'.
    pub fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        self.engine.observe(&mut |name, value| see(name, value));
        self.datagrams.observe(see);
        self.clients.observe(see);
        see("groups", self.groups.len() as u64);
        see("ordered_malformed", self.counts.ordered_malformed);
        see("control_ignored", self.counts.control_ignored);
        see("optimistic_ignored", self.counts.optimistic_ignored);
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
        say("state", self.engine.describe(self.now));
        if let Some(view) = &self.view {
            say_view(view, &mut say);
        }
        self.observe(&mut |name, value| say(name, value.to_string()));
        pairs
    }
}

fn say_view(view: &View, say: &mut impl FnMut(&str, String)) {
    say("view", view.id.to_string());
    say("view_cause", view.why());
    say("members", view.members.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    let primary = match view.primary {
        Primary::Yes => "yes",
        Primary::Pending => "pending",
        Primary::No => "no",
    };
    say("primary", primary.to_owned());
}
