//! The header that is checked in is the one that the sources give.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

const HEADER: &str = "include/consort.h";

fn generated() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in [
        "codes",
        "last",
        "options",
        "client",
        "sending",
        "receiving",
        "reading",
        "session",
        "event_texts",
        "place",
        "event",
    ] {
        builder = builder.with_src(root.join("src").join(file).with_extension("rs"));
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_is_the_one_that_the_sources_give() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(HEADER);
    let generated = generated();
    if std::env::var_os("CONSORT_HEADER").is_some_and(|wish| wish == "write") {
        std::fs::write(&path, &generated).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(generated.lines()).position(|(kept, generated)| kept != generated);
    let remedy = "write it anew: CONSORT_HEADER=write cargo test -p consort-c --test header";
    assert!(kept == generated, "{HEADER} is not what the sources give, from line {differs:?}; {remedy}");
}

#[test]
fn every_function_stands_in_the_header_with_what_it_does() {
    let header = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(HEADER)).unwrap();
    let lines: Vec<_> = header.lines().collect();
    let is_start = |line: &str| line.contains("consort_") && line.contains('(') && !line.trim_start().starts_with("//");
    let starts = lines.windows(2).filter(|pair| is_start(pair[1]) && !pair[1].trim_start().starts_with('*'));
    let bare: Vec<_> = starts.filter(|pair| !pair[0].starts_with("//")).map(|pair| pair[1]).collect();
    assert!(bare.is_empty(), "without a word: {bare:?}");
    assert!(header.matches("CONSORT_OK").count() > 1, "{}", header.len());
}
