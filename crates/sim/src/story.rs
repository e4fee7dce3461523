//! A run told to a reader: one line per event, a column for each node.
use consort_types::{Instant, NodeId};
use std::fmt;

/// What the signs in the columns mean.
const LEGEND: &str = "\
legend  + starts        V installs a view    s submits            ! a fault begins   ~ all is well from here
        # crashes       t closes a view      d delivers           . a fault ends     X a promise is broken
        - leaves        P calls it primary   D delivers as safe   w waits for room   r has room
        g group view    x drops a datagram at a full socket           = is in this state at the end of a red run
";

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StoryLine {
    at: Instant,
    node: Option<NodeId>,
    sign: char,
    text: String,
}

/// The lines of a run so far.
#[derive(Clone, Debug, Default)]
pub struct RunStory {
    nodes: u16,
    lines: Vec<StoryLine>,
}

impl RunStory {
    /// A story of so many nodes.
    pub const fn new(nodes: u16) -> Self {
        Self { nodes, lines: Vec::new() }
    }

    /// Adds a line: a sign in the node's column (in every column where it concerns all) and a few words.
    pub fn tell(&mut self, at: Instant, node: Option<NodeId>, sign: char, text: String) {
        self.lines.push(StoryLine { at, node, sign, text });
    }

    /// The story as text. Of a long one the middle is left out, unless `whole`.
    pub fn text(&self, whole: bool) -> String {
        const BEGINNING: usize = 150;
        const END: usize = 100;
        let mut out = LEGEND.to_owned();
        out += &self.heading();
        let n = self.lines.len();
        let left_out = if whole || n <= BEGINNING + END { 0..0 } else { BEGINNING..n - END };
        for (line, at) in self.lines.iter().zip(0..) {
            if at == left_out.start && !left_out.is_empty() {
                out += &format!("{:>11}  {} more lines; --whole shows them\n", "...", left_out.len());
            }
            if !left_out.contains(&at) {
                out += &self.line(line);
            }
        }
        out
    }

    fn heading(&self) -> String {
        let columns: String = (0..self.nodes).map(|node| format!("{:<5}", NodeId(node).to_string())).collect();
        format!("{:>11}  {columns}\n", "ms")
    }

    fn line(&self, line: &StoryLine) -> String {
        let sign = |node| if line.node.is_none_or(|at| at.0 == node) { line.sign } else { ' ' };
        let columns: String = (0..self.nodes).map(|node| format!("{}    ", sign(node))).collect();
        format!("{:>11}  {columns}{}\n", line.at, line.text)
    }
}

impl fmt::Display for RunStory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_stand_in_their_columns() {
        let mut story = RunStory::new(3);
        story.tell(Instant(1_500_000), Some(NodeId(1)), 's', "n1c0#1 agreed, 20 bytes".into());
        story.tell(Instant(2_000_000), None, '~', "all is well".into());
        let text = story.text(false);
        let lines: Vec<_> = text.lines().skip(4).collect();
        assert_eq!(
            lines,
            [
                "         ms  n0   n1   n2   ",
                "      1.500       s         n1c0#1 agreed, 20 bytes",
                "      2.000  ~    ~    ~    all is well",
            ]
        );
    }

    #[test]
    fn the_middle_of_a_long_story_is_left_out_unless_asked_for() {
        let mut story = RunStory::new(1);
        (0..1_000).for_each(|i| story.tell(Instant(i), None, 's', i.to_string()));
        assert_eq!(story.text(true).lines().count(), 5 + 1_000);
        let text = story.text(false);
        assert_eq!(text.lines().count(), 5 + 251);
        assert!(text.contains("750 more lines") && text.ends_with("999\n"));
    }
}
