//! The type of a message: one bit for each thing it can be.
use consort_group::ChangeCause;
use consort_types::Service;

/// Ordered like any message here.
pub const UNRELIABLE: u32 = 0x01;
/// Ordered like any message here.
pub const RELIABLE: u32 = 0x02;
/// Ordered like any message here.
pub const FIFO: u32 = 0x04;
/// Ordered like any message here.
pub const CAUSAL: u32 = 0x08;
/// In one order everywhere.
pub const AGREED: u32 = 0x10;
/// In one order, and held by all.
pub const SAFE: u32 = 0x20;
/// All the levels.
pub const REGULAR: u32 = 0x3f;
/// Not to be given to the session that sent it.
pub const SELF_DISCARD: u32 = 0x40;
/// Both set: little-endian; both clear: big-endian. Stands at the same place however the four bytes are read.
pub const MARK: u32 = 0x8000_0080;
/// A member joined.
pub const CAUSED_BY_JOIN: u32 = 0x0100;
/// A member left.
pub const CAUSED_BY_LEAVE: u32 = 0x0200;
/// A member's connection ended.
pub const CAUSED_BY_DISCONNECT: u32 = 0x0400;
/// Daemons came or went.
pub const CAUSED_BY_NETWORK: u32 = 0x0800;
/// A group view.
pub const REGULAR_VIEW: u32 = 0x1000;
/// A transitional signal.
pub const TRANSITION: u32 = 0x2000;
/// To join a group.
pub const JOIN: u32 = 0x1_0000;
/// To leave a group.
pub const LEAVE: u32 = 0x2_0000;
/// To end the session.
pub const KILL: u32 = 0x4_0000;
/// A request comes back: it was not taken.
pub const REJECT: u32 = 0x40_0000;

/// What a client may ask for, of which each frame asks exactly one.
pub const REQUESTS: u32 = REGULAR | JOIN | LEAVE | KILL;

/// The one thing that a frame of this type asks for. `None` if it is none, or several. All other bits are ignored.
pub const fn request(kind: u32) -> Option<u32> {
    //= S13
    let asked = kind & REQUESTS;
    if asked.is_power_of_two() { Some(asked) } else { None }
}

/// The level at which a message of one of the bits in [`REGULAR`] is ordered here.
pub const fn service(bit: u32) -> Service {
    //= S22
    if bit == SAFE { Service::Safe } else { Service::Agreed }
}

/// What a message of this level looks like to a Spread client.
pub const fn of_service(service: Service) -> u32 {
    match service {
        Service::Reliable => RELIABLE,
        Service::Fifo => FIFO,
        Service::Causal => CAUSAL,
        Service::Agreed => AGREED,
        Service::Safe => SAFE,
    }
}

/// The bit that says why a group changed.
pub const fn of_cause(cause: ChangeCause) -> u32 {
    match cause {
        ChangeCause::Join => CAUSED_BY_JOIN,
        ChangeCause::Leave => CAUSED_BY_LEAVE,
        ChangeCause::Disconnect => CAUSED_BY_DISCONNECT,
        // They are not told of the latter, which changes no membership.
        ChangeCause::Network | ChangeCause::Primary => CAUSED_BY_NETWORK,
    }
}
