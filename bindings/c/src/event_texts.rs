//! What an event has as text, for C: made when it is asked for, kept as long as the event.
use crate::failure::c_text;
use consort::{Event, Fate, Member, MemberId, PrivateName, ReadingStatus, SessionEvent};
use std::ffi::{CString, c_char};
use std::ptr;

/// A client in a group, or a daemon in a view. Texts live as long as the event.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct consort_member {
    /// What it is called; null for a daemon.
    pub name: *const c_char,
    /// The name by which it is sent to alone; null for a daemon.
    pub private_name: *const c_char,
    /// Which incarnation of its daemon.
    pub incarnation: u64,
    /// Its number at its daemon; 0 for a daemon.
    pub client: u32,
    /// The node of its daemon.
    pub node: u16,
    /// Members of a group view with the same number moved together: they received the same messages of this group since
    /// the group view before. 0 where nothing is said of that.
    pub set: u16,
}

/// A member, with its texts.
struct Listed {
    name: Option<CString>,
    private_name: Option<CString>,
    member: MemberId,
    client: u32,
    set: u16,
}

/// All texts and lists of an event.
#[derive(Default)]
pub(crate) struct Texts {
    pub(crate) sender: Option<CString>,
    pub(crate) groups: Vec<CString>,
    pub(crate) text: Option<CString>,
    members: Vec<Listed>,
    changed: Vec<Listed>,
}

impl Texts {
    pub(crate) fn of(event: &SessionEvent) -> Self {
        match event {
            SessionEvent::Event(event) => Self::of_client(event),
            SessionEvent::Sent { fate: Fate::Refused(refusal), .. } => Self::words(&*refusal.text),
            SessionEvent::JoinRefused { group, refusal } => {
                Self { groups: vec![c_text(group.as_str())], ..Self::words(&*refusal.text) }
            }
            SessionEvent::Connected { address } => Self::words(address.to_string()),
            SessionEvent::Lost { why } => Self::words(why),
            SessionEvent::Waits(wait) => Self::words(wait.text()),
            _ => Self::default(),
        }
    }

    fn words(text: impl Into<String>) -> Self {
        Self { text: Some(c_text(text)), ..Self::default() }
    }

    fn of_client(event: &Event) -> Self {
        match event {
            Event::Message(message) | Event::Read(message) => Self {
                sender: message.sender_private().map(|name| c_text(name.as_str())),
                groups: message.groups().map(c_text).collect(),
                ..Self::default()
            },
            Event::GroupView(view) => {
                let sets = view.sets.iter().copied().chain(std::iter::repeat(0));
                Self {
                    groups: vec![c_text(view.group.as_str())],
                    members: view.members.iter().zip(sets).map(|(member, set)| Listed::client(member, set)).collect(),
                    changed: view.who.iter().map(|member| Listed::client(member, 0)).collect(),
                    ..Self::default()
                }
            }
            Event::GroupSignal(signal) => Self { groups: vec![c_text(signal.group.as_str())], ..Self::default() },
            Event::View(view) => Self {
                text: Some(c_text(&*view.cause)),
                members: view.members.iter().map(|member| Listed::daemon(*member)).collect(),
                changed: view.moved_together.iter().map(|member| Listed::daemon(*member)).collect(),
                ..Self::default()
            },
            Event::Refused { refusal, .. } => Self::words(&*refusal.text),
            Event::Reading(ReadingStatus::Ended(end)) => Self::words(&*end.text),
            _ => Self::default(),
        }
    }

    pub(crate) fn member(&self, index: usize) -> Option<consort_member> {
        self.members.get(index).map(Listed::for_c)
    }

    pub(crate) fn changed(&self, index: usize) -> Option<consort_member> {
        self.changed.get(index).map(Listed::for_c)
    }
}

impl Listed {
    fn client(member: &Member, set: u16) -> Self {
        let private_name = PrivateName::new(&member.name, member.daemon.node);
        Self {
            name: Some(c_text(member.name.as_str())),
            private_name: Some(c_text(private_name.as_str())),
            member: member.daemon,
            client: member.client.0,
            set,
        }
    }

    const fn daemon(member: MemberId) -> Self {
        Self { name: None, private_name: None, member, client: 0, set: 0 }
    }

    fn for_c(&self) -> consort_member {
        let text = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        consort_member {
            name: text(&self.name),
            private_name: text(&self.private_name),
            incarnation: self.member.incarnation.0,
            client: self.client,
            node: self.member.node.0,
            set: self.set,
        }
    }
}
