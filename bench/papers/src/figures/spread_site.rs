//! The hosts of the thesis's sixth chapter: daemons with client processes, on the switches of the fifth.
use super::ring_grid::{self, Network};
use super::scale::Scale;
use crate::wires::{ClientModel, Load, Measured, Site, Wires, Work};
use consort_ring::{Priority, RingConfig};
use consort_types::Duration;

/// How many hosts, where no other number is named.
pub const DAEMONS: usize = 8;
/// How long a ring runs before it is measured.
const BEFORE: Duration = Duration::from_millis(30);

/// Clients of the machines of chapter 5: four cores are enough for each to have its own. The cost of a byte, and when and how
/// much a daemon reads and writes, are set by figure 6.18's throughput of eight daemons.
const CLIENTS: ClientModel = ClientModel {
    daemon: Duration::from_micros(2),
    client: Duration::from_micros(2),
    picos_per_byte: 930,
    packets: 12,
    piece: 32 << 10,
    room: 200 << 10,
    share: false,
};

/// Where a daemon and its clients run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// On the machine itself.
    Native,
    /// In Xen's first domain.
    Dom0,
    /// In a virtual machine of Xen.
    Guest,
}

impl Machine {
    /// How much longer a packet takes on either side of the switch, because it passes the hypervisor. The two values are
    /// set by what the thesis's accelerated ring loses there.
    pub const fn late(self) -> Duration {
        match self {
            Self::Native => Duration::ZERO,
            Self::Dom0 => Duration::from_micros(48),
            Self::Guest => Duration::from_micros(64),
        }
    }
}

/// Daemons with windows that stay, and what their clients do.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub network: &'static Network,
    pub machine: Machine,
    pub daemons: usize,
    pub personal: u32,
    /// None for the original ring.
    pub accelerated: Option<u32>,
    pub priority: Priority,
    pub work: Work,
}

impl Case {
    /// Eight daemons, and a client on each that always has agreed messages to send.
    pub const fn full(network: &'static Network, personal: u32, accelerated: Option<u32>) -> Self {
        let (machine, priority, work) = (Machine::Native, Priority::Method1, Work::agreed(Load::Full));
        Self { network, machine, daemons: DAEMONS, personal, accelerated, priority, work }
    }

    /// Runs for so many milliseconds.
    ///
    /// # Errors
    /// What kept a ring from being formed.
    pub fn run(&self, scale: Scale, millis: u64) -> Result<Measured, String> {
        let site = self.site();
        let mut wires = Wires::start(&site, self.daemons, self.work, &|config| self.configure(config))?;
        Ok(wires.measure(BEFORE, Duration::from_millis(scale.scaled(millis))))
    }

    fn configure(&self, config: &mut RingConfig) {
        ring_grid::configure(config, self.daemons, self.personal, self.accelerated);
        config.priority = self.priority;
    }

    fn site(&self) -> Site {
        let site = self.network.site();
        Site { delay: site.delay + self.machine.late(), clients: Some(CLIENTS), ..site }
    }
}

/// How it is run, but for the load.
pub fn setting(network: &Network) -> String {
    format!(
        "Daemons on {} A message from or to a client takes {:?} on either side, and {} ps a byte; clients have cores of their \
         own. A daemon looks at them when no packet waits and after {} packets, and then reads and writes up to {} KiB.",
        network.setting(),
        CLIENTS.daemon,
        CLIENTS.picos_per_byte,
        CLIENTS.packets,
        CLIENTS.piece >> 10,
    )
}

#[cfg(test)]
mod tests {
    use super::super::ring_grid::{GIGABIT, TEN_GIGABIT};
    use super::*;
    use crate::wires::Places;
    use consort_sim::CoreModel;

    const SCALE: Scale = Scale { seed: 1, quick: true };

    fn carried(case: &Case, adjust: impl Fn(&mut Site)) -> f64 {
        let mut site = case.site();
        adjust(&mut site);
        let mut wires = Wires::start(&site, case.daemons, case.work, &|config| case.configure(config)).unwrap();
        wires.measure(BEFORE, Duration::from_millis(10)).mbits
    }

    #[test]
    fn clients_cost_throughput_and_more_so_on_the_core_of_their_daemon() {
        let case = Case { daemons: 3, ..Case::full(&TEN_GIGABIT, 20, Some(20)) };
        let with = |clients: Option<ClientModel>| carried(&case, |site| site.clients = clients);
        let own = with(Some(CLIENTS));
        assert!(with(None) > 1.2 * own, "{own}");
        assert!(own > 1.2 * with(Some(ClientModel { share: true, ..CLIENTS })), "{own}");
    }

    #[test]
    fn receivers_are_given_all_that_is_sent_and_senders_nothing() {
        let work = Work { places: Places::Alternate, ..Work::agreed(Load::Rate(20_000.0)) };
        let case = Case { daemons: 4, work, ..Case::full(&GIGABIT, 20, Some(20)) };
        let measured = case.run(SCALE, 1_000).unwrap();
        assert!((measured.mbits / (20_000.0 * 1_350.0 * 8.0 / 1e6) - 1.0).abs() < 0.1, "{measured:?}");
    }

    #[test]
    fn long_messages_pass_in_pieces_and_a_virtual_machine_carries_less() {
        let work = Work { len: 100_000, ..Work::agreed(Load::Full) };
        let case = Case { daemons: 3, work, ..Case::full(&TEN_GIGABIT, 20, Some(20)) };
        let native = carried(&case, |_| ());
        let guest = carried(&Case { machine: Machine::Guest, ..case }, |_| ());
        assert!(guest > 0.0 && native > 1.2 * guest, "{native} {guest}");
    }

    #[test]
    fn a_slow_network_core_with_little_room_carries_less() {
        let case = Case { daemons: 3, ..Case::full(&TEN_GIGABIT, 20, Some(20)) };
        let slow = CoreModel { datagram: Duration::from_micros(20), picos_per_byte: 0, ring: 4 };
        let whole = carried(&case, |_| ());
        let slowed = carried(&case, |site| site.host.core = Some(slow.clone()));
        assert!(whole > 1.5 * slowed, "{whole} {slowed}");
    }
}
