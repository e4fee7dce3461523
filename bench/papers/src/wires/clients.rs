//! Client processes beside the daemons: one that sends, one that receives, each over a socket of the machine.
use consort_types::{Duration, Instant};

/// What a message between a client and its daemon costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientModel {
    /// The daemon reads it or writes it.
    pub daemon: Duration,
    /// The client writes it or reads it.
    pub client: Duration,
    /// Each byte of it, on either side, in picoseconds.
    pub picos_per_byte: u64,
    /// After how many packets in a row the daemon looks at its clients; it does so, too, when there are none.
    pub packets: u32,
    /// How many bytes it reads or writes then.
    pub piece: usize,
    /// How many bytes a sender is ahead of its daemon at most.
    pub room: usize,
    /// Clients run on the daemon's core: what they do, it waits for. Else each has a core of its own.
    pub share: bool,
}

impl ClientModel {
    /// What a piece of a message costs the daemon, of which so many bytes came before.
    pub const fn at_daemon(&self, before: usize, piece: usize) -> Duration {
        let whole = if before == 0 { self.daemon.as_nanos() as u64 } else { 0 };
        Duration::from_nanos(whole + self.copy(piece))
    }

    /// What a message of so many bytes costs a client.
    pub const fn at_client(&self, len: usize) -> Duration {
        Duration::from_nanos(self.client.as_nanos() as u64 + self.copy(len))
    }

    const fn copy(&self, len: usize) -> u64 {
        len as u64 * self.picos_per_byte / 1_000
    }
}

/// A client, and when it has done all it was given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client {
    /// For one that always writes: when the next message can be read.
    pub free: Instant,
}

impl Client {
    /// It does what takes so long once it has been given it, and once it is awake if it slept. Returns when that is done.
    pub fn work(&mut self, given: Instant, wake: Duration, takes: Duration) -> Instant {
        let begins = if self.free <= given { given + wake } else { self.free };
        self.free = begins + takes;
        self.free
    }

    /// A message of one that always writes was read. Each takes so long to write, and this many are written ahead at most.
    pub fn write_on(&mut self, now: Instant, takes: Duration, ahead: usize) {
        let earliest = now.0.saturating_sub(takes.as_nanos() as u64 * ahead as u64);
        self.free = self.free.max(Instant(earliest)) + takes;
    }
}

/// Where clients are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// A sender and a receiver on every host.
    Everywhere,
    /// Senders on this many hosts, receivers on all.
    First(usize),
    /// A sender on one host, a receiver on the next, and so on.
    Alternate,
}

impl Places {
    /// Whether the clients of a host send.
    pub const fn send(self, host: usize) -> bool {
        match self {
            Self::Everywhere => true,
            Self::First(senders) => host < senders,
            Self::Alternate => host.is_multiple_of(2),
        }
    }

    /// Whether they receive.
    pub const fn receive(self, host: usize) -> bool {
        match self {
            Self::Everywhere | Self::First(_) => true,
            Self::Alternate => !host.is_multiple_of(2),
        }
    }

    /// The hosts of so many whose clients send.
    pub fn senders(self, hosts: usize) -> Vec<usize> {
        (0..hosts).filter(|host| self.send(*host)).collect()
    }

    /// How many of so many have clients that receive.
    pub fn receivers(self, hosts: usize) -> usize {
        (0..hosts).filter(|host| self.receive(*host)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: ClientModel = ClientModel {
        daemon: Duration::from_micros(2),
        client: Duration::from_micros(3),
        picos_per_byte: 500,
        packets: 1,
        piece: 10_000,
        room: 10_000,
        share: false,
    };

    #[test]
    fn a_message_costs_both_sides_by_itself_and_by_its_bytes() {
        assert_eq!(MODEL.at_daemon(0, 1_000), Duration::from_nanos(2_500));
        assert_eq!(MODEL.at_daemon(1_000, 1_000), Duration::from_nanos(500), "it goes on");
        assert_eq!(MODEL.at_client(1_000), Duration::from_nanos(3_500));
    }

    #[test]
    fn a_client_that_sleeps_is_woken_and_one_that_works_goes_on() {
        let (mut client, wake, takes) = (Client::default(), Duration::from_nanos(100), Duration::from_nanos(10));
        let mut work = |given| client.work(Instant(given), wake, takes).0;
        assert_eq!([work(1_000), work(1_050), work(1_120), work(1_130)], [1_110, 1_120, 1_230, 1_240]);
    }

    #[test]
    fn a_writer_is_ahead_by_as_much_as_has_room() {
        let (mut client, takes) = (Client::default(), Duration::from_nanos(10));
        let mut next = || {
            client.write_on(Instant(1_000), takes, 2);
            client.free.0
        };
        assert_eq!([next(), next(), next()], [990, 1_000, 1_010], "two had been written before");
    }

    #[test]
    fn clients_are_where_the_work_says() {
        assert_eq!((Places::Alternate.senders(5), Places::Alternate.receivers(5)), (vec![0, 2, 4], 2));
        assert_eq!((Places::Everywhere.senders(2), Places::Everywhere.receivers(2)), (vec![0, 1], 2));
        assert_eq!((Places::First(1).senders(3), Places::First(9).senders(2)), (vec![0], vec![0, 1]));
        assert_eq!(Places::First(1).receivers(3), 3);
    }
}
