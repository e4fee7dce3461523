//! Every input of the corpora through its target, without a fuzzer. What the fuzzer once found, or once needed to get further,
//! stays tried by everybody.
use consort_fuzzed::TARGETS;
use std::fs;
use std::path::PathBuf;

fn corpora() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

#[test]
fn every_input_of_the_corpora_keeps_every_promise() {
    for (name, run) in TARGETS {
        let directory = corpora().join(name);
        let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let mut inputs: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        inputs.sort();
        assert!(inputs.len() >= 10, "{name} has {} inputs only", inputs.len());
        for input in inputs {
            let bytes = fs::read(&input).unwrap();
            println!("{}", input.display()); // the last one named is the one that broke a promise
            run(&bytes);
        }
    }
}

#[test]
fn every_corpus_has_a_target() {
    for entry in fs::read_dir(corpora()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(TARGETS.iter().any(|(target, _)| *target == name), "nobody reads fuzz/corpus/{name}");
    }
}
