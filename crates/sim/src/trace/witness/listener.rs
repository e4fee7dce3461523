//! What one client is told, and what of it counts.
use crate::machine::{GroupSeen, ReceivedMessage, SeenView};
use crate::message::index_of;
use consort_session::{DaemonEvent, Disconnect, GroupSignal, GroupView, Message, NetworkView, Refusal, Welcome};
use consort_types::{ClientId, GroupName, MemberId, OrderStream, Primary, ViewId, ViewKind};
use consort_wire::Payload;
use std::collections::{BTreeSet, VecDeque};

/// Sorts what a native client is told. It takes part in its groups from the group view on with which it is in
/// all of them, in the network view that it was told last before that; nothing earlier counts.
#[derive(Clone, Debug)]
pub struct SessionListener {
    groups: Vec<GroupName>,
    /// Who the client is, once it was told.
    me: Option<(MemberId, ClientId)>,
    /// All that it has a view of, those of others' concern too.
    joined: BTreeSet<GroupName>,
    /// The network as it was told last.
    view: Option<NetworkView>,
    /// Messages under way: the session's number for the request, and the client's for the message.
    under_way: VecDeque<(u64, u64)>,
}

/// Something that counts.
#[derive(Debug)]
pub enum ListenerEvent {
    /// A view of the network.
    View(SeenView),
    /// A view of the network while it is not in its groups.
    Network(SeenView),
    /// The view it is in has become primary.
    Primary(ViewId),
    /// A view of its group; told of those that are witnesses for a single one, because a change has its number in all
    /// groups.
    Group(GroupSeen),
    /// Members of its group do not move along; told of single groups, too.
    Signal(GroupName),
    /// A message.
    Message(ReceivedMessage),
    /// Its own messages up to this one stand in the order.
    Ordered(u64),
    /// One of its requests was refused, or the session ended with these words.
    Refused(String),
}

impl SessionListener {
    /// For a client that joins these groups.
    pub fn new(groups: &[GroupName]) -> Self {
        let (joined, under_way) = (BTreeSet::new(), VecDeque::new());
        Self { groups: groups.to_vec(), me: None, joined, view: None, under_way }
    }

    /// The client was welcomed so.
    pub const fn welcomed(&mut self, welcome: &Welcome) {
        self.me = Some((welcome.daemon, welcome.client));
    }

    /// Whether it is in all its groups, by its own views of them.
    pub fn is_joined(&self) -> bool {
        self.groups.iter().all(|group| self.joined.contains(group))
    }

    /// Whether it listens to a group of this name.
    pub fn wants(&self, name: &[u8]) -> bool {
        self.groups.iter().any(|group| group.as_bytes() == name)
    }

    /// The client sent its message `count` as request `increasing_views`.
    pub fn sent(&mut self, number: u64, count: u64) {
        self.under_way.push_back((number, count));
    }

    /// Takes what the client was told; `say` gets what counts of it.
    pub fn hear(&mut self, event: &DaemonEvent, say: impl FnMut(ListenerEvent)) {
        match event {
            DaemonEvent::View(view) => self.on_view(view, say),
            DaemonEvent::GroupView(view) => self.on_group_view(view, say),
            DaemonEvent::Message(message) => self.on_message(message, say),
            DaemonEvent::Progress(progress) => self.on_ordered(progress.ordered, say),
            DaemonEvent::Refused { request, refusal } => self.on_refused(*request, refusal, say),
            DaemonEvent::Disconnect(farewell) => self.on_disconnect(farewell, say),
            DaemonEvent::Welcome(welcome) => self.welcomed(welcome),
            DaemonEvent::GroupSignal(signal) => self.on_signal(signal, say),
            // What is offered counts once it has its place.
            DaemonEvent::Offer(_) | DaemonEvent::Revoke(_) | DaemonEvent::Confirm(_) => {}
            // A reader is no member.
            DaemonEvent::Read(_)
            | DaemonEvent::Reading(_)
            | DaemonEvent::Incarnation(_)
            | DaemonEvent::Producer(_)
            | DaemonEvent::Declared(_)
            | DaemonEvent::Copies(_)
            | DaemonEvent::Bound(_)
            | DaemonEvent::Rotated(_) => {}
            DaemonEvent::Waiting(_) | DaemonEvent::Status(_) | DaemonEvent::Pong(_) | DaemonEvent::Heartbeat => {}
        }
    }

    fn on_view(&mut self, view: &NetworkView, mut say: impl FnMut(ListenerEvent)) {
        let again = self.view.as_ref().is_some_and(|known| known.id == view.id && known.kind == view.kind);
        self.view = Some(view.clone());
        match (self.is_joined(), again) {
            (true, true) => say(ListenerEvent::Primary(view.id)),
            (true, false) => say(ListenerEvent::View(seen(view))),
            (false, true) => {}
            (false, false) => say(ListenerEvent::Network(seen(view))),
        }
    }

    fn on_group_view(&mut self, view: &GroupView, mut say: impl FnMut(ListenerEvent)) {
        let was_in = self.is_joined();
        self.joined.insert(view.group.clone());
        let ours = self.groups.contains(&view.group) && self.is_joined();
        let Some(network) = self.view.as_ref().filter(|_| ours) else { return };
        if !was_in {
            say(ListenerEvent::View(seen(network)));
        }
        if let Some(me) = self.me.filter(|_| self.groups.len() == 1) {
            say(ListenerEvent::Group(GroupSeen::of(view, me)));
        }
    }

    fn on_signal(&self, signal: &GroupSignal, mut say: impl FnMut(ListenerEvent)) {
        if self.groups == [signal.group.clone()] && self.is_joined() {
            say(ListenerEvent::Signal(signal.group.clone()));
        }
    }

    /// What comes before the client is in all its groups does not count. What comes although it is in none is not passed
    /// over: no daemon may do that.
    fn on_message(&mut self, message: &Message, mut say: impl FnMut(ListenerEvent)) {
        let was_in = |name: &str| self.joined.iter().any(|group| group.as_bytes() == name.as_bytes());
        let is_early = !self.is_joined() && message.groups().any(was_in);
        if !is_early && message.groups().any(|name| self.wants(name.as_bytes())) {
            say(ListenerEvent::Message(received(message)));
        }
    }

    fn on_ordered(&mut self, number: u64, mut say: impl FnMut(ListenerEvent)) {
        let ordered = self.under_way.iter().take_while(|(request, _)| *request <= number).count();
        if let Some((_, count)) = self.under_way.drain(..ordered).next_back() {
            say(ListenerEvent::Ordered(count));
        }
    }

    /// What was refused is not called ordered when a number beyond it is.
    fn on_refused(&mut self, request: u64, refusal: &Refusal, mut say: impl FnMut(ListenerEvent)) {
        self.under_way.retain(|(number, _)| *number != request);
        say(ListenerEvent::Refused(format!("request {request}: {refusal}")));
    }

    /// The session is over: nothing that was under way is called ordered any more.
    fn on_disconnect(&mut self, farewell: &Disconnect, mut say: impl FnMut(ListenerEvent)) {
        self.under_way.clear();
        say(ListenerEvent::Refused(farewell.to_string()));
    }
}

fn seen(view: &NetworkView) -> SeenView {
    SeenView {
        id: view.id,
        transitional: view.kind == ViewKind::Transitional,
        members: view.members.clone(),
        together: view.moved_together.clone(),
        pending: matches!(view.primary, Primary::Yes | Primary::Pending),
    }
}

fn received(message: &Message) -> ReceivedMessage {
    let (node, client) = message.sender();
    ReceivedMessage {
        stream: OrderStream(0),
        position: None,
        sender: node,
        incarnation: None,
        client: Some(index_of(client)),
        own: None,
        class: None,
        service: message.service(),
        payload: Payload::from(message.clone().into_payload()),
    }
}
