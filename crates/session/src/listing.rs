//! Who is in which group, and who is connected: questions that are answered a page at a time.
//!
//! | kind | question | body |
//! |---|---|---|
//! | 08 | groups | after: name (1 + n), most (2) |
//! | 09 | members | group (1 + n), after: node (2), incarnation (8), client (4); most (2) |
//! | 0a | clients | after: client (4), most (2) |
//!
//! | kind | answer | body behind total (4), more (1), count (2) |
//! |---|---|---|
//! | 8a | groups | for each: name (1 + n), members (4), flags (1: bit 0 closed) |
//! | 8b | members | for each: node (2), incarnation (8), client (4), name (1 + n) |
//! | 8c | clients | for each: see [`Connection`] |
//!
//! Answers are no [`DaemonEvent`](crate::DaemonEvent)s: they stand outside the order, and only who asked for one reads any.
use crate::{SlowPolicy, frame};
use bytes::{BufMut, BytesMut};
use consort_group::{ClientName, Member, ordered, targets};
use consort_types::{ClientId, GroupName, MemberId};
use consort_wire::{MEMBER_LEN, Malformed, Reader, Writer};

/// No page has more entries, whatever is asked for: none takes more than some 40 KB.
pub const PAGE_MAX: u16 = 512;

const ASK_GROUPS: u8 = 0x08;
const ASK_MEMBERS: u8 = 0x09;
const ASK_CLIENTS: u8 = 0x0a;
const GROUPS: u8 = 0x8a;
const MEMBERS: u8 = 0x8b;
const CLIENTS: u8 = 0x8c;
const CLOSED: u8 = 1;
/// The least bytes of an entry of each kind.
const GROUP_LEN: usize = 1 + 4 + 1;
const MEMBER_ENTRY_LEN: usize = MEMBER_LEN + 4 + 1;
const CONNECTION_LEN: usize = 4 + 1 + 1 + 1 + 4 + 8 + 4 + 4 + 1 + 8;

/// What is asked for, and from where on. `most` limits the page; 0 asks for the total alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListQuery {
    /// The groups that have members, by name.
    Groups {
        /// Only those behind this name.
        after: Option<GroupName>,
        /// How many at most.
        most: u16,
    },
    /// The members of one group, by node, incarnation and client number.
    Members {
        /// Which group.
        group: GroupName,
        /// Only those behind this one; all zero for the first page.
        after: (MemberId, ClientId),
        /// How many at most.
        most: u16,
    },
    /// The connections of this daemon, by client number.
    Clients {
        /// Only those behind this one; 0 for the first page.
        after: ClientId,
        /// How many at most.
        most: u16,
    },
}

/// A piece of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage<T> {
    /// How many entries the whole list has now.
    pub total: u32,
    /// Whether more follow behind the last one of this page.
    pub more: bool,
    /// The entries, in the order of the list.
    pub items: Vec<T>,
}

impl<T> ListPage<T> {
    /// The first `most` of what `rest` gives, but never more than [`PAGE_MAX`].
    pub fn of(total: usize, most: u16, mut rest: impl Iterator<Item = T>) -> Self {
        let items = rest.by_ref().take(usize::from(most.min(PAGE_MAX))).collect();
        Self { total: u32::try_from(total).unwrap_or(u32::MAX), more: rest.next().is_some(), items }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Groups.
    Groups(ListPage<GroupEntry>),
    /// Members of the group that was asked for; none if there is no such group.
    Members(ListPage<Member>),
    /// Connections.
    Clients(ListPage<Connection>),
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Its name.
    pub name: GroupName,
    /// How many members it has, at all daemons.
    pub members: u32,
    /// Whether only members may send to it.
    pub closed: bool,
}

/// One connection of the daemon that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its number; [`ClientId::speaks_spread`] tells which session protocol it speaks.
    pub client: ClientId,
    /// What the client is called; `None` before it was let in and after it was sent away.
    pub name: Option<ClientName>,
    /// What carries it.
    pub transport: Transport,
    /// How it is.
    pub stage: ConnectionStage,
    /// In how many groups it is.
    pub groups: u32,
    /// How many bytes wait for it to read them.
    pub waiting: u64,
    /// How many bytes of its requests are under way.
    pub under_way: u32,
    /// How many may be.
    pub credit: u32,
    /// What is done if it does not read.
    pub slow: SlowPolicy,
    /// How many of the bytes that wait are on disk.
    pub spooled: u64,
}

/// What carries a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Transport {
    /// The driver did not say.
    #[default]
    Unknown = 0,
    /// A Unix socket.
    Unix = 1,
    /// TCP.
    Tcp = 2,
}

impl Transport {
    const ALL: [Self; 3] = [Self::Unknown, Self::Unix, Self::Tcp];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Unix => "unix",
            Self::Tcp => "tcp",
        }
    }
}

/// How a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionStage {
    /// Its handshake is not over.
    Connecting = 1,
    /// It is served.
    Open = 2,
    /// Its next request waits for room.
    Waiting = 3,
    /// It was sent away and has yet to read its last bytes.
    Ending = 4,
}

impl ConnectionStage {
    const ALL: [Self; 4] = [Self::Connecting, Self::Open, Self::Waiting, Self::Ending];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Open => "open",
            Self::Waiting => "waiting",
            Self::Ending => "ending",
        }
    }
}

impl ListQuery {
    /// Appends the frame.
    pub fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Groups { after, most } => frame::put(out, ASK_GROUPS, |out| {
                targets::put_name(after.as_ref().map_or(&[], GroupName::as_bytes), out);
                out.put_u16(*most);
            }),
            Self::Members { group, after, most } => frame::put(out, ASK_MEMBERS, |out| {
                targets::put_name(group.as_bytes(), out);
                put_key(out, *after);
                out.put_u16(*most);
            }),
            Self::Clients { after, most } => frame::put(out, ASK_CLIENTS, |out| {
                out.put_u32(after.0);
                out.put_u16(*most);
            }),
        }
    }

    /// Whether a frame of this kind is such a question.
    pub(crate) const fn is_one(kind: u8) -> bool {
        matches!(kind, ASK_GROUPS | ASK_MEMBERS | ASK_CLIENTS)
    }

    /// Reads the body of a frame of this kind, up to its end.
    pub(crate) fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match kind {
            ASK_GROUPS => Self::Groups { after: read_after(reader)?, most: reader.u16("most")? },
            ASK_MEMBERS => Self::Members {
                group: targets::read_group(reader)?,
                after: (reader.member("after")?, ClientId(reader.u32("after")?)),
                most: reader.u16("most")?,
            },
            ASK_CLIENTS => Self::Clients { after: ClientId(reader.u32("after")?), most: reader.u16("most")? },
            _ => return Err(reader.bad("kind")),
        })
    }
}

fn read_after(reader: &mut Reader<'_>) -> Result<Option<GroupName>, Malformed> {
    let mut ahead = reader.clone();
    if ahead.u8("after")? == 0 {
        *reader = ahead;
        return Ok(None);
    }
    targets::read_group(reader).map(Some)
}

impl Listing {
    /// Appends the frame.
    pub fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Groups(page) => frame::put(out, GROUPS, |out| {
                put_page(out, page, |out, group| {
                    targets::put_name(group.name.as_bytes(), out);
                    out.put_u32(group.members);
                    out.put_u8(if group.closed { CLOSED } else { 0 });
                });
            }),
            Self::Members(page) => frame::put(out, MEMBERS, |out| {
                put_page(out, page, |out, member| {
                    put_key(out, member.key());
                    targets::put_name(member.name.as_str().as_bytes(), out);
                });
            }),
            Self::Clients(page) => frame::put(out, CLIENTS, |out| put_page(out, page, put_connection)),
        }
    }

    /// Whether a frame of this kind is such an answer.
    pub const fn is_one(kind: u8) -> bool {
        matches!(kind, GROUPS | MEMBERS | CLIENTS)
    }

    /// Reads the body of a frame of this kind.
    ///
    /// # Errors
    /// [`Malformed`] says which field is wrong.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let listing = match kind {
            GROUPS => Self::Groups(read_page(&mut reader, GROUP_LEN, read_group_entry)?),
            MEMBERS => Self::Members(read_page(&mut reader, MEMBER_ENTRY_LEN, read_member)?),
            CLIENTS => Self::Clients(read_page(&mut reader, CONNECTION_LEN, read_connection)?),
            _ => return Err(reader.bad("kind")),
        };
        reader.end("end of list")?;
        Ok(listing)
    }
}

fn put_key(out: &mut BytesMut, (daemon, client): (MemberId, ClientId)) {
    out.put_member(daemon);
    out.put_u32(client.0);
}

fn put_page<T>(out: &mut BytesMut, page: &ListPage<T>, put: impl Fn(&mut BytesMut, &T)) {
    out.put_u32(page.total);
    out.put_u8(u8::from(page.more));
    out.put_count(page.items.len());
    page.items.iter().for_each(|item| put(out, item));
}

fn put_connection(out: &mut BytesMut, connection: &Connection) {
    out.put_u32(connection.client.0);
    targets::put_name(connection.name.as_ref().map_or(&[], |name| name.as_str().as_bytes()), out);
    out.put_u8(connection.transport as u8);
    out.put_u8(connection.stage as u8);
    out.put_u32(connection.groups);
    out.put_u64(connection.waiting);
    out.put_u32(connection.under_way);
    out.put_u32(connection.credit);
    out.put_u8(connection.slow as u8);
    out.put_u64(connection.spooled);
}

fn read_page<T>(
    reader: &mut Reader<'_>,
    least: usize,
    read: impl Fn(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<ListPage<T>, Malformed> {
    let total = reader.u32("total")?;
    let more = match reader.u8("more")? {
        0 => false,
        1 => true,
        _ => return Err(reader.bad("more")),
    };
    let count = reader.count(least, "count")?;
    let items = (0..count).map(|_| read(reader)).collect::<Result<_, _>>()?;
    Ok(ListPage { total, more, items })
}

fn read_group_entry(reader: &mut Reader<'_>) -> Result<GroupEntry, Malformed> {
    let (name, members) = (targets::read_group(reader)?, reader.u32("members")?);
    match reader.u8("flags")? {
        flags @ (0 | CLOSED) => Ok(GroupEntry { name, members, closed: flags == CLOSED }),
        _ => Err(reader.bad("flags")),
    }
}

fn read_member(reader: &mut Reader<'_>) -> Result<Member, Malformed> {
    let (daemon, client) = (reader.member("daemon")?, ClientId(reader.u32("client")?));
    Ok(Member { daemon, client, name: ordered::read_client(reader)? })
}

fn read_connection(reader: &mut Reader<'_>) -> Result<Connection, Malformed> {
    Ok(Connection {
        client: ClientId(reader.u32("client")?),
        name: read_client_name(reader)?,
        transport: coded(reader, "transport", &Transport::ALL, |transport| transport as u8)?,
        stage: coded(reader, "stage", &ConnectionStage::ALL, |stage| stage as u8)?,
        groups: reader.u32("groups")?,
        waiting: reader.u64("waiting")?,
        under_way: reader.u32("under way")?,
        credit: reader.u32("credit")?,
        slow: coded(reader, "slow policy", SlowPolicy::ALL, |policy| policy as u8)?,
        spooled: reader.u64("spooled")?,
    })
}

/// Reads a client's name, or an empty one.
pub(crate) fn read_client_name(reader: &mut Reader<'_>) -> Result<Option<ClientName>, Malformed> {
    let mut ahead = reader.clone();
    if ahead.u8("client name")? == 0 {
        *reader = ahead;
        return Ok(None);
    }
    ordered::read_client(reader).map(Some)
}

fn coded<T: Copy>(
    reader: &mut Reader<'_>,
    what: &'static str,
    all: &[T],
    code: impl Fn(T) -> u8,
) -> Result<T, Malformed> {
    let found = reader.u8(what)?;
    all.iter().copied().find(|one| code(*one) == found).ok_or(reader.bad(what))
}
