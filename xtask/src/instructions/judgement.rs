//! Now against then.
use super::Counts;
use std::collections::BTreeSet;
use std::fmt;

/// From so many parts of a hundred on a change is told.
const MARGIN: u64 = 10;

/// What became of each operation.
#[derive(Debug, PartialEq, Eq)]
pub struct Judgement {
    rows: Vec<Row>,
}

#[derive(Debug, PartialEq, Eq)]
struct Row {
    operation: String,
    then: Option<u64>,
    now: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    Cheaper,
    Dearer,
    New,
    Gone,
}

impl Judgement {
    /// Compares all operations of both.
    pub fn new(then: &Counts, now: &Counts) -> Self {
        let names: BTreeSet<_> = then.keys().chain(now.keys()).collect();
        let row =
            |name: &String| Row { operation: name.clone(), then: then.get(name).copied(), now: now.get(name).copied() };
        Self { rows: names.into_iter().map(row).collect() }
    }

    /// Whether no operation got dearer, and each is recorded.
    pub fn holds(&self) -> bool {
        self.count(&[Verdict::Dearer, Verdict::New, Verdict::Gone]) == 0
    }

    fn count(&self, verdicts: &[Verdict]) -> usize {
        self.rows.iter().filter(|row| verdicts.contains(&row.verdict())).count()
    }
}

impl Row {
    fn verdict(&self) -> Verdict {
        match (self.then, self.now) {
            (None, _) => Verdict::New,
            (_, None) => Verdict::Gone,
            (Some(then), Some(now)) if now * 100 >= then * (100 + MARGIN) && now > then => Verdict::Dearer,
            (Some(then), Some(now)) if now * 100 <= then * (100 - MARGIN) && now < then => Verdict::Cheaper,
            _ => Verdict::Same,
        }
    }

    fn change(&self) -> String {
        match (self.then, self.now) {
            (Some(then), Some(now)) if then > 0 => {
                format!("{:+.1} %", (now as f64 - then as f64) * 100.0 / then as f64)
            }
            _ => String::new(),
        }
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        writeln!(f, "{:<20} {:>10} {:>10} {:>10}", "operation", "recorded", "now", "change")?;
        for row in &self.rows {
            let remark = match row.verdict() {
                Verdict::Same => "",
                Verdict::Cheaper => "  cheaper",
                Verdict::Dearer => "  DEARER",
                Verdict::New => "  NOT RECORDED",
                Verdict::Gone => "  NOT COUNTED",
            };
            let (then, now) = (number(row.then), number(row.now));
            writeln!(f, "{:<20} {then:>10} {now:>10} {:>10}{remark}", row.operation, row.change())?;
        }
        let accept = "`cargo xtask instructions --accept`";
        if self.count(&[Verdict::Dearer]) > 0 {
            writeln!(
                f,
                "an operation takes {MARGIN} % more instructions than recorded, or worse. Look for the cause first; where"
            )?;
            writeln!(f, "it is worth that, {accept} records the new values: say why in the commit.")?;
        }
        if self.count(&[Verdict::New, Verdict::Gone]) > 0 {
            writeln!(f, "the record has other operations than are counted; {accept} writes it anew")?;
        }
        if self.count(&[Verdict::Cheaper]) > 0 {
            writeln!(
                f,
                "an operation got cheaper by {MARGIN} % or more: record it with {accept}, so that it stays so"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, u64)]) -> Counts {
        of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn judge(then: u64, now: u64) -> (bool, Verdict) {
        let judgement = Judgement::new(&counts(&[("data", then)]), &counts(&[("data", now)]));
        (judgement.holds(), judgement.rows[0].verdict())
    }

    #[test]
    fn ten_parts_of_a_hundred_more_than_recorded_are_too_many() {
        assert_eq!(judge(1_000, 1_099), (true, Verdict::Same));
        assert_eq!(judge(1_000, 1_100), (false, Verdict::Dearer));
        assert_eq!(judge(1_000, 901), (true, Verdict::Same));
        assert_eq!(judge(1_000, 900), (true, Verdict::Cheaper));
        assert_eq!(judge(0, 1), (false, Verdict::Dearer));
        assert_eq!(judge(0, 0), (true, Verdict::Same));
    }

    #[test]
    fn an_operation_that_only_one_of_them_has_does_not_hold() {
        let (some, more) = (counts(&[("data", 10)]), counts(&[("data", 10), ("token", 20)]));
        assert!(!Judgement::new(&some, &more).holds());
        assert!(!Judgement::new(&more, &some).holds());
        assert!(Judgement::new(&more, &more).holds());
    }

    #[test]
    fn the_table_names_what_got_dearer_and_how_to_accept_it() {
        let table =
            Judgement::new(&counts(&[("data", 1_000), ("token", 50)]), &counts(&[("data", 1_234), ("token", 40)]));
        let table = table.to_string();
        assert!(table.contains("data                       1000       1234    +23.4 %  DEARER"), "{table}");
        assert!(table.contains("token                        50         40    -20.0 %  cheaper"), "{table}");
        assert!(table.contains("instructions --accept` records the new values"), "{table}");
    }
}
