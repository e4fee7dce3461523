//! What the kernel counts for all UDP sockets of a network namespace.
use std::fs;

/// How many datagrams found no room in their socket: `RcvbufErrors` and `MemErrors`. `None` if the kernel does not tell.
pub(crate) fn udp_overflows() -> Option<u64> {
    read(&fs::read_to_string("/proc/self/net/snmp").ok()?)
}

fn read(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next()?.split_whitespace(), lines.next()?.split_whitespace());
    let counted = names.zip(values).filter(|(name, _)| matches!(*name, "RcvbufErrors" | "MemErrors"));
    let counted: Vec<u64> = counted.filter_map(|(_, value)| value.parse().ok()).collect();
    if counted.is_empty() { None } else { Some(counted.iter().sum()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_found_by_their_names() {
        let text = "Ip: A B\nIp: 1 2\nUdp: InDatagrams InErrors RcvbufErrors SndbufErrors MemErrors\nUdp: 9 8 7 6 5\n";
        assert_eq!(read(text), Some(12));
        assert_eq!(read("Udp: InDatagrams RcvbufErrors\nUdp: 9 7\n"), Some(7));
        assert_eq!((read("Udp: InDatagrams\nUdp: 9\n"), read("Udp: RcvbufErrors\n"), read("")), (None, None, None));
    }
}
