//! The ring's windows: those that it tunes itself against the thesis's grid of fixed personal and accelerated windows, and the
//! accelerated against the original ring at equal windows.
use super::wires::{LEN, Load, Measured, Site, Wires, Work};
use consort_ring::{Acceleration, RingConfig, Windows};
use consort_sim::HostModel;
use consort_types::Duration;

/// How large the laboratory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    /// How many members.
    pub nodes: u64,
    /// How long each cell is measured, in simulated milliseconds.
    pub millis: u64,
}

impl Default for Lab {
    fn default() -> Self {
        Self { nodes: 8, millis: 150 }
    }
}

/// The grid's personal windows, in packets; of each none, half, three quarters and all may follow the token.
const PERSONAL: [u32; 6] = [10, 20, 40, 80, 160, 320];
const QUARTERS: [u32; 4] = [0, 2, 3, 4];
/// How long a ring with fixed windows runs before it is measured, and one that tunes them.
const BEFORE: (Duration, Duration) = (Duration::from_millis(40), Duration::from_millis(250));

/// A place, by name, and the load in megabits per second at which latency is told: the thesis's.
struct Place {
    name: &'static str,
    site: Site,
    load: f64,
}

/// Ethernet of one rate, with ports and sockets of so many KiB.
fn site(rate: u64, delay_us: u64, port: usize, socket: usize) -> Site {
    let host = HostModel { socket: socket << 10, ..HostModel::SERVER };
    Site { rate, delay: Duration::from_micros(delay_us), port: port << 10, loss: 0.0, host, clients: None }
}

const GIGABIT: u64 = 1_000_000_000;

fn places() -> [Place; 5] {
    let place = |name, site, load| Place { name, site, load };
    [
        place("1 Gb/s, ports of 256 KiB, sockets of 2 MiB", site(GIGABIT, 5, 256, 2048), 600.0),
        place("1 Gb/s, ports of 64 KiB, sockets of 2 MiB", site(GIGABIT, 5, 64, 2048), 600.0),
        place("1 Gb/s, ports of 256 KiB, sockets of 208 KiB", site(GIGABIT, 5, 256, 208), 600.0),
        place("10 Gb/s, ports of 512 KiB, sockets of 2 MiB", site(10 * GIGABIT, 3, 512, 2048), 1200.0),
        place("10 Gb/s, ports of 512 KiB, sockets of 208 KiB", site(10 * GIGABIT, 3, 512, 208), 1200.0),
    ]
}

/// Windows that stay as they are, counted in packets as in the thesis; all members may use theirs up in a rotation.
pub fn fixed(personal: u32, accelerated: u32, members: u64) -> Windows {
    let global = personal * members as u32;
    Windows { personal, accelerated, global, store: (4 * global).max(4096), ..Windows::SPREAD }
}

/// One row: throughput of a full ring, latency of a loaded one.
struct Row {
    full: Measured,
    loaded: Measured,
}

fn row(lab: &Lab, place: &Place, before: Duration, adjust: &dyn Fn(&mut RingConfig)) -> Result<Row, String> {
    let span = Duration::from_millis(lab.millis);
    let measure = |load| -> Result<Measured, String> {
        Ok(Wires::start(&place.site, lab.nodes as usize, Work::agreed(load), adjust)?.measure(before, span))
    };
    let rate = place.load * 1e6 / (LEN * 8) as f64;
    Ok(Row { full: measure(Load::Full)?, loaded: measure(Load::Rate(rate))? })
}

fn line(name: &str, row: &Row) -> String {
    let Row { full, loaded } = row;
    let broken = if full.broken + loaded.broken > 0 { "  ring broken" } else { "" };
    format!(
        "{name:>12} | {:>6.0} {:>7.1} {:>6} | {:>6.0} {:>6.0}{broken}\n",
        full.mbits, full.again, full.window, loaded.mean_us, loaded.p99_us
    )
}

/// The whole report.
///
/// # Errors
/// What kept a ring from being formed.
pub fn table(lab: &Lab) -> Result<String, String> {
    let mut text = head(lab);
    for place in &places() {
        let grid = grid(lab, place, &PERSONAL)?;
        text += &grid.text;
        text += &format!("tuned by the best: throughput {:.2}, latency {:.2}\n", grid.throughput, grid.latency);
    }
    text += "\nThe accelerated against the original ring at equal windows: Mbit/s when full, mean latency in us when loaded.\n\n";
    for nodes in [3, 8] {
        for place in [&places()[0], &places()[3]] {
            text += &compared(&Lab { nodes, ..lab.clone() }, place)?;
        }
    }
    Ok(text)
}

fn head(lab: &Lab) -> String {
    format!(
        "{} members on a switch, messages of {LEN} bytes, {} ms measured. Full: all always send; Mbit/s of payload at each member, \
         packets sent again in %, personal window. Loaded: at the thesis's rate; agreed latency in us.\n",
        lab.nodes, lab.millis
    )
}

/// What a grid showed.
struct Grid {
    text: String,
    /// Throughput of the tuned ring by that of the best cell.
    throughput: f64,
    /// Mean latency of the tuned ring by that of the best cell.
    latency: f64,
}

fn grid(lab: &Lab, place: &Place, personal: &[u32]) -> Result<Grid, String> {
    let mut text = format!(
        "\n{}, loaded with {} Mbit/s\n{:>12} | {:>6} {:>7} {:>6} | {:>6} {:>6}\n",
        place.name, place.load, "windows", "full", "again", "window", "mean", "p99"
    );
    let (mut fastest, mut soonest) = (0.0_f64, f64::INFINITY);
    for personal in personal {
        for quarters in QUARTERS {
            let accelerated = personal * quarters / 4;
            let row = row(lab, place, BEFORE.0, &|config| {
                // What is compared is the windows alone.
                let accelerated_from = config.windows.accelerated_from;
                config.windows = Windows { accelerated_from, ..fixed(*personal, accelerated, lab.nodes) };
            })?;
            (fastest, soonest) = (fastest.max(row.full.mbits), soonest.min(row.loaded.mean_us));
            text += &line(&format!("{personal}/{accelerated}"), &row);
        }
    }
    let tuned = row(lab, place, BEFORE.1, &|_| {})?;
    let (throughput, latency) = (tuned.full.mbits / fastest, tuned.loaded.mean_us / soonest);
    text += &line("tuned", &tuned);
    Ok(Grid { text, throughput, latency })
}

fn compared(lab: &Lab, place: &Place) -> Result<String, String> {
    let mut text = format!("{} members, {}\n", lab.nodes, place.name);
    for (personal, accelerated) in [(20, 15), (40, 30), (180, 135)] {
        let with = |acceleration| {
            row(lab, place, BEFORE.0, &move |config| {
                config.windows = fixed(personal, accelerated, lab.nodes);
                config.acceleration = acceleration;
            })
        };
        let (old, new) = (with(Acceleration::Original)?, with(Acceleration::Accelerated)?);
        text += &format!(
            "{:>12} | original {:>5.0} {:>5.0} | accelerated {:>5.0} {:>5.0} | throughput {:+.0} %, latency {:+.0} %\n",
            format!("{personal}/{accelerated}"),
            old.full.mbits,
            old.loaded.mean_us,
            new.full.mbits,
            new.loaded.mean_us,
            (new.full.mbits / old.full.mbits - 1.0) * 100.0,
            (new.loaded.mean_us / old.loaded.mean_us - 1.0) * 100.0,
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuned_windows_are_never_more_than_a_tenth_slower_than_the_best_fixed_ones() {
        //= R40 test
        //= R44 test
        let lab = Lab { nodes: 8, millis: 20 };
        for place in places().iter().take(3) {
            let grid = grid(&lab, place, &[20, 80]).unwrap();
            assert!(grid.throughput >= 0.9 && grid.latency <= 1.1, "{}", grid.text);
        }
    }

    #[test]
    fn the_accelerated_ring_is_faster_than_the_original_one_at_equal_windows() {
        let place = &places()[0];
        let measured = |acceleration| {
            let lab = Lab { nodes: 8, millis: 20 };
            row(&lab, place, BEFORE.0, &|config| {
                config.windows = fixed(20, 15, 8);
                config.acceleration = acceleration;
            })
            .unwrap()
        };
        let (old, new) = (measured(Acceleration::Original), measured(Acceleration::Accelerated));
        assert!(new.full.mbits >= 1.15 * old.full.mbits, "{} {}", new.full.mbits, old.full.mbits);
        assert!(new.loaded.mean_us <= 0.5 * old.loaded.mean_us, "{} {}", new.loaded.mean_us, old.loaded.mean_us);
    }
}
