//! How much may be sent.
use crate::config::{Config, Windows};
use crate::packet::Token;

/// Something sent, counted both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Packets.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u32,
}

impl Load {
    /// Counts one packet more.
    pub(crate) fn add_packet(&mut self, bytes: usize) {
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Both counts raised by another's.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self { packets: self.packets.saturating_add(other.packets), bytes: self.bytes.saturating_add(other.bytes) }
    }

    /// Both counts lowered by another's, never below nothing.
    pub(crate) const fn minus(self, other: Self) -> Self {
        Self { packets: self.packets.saturating_sub(other.packets), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    /// Whether both counts are at least another's.
    pub(crate) const fn covers(self, other: Self) -> bool {
        self.packets >= other.packets && self.bytes >= other.bytes
    }
}

/// What is under way: numbered, but not known to be held by all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnderWay {
    /// Places between the stable line and the token's seq.
    pub packets: u64,
    /// Bytes in the store.
    pub bytes: usize,
}

/// How much one visit may add: the least of what the ring's, the member's and the store's windows leave.
///
/// The fcc that arrives still contains this member's own last visit; the personal window makes up for that.
pub(crate) fn allowance(config: &Config, token: &Token, under_way: UnderWay) -> Load {
    //= R8
    let w = &config.windows;
    let fcc = if crate::mutated!(config, WindowIgnored) { Load::default() } else { token.fcc };
    let global_bytes = global_bytes(config, token);
    let store = store_room(config, under_way);
    let packets = w
        .global
        .min(w.personal)
        .min(w.global.saturating_add(w.personal).saturating_sub(fcc.packets))
        .min(store.packets);
    let bytes = global_bytes
        .min(w.personal_bytes)
        .min(global_bytes.saturating_add(w.personal_bytes).saturating_sub(fcc.bytes))
        .min(store.bytes);
    if crate::mutated!(config, WindowIgnored) {
        return Load { packets: w.store.saturating_mul(2), bytes: u32::MAX };
    }
    Load { packets, bytes }
}

/// Whether a visit that `allowed` so much is kept short by the store's window.
pub(crate) fn store_binds(config: &Config, allowed: Load, under_way: UnderWay) -> bool {
    //= R38
    let store = store_room(config, under_way);
    let short = |room: u32, allowed: u32, personal: u32| room <= allowed && room < personal;
    let w = &config.windows;
    short(store.packets, allowed.packets, w.personal) || short(store.bytes, allowed.bytes, w.personal_bytes)
}

/// What is left of the store's window.
fn store_room(config: &Config, under_way: UnderWay) -> Load {
    let w = &config.windows;
    let packets = u64::from(w.store).saturating_sub(under_way.packets);
    let bytes = (w.store_bytes as usize).saturating_sub(under_way.bytes);
    Load { packets: u32::try_from(packets).unwrap_or(u32::MAX), bytes: u32::try_from(bytes).unwrap_or(u32::MAX) }
}

/// The bytes of a rotation: what is configured, or what the slowest receiver has room for, but always a datagram.
fn global_bytes(config: &Config, token: &Token) -> u32 {
    //= R9
    config.windows.global_bytes.min(token.window).max(config.datagram.get() as u32)
}

/// The room this node reports: half of what its sockets hold, because two rotations may overlap.
pub(crate) fn reported_room(config: &Config) -> u32 {
    //= R9
    u32::try_from(config.receive_room / 2).unwrap_or(u32::MAX)
}

/// The furthest place that can be in use beyond the stable line, whatever the neighbours' settings are at the moment:
/// fixed maxima, never somebody's current value.
pub(crate) const fn reach(windows: &Windows) -> u64 {
    //= R24
    windows.store as u64 + windows.global as u64 + windows.personal as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::NodeId;

    fn config() -> Config {
        Config {
            windows: Windows { accelerated_from: 1, ..Windows::SPREAD },
            ..Config::new(NodeId(1), vec![NodeId(1)])
        }
    }

    fn token(packets: u32) -> Token {
        Token { fcc: Load { packets, bytes: packets * 1000 }, window: u32::MAX, ..Token::default() }
    }

    const NOTHING: UnderWay = UnderWay { packets: 0, bytes: 0 };

    #[test]
    fn the_personal_window_bounds_a_quiet_ring_and_the_rotation_a_busy_one() {
        //= R8 test
        assert_eq!(allowance(&config(), &token(0), NOTHING).packets, 20);
        assert_eq!(allowance(&config(), &token(160), NOTHING).packets, 20);
        assert_eq!(allowance(&config(), &token(170), NOTHING).packets, 10);
        assert_eq!(allowance(&config(), &token(180), NOTHING).packets, 0);
        assert_eq!(allowance(&config(), &token(9999), NOTHING).packets, 0);
    }

    #[test]
    fn a_full_store_stops_everything() {
        //= R8 test
        let under_way = |packets| UnderWay { packets, bytes: 0 };
        assert_eq!(allowance(&config(), &token(0), under_way(1590)).packets, 10);
        assert_eq!(allowance(&config(), &token(0), under_way(1600)).packets, 0);
        assert_eq!(allowance(&config(), &token(0), under_way(5000)).packets, 0);
    }

    #[test]
    fn the_store_binds_where_nothing_else_leaves_less() {
        //= R38 test
        let binds = |packets, bytes| {
            let under_way = UnderWay { packets, bytes };
            store_binds(&config(), allowance(&config(), &token(0), under_way), under_way)
        };
        assert!(!binds(0, 0) && !binds(1580, 0));
        assert!(binds(1581, 0) && binds(1600, 0) && binds(0, 1) && binds(0, u32::MAX as usize));
    }

    #[test]
    fn the_least_room_bounds_the_bytes_but_a_datagram_always_fits() {
        //= R9 test
        let small = Token { window: 10_000, ..token(0) };
        assert_eq!(allowance(&config(), &small, NOTHING).bytes, 10_000);
        let none = Token { window: 0, ..token(0) };
        assert_eq!(allowance(&config(), &none, NOTHING).bytes, 1472);
    }
}
