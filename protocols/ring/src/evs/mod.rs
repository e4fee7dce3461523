//! Extended Virtual Synchrony as predicates over what the members of rings were told.
//!
//! One [`EvsTrace`] for each incarnation of each node. [`check`] says at any time whether what happened so far was promised;
//! [`check_end`] says it of a world that has come to rest. Part of tests and of the bounded search, of no release.

mod order;
#[cfg(test)]
mod tests;
mod views;

use consort_types::{MemberId, Position, Seq, View, ViewId, ViewKind};
use std::collections::BTreeMap;

/// What one incarnation of one node did and was told, in order.
#[derive(Clone, Debug)]
pub struct EvsTrace {
    /// Which incarnation.
    pub me: MemberId,
    /// It crashed or left: it owes nothing any more.
    pub over: bool,
    /// What happened.
    pub events: Vec<EvsEvent>,
}

/// One thing that a node did or was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvsEvent {
    /// A message was accepted from its clients.
    Accepted(String),
    /// It gave a place to a packet of its clients' messages: this is when they count as sent.
    Numbered(ViewId, Seq),
    /// A message was delivered.
    Delivered(EvsMessage),
    /// A view was installed.
    Installed(View),
    /// The view became primary.
    Primary(ViewId),
}

/// A delivered message. Texts are different for all messages of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvsMessage {
    /// Where it stands.
    pub position: Position,
    /// Who sent it.
    pub sender: MemberId,
    /// Whether it is a safe one.
    pub safe: bool,
    /// What it says.
    pub text: String,
}

impl EvsMessage {
    /// The packet that completes it.
    pub const fn seq(&self) -> Seq {
        crate::delivery::seq_of(self.position)
    }
}

/// What a node was told from the install of a view until the next.
#[derive(Debug)]
pub(crate) struct ViewStay<'a> {
    pub view: &'a View,
    /// Delivered in the view itself.
    pub regular: Vec<&'a EvsMessage>,
    /// The view that closes it, where there was a change.
    pub transitional: Option<&'a View>,
    /// Delivered in that.
    pub after: Vec<&'a EvsMessage>,
    /// Places given away, each with the number of messages delivered here before.
    pub numbered: Vec<(Seq, usize)>,
    pub primary: bool,
    /// Whether another view followed.
    pub continues: bool,
}

impl<'a> ViewStay<'a> {
    /// All that was delivered, in order.
    pub fn delivered(&self) -> impl Iterator<Item = &'a EvsMessage> {
        self.regular.iter().chain(&self.after).copied()
    }

    /// Who moved together at its end.
    pub fn moved(&self) -> &'a [MemberId] {
        self.transitional.map_or(&[], |view| &view.members)
    }
}

/// A trace by views.
#[derive(Debug)]
pub(crate) struct TraceByView<'a> {
    pub me: MemberId,
    pub over: bool,
    pub accepted: Vec<&'a str>,
    pub stays: Vec<ViewStay<'a>>,
    index: BTreeMap<ViewId, usize>,
}

impl TraceByView<'_> {
    /// What the node was told while this view held.
    pub fn stay(&self, view: ViewId) -> Option<&ViewStay<'_>> {
        self.index.get(&view).map(|at| &self.stays[*at])
    }

    /// What it was told while the view before this one held, if it installed this one.
    pub fn before(&self, view: ViewId) -> Option<&ViewStay<'_>> {
        self.index.get(&view)?.checked_sub(1).map(|at| &self.stays[at])
    }
}

/// What a rule says: nothing, or how it is broken.
pub(crate) type EvsVerdict = Result<(), String>;

/// Checks everything that must hold at all times.
///
/// # Errors
/// The first broken promise, beginning with its rule.
pub fn check<'a>(traces: impl IntoIterator<Item = &'a EvsTrace>) -> Result<(), String> {
    let incarnations = traces.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    views::check(&incarnations)?;
    order::check(&incarnations)
}

/// Checks a world at rest: no faults, nothing under way.
///
/// # Errors
/// The first broken promise, beginning with its rule.
pub fn check_end<'a>(traces: impl IntoIterator<Item = &'a EvsTrace>) -> Result<(), String> {
    let incarnations = traces.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    views::check(&incarnations)?;
    order::check(&incarnations)?;
    views::check_end(&incarnations)?;
    order::check_end(&incarnations)
}

/// W1, D3: the events of one incarnation make sense by themselves.
fn parse(trace: &EvsTrace) -> Result<TraceByView<'_>, String> {
    let me = trace.me;
    let mut incarnation =
        TraceByView { me, over: trace.over, accepted: Vec::new(), stays: Vec::new(), index: BTreeMap::new() };
    for event in &trace.events {
        match event {
            EvsEvent::Accepted(text) => incarnation.accepted.push(text),
            EvsEvent::Installed(view) => install(&mut incarnation, view)?,
            EvsEvent::Numbered(..) | EvsEvent::Delivered(_) | EvsEvent::Primary(_) => {
                let Some(stay) = incarnation.stays.last_mut() else {
                    return Err(format!("W1: {me} does {event:?} before any view"));
                };
                happen(me, stay, event)?;
            }
        }
    }
    Ok(incarnation)
}

fn install<'a>(incarnation: &mut TraceByView<'a>, view: &'a View) -> EvsVerdict {
    let me = incarnation.me;
    let closed = incarnation.stays.last().is_none_or(|stay| stay.transitional.is_some());
    match (view.kind, incarnation.stays.last_mut()) {
        (ViewKind::Transitional, Some(stay)) if stay.transitional.is_none() && view.id == stay.view.id => {
            stay.transitional = Some(view);
        }
        (ViewKind::Regular, last) if closed => {
            if let Some(last) = last {
                last.continues = true;
            }
            incarnation.index.insert(view.id, incarnation.stays.len());
            let (regular, after, numbered) = Default::default();
            let (transitional, primary, continues) = (None, false, false);
            incarnation.stays.push(ViewStay { view, regular, transitional, after, numbered, primary, continues });
        }
        _ => return Err(format!("W1: {me} is told {:?} {} out of turn", view.kind, view.id)),
    }
    Ok(())
}

fn happen<'a>(me: MemberId, stay: &mut ViewStay<'a>, event: &'a EvsEvent) -> EvsVerdict {
    let closed = stay.transitional.is_some();
    match event {
        EvsEvent::Delivered(message) if closed => stay.after.push(message),
        EvsEvent::Delivered(message) => stay.regular.push(message),
        EvsEvent::Numbered(ring, seq) if !closed && *ring == stay.view.id => {
            stay.numbered.push((*seq, stay.regular.len()));
        }
        EvsEvent::Primary(view) if *view == stay.view.id && !stay.primary => stay.primary = true,
        _ => return Err(format!("D3: {me} does {event:?} in {} (closed: {closed})", stay.view.id)),
    }
    Ok(())
}
