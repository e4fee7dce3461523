//! The command line of `cargo chaos lines`.
use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use crate::command::{self, Misuse};
use consort_sim::link::LinkModel;
use consort_testbed::units::{number, span};

/// What `--help` prints.
pub const HELP: &str = "\
Usage: cargo chaos lines [options]

Runs real daemons in network namespaces. This needs Linux, root, /dev/net/tun, and
the program `ip` (apt-get install iproute2). The switch between the daemons runs
the simulator's link model in real time. Lines are sent at all nodes at once and
received at all; every node must deliver the same sequence, and each line exactly
once, while the daemons' memory stays flat.

  --nodes N        daemons, 1 to 64 [3]
  --lines N        lines in total [1000000]
  --loss P         probability that a frame is lost [0.02]
  --duplicate P    ... arrives twice [0]
  --reorder P      ... is held back so that later ones overtake it [0]
  --corrupt P      ... arrives with one bit flipped [0]
  --delay T        how long each frame needs, such as 250us or 5ms [0ms]
  --jitter T       up to so much more, anew for each frame [1ms]
  --tail T         on average so much more, now and then far more [0ms]
  --rate BITS      bits per second and direction, such as 100M [no limit]
  --queue BYTES    how much may wait for that rate [256k]
  --cut A-B@T+D    nothing passes from node A to node B from T after the start on,
                   for D; such as 1-2@3s+500ms; may be given several times
  --datagram N     bytes of one datagram [the daemon's own default]; where it needs
                   many frames and some are lost, the kernel's room for fragments
                   (4 MiB) fills up, and frees itself only after 30 s
  --mtu N          bytes of a packet that fit one frame [1500]
  --seed S         what all chance comes from [taken from the clock, and printed]
  --deadline T     give up after this time [10m]
  --keep           when done, keep network and logs for a look inside until Ctrl-C
";

/// A way that carries nothing for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// From which node, counted from 0.
    pub from: usize,
    /// To which node.
    pub to: usize,
    /// When, after the senders started.
    pub start: Duration,
    /// For how long.
    pub length: Duration,
}

/// What is asked of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub nodes: usize,
    pub lines: u64,
    pub model: LinkModel,
    pub cuts: Vec<Cut>,
    pub datagram: Option<usize>,
    pub mtu: usize,
    pub seed: Option<u64>,
    pub deadline: Duration,
    pub keep: bool,
}

impl Default for Options {
    fn default() -> Self {
        let (loss, jitter, queue) = (0.02, Duration::from_millis(1), 256_000);
        Self {
            nodes: 3,
            lines: 1_000_000,
            model: LinkModel { loss, jitter, queue, ..LinkModel::default() },
            cuts: Vec::new(),
            datagram: None,
            mtu: 1_500,
            seed: None,
            deadline: Duration::from_secs(600),
            keep: false,
        }
    }
}

impl Options {
    /// Reads the words behind the command's name.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, Misuse> {
        let mut options = Self::default();
        command::read(words, |word, parser| options.take(&word.option()?, parser))?;
        options.check().map_err(Some)?;
        Ok(options)
    }

    fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<(), String> {
        let mut value = || -> Result<Value, String> {
            let value = parser.value().map_err(|_| format!("{name} needs a value; see --help"))?;
            Ok(Value { name: name.into(), text: value.to_string_lossy().into_owned() })
        };
        let model = &mut self.model;
        match name {
            "--keep" => self.keep = true,
            "--nodes" => self.nodes = value()?.number(1..=64)? as usize,
            "--lines" => self.lines = value()?.number(1..=1_000_000_000)?,
            "--loss" => model.loss = value()?.probability()?,
            "--duplicate" => model.duplicate = value()?.probability()?,
            "--reorder" => model.reorder = value()?.probability()?,
            "--corrupt" => model.corrupt = value()?.probability()?,
            "--delay" => model.delay = value()?.span()?,
            "--jitter" => model.jitter = value()?.span()?,
            "--tail" => model.tail = value()?.span()?,
            "--rate" => model.rate = Some(value()?.number(1_000..=1_000_000_000_000)?),
            "--queue" => model.queue = value()?.number(1..=1 << 30)? as usize,
            "--cut" => self.cuts.push(value()?.cut()?),
            "--datagram" => self.datagram = Some(value()?.number(576..=65_000)? as usize),
            "--mtu" => self.mtu = value()?.number(576..=65_521)? as usize,
            "--seed" => self.seed = Some(value()?.number(0..=u64::MAX)?),
            "--deadline" => self.deadline = value()?.span()?,
            _ => return Err(format!("{name}: there is no such option; --help lists the options")),
        }
        Ok(())
    }

    /// What no option can tell by itself.
    fn check(&self) -> Result<(), String> {
        let outside = |cut: &&Cut| cut.from.max(cut.to) >= self.nodes || cut.from == cut.to;
        match self.cuts.iter().find(outside) {
            Some(cut) => Err(format!("--cut {cut}: give two different nodes from 1 to {}", self.nodes)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}@{}ms+{}ms", self.from + 1, self.to + 1, self.start.as_millis(), self.length.as_millis())
    }
}

impl fmt::Display for Options {
    /// The options that lead to this run again, but for the seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (model, plain) = (&self.model, LinkModel::default());
        write!(f, "--nodes {} --lines {} --loss {}", self.nodes, self.lines, model.loss)?;
        write!(f, " --delay {}us --jitter {}us", model.delay.as_micros(), model.jitter.as_micros())?;
        if !model.tail.is_zero() {
            write!(f, " --tail {}us", model.tail.as_micros())?;
        }
        for (name, p) in [("duplicate", model.duplicate), ("reorder", model.reorder), ("corrupt", model.corrupt)] {
            if p > 0.0 {
                write!(f, " --{name} {p}")?;
            }
        }
        if let Some(rate) = model.rate.filter(|_| model.rate != plain.rate) {
            write!(f, " --rate {rate} --queue {}", model.queue)?;
        }
        self.cuts.iter().try_for_each(|cut| write!(f, " --cut {cut}"))?;
        self.datagram.iter().try_for_each(|bytes| write!(f, " --datagram {bytes}"))?;
        if self.mtu == 1_500 { Ok(()) } else { write!(f, " --mtu {}", self.mtu) }
    }
}

/// The value of an option.
struct Value {
    name: String,
    text: String,
}

impl Value {
    fn wrong<T>(&self, wanted: &str) -> Result<T, String> {
        Err(format!("{}: `{}` does not fit; give {wanted}", self.name, self.text))
    }

    /// `1000`, `1_000`, `100k`, `1.5M`; a seed also in hexadecimal, `0x1f`.
    fn number(&self, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
        match number(&self.text).filter(|number| range.contains(number)) {
            Some(number) => Ok(number),
            None => self.wrong(&format!("a number from {} to {}", range.start(), range.end())),
        }
    }

    fn probability(&self) -> Result<f64, String> {
        match self.text.parse().ok().filter(|p| (0.0..=1.0).contains(p)) {
            Some(p) => Ok(p),
            None => self.wrong("a probability from 0 to 1, such as 0.02"),
        }
    }

    fn span(&self) -> Result<Duration, String> {
        span(&self.text).map_or_else(|| self.wrong("a time with its unit, such as 250us, 5ms, 2s or 1m"), Ok)
    }

    fn cut(&self) -> Result<Cut, String> {
        cut(&self.text).map_or_else(|| self.wrong("FROM-TO@START+LENGTH, such as 1-2@3s+500ms"), Ok)
    }
}

fn cut(text: &str) -> Option<Cut> {
    let (pair, time) = text.split_once('@')?;
    let ((from, to), (start, length)) = (pair.split_once('-')?, time.split_once('+')?);
    let node = |text: &str| text.parse::<usize>().ok()?.checked_sub(1);
    Some(Cut { from: node(from)?, to: node(to)?, start: span(start)?, length: span(length)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, Misuse> {
        Options::read(line.split_whitespace().map(OsString::from))
    }

    fn problem(line: &str) -> String {
        read(line).unwrap_err().unwrap()
    }

    #[test]
    fn nothing_asks_for_what_the_acceptance_run_wants() {
        let options = read("").unwrap();
        assert_eq!((options.nodes, options.lines, options.model.loss), (3, 1_000_000, 0.02));
        assert_eq!((options.model.jitter, options.model.delay), (Duration::from_millis(1), Duration::ZERO));
    }

    #[test]
    fn the_printed_form_leads_to_the_same_run() {
        let line = "--nodes 4 --lines 5k --loss 0.1 --delay 250us --jitter 2ms --tail 15us --duplicate 0.5 --reorder 0.25 \
                    --corrupt 0.01 --rate 1.5M --queue 10k --cut 1-4@3s+500ms --cut 2-1@0s+1s --datagram 9000 --mtu 9000";
        let options = read(line).unwrap();
        assert_eq!(options.model.rate, Some(1_500_000));
        let (start, length) = (Duration::from_secs(3), Duration::from_millis(500));
        assert_eq!(options.cuts[0], Cut { from: 0, to: 3, start, length });
        assert_eq!(read(&options.to_string()).unwrap(), options);
        let plain = read("").unwrap();
        assert_eq!(read(&plain.to_string()).unwrap(), plain);
    }

    #[test]
    fn wrong_lines_name_option_value_and_what_fits() {
        assert_eq!(problem("--loss 2"), "--loss: `2` does not fit; give a probability from 0 to 1, such as 0.02");
        assert_eq!(problem("--nodes 65"), "--nodes: `65` does not fit; give a number from 1 to 64");
        assert_eq!(
            problem("--delay 5"),
            "--delay: `5` does not fit; give a time with its unit, such as 250us, 5ms, 2s or 1m"
        );
        assert_eq!(problem("--lines"), "--lines needs a value; see --help");
        assert_eq!(problem("--loess 1"), "--loess: there is no such option; --help lists the options");
        assert!(problem("--cut 1-2").ends_with("give FROM-TO@START+LENGTH, such as 1-2@3s+500ms"));
        assert_eq!(problem("--cut 1-4@0s+1s"), "--cut 1-4@0ms+1000ms: give two different nodes from 1 to 3");
        assert_eq!(problem("--cut 2-2@0s+1s"), "--cut 2-2@0ms+1000ms: give two different nodes from 1 to 3");
        assert!(problem("--cut 0-2@0s+1s").starts_with("--cut: `0-2@0s+1s` does not fit"));
        assert!(problem("--seed -1").starts_with("--seed: `-1` does not fit"));
        assert!(problem("stray").contains("stray"));
        assert_eq!(read("--help"), Err(None));
    }

    #[test]
    fn help_names_every_option() {
        for name in HELP.split_whitespace().filter(|word| word.starts_with("--")) {
            if let Err(Some(problem)) = read(name) {
                assert!(!problem.contains("no such option"), "{name}: {problem}");
            }
        }
    }
}
