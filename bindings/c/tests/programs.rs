//! Programs in C, compiled against the installed library and run against a real daemon.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "tests run real processes")]

#[path = "programs/tls.rs"]
mod tls;

use consort_conformance::{Daemon, Program, play};
use consort_testbed::{library_for_tests, program_for_tests};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use tempfile::TempDir;

/// What valgrind returns where it found something.
const FOUND: &str = "--error-exitcode=99";

/// The library, installed in a folder of its own, and programs compiled against it.
struct Installed {
    folder: TempDir,
}

static INSTALLED: LazyLock<Installed> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let library = library_for_tests("consort-c", "libconsort_c.so").expect("cargo builds the library");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut install = Command::new(here.join("install"));
    done(install.arg(folder.path()).arg(library.parent().unwrap()));
    Installed { folder }
});

/// Runs a command that must succeed.
fn done(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?} ended with {status}:\n{out}{errors}");
    out
}

fn has(program: &str) -> bool {
    let missing = Command::new(program).arg("--version").output().is_err();
    if missing {
        println!("left out: no program `{program}` on this machine");
    }
    !missing
}

impl Installed {
    /// What pkg-config says, or what it would.
    fn flags(&self, statically: bool) -> Vec<String> {
        let words: &[&str] = if statically { &["--cflags", "--libs", "--static"] } else { &["--cflags", "--libs"] };
        let mut pkg_config = Command::new("pkg-config");
        let flags = done(pkg_config.env("PKG_CONFIG_PATH", self.path("lib/pkgconfig")).args(words).arg("consort"));
        flags.split_whitespace().map(str::to_owned).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles a program of this folder with warnings as errors.
    fn compile(&self, source: &str, name: &str, statically: bool) -> PathBuf {
        self.compile_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join(source), name, statically)
    }

    fn compile_file(&self, source: &Path, name: &str, statically: bool) -> PathBuf {
        let program = self.path(name);
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_POSIX_C_SOURCE=200809L", "-g"]);
        cc.arg(source).arg("-o").arg(&program);
        let library = format!("-l:{}", "libconsort_c.a");
        cc.args(self.flags(statically).into_iter().map(|flag| match flag.as_str() {
            "-lconsort_c" if statically => library.clone(),
            _ => flag,
        }));
        done(&mut cc);
        program
    }

    /// A program as a command; with valgrind, where that is wanted.
    fn command(&self, program: &Path, checked: bool) -> Command {
        let mut command = Command::new(if checked { Path::new("valgrind") } else { program });
        if checked {
            let leaks = ["--quiet", "--leak-check=full", "--show-leak-kinds=definite,indirect,possible"];
            command.args(leaks).args(["--errors-for-leak-kinds=definite,indirect,possible", FOUND]).arg(program);
        }
        command.env("LD_LIBRARY_PATH", self.path("lib"));
        command
    }
}

/// Whether this machine can compile and find C libraries.
fn has_tools() -> bool {
    ["cc", "pkg-config"].into_iter().all(has)
}

/// A process that is gone with its handle.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One program lists members while another one joins, speaks and goes.
fn two_programs_meet(checked: bool, statically: bool) {
    let daemon = Daemon::start(&program_for_tests().unwrap()).unwrap();
    let kind = if statically { "static" } else { "shared" };
    let compiled =
        |name: &str| INSTALLED.compile(&format!("examples/{name}.c"), &format!("{name}-{kind}-{checked}"), statically);
    let (members, talk) = (compiled("members"), compiled("talk"));
    let mut watch = INSTALLED.command(&members, checked);
    let watch = watch.args([&daemon.unix().display().to_string(), "tea", "3"]).stdout(Stdio::piped());
    let mut watch = Running(watch.stderr(Stdio::inherit()).spawn().unwrap());
    let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("tea after join: #c1#n1"));

    let said = done(INSTALLED.command(&talk, checked).args([daemon.tcp(), "tea", "a pound of tea"]));
    assert_eq!(said, "2 in tea\n#c2#n1 says a pound of tea\n");
    assert_eq!(lines.next().as_deref(), Some("tea after join: #c1#n1 #c2#n1"));
    assert_eq!(lines.next().as_deref(), Some("tea after disconnect: #c1#n1"));
    assert_eq!(lines.next(), None);
    let status = watch.0.wait().unwrap();
    assert!(status.success(), "members ended with {status}");
}

#[test]
fn examples_compile_and_meet() {
    if has_tools() {
        two_programs_meet(false, false);
    }
}

#[test]
fn examples_link_statically_and_meet() {
    if has_tools() {
        two_programs_meet(false, true);
    }
}

#[test]
fn examples_meet_under_valgrind_without_a_leak() {
    if has_tools() && has("valgrind") {
        two_programs_meet(true, false);
    }
}

#[test]
fn a_client_that_is_not_freed_is_noticed() {
    if !has_tools() || !has("valgrind") {
        return;
    }
    let whole = include_str!("../examples/talk.c");
    let leaky = whole.replace("consort_free(client);", "");
    assert_ne!(leaky, whole);
    let file = INSTALLED.path("leaky.c");
    std::fs::write(&file, leaky).unwrap();
    let daemon = Daemon::start(&program_for_tests().unwrap()).unwrap();
    let program = INSTALLED.compile_file(&file, "leaky", false);
    let run = INSTALLED.command(&program, true).arg(daemon.unix()).args(["tea", "x"]).output().unwrap();
    assert_eq!(run.status.code(), Some(99), "{}", String::from_utf8_lossy(&run.stderr));
}

/// Answers like no daemon, for as long as the test runs.
fn stranger(at: &Path) {
    let listener = UnixListener::bind(at).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (mut hello, answer) = ([0; 64], b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = stream.read(&mut hello).and_then(|_| stream.write_all(answer));
        }
    });
}

fn wrong_calls_are_refused(checked: bool) {
    let daemon = Daemon::start(&program_for_tests().unwrap()).unwrap();
    let refusals = INSTALLED.compile("tests/refusals.c", &format!("refusals-{checked}"), false);
    let sockets = tempfile::tempdir().unwrap();
    let [nobody, other] = ["nobody", "stranger"].map(|name| sockets.path().join(name));
    stranger(&other);
    let said = done(INSTALLED.command(&refusals, checked).arg(daemon.unix()).args([nobody, other]));
    assert_eq!(said, "all refused\n");
}

#[test]
fn wrong_calls_are_refused_and_named() {
    if has_tools() {
        wrong_calls_are_refused(false);
    }
}

#[test]
fn wrong_calls_are_refused_under_valgrind_without_a_leak() {
    if has_tools() && has("valgrind") {
        wrong_calls_are_refused(true);
    }
}

/// A session sends and reads each message once, though its daemon is killed.
fn a_session_outlives_its_daemon(checked: bool) {
    let [first, second, third] = Daemon::start_three(&program_for_tests().unwrap()).unwrap();
    let session = INSTALLED.compile("tests/session.c", &format!("session-{checked}"), false);
    let mut run = INSTALLED.command(&session, checked);
    run.arg(first.unix()).args([second.unix(), third.unix()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut run = Running(run.spawn().unwrap());
    let mut lines = BufReader::new(run.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("kill A"));
    first.kill();
    run.0.stdin.take().unwrap().write_all(b"done\n").unwrap();
    assert_eq!(lines.next().as_deref(), Some("each once"));
    let status = run.0.wait().unwrap();
    assert!(status.success(), "it ended with {status}");
}

#[test]
fn a_session_outlives_its_daemon_with_each_message_once() {
    if has_tools() {
        a_session_outlives_its_daemon(false);
    }
}

#[test]
fn a_session_outlives_its_daemon_under_valgrind_without_a_leak() {
    if has_tools() && has("valgrind") {
        a_session_outlives_its_daemon(true);
    }
}

/// A child of `fork()` neither sends nor ends what its parent owns.
fn a_child_leaves_its_parents_clients_alone(checked: bool) {
    let fork = INSTALLED.compile("tests/fork.c", &format!("fork-{checked}"), false);
    let run = |words: &[&str]| done(INSTALLED.command(&fork, checked).args(words));
    let daemon = Daemon::start(&program_for_tests().unwrap()).unwrap();
    let unix = daemon.unix().display().to_string();
    for (address, memory) in [(&unix[..], "memory"), (&unix[..], "no-memory"), (daemon.tcp(), "no-memory")] {
        assert_eq!(run(&["client", address, memory]), "nothing twice, nothing lost\n", "{address}, {memory}");
        // What a thread of the parent was using is not freed in the child, which valgrind calls a leak.
        if !checked {
            assert_eq!(run(&["halves", address, memory]), "nothing twice, nothing lost\n", "{address}, {memory}");
        }
    }
    let daemons = Daemon::start_three(&program_for_tests().unwrap()).unwrap();
    let daemons = daemons.each_ref().map(|daemon| daemon.unix().display().to_string());
    let session: Vec<&str> = ["session"].into_iter().chain(daemons.iter().map(String::as_str)).collect();
    assert_eq!(run(&session), "nothing twice, nothing lost\n");
}

#[test]
fn a_child_of_fork_neither_sends_nor_ends_what_its_parent_owns() {
    if has_tools() {
        a_child_leaves_its_parents_clients_alone(false);
    }
}

#[test]
fn a_child_of_fork_does_so_under_valgrind_without_a_leak() {
    if has_tools() && has("valgrind") {
        a_child_leaves_its_parents_clients_alone(true);
    }
}

#[test]
fn the_feed_of_the_examples_is_ordered() {
    if has_tools() {
        let daemons = Daemon::start_three(&program_for_tests().unwrap()).unwrap();
        let feed = INSTALLED.compile("examples/feed.c", "feed", false);
        let mut run = INSTALLED.command(&feed, false);
        run.arg("orders").args(daemons.iter().map(Daemon::unix)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut run = Running(run.spawn().unwrap());
        run.0.stdin.take().unwrap().write_all(b"one\ntwo\nthree\n").unwrap();
        let mut said = String::new();
        run.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.ends_with("3 of 3 ordered\n"), "{said}");
    }
}

#[test]
fn examples_say_what_is_wrong() {
    if !has_tools() {
        return;
    }
    let talk = INSTALLED.compile("examples/talk.c", "talk-alone", false);
    let run = |words: &[&str]| {
        let Output { status, stderr, .. } = INSTALLED.command(&talk, false).args(words).output().unwrap();
        (status.code(), String::from_utf8_lossy(&stderr).into_owned())
    };
    let (code, errors) = run(&["/nowhere/at/all", "tea", "x"]);
    assert_eq!(code, Some(1));
    assert!(errors.starts_with("connect: cannot connect to unix:/nowhere/at/all"), "{errors}");
    assert_eq!(run(&["alone"]).0, Some(2));
}

#[test]
fn the_header_serves_cxx() {
    if has_tools() && has("c++") {
        let source = INSTALLED.path("header.cpp");
        std::fs::write(&source, "#include <consort.h>\nint main() { return consort_last_reason(); }\n").unwrap();
        let mut cxx = Command::new("c++");
        done(
            cxx.args(["-std=c++17", "-Wall", "-Wextra", "-Werror"])
                .arg(source)
                .args(INSTALLED.flags(false))
                .arg("-o")
                .arg(INSTALLED.path("header")),
        );
    }
}

/// The scenarios that clients in all languages pass.
#[test]
fn the_client_in_c_passes_every_scenario() {
    if !has_tools() {
        return;
    }
    let client = INSTALLED.compile("conformance/client.c", "client", false);
    let library = format!("LD_LIBRARY_PATH={}", INSTALLED.path("lib").display());
    let program = Program(vec!["env".into(), library, client.display().to_string()]);
    let mut wrong = Vec::new();
    let failed = play(&program, &program_for_tests().unwrap(), "", |listener, scenario, outcome| {
        // It has all that any client has.
        let error = outcome.map_or_else(|| Some("lacks it".to_owned()), |outcome| outcome.as_ref().err().cloned());
        wrong.extend(error.map(|error| format!("{listener}, {}: {error}", scenario.name)));
    });
    assert_eq!((failed, wrong), (Ok(0), Vec::new()));
}

/// What the page shows is a program.
#[test]
fn the_program_of_the_page_compiles_and_says_what_is_wrong() {
    if !has_tools() {
        return;
    }
    let page = include_str!("../../../docs/clients.md");
    let (_, rest) = page.split_once("```c\n").expect("a program in C");
    let (source, _) = rest.split_once("```").expect("its end");
    let file = INSTALLED.path("page.c");
    std::fs::write(&file, source.replace("127.0.0.1:4840", "/nowhere/at/all")).unwrap();
    let program = INSTALLED.compile_file(&file, "page", false);
    let Output { status, stderr, .. } = INSTALLED.command(&program, false).output().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(String::from_utf8_lossy(&stderr).contains("cannot connect to unix:/nowhere/at/all"));
}
