//! What went wrong, in words.
use super::{CrashTarget, Disk, Fault, FaultScope, Lanes, NodeSet, Said};
use consort_types::NodeId;
use std::fmt;

impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = (0..64).map(NodeId).filter(|node| self.contains(*node)).map(|n| n.0.to_string()).collect();
        write!(f, "{{{}}}", nodes.join(" "))
    }
}

impl fmt::Display for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Both => "everything",
            Self::Token => "tokens",
            Self::Data => "data",
            Self::Unicast => "unicast",
        })
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kept => "keeps its disk",
            Self::Lost => "loses its disk",
            Self::Old => "gets an old disk",
        })
    }
}

impl fmt::Display for CrashTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lowest(node) => write!(f, "the lowest member of the view of {node}"),
            Self::Granted => f.write_str("the next that the lowest member sends something to out of turn"),
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leads(Some(node)) => write!(f, "{node} is to lead"),
            Self::Leads(None) => f.write_str("whoever may is to lead"),
            Self::BackFrom(node) => write!(f, "nodes are to stand backwards from {node}"),
        }
    }
}

impl fmt::Display for FaultScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("everywhere"),
            Self::From(node) => write!(f, "from {node}"),
            Self::To(node) => write!(f, "to {node}"),
            Self::Between(from, to) => write!(f, "from {from} to {to}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |p: f64| format!("{:.1} %", p * 100.0);
        match self {
            Self::DataLoss { scope, p } => write!(f, "{} of data lost {scope}", percent(*p)),
            Self::TokenLoss { scope, p } => write!(f, "{} of tokens lost {scope}", percent(*p)),
            Self::Duplicate { scope, p } => write!(f, "{} duplicated {scope}", percent(*p)),
            Self::Echo { scope, p } => write!(f, "{} echoed {scope}", percent(*p)),
            Self::Reorder { scope, p } => write!(f, "{} overtaken {scope}", percent(*p)),
            Self::Corrupt { scope, p } => write!(f, "{} corrupted {scope}", percent(*p)),
            Self::Stray { scope, p } => write!(f, "{} seconds late {scope}", percent(*p)),
            Self::KindLoss { scope, kind, p } => write!(f, "{} of kind {kind} lost {scope}", percent(*p)),
            Self::Stall { part } => write!(f, "no processor for {part}"),
            Self::Aimed { target, disk, .. } => write!(f, "{target} crashes, {disk}"),
            Self::BadDisk { node } => write!(f, "the disk of {node} takes no record"),
            Self::Delay { scope, delay, jitter } => {
                write!(f, "{} to {} us later {scope}", delay.as_micros(), (*delay + *jitter).as_micros())
            }
            Self::Slow { node, factor } => write!(f, "{node} {factor} times slower"),
            Self::Buffers { node, bytes } => write!(f, "sockets of {node} hold {bytes} bytes"),
            Self::Late { node } => write!(f, "{node} starts late"),
            Self::Crash { node, disk, stays, .. } => {
                write!(f, "{node} crashes{}, {disk}", if *stays { " for good" } else { "" })
            }
            Self::Leave { node, stays } => write!(f, "{node} leaves{}", if *stays { " for good" } else { "" }),
            Self::Pause { node } => write!(f, "{node} is paused"),
            Self::Clock { node, by_us } => write!(f, "the clock of {node} is set by {:.1} s", *by_us as f64 / 1e6),
            Self::Disk { node, delay } => write!(f, "the disk of {node} takes {delay:?} longer"),
            Self::Partition { part } => write!(f, "{part} and the others are parted"),
            Self::Cut { scope, lanes } => write!(f, "{lanes} cut {scope}"),
            Self::Advice { part, stream, said } => write!(f, "{part} are told of order {}: {said}", stream.0),
            Self::Apart { a, b } => write!(f, "{a} and {b} do not hear each other"),
        }
    }
}
