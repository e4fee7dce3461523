//! What clients say once they are let in.
use crate::header::{self, SpreadHeader};
use crate::{GROUPS_MAX, MESSAGE_MAX, MulticastNote, kind, name_field};
use bytes::{BufMut, Bytes, BytesMut};
use consort_group::targets::put_name;
use consort_types::{GroupName, Service};
use consort_wire::Malformed;

//= S14
/// The most bytes of names and data that a frame may have. More ends the session, as with Spread; what is less and still
/// does not fit [`MESSAGE_MAX`] is rejected, where Spread's daemon stops.
pub const BODY_MAX: usize = 143_952;

/// A frame of a client, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedRequest {
    /// To join a group.
    Join(GroupName),
    /// To leave a group.
    Leave(GroupName),
    /// To have a message ordered.
    Multicast {
        /// How strongly.
        service: Service,
        /// What rides along.
        note: MulticastNote,
        /// The list of names, in the form of [`consort_group::Targets`].
        targets: Bytes,
        /// The message; shares the bytes that were read.
        data: Bytes,
    },
    /// To end the session.
    Kill,
    /// Nothing that anybody would notice: a message to nobody, leaving a group that cannot be.
    Nothing,
    /// What cannot be done, and is told so.
    Impossible,
}

/// Checks a header before the rest of its frame is waited for.
///
/// # Errors
/// [`Malformed`] where it asks for nothing or several things, comes from somebody else, or announces more than a frame has.
pub fn check(header: &SpreadHeader, private: &str) -> Result<(), Malformed> {
    kind::request(header.kind).ok_or(Malformed { what: "type", at: 0 })?;
    if name_field::read(&header.name) != Some(private.as_bytes()) {
        return Err(Malformed { what: "private name", at: 4 });
    }
    if header.groups > GROUPS_MAX {
        return Err(Malformed { what: "number of groups", at: 36 });
    }
    match header.body() {
        Some(body) if body <= BODY_MAX => Ok(()),
        _ => Err(Malformed { what: "data length", at: 44 }),
    }
}

/// Reads what stands behind a checked header.
///
/// # Errors
/// [`Malformed`] where a name has no end, or a join or leave names nothing.
pub fn read(header: &SpreadHeader, body: &Bytes) -> Result<ParsedRequest, Malformed> {
    let names = names(header, body)?;
    match kind::request(header.kind) {
        Some(kind::KILL) => Ok(ParsedRequest::Kill),
        Some(kind::JOIN) => {
            let group = GroupName::new(first(&names)?);
            Ok(group.map_or(ParsedRequest::Impossible, ParsedRequest::Join))
        }
        Some(kind::LEAVE) => {
            let group = GroupName::new(first(&names)?);
            Ok(group.map_or(ParsedRequest::Nothing, ParsedRequest::Leave))
        }
        Some(level) => Ok(multicast(header, level, &names, body)),
        None => Err(Malformed { what: "type", at: 0 }),
    }
}

/// The names at the front of a body.
fn names<'a>(header: &SpreadHeader, body: &'a [u8]) -> Result<Vec<&'a [u8]>, Malformed> {
    let (fields, _) = body.as_chunks();
    let name =
        |(i, field)| name_field::read(field).ok_or(Malformed { what: "name", at: header::LEN + i * name_field::LEN });
    fields.iter().take(header.groups).enumerate().map(name).collect()
}

fn first<'a>(names: &[&'a [u8]]) -> Result<&'a [u8], Malformed> {
    names.first().copied().ok_or(Malformed { what: "number of groups", at: 36 })
}

fn multicast(header: &SpreadHeader, level: u32, names: &[&[u8]], body: &Bytes) -> ParsedRequest {
    //= S15
    let names: Vec<_> = names.iter().filter(|name| !name.is_empty()).collect();
    let printable = |name: &&&[u8]| name.iter().all(|byte| (0x20..=0x7e).contains(byte));
    if header::LEN + body.len() > MESSAGE_MAX || !names.iter().all(printable) {
        return ParsedRequest::Impossible;
    }
    if names.is_empty() {
        return ParsedRequest::Nothing;
    }
    let mut targets = BytesMut::with_capacity(2 + names.len() * name_field::LEN);
    targets.put_u16(names.len() as u16);
    names.iter().for_each(|name| put_name(name, &mut targets));
    ParsedRequest::Multicast {
        service: kind::service(level),
        note: MulticastNote::new(header.kind, header.hint),
        targets: targets.freeze(),
        data: body.slice(header.groups * name_field::LEN..),
    }
}
