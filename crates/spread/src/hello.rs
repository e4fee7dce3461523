//! The handshake: who comes, under which name, by which method.
use crate::input::Input;
use crate::name_field;
use bytes::{BufMut, BytesMut};
use consort_group::ClientName;

/// The version this daemon says it is.
const VERSION: [u8; 3] = [5, 0, 1];
/// The longest name a client may choose, in bytes.
const NAME_MAX: u8 = 10;
/// The list of methods a client may choose from: names, each with a space behind it.
const METHODS: &[u8] = b"NULL ";
const METHOD: &[u8] = b"NULL";
/// A client's choice: three fields of thirty bytes.
pub const CHOICE_LEN: usize = 3 * METHOD_LEN;
const METHOD_LEN: usize = 30;
const ACCEPT: u8 = 1;

/// Why a client is not let in: the one byte it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Reject {
    /// The daemon has as many clients as it may have.
    Quota = -3,
    /// The name is too long, or has a character that no name has.
    IllegalName = -5,
    /// Another client of this daemon has the name.
    NotUnique = -6,
    /// The client's library is older than any that can be spoken to.
    Version = -7,
    /// The client chose no method, or one that is not offered.
    Auth = -9,
}

impl Reject {
    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Quota => "this daemon has as many clients as it may have",
            Self::IllegalName => "the name is longer than 10 bytes or has one outside 24 to 7e hex",
            Self::NotUnique => "another client of this daemon has the name",
            Self::Version => "the library is older than 3.1.0",
            Self::Auth => "the only method of authentication here is NULL",
        }
    }

    /// As it travels.
    pub const fn code(self) -> u8 {
        self as i8 as u8
    }
}

/// A client's library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    number: u32,
}

impl Library {
    /// The newest that says its version in two bytes.
    const TWO_BYTES: u32 = 31_400;
    const OLDEST: u32 = 30_100;

    fn new(major: u8, minor: u8, patch: u8) -> Self {
        Self { number: 10_000 * u32::from(major) + 100 * u32::from(minor) + u32::from(patch) }
    }

    //= S03
    /// Whether it chooses a method of authentication.
    pub const fn chooses_method(self) -> bool {
        self.number >= 31_600
    }

    const fn reads_patch(self) -> bool {
        self.number >= 31_500
    }
}

/// What a client says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadHello {
    /// Its library.
    pub library: Library,
    /// Whether it wants to read of groups' members.
    pub wants_membership: bool,
    /// What it wants to be called; `None` if the daemon is to choose.
    pub name: Option<ClientName>,
}

/// Takes the hello off the front. `None` until all of it is there.
pub(crate) fn read(input: &mut Input) -> Option<Result<SpreadHello, Reject>> {
    let (major, minor) = two(input)?;
    let library = Library::new(major, minor, 0);
    if library.number < Library::OLDEST {
        return Some(Err(Reject::Version));
    }
    let version = if library.number > Library::TWO_BYTES { 3 } else { 2 };
    let front = input.peek(version + 2)?;
    let patch = if version == 3 { front[2] } else { 0 };
    let (flags, len) = (front[version], front[version + 1]);
    if len > NAME_MAX {
        return Some(Err(Reject::IllegalName));
    }
    let whole = input.take(version + 2 + usize::from(len))?;
    let hello =
        |name| SpreadHello { library: Library::new(major, minor, patch), wants_membership: flags & 1 == 1, name };
    Some(read_name(&whole[version + 2..]).map(hello))
}

fn two(input: &mut Input) -> Option<(u8, u8)> {
    input.peek(2).map(|front| (front[0], front[1]))
}

//= S04
fn read_name(name: &[u8]) -> Result<Option<ClientName>, Reject> {
    if name.is_empty() {
        return Ok(None);
    }
    let legal = name.iter().all(|byte| (0x24..=0x7e).contains(byte));
    let name = ClientName::new(name).filter(|_| legal);
    name.map(Some).ok_or(Reject::IllegalName)
}

/// Appends the list of methods.
pub(crate) fn put_methods(out: &mut BytesMut) {
    out.put_u8(METHODS.len() as u8);
    out.put_slice(METHODS);
}

//= S05
/// Takes the choice of methods off the front. `None` until all of it is there.
pub(crate) fn read_choice(input: &mut Input) -> Option<Result<(), Reject>> {
    let choice = input.take(CHOICE_LEN)?;
    let chosen = choice.chunks(METHOD_LEN).map(|field| field.split(|byte| *byte == 0).next().unwrap_or(field));
    let chosen: Vec<_> = chosen.take_while(|name| !name.is_empty()).collect();
    let good = !chosen.is_empty() && chosen.iter().all(|name| *name == METHOD);
    Some(if good { Ok(()) } else { Err(Reject::Auth) })
}

//= S01
/// Appends that the client is let in, as `private`.
pub(crate) fn put_accept(out: &mut BytesMut, library: Library, private: &str) {
    out.put_u8(ACCEPT);
    out.put_slice(&VERSION[..if library.reads_patch() { 3 } else { 2 }]);
    let name = &private.as_bytes()[..private.len().min(name_field::MAX)];
    out.put_u8(name.len() as u8);
    out.put_slice(name);
}
