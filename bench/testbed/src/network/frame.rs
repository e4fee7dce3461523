//! What the switch needs to know of an Ethernet frame.

/// The address of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac([u8; 6]);

impl Mac {
    /// True for multicast and broadcast: every other port gets such a frame.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// True for the address of all stations, by which they look for each other (ARP).
    pub fn is_broadcast(self) -> bool {
        self.0 == [0xff; 6]
    }
}

const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;

/// Destination and source; `None` for a frame too short to have both.
pub fn addresses(frame: &[u8]) -> Option<(Mac, Mac)> {
    let (to, rest) = frame.split_first_chunk()?;
    Some((Mac(*to), Mac(*rest.first_chunk()?)))
}

/// Flips one bit of what an IPv4 packet carries, such that `bit` (any number) chooses which. False, and nothing
/// changed, where there is none to flip.
///
/// A bit that flips on a wire is caught by the frame's checksum and is a loss. What is modelled here is the worse case,
/// a bit that flips inside a switch or in memory: the UDP checksum is cleared (RFC 768: "not computed"), or the kernel
/// would drop the datagram and the program's own checksum would never be tried. Only fragments behind the first cannot
/// be cleared; they become a loss.
pub fn corrupt(frame: &mut [u8], bit: usize) -> bool {
    let Some((from, to)) = payload(frame) else { return false };
    let bit = bit % ((to - from) * 8);
    consort_sim::link::flip(&mut frame[from..to], bit);
    true
}

/// Where the bytes lie that an IPv4 packet carries (behind the UDP header, if it begins here), its checksum cleared.
fn payload(frame: &mut [u8]) -> Option<(usize, usize)> {
    let packet = frame.get_mut(ETHERNET..)?;
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let end = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?])).min(packet.len());
    let begins_here = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff == 0;
    let is_udp = *packet.get(9)? == UDP;
    let mut from = header;
    if is_udp && begins_here {
        packet.get_mut(header + 6..header + UDP_HEADER)?.fill(0);
        from += UDP_HEADER;
    }
    (frame[12..ETHERNET] == IPV4 && from < end).then_some((ETHERNET + from, ETHERNET + end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet of `protocol` in a frame; `offset` in units of 8 bytes, as in the fragment field.
    fn frame(protocol: u8, offset: u16, body: &[u8]) -> Vec<u8> {
        let mut frame = [[0xff; 6], [2; 6]].concat();
        frame.extend(IPV4);
        let mut header = [0; 20];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&(20 + body.len() as u16).to_be_bytes());
        header[6..8].copy_from_slice(&offset.to_be_bytes());
        header[9] = protocol;
        frame.extend(header);
        frame.extend(body);
        frame
    }

    fn changed(before: &[u8], after: &[u8]) -> Vec<usize> {
        (0..before.len()).filter(|&i| before[i] != after[i]).collect()
    }

    #[test]
    fn addresses_tell_groups_from_single_ports() {
        let (to, from) = addresses(&frame(UDP, 0, b"")).unwrap();
        assert!(to.is_group() && !from.is_group());
        assert_eq!(addresses(&[0; 11]), None);
    }

    #[test]
    fn corruption_spares_all_headers_and_silences_the_udp_checksum() {
        let whole = frame(UDP, 0, &[0xaa; 18]);
        for bit in 0..1_000 {
            let mut hurt = whole.clone();
            assert!(corrupt(&mut hurt, bit));
            let at = changed(&whole, &hurt);
            assert_eq!(at[..2], [14 + 26, 14 + 27], "the checksum");
            assert_eq!(at.len(), 3);
            assert!((14 + 28..whole.len()).contains(&at[2]));
        }
    }

    #[test]
    fn corruption_of_a_later_fragment_touches_one_byte() {
        let whole = frame(UDP, 185, &[0xaa; 18]);
        let mut hurt = whole.clone();
        assert!(corrupt(&mut hurt, 12_345));
        assert_eq!(changed(&whole, &hurt).len(), 1);
    }

    #[test]
    fn frames_without_anything_to_hurt_stay_as_they_are() {
        let mut arp = frame(1, 0, b"ping");
        arp[13] = 0x06;
        for mut whole in [arp, frame(UDP, 0, &[0; 8]), frame(1, 0, b""), vec![0; 13], vec![], vec![0xff; 60]] {
            let before = whole.clone();
            assert!(!corrupt(&mut whole, 7));
            assert_eq!(whole.len(), before.len());
        }
        for len in 0..40 {
            corrupt(&mut frame(UDP, 0, &[1; 20])[..len], 99);
        }
    }
}
