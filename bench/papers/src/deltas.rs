//! What PLATO gains and risks by how close packets must come to be suspected.
use super::plato;
use consort_types::Duration;
use std::fmt::Write;

/// How large the laboratory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    /// How many seconds each figure takes.
    pub seconds: u64,
}

impl Default for Lab {
    fn default() -> Self {
        Self { seconds: 60 }
    }
}

/// Packets a second, and after how many the sequencer tells places.
const CELLS: [(u64, u32); 4] = [(400, 10), (400, 25), (1_600, 10), (1_600, 25)];
/// In microseconds.
const DELTAS: [u64; 10] = [8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096];

/// The whole table.
///
/// # Errors
/// What kept a run from its end.
pub fn table(seed: u64, lab: &Lab) -> Result<String, String> {
    table_of(seed, lab, &DELTAS)
}

fn table_of(seed: u64, lab: &Lab, deltas: &[u64]) -> Result<String, String> {
    let mut text = format!(
        "PLATO by delta: {} s each, Poisson, the network of `lab plato`. Mean latency at a receiver in ms; late revokes in % \
         of packets.\n\n{:>8}",
        lab.seconds, "pkt/s, k"
    );
    // Writing to a string does not fail.
    CELLS.iter().for_each(|(rate, every)| _ = write!(text, " | {:>15}", format!("{rate}, {every}")));
    text += "\ndelta us";
    CELLS.iter().for_each(|_| text += " |     mean   late");
    let mut fixed = String::from("\nfixed   ");
    for delta in deltas {
        let _ = write!(text, "\n{delta:>8}");
        for (rate, every) in CELLS {
            let of = plato::Lab {
                seconds: lab.seconds,
                delta: Some(Duration::from_micros(*delta)),
                ..plato::Lab::default()
            };
            let measured = plato::run(seed, &of, every, rate, lab.seconds, None)?;
            let part = measured.part(0..u64::MAX);
            let _ = write!(text, " | {:>8.2} {:>6.2}", part.plato.summary().mean, measured.late_percent());
            if delta == deltas.last().unwrap_or(delta) {
                let _ = write!(fixed, " | {:>8.2}       ", part.fixed.summary().mean);
            }
        }
    }
    Ok(text + &fixed + "\npaper: latency rises with delta, rollbacks fall, and the sequencer is always slower\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_delta_is_slower_and_safer() {
        let table = table_of(1, &Lab { seconds: 4 }, &[8, 1_024]).unwrap();
        let rows: Vec<Vec<f64>> = table
            .lines()
            .filter(|line| line.trim_start().starts_with(['8', '1']) && line.contains('|'))
            .map(|line| line.split([' ', '|']).filter_map(|word| word.parse().ok()).collect())
            .collect();
        assert_eq!((rows.len(), rows[0].len()), (2, 9), "{table}");
        for cell in 0..4 {
            let (mean, late) = (1 + 2 * cell, 2 + 2 * cell);
            assert!(rows[0][mean] < rows[1][mean] && rows[0][late] > rows[1][late], "{table}");
        }
    }
}
