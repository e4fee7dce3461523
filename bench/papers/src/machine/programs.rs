//! The programs under test, and what `consort bench` says of them.
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Where `consort` is; `consort-bench` is beside it.
pub struct Programs(PathBuf);

/// A round with as many messages as go, or at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Round {
    pub ordered_per_s: f64,
    pub latency_us: Latency,
    /// CPU time for each delivery.
    pub cpu_us_per_delivery: Cpu,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Cpu {
    pub daemon: f64,
    pub client: f64,
}

impl Programs {
    /// A built program, or those that ship, which are built.
    ///
    /// # Errors
    /// That there is none, or why it cannot be built.
    pub fn find(given: Option<PathBuf>) -> Result<Self, String> {
        if let Some(program) = given {
            let found = program.canonicalize();
            return found.map(Self).map_err(|error| format!("--program {}: {error}", program.display()));
        }
        let build =
            |package| consort_testbed::program(package, "release").map_err(|error| format!("{package}: {error}"));
        build("consort-bench")?;
        build("consort-cli").map(Self)
    }

    /// What `consort bench` prints with these words.
    ///
    /// # Errors
    /// What it says is wrong.
    pub fn bench(&self, words: &str) -> Result<Value, String> {
        eprintln!("consort bench {words}");
        let failed = |why: String| format!("{} bench {words}: {why}", self.0.display());
        let mut command = Command::new(&self.0);
        command.arg("bench").args(words.split_whitespace()).arg("--json").stderr(Stdio::inherit());
        let output = command.output().map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(format!("it ended with {}", output.status)));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed(format!("its output: {error}")))
    }

    /// The figures of a round.
    ///
    /// # Errors
    /// As [`Programs::bench`].
    pub fn round(&self, words: &str) -> Result<Round, String> {
        round(&self.bench(words)?).map_err(|why| format!("consort bench {words}: {why}"))
    }
}

/// The figures of a round in what was printed.
///
/// # Errors
/// Which of them is missing.
pub fn round(printed: &Value) -> Result<Round, String> {
    Round::deserialize(printed).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_read_of_what_is_printed() {
        let text = r#"{"ordered_per_s": 5.5, "latency_us": {"p50": 2, "p99": 3.5, "max": 9},
                       "cpu_us_per_delivery": {"daemon": 1.5, "client": 0.5}, "agreed": true}"#;
        let printed: Value = serde_json::from_str(text).unwrap();
        let expected = Round {
            ordered_per_s: 5.5,
            latency_us: Latency { p50: 2.0, p99: 3.5 },
            cpu_us_per_delivery: Cpu { daemon: 1.5, client: 0.5 },
        };
        assert_eq!(round(&printed), Ok(expected));
        assert!(round(&serde_json::json!({"ordered_per_s": 1})).unwrap_err().contains("latency_us"));
    }

    #[test]
    fn a_program_that_is_not_there_or_fails_is_told() {
        let error = Programs::find(Some("/no/such/consort".into())).err().unwrap();
        assert!(error.starts_with("--program /no/such/consort: No such file"), "{error}");
        let wrong = Programs("/bin/false".into()).bench("ring").unwrap_err();
        assert!(wrong.starts_with("/bin/false bench ring: it ended with"), "{wrong}");
    }
}
