//! The registry outside of the order: its thread says what is advised, and the loop takes it up. Without one nothing runs.
use crate::config::Settings;
use crate::failure::Outcome;
#[cfg(feature = "zookeeper")]
use crate::failure::Trying;
use consort_net::Advisor;

/// What a daemon keeps while it runs: dropped, its node is taken off the registry.
pub(crate) struct Registration {
    #[cfg(feature = "zookeeper")]
    _thread: Option<consort_registry::Registry>,
}

/// What the loop listens to, where the settings name a registry.
#[cfg(feature = "zookeeper")]
pub(crate) fn advisor(settings: &Settings) -> Outcome<Option<Advisor>> {
    let advisor = settings.registry.as_ref().map(|_| Advisor::new()).transpose();
    advisor.trying(|| "cannot listen to a registry".into())
}

/// Such settings are refused when they are read.
#[cfg(not(feature = "zookeeper"))]
#[allow(clippy::unnecessary_wraps, reason = "the same where a registry is built in")]
pub(crate) fn advisor(_settings: &Settings) -> Outcome<Option<Advisor>> {
    Ok(None)
}

#[cfg(not(feature = "zookeeper"))]
#[allow(clippy::unnecessary_wraps, reason = "the same where a registry is built in")]
pub(crate) fn begin(_settings: &Settings, _advisor: Option<&Advisor>) -> Outcome<Registration> {
    Ok(Registration {})
}

/// Registers the node whose place is taken, and goes on to do so.
#[cfg(feature = "zookeeper")]
pub(crate) fn begin(settings: &Settings, advisor: Option<&Advisor>) -> Outcome<Registration> {
    let thread = settings.registry.as_ref().zip(advisor).map(|(registry, advisor)| {
        let servers = registry.servers.clone();
        tracing::info!(servers = servers.join(" "), prefix = registry.prefix, "asks a registry for advice");
        let (prefix, session) = (registry.prefix.clone(), registry.session);
        let mut news = words::News::new(advisor.clone());
        let settings_of = consort_registry::Settings { servers, prefix, session };
        consort_registry::start(settings_of, member(settings)?, move |event| news.take(event))
            .trying(|| "cannot begin to ask the registry".into())
    });
    Ok(Registration { _thread: thread.transpose()? })
}

/// What is registered of this node.
#[cfg(feature = "zookeeper")]
fn member(settings: &Settings) -> Outcome<consort_registry::Member> {
    use crate::config::Protocol;
    use consort_registry::{Member, RingMember};
    let mine = settings.mine()?;
    let rings = match settings.protocol {
        Protocol::MultiRingPaxos => {
            let config = settings.multiring_paxos_config();
            let ring = |ring: &consort_multiring_paxos::Ring| RingMember {
                ring: ring.id.0.into(),
                acceptor: ring.acceptors.contains(&mine.id),
            };
            config.rings.iter().map(ring).collect()
        }
        _ => vec![RingMember { ring: 0, acceptor: settings.paxos_config().is_acceptor(mine.id) }],
    };
    Ok(Member { node: mine.id, address: mine.token, rings })
}

/// What people are told of it.
#[cfg(feature = "zookeeper")]
mod words {
    use consort_net::{Advice, Advisor};
    use consort_registry::Event;
    use consort_types::NodeId;
    use std::collections::BTreeMap;

    /// How the registry is, and what it advises of each ring.
    pub(super) struct News {
        advisor: Advisor,
        state: String,
        registered: bool,
        rings: BTreeMap<u16, Told>,
    }

    #[derive(Default)]
    struct Told {
        leader: Option<NodeId>,
        order: Vec<NodeId>,
    }

    impl News {
        pub(super) fn new(advisor: Advisor) -> Self {
            let state = "no server has answered yet".into();
            let news = Self { advisor, state, registered: false, rings: BTreeMap::new() };
            news.advisor.tell(news.facts());
            news
        }

        pub(super) fn take(&mut self, event: Event) {
            let before = self.state.clone();
            match event {
                Event::Registered => self.be(true, "this node is registered".into()),
                Event::Away => self.be(false, "no server answers, the session may go on".into()),
                Event::Ended { cause } => self.be(false, format!("no session: {cause}")),
                Event::Advised(advice) => self.advise(advice),
            }
            if self.state != before {
                match self.registered {
                    true => tracing::info!("registry: {}", self.state),
                    false => tracing::warn!("registry: {}; the order goes on without it", self.state),
                }
            }
            self.advisor.tell(self.facts());
        }

        fn be(&mut self, registered: bool, state: String) {
            (self.registered, self.state) = (registered, state);
        }

        fn advise(&mut self, advice: Advice) {
            let ring = advice.stream().0;
            let told = self.rings.entry(ring).or_default();
            match &advice {
                Advice::Leader { node, .. } => told.leader = *node,
                Advice::Order { nodes, .. } => told.order.clone_from(nodes),
            }
            tracing::info!(ring, "registry advises: {}", told.words());
            self.advisor.advise(advice);
        }

        fn facts(&self) -> Vec<(String, String)> {
            let mut facts = vec![
                ("registry".to_owned(), self.state.clone()),
                ("registry_has_node".to_owned(), u8::from(self.registered).to_string()),
            ];
            facts.extend(self.rings.iter().map(|(ring, told)| (format!("advice_{ring}"), told.words())));
            facts
        }
    }

    impl Told {
        fn words(&self) -> String {
            let leader = self.leader.map(|node| format!("node {} should lead", node.0));
            let order: Vec<_> = self.order.iter().map(|node| node.0.to_string()).collect();
            let order = (!order.is_empty()).then(|| format!("the ring in the order {}", order.join(" ")));
            let all: Vec<_> = leader.into_iter().chain(order).collect();
            if all.is_empty() { "nothing".into() } else { all.join(", ") }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use consort_types::OrderStream;

        #[test]
        fn status_tells_how_the_registry_is_and_what_it_advises() {
            let mut news = News::new(Advisor::new().unwrap());
            let said = |news: &News| news.facts().into_iter().map(|(_, text)| text).collect::<Vec<_>>();
            assert_eq!(said(&news), ["no server has answered yet", "0"]);
            news.take(Event::Registered);
            let stream = OrderStream(2);
            news.take(Event::Advised(Advice::Leader { stream, node: Some(NodeId(3)) }));
            news.take(Event::Advised(Advice::Order { stream, nodes: vec![NodeId(3), NodeId(1)] }));
            assert_eq!(said(&news), ["this node is registered", "1", "node 3 should lead, the ring in the order 3 1"]);
            news.take(Event::Ended { cause: "session expired".into() });
            news.take(Event::Advised(Advice::Leader { stream, node: None }));
            news.take(Event::Advised(Advice::Order { stream, nodes: Vec::new() }));
            assert_eq!(said(&news), ["no session: session expired", "0", "nothing"]);
        }
    }
}
