//! `cargo xtask modules`: circles between modules. A module may use its parent, its ancestors and what lies below itself;
//! of all others, none may use a module that uses it. The same holds for a crate's folders, each taken as one module.
use crate::trace::{each_file, root};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask modules

Lists circles between the modules of one crate, other than those of a module with what lies below it, and between its
top folders, each with all that lies in it. Reads paths that begin with `crate`, `super` or `self`; tests do not count.
Fails if there are any that are not known.
";

/// The folders whose crates are read.
const FOLDERS: &[&str] = &["bench", "bindings", "crates", "protocols", "xtask/src"];

/// Circles of folders that stay, with the reason.
const KNOWN: &[(&str, &[&str], &str)] = &[(
    "crates/sim",
    &["checkers", "machine", "plan", "trace"],
    "the witness of a real run stands in the trace, is written by simulated clients, and asks the checkers",
)];

/// A module's path inside its crate, without `crate`; the root is empty.
type Module = Vec<String>;
/// Which modules each module uses.
type Uses = BTreeMap<Module, BTreeSet<Module>>;

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    if let Some(word) = words.into_iter().next() {
        print!("{HELP}");
        let asked = word == "--help" || word == "-h";
        return if asked { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    match crates(&root()) {
        Ok(crates) => report(&crates),
        Err(error) => {
            eprintln!("modules: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report(crates: &BTreeMap<String, BTreeMap<Module, String>>) -> ExitCode {
    let mut found = 0;
    for (name, sources) in crates {
        let uses = uses(sources);
        let of_folders = circles(&folders(&uses)).into_iter().map(|circle| ("folders ", circle));
        for (what, circle) in circles(&uses).into_iter().map(|circle| ("", circle)).chain(of_folders) {
            let names: Vec<_> = circle.iter().map(|module| module.join("::")).collect();
            match reason(name, &names) {
                Some(reason) if !what.is_empty() => println!("{name}: {}, as known: {reason}", names.join(", ")),
                _ => {
                    found += 1;
                    println!("{name}: a circle of {what}{}", names.join(", "));
                }
            }
        }
    }
    println!("modules: {} crates, {found} circles", crates.len());
    if found == 0 && !crates.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Why a circle of folders may be; `None` where it is new.
fn reason(name: &str, circle: &[String]) -> Option<&'static str> {
    let known = KNOWN.iter().find(|(known, folders, _)| *known == name && *folders == circle);
    known.map(|(_, _, reason)| *reason)
}

/// The sources of every crate, by module.
fn crates(root: &Path) -> io::Result<BTreeMap<String, BTreeMap<Module, String>>> {
    let mut crates = BTreeMap::<String, BTreeMap<Module, String>>::new();
    for folder in FOLDERS {
        each_file(&root.join(folder), "rs", &mut |path, text| {
            let path = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
            let Some((name, file)) = path.split_once("/src/") else { return };
            if let Some(module) = module_of(file) {
                crates.entry(name.to_owned()).or_default().insert(module, code_of(text));
            }
        })?;
    }
    Ok(crates)
}

/// The module in a file; `None` for tests.
fn module_of(file: &str) -> Option<Module> {
    let mut parts: Module = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str())) {
        parts.pop();
    }
    (!parts.iter().any(|part| part == "tests")).then_some(parts)
}

/// The code without comments and without the tests at its end.
fn code_of(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let line = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    text[..end].lines().map(line).collect::<Vec<_>>().join("\n")
}

fn uses(sources: &BTreeMap<Module, String>) -> Uses {
    let known = |mut path: Module| {
        while !path.is_empty() && !sources.contains_key(&path) {
            path.pop();
        }
        path
    };
    let of = |(module, code): (&Module, &String)| {
        let used = paths(code).into_iter().filter_map(|path| absolute(module, &path)).map(known);
        (module.clone(), used.filter(|used| !is_related(module, used)).collect())
    };
    sources.iter().map(of).collect()
}

/// What each top folder uses of the others, with all that lies in it.
fn folders(uses: &Uses) -> Uses {
    let mut folded = Uses::new();
    for (module, used) in uses {
        let Some(folder) = module.first() else { continue };
        let others = used.iter().filter_map(|used| used.first()).filter(|other| *other != folder);
        folded.entry(vec![folder.clone()]).or_default().extend(others.map(|other| vec![other.clone()]));
    }
    folded
}

/// Whether one of the two lies below the other.
fn is_related(a: &[String], b: &[String]) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// A path as seen from the crate's root; `None` where it does not begin with `crate`, `super` or `self`.
fn absolute(module: &[String], path: &[String]) -> Option<Module> {
    let (first, mut rest) = path.split_first()?;
    let mut base: Module = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.to_vec(),
        "super" => module.split_last()?.1.to_vec(),
        _ => return None,
    };
    while rest.first().is_some_and(|part| part == "super") {
        base.pop();
        rest = &rest[1..];
    }
    base.extend_from_slice(rest);
    Some(base)
}

/// All paths of two words and more; of a group in braces each on its own.
fn paths(code: &str) -> Vec<Module> {
    let (mut found, mut prefixes) = (Vec::new(), Vec::new());
    let (mut path, mut word): (Module, String) = (Vec::new(), String::new());
    let mut chars = code.chars().chain(['\n']).peekable();
    while let Some(c) = chars.next() {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            path.push(std::mem::take(&mut word));
        }
        match c {
            ':' if chars.peek() == Some(&':') => {
                chars.next();
                if chars.peek() == Some(&'{') {
                    chars.next();
                    prefixes.push(Some(path.clone()));
                }
                continue;
            }
            '{' => prefixes.push(None),
            _ => {}
        }
        found.push(std::mem::take(&mut path));
        if c == '}' {
            prefixes.pop();
        }
        path = prefixes.last().cloned().flatten().unwrap_or_default();
    }
    found.retain(|path| path.len() > 1);
    found
}

/// The modules that use each other in a circle, each circle once.
fn circles(uses: &Uses) -> Vec<Vec<Module>> {
    let reached = |from: &Module| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(next) = open.pop() {
            open.extend(uses.get(next).into_iter().flatten().filter(|used| seen.insert((*used).clone())));
        }
        seen
    };
    let reach: BTreeMap<_, _> = uses.keys().map(|module| (module, reached(module))).collect();
    let in_circle = |a: &Module, b: &Module| reach[a].contains(b) && reach.get(b).is_some_and(|of| of.contains(a));
    let circle = |module: &Module| uses.keys().filter(|other| in_circle(module, other)).cloned().collect::<Vec<_>>();
    let all: BTreeSet<_> = uses.keys().map(circle).filter(|circle| !circle.is_empty()).collect();
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sources: &[(&str, &str)]) -> Vec<String> {
        let module = |(file, text): &(&str, &str)| module_of(file).map(|module| (module, code_of(text)));
        let circles = circles(&uses(&sources.iter().filter_map(module).collect()));
        circles.iter().map(|circle| circle.iter().map(|m| m.join("::")).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn a_circle_is_found_however_it_is_written() {
        let plain = [("a.rs", "use crate::b::B;"), ("b.rs", "fn f() { super::a::g(); }")];
        let grouped = [("a.rs", "use crate::{c::C, b::{self, B}};"), ("b.rs", "use crate::{a, d};"), ("c.rs", "")];
        let of_three = [("a.rs", "crate::b::f"), ("b.rs", "crate::c::f"), ("c/mod.rs", "crate::a::f")];
        assert_eq!(found(&plain), ["a b"]);
        assert_eq!(found(&grouped), ["a b"]);
        assert_eq!(found(&of_three), ["a b c"]);
    }

    #[test]
    fn folders_that_use_each_other_are_found_though_no_modules_do() {
        let sources =
            [("a/b.rs", "use crate::c::d::D;"), ("a/e.rs", ""), ("c/d.rs", ""), ("c/f.rs", "use crate::a::e::E;")];
        let module = |(file, text): &(&str, &str)| Some((module_of(file)?, code_of(text)));
        let uses = uses(&sources.iter().filter_map(module).collect());
        assert!(circles(&uses).is_empty());
        assert_eq!(circles(&folders(&uses)), [[vec!["a".to_owned()], vec!["c".to_owned()]]]);
        let known = ["checkers", "machine", "plan", "trace"].map(str::to_owned);
        assert!(reason("crates/sim", &known).is_some() && reason("crates/net", &known).is_none());
        assert!(reason("crates/sim", &known[1..]).is_none());
    }

    #[test]
    fn parents_tests_and_comments_make_no_circle() {
        let parent = [("a.rs", "mod b; use self::b::B;"), ("a/b.rs", "use super::A; use crate::a::C;")];
        let tests =
            [("a.rs", "use crate::b::B;"), ("b.rs", "// crate::a\n#[cfg(test)]\nmod tests {\n use crate::a::A; }")];
        let apart = [("a.rs", "use crate::b::B;"), ("b.rs", ""), ("tests/a.rs", "use crate::a::A;")];
        for sources in [&parent[..], &tests, &apart] {
            assert_eq!(found(sources), [""; 0]);
        }
    }
}
