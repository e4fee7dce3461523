//! Functions on events.
use crate::border::{free, put, tell};
use crate::codes::{self, consort_event_kind};
use crate::event_texts::{Texts, consort_member};
use crate::place::consort_place;
use consort::{Event, Fate, GroupViewId, Message, ReadingEnd, ReadingStatus, Refusal, SessionEvent, ViewKind};
use std::ffi::c_char;
use std::ptr;
use std::sync::OnceLock;

/// What happened. Functions that do not fit its kind return 0, false or null.
pub struct consort_event {
    event: SessionEvent,
    texts: OnceLock<Texts>,
}

/// Names a view of the network, or a membership of a group. Compare for equality only: it is no fencing number.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct consort_view_id {
    /// The view's number.
    pub number: u64,
    /// Which incarnation of its representative.
    pub incarnation: u64,
    /// Which change in that view; 0 of a view of the network.
    pub change: u64,
    /// The node of its representative.
    pub node: u16,
}

impl consort_event {
    pub(crate) const fn new(event: SessionEvent) -> Self {
        Self { event, texts: OnceLock::new() }
    }

    /// What a client receives, too.
    const fn of_client(&self) -> Option<&Event> {
        if let SessionEvent::Event(event) = &self.event { Some(event) } else { None }
    }

    fn texts(&self) -> &Texts {
        self.texts.get_or_init(|| Texts::of(&self.event))
    }

    const fn message(&self) -> Option<&Message> {
        match self.of_client() {
            Some(Event::Message(message) | Event::Read(message)) => Some(message),
            _ => None,
        }
    }

    const fn reading(&self) -> Option<&ReadingStatus> {
        if let Some(Event::Reading(status)) = self.of_client() { Some(status) } else { None }
    }

    const fn refusal(&self) -> Option<&Refusal> {
        match &self.event {
            SessionEvent::Event(Event::Refused { refusal, .. })
            | SessionEvent::Sent { fate: Fate::Refused(refusal), .. }
            | SessionEvent::JoinRefused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }
}

/// Frees an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_free(event: *mut consort_event) {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { free(event) };
}

/// Tells something of an event; `nothing` of null, and where there is nothing to tell.
unsafe fn of<T: Copy>(event: *const consort_event, nothing: T, what: impl FnOnce(&consort_event) -> Option<T>) -> T {
    // SAFETY: the caller keeps the header's rule of pointers.
    match unsafe { event.as_ref() } {
        Some(event) => tell(nothing, || what(event).unwrap_or(nothing)),
        None => nothing,
    }
}

/// Of what kind it is, a consort_event_kind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_get_kind(event: *const consort_event) -> consort_event_kind {
    let kind = |event: &consort_event| Some(consort_event_kind::of(&event.event));
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, consort_event_kind::CONSORT_EVENT_NONE, kind) }
}

/// What a message's sender asked for, a consort_service.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_service(event: *const consort_event) -> i32 {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, 0, |event| event.message().map(|message| message.service() as i32)) }
}

/// The private name of a message's sender: a target for an answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_sender(event: *const consort_event) -> *const c_char {
    let sender = |event: &consort_event| event.texts().sender.as_ref().map(|name| name.as_ptr());
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, ptr::null(), sender) }
}

/// The node of a message's sender.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_sender_node(event: *const consort_event) -> u16 {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, 0, |event| event.message().map(|message| message.sender().0.0)) }
}

/// The number of a message's sender at its daemon.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_sender_number(event: *const consort_event) -> u32 {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, 0, |event| event.message().map(|message| message.sender().1.0)) }
}

/// A message's payload; its length goes to `len`, which may be null. Null where it is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_payload(event: *const consort_event, len: *mut usize) -> *const u8 {
    let place = |event: &consort_event| {
        let payload = event.message()?.payload();
        Some((payload.as_ptr(), payload.len())).filter(|(_, len)| *len > 0)
    };
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        let (at, length) = of(event, (ptr::null(), 0), place);
        put(len, length);
        at
    }
}

/// Where a message stands in the order; false where that was not asked for with consort_options_set_positions(), and it was
/// not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_position(event: *const consort_event, position: *mut u64) -> bool {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { tell_number(event, position, |event| event.message()?.position()) }
}

/// Which incarnation of its node a message's sender is connected to; false likewise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_sender_incarnation(event: *const consort_event, incarnation: *mut u64) -> bool {
    let connected_to = |event: &consort_event| event.message()?.sender_daemon().map(|daemon| daemon.incarnation.0);
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { tell_number(event, incarnation, connected_to) }
}

unsafe fn tell_number(
    event: *const consort_event,
    to: *mut u64,
    what: impl FnOnce(&consort_event) -> Option<u64>,
) -> bool {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        let told = of(event, None, |event| Some(what(event)));
        put(to, told.unwrap_or(0));
        told.is_some()
    }
}

/// How many targets a message names, groups and private names; 1 of a group view or signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_group_count(event: *const consort_event) -> usize {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, 0, |event| Some(event.texts().groups.len())) }
}

/// One of them, counted from 0; null beyond the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_group(event: *const consort_event, index: usize) -> *const c_char {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, ptr::null(), |event| event.texts().groups.get(index).map(|name| name.as_ptr())) }
}

/// How many members a group view has, or how many daemons a view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_member_count(event: *const consort_event) -> usize {
    let count = |event: &consort_event| match event.of_client()? {
        Event::GroupView(view) => Some(view.members.len()),
        Event::View(view) => Some(view.members.len()),
        _ => None,
    };
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, 0, count) }
}

/// One of them, counted from 0, goes to `member`; false beyond the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_member(
    event: *const consort_event,
    index: usize,
    member: *mut consort_member,
) -> bool {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { tell_member(event, member, |texts| texts.member(index)) }
}

/// How many came or went with a group view: who of them is a member came. Of a view, how many daemons came here together
/// from this daemon's view before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_changed_count(event: *const consort_event) -> usize {
    let count = |event: &consort_event| match event.of_client()? {
        Event::GroupView(view) => Some(view.who.len()),
        Event::View(view) => Some(view.moved_together.len()),
        _ => None,
    };
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, 0, count) }
}

/// One of them, counted from 0, goes to `member`; false beyond the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_changed(
    event: *const consort_event,
    index: usize,
    member: *mut consort_member,
) -> bool {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { tell_member(event, member, |texts| texts.changed(index)) }
}

unsafe fn tell_member(
    event: *const consort_event,
    to: *mut consort_member,
    which: impl FnOnce(&Texts) -> Option<consort_member>,
) -> bool {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        let found = of(event, None, |event| Some(which(event.texts())));
        found.is_some_and(|member| {
            put(to, member);
            true
        })
    }
}

/// Names the view, or the membership of a group view or signal; goes to `id`. False of other kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_view_id(event: *const consort_event, id: *mut consort_view_id) -> bool {
    let named = |event: &consort_event| match event.of_client()? {
        Event::GroupView(view) => Some(Some(view.id)),
        Event::GroupSignal(signal) => Some(Some(signal.id)),
        Event::View(view) => Some(Some(GroupViewId { view: view.id, change: 0 })),
        _ => None,
    };
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        let Some(GroupViewId { view, change }) = of(event, None, named) else { return false };
        let (incarnation, node) = (view.representative.incarnation.0, view.representative.node.0);
        put(id, consort_view_id { number: view.number, incarnation, change, node });
    }
    true
}

/// Why a group changed, a consort_cause.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_cause(event: *const consort_event) -> i32 {
    let cause = |event: &consort_event| match event.of_client()? {
        Event::GroupView(view) => Some(codes::cause(view.cause)),
        _ => None,
    };
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, 0, cause) }
}

/// Whether the members of a group view may act as the primary part of the network, from here until the group's next
/// view; or whether a view of daemons is primary. A consort_primary.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_primary(event: *const consort_event) -> i32 {
    let primary = |event: &consort_event| match event.of_client()? {
        Event::GroupView(view) => Some(codes::primary(view.primary)),
        Event::View(view) => Some(codes::primary(view.primary)),
        _ => None,
    };
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, 0, primary) }
}

/// Whether only members may send to the group of a group view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_is_closed(event: *const consort_event) -> bool {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, false, |event| Some(matches!(event.of_client()?, Event::GroupView(view) if view.closed))) }
}

/// Whether a view is transitional: it closes the view before it for those that move on together.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_is_transitional(event: *const consort_event) -> bool {
    let transitional = |view: &ViewKind| *view == ViewKind::Transitional;
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        of(event, false, |event| Some(matches!(event.of_client()?, Event::View(view) if transitional(&view.kind))))
    }
}

/// The number of the send that was refused, or whose fate is told; 0 of other kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_send(event: *const consort_event) -> u64 {
    let send = |event: &consort_event| match &event.event {
        SessionEvent::Event(Event::Refused { send, .. }) | SessionEvent::Sent { send, .. } => Some(*send),
        _ => None,
    };
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, 0, send) }
}

/// Why it, or a join of a session, was refused, a consort_refusal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_refusal(event: *const consort_event) -> i32 {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, 0, |event| event.refusal().map(|refusal| codes::refusal(refusal.cause))) }
}

/// What became of a session's send, a consort_fate; 0 of other kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_fate(event: *const consort_event) -> i32 {
    let fate = |event: &consort_event| match &event.event {
        SessionEvent::Sent { fate, .. } => Some(codes::fate(fate)),
        _ => None,
    };
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, 0, fate) }
}

/// Where a message that was read stands; where a send is ordered; where a reading begins; the first place of a gap; the last
/// position of the order when all is read; the first place that parted histories have not in common. Goes to `place`;
/// false where there is none to tell.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_place(event: *const consort_event, place: *mut consort_place) -> bool {
    let start = |event: &consort_event| match &event.event {
        SessionEvent::Sent { fate: Fate::Ordered { at }, .. } => at.map(consort_place::from),
        SessionEvent::Gap { from, .. } => Some((*from).into()),
        SessionEvent::Parted { common } => common.map(consort_place::from),
        _ => match event.reading() {
            Some(ReadingStatus::Began { from, .. }) => Some((*from).into()),
            Some(ReadingStatus::CaughtUp { position }) => Some(consort_place::at(*position)),
            Some(ReadingStatus::Lost { from, .. }) => Some(consort_place::at(*from)),
            Some(ReadingStatus::Gap { from, .. }) => Some((*from).into()),
            Some(ReadingStatus::Ended(end)) => end.common.map(consort_place::from),
            _ => event.message()?.placement().map(|placement| placement.place.into()),
        },
    };
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { tell_place(event, place, start) }
}

/// Behind a gap: the first place that is told again. Goes to `place`; false of other kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_gap_end(event: *const consort_event, place: *mut consort_place) -> bool {
    let end = |event: &consort_event| match (&event.event, event.reading()) {
        (SessionEvent::Gap { to, .. }, _) | (_, Some(ReadingStatus::Gap { to, .. })) => Some((*to).into()),
        (_, Some(ReadingStatus::Lost { to, .. })) => Some(consort_place::at(to.saturating_add(1))),
        _ => None,
    };
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { tell_place(event, place, end) }
}

unsafe fn tell_place(
    event: *const consort_event,
    to: *mut consort_place,
    which: impl FnOnce(&consort_event) -> Option<consort_place>,
) -> bool {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        let found = of(event, None, |event| Some(which(event)));
        put(to, found.unwrap_or_default());
        found.is_some()
    }
}

/// Why there is no reading, or none any more, a consort_reading_end; 0 of other kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_reading_end(event: *const consort_event) -> i32 {
    let cause = |event: &consort_event| match event.reading()? {
        ReadingStatus::Ended(end) => Some(end.cause as i32),
        _ => None,
    };
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, 0, cause) }
}

/// The oldest position that the daemon can tell goes to `oldest`, the newest to `newest`, either of which may be null: when a
/// reading begins, and when it ends. False of other kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_retained(
    event: *const consort_event,
    oldest: *mut u64,
    newest: *mut u64,
) -> bool {
    let retained = |event: &consort_event| match event.reading()? {
        ReadingStatus::Began { oldest, newest, .. } | ReadingStatus::Ended(ReadingEnd { oldest, newest, .. }) => {
            Some(Some((*oldest, *newest)))
        }
        _ => None,
    };
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        let told = of(event, None, retained);
        put(oldest, told.map_or(0, |told| told.0));
        put(newest, told.map_or(0, |told| told.1));
        told.is_some()
    }
}

/// How many sends of the producer that a session goes on with are ordered, over all its sessions; false where nobody knows
/// of it, and of other kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_resumed(event: *const consort_event, ordered: *mut u64) -> bool {
    let resumed = |event: &consort_event| match &event.event {
        SessionEvent::Resumed { ordered } => *ordered,
        _ => None,
    };
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { tell_number(event, ordered, resumed) }
}

/// Why a send or a join was refused, a view came, a reading ended, a connection was lost, or sends wait, in words; where a
/// session is connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_event_text(event: *const consort_event) -> *const c_char {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(event, ptr::null(), |event| event.texts().text.as_ref().map(|text| text.as_ptr())) }
}
