//! How much may be sent.
use crate::config::{RingConfig, Windows};
use crate::load::SentLoad;
use crate::packet::Token;

/// What is under way: numbered, but not known to be held by all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnstableLoad {
    /// Places between the stable line and the token's seq.
    pub packets: u64,
    /// Bytes in the store.
    pub bytes: usize,
}

/// Who has sent what in the rotation that ends here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    /// What this member sent at its last visit.
    pub mine: SentLoad,
    /// How many members there are.
    pub members: u32,
}

impl Shares {
    /// What the global window leaves to this member: what the others did not use, but an equal part at least. With fixed
    /// windows it is what the papers say: the fcc that arrives still contains this member's own last visit, and the personal
    /// window makes up for that.
    fn left(self, w: &Windows, global: SentLoad, fcc: SentLoad) -> SentLoad {
        //= R8
        //= R44
        if w.tuning.is_none() {
            return global.plus(SentLoad { packets: w.personal, bytes: w.personal_bytes }).minus(fcc);
        }
        let left = global.minus(fcc.minus(self.mine));
        let part = |global: u32, left: u32| left.max(global / self.members.max(1)).max(1);
        SentLoad { packets: part(global.packets, left.packets), bytes: part(global.bytes, left.bytes) }
    }
}

/// How much one visit may add: the least of what the ring's, the member's and the store's windows leave.
pub(crate) fn allowance(config: &RingConfig, token: &Token, shares: Shares, under_way: UnstableLoad) -> SentLoad {
    //= R8
    let w = &windows(config, token);
    let fcc = if crate::mutated!(config, WindowIgnored) { SentLoad::default() } else { token.fcc };
    let global_bytes = global_bytes(config, w, token);
    let datagram = if w.tuning.is_some() { config.datagram.get() as u32 } else { 0 };
    let store = store_room(config, under_way);
    let left = shares.left(w, SentLoad { packets: w.global, bytes: global_bytes }, fcc);
    let packets = w.global.min(w.personal).min(left.packets).min(store.packets);
    let bytes = global_bytes.min(w.personal_bytes).min(left.bytes.max(datagram)).min(store.bytes);
    if crate::mutated!(config, WindowIgnored) {
        return SentLoad { packets: w.store.saturating_mul(2), bytes: u32::MAX };
    }
    SentLoad { packets, bytes }
}

/// The windows of the rotation that a token is on.
pub(crate) fn windows(config: &RingConfig, token: &Token) -> Windows {
    //= R41
    let personal = u32::from(token.personal);
    let largest = crate::mutated!(config, TokensWindowIgnored);
    if largest { config.windows.largest() } else { config.windows_at(personal) }
}

/// Whether larger windows would let a visit that `allowed` so much send more: neither the store nor what receivers have
/// room for bound it.
pub(crate) fn windows_bind(config: &RingConfig, token: &Token, allowed: SentLoad, under_way: UnstableLoad) -> bool {
    //= R39
    let (store, room) = (store_room(config, under_way), token.window);
    let by_store = store.packets <= allowed.packets || store.bytes <= allowed.bytes;
    !by_store && room >= windows(config, token).global_bytes
}

/// Whether a visit that `allowed` so much is kept short by the store's window.
pub(crate) fn store_binds(config: &RingConfig, w: &Windows, allowed: SentLoad, under_way: UnstableLoad) -> bool {
    //= R38
    let store = store_room(config, under_way);
    let short = |room: u32, allowed: u32, personal: u32| room <= allowed && room < personal;
    short(store.packets, allowed.packets, w.personal) || short(store.bytes, allowed.bytes, w.personal_bytes)
}

/// What is left of the store's window.
fn store_room(config: &RingConfig, under_way: UnstableLoad) -> SentLoad {
    let w = &config.windows;
    let packets = u64::from(w.store).saturating_sub(under_way.packets);
    let bytes = (w.store_bytes as usize).saturating_sub(under_way.bytes);
    SentLoad { packets: u32::try_from(packets).unwrap_or(u32::MAX), bytes: u32::try_from(bytes).unwrap_or(u32::MAX) }
}

/// The bytes of a rotation: what is configured, or what the slowest receiver has room for, but always a datagram.
fn global_bytes(config: &RingConfig, w: &Windows, token: &Token) -> u32 {
    //= R9
    w.global_bytes.min(token.window).max(config.datagram.get() as u32)
}

/// The room this node reports: half of what its sockets hold, because two rotations may overlap.
pub(crate) fn reported_room(config: &RingConfig) -> u32 {
    //= R9
    u32::try_from(config.receive_room / 2).unwrap_or(u32::MAX)
}

/// The furthest sequence number that can be in use beyond the stable line, whatever the neighbours' settings are at the
/// moment: fixed maxima, never somebody's current value.
pub(crate) fn reach(windows: &Windows) -> u64 {
    //= R24
    let windows = windows.largest();
    windows.store as u64 + windows.global as u64 + windows.personal as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::NodeId;

    fn config() -> RingConfig {
        RingConfig {
            windows: Windows { accelerated_from: 1, ..Windows::SPREAD },
            ..RingConfig::new(NodeId(1), vec![NodeId(1)])
        }
    }

    fn token(packets: u32) -> Token {
        Token { fcc: SentLoad { packets, bytes: packets * 1000 }, window: u32::MAX, ..Token::default() }
    }

    const ALONE: Shares = Shares { mine: SentLoad { packets: 0, bytes: 0 }, members: 1 };
    const NOTHING: UnstableLoad = UnstableLoad { packets: 0, bytes: 0 };

    #[test]
    fn the_personal_window_bounds_a_quiet_ring_and_the_rotation_a_busy_one() {
        //= R8 test
        assert_eq!(allowance(&config(), &token(0), ALONE, NOTHING).packets, 20);
        assert_eq!(allowance(&config(), &token(160), ALONE, NOTHING).packets, 20);
        assert_eq!(allowance(&config(), &token(170), ALONE, NOTHING).packets, 10);
        assert_eq!(allowance(&config(), &token(180), ALONE, NOTHING).packets, 0);
        assert_eq!(allowance(&config(), &token(9999), ALONE, NOTHING).packets, 0);
    }

    #[test]
    fn tuned_windows_leave_each_what_the_others_do_not_use_but_an_equal_part_at_least() {
        //= R44 test
        let config = RingConfig { windows: Windows::default(), ..config() };
        let visit = |fcc: u32, mine: u32| {
            let load = |packets: u32| SentLoad { packets, bytes: packets * 1_400 };
            let shares = Shares { mine: load(mine), members: 8 };
            let token = Token { personal: 180, fcc: load(fcc), ..token(0) };
            allowance(&config, &token, shares, NOTHING).packets
        };
        assert_eq!(visit(0, 0), 180, "alone: all of the personal window");
        assert_eq!(visit(180, 180), 180, "its own last visit does not count");
        assert_eq!(visit(540, 67), 67);
        assert_eq!(visit(900, 180), 67, "others took too much: an equal part is left");
        assert_eq!(visit(500, 60), 100, "others leave some");
    }

    #[test]
    fn a_full_store_stops_everything() {
        //= R8 test
        let under_way = |packets| UnstableLoad { packets, bytes: 0 };
        assert_eq!(allowance(&config(), &token(0), ALONE, under_way(1590)).packets, 10);
        assert_eq!(allowance(&config(), &token(0), ALONE, under_way(1600)).packets, 0);
        assert_eq!(allowance(&config(), &token(0), ALONE, under_way(5000)).packets, 0);
    }

    #[test]
    fn the_store_binds_where_nothing_else_leaves_less() {
        //= R38 test
        let binds = |packets, bytes| {
            let under_way = UnstableLoad { packets, bytes };
            store_binds(&config(), &config().windows, allowance(&config(), &token(0), ALONE, under_way), under_way)
        };
        assert!(!binds(0, 0) && !binds(1580, 0));
        assert!(binds(1581, 0) && binds(1600, 0) && binds(0, 1) && binds(0, u32::MAX as usize));
    }

    #[test]
    fn the_least_room_bounds_the_bytes_but_a_datagram_always_fits() {
        //= R9 test
        let small = Token { window: 10_000, ..token(0) };
        assert_eq!(allowance(&config(), &small, ALONE, NOTHING).bytes, 10_000);
        let none = Token { window: 0, ..token(0) };
        assert_eq!(allowance(&config(), &none, ALONE, NOTHING).bytes, 1472);
    }
}
