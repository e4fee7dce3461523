//! Who of this machine may speak at a daemon's Unix socket. Needs root, to become somebody else.

use crate::support::{self, Ran, Running, World};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const STRANGER: u32 = 54_321;
const LISTED: u32 = 54_322;

/// A world whose directories others can go through, and the program where they can run it; `None` without root.
fn open_world() -> Option<(World, PathBuf)> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return None;
    }
    let world = World::new();
    let program = world.path("consort");
    fs::copy(env!("CARGO_BIN_EXE_consort"), &program).unwrap();
    let_through(program.parent().unwrap());
    Some((world, program))
}

fn let_through(directory: &Path) {
    fs::set_permissions(directory, Permissions::from_mode(0o711)).unwrap();
}

/// Sends a line to the first daemon as somebody else.
fn send_as(world: &World, program: &Path, user: u32, group: u32) -> Ran {
    let address = world.socket_path(1).display().to_string();
    let mut command = Command::new(program);
    command.args(["send", "--daemon", &address, "hello"]).uid(user).gid(group).current_dir("/");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), errors: text(&output.stderr) }
}

fn turned_away(world: &World) -> Option<u64> {
    let ran = world.run(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    status[0]["status"]["sessions_ended_not_allowed"].as_u64()
}

#[test]
fn another_user_is_turned_away_with_the_reason_even_one_of_the_daemons_group() {
    let Some((world, program)) = open_world() else { return };
    let daemon = world.daemon(&[]);
    [world.path("run"), world.path("run").join(&world.cluster)].iter().for_each(|path| let_through(path));
    let away = send_as(&world, &program, STRANGER, 0);
    assert_eq!(away.code, 3, "{}", away.errors);
    assert!(away.errors.contains("refused the session: user 54321 may not use this daemon"), "{}", away.errors);
    let logged = daemon.says("client sent away: user 54321 may not use this daemon");
    assert!(logged.contains("of user 54321"), "{logged}");
    assert_eq!(turned_away(&world), Some(1));
    let kept_out = send_as(&world, &program, STRANGER, STRANGER);
    assert!(kept_out.errors.contains("Permission denied"), "{}", kept_out.errors);
    let own = send_as(&world, &program, 0, 0);
    assert_eq!((own.code, turned_away(&world)), (0, Some(1)), "{}", own.errors);
}

#[test]
fn a_user_that_is_listed_is_served_and_others_are_still_turned_away() {
    let Some((world, program)) = open_world() else { return };
    let [_, _, a, b] = std::process::id().to_be_bytes();
    let text = format!(
        "cluster = \"{}\"\nmulticast = \"off\"\n[[node]]\nid = 1\naddress = \"127.{}.{}.77:4841\"\n[clients]\nusers = [{LISTED}]\n",
        world.cluster,
        100 + a % 100,
        b
    );
    let file = world.write("consort.toml", &text);
    let daemon = world.daemon_as(&["daemon", "--config", &file]);
    let listed = send_as(&world, &program, LISTED, LISTED);
    assert_eq!(listed.code, 0, "{}", listed.errors);
    let away = send_as(&world, &program, STRANGER, STRANGER);
    assert_eq!(away.code, 3);
    assert!(away.errors.contains("users = [54321] below [clients]"), "{}", away.errors);
    daemon.says("client sent away");
    assert_eq!(turned_away(&world), Some(1));
}

/// A daemon of the stranger, with a runtime directory of its choice, that lets the listed user in.
fn strange_daemon(world: &World, program: &Path, runtime: &Path, port: u16) -> Running {
    let text = format!(
        "cluster = \"{}\"\nmulticast = \"off\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:{port}\"\n[clients]\nusers = [{LISTED}]\n",
        world.cluster
    );
    let file = world.write(&format!("strange-{port}.toml"), &text);
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let mut command = Command::new(program);
    command.args(["daemon", "--config", &file, "--node", "1", "--state-dir"]).arg(runtime.join("state"));
    command.env("CONSORT_RUNTIME_DIR", runtime).uid(STRANGER).gid(STRANGER).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = World::begin(command, &["daemon"], None);
    running.prints("ready");
    running
}

/// Runs a command as the listed user, who has a token and no runtime directory.
fn run_with_token(program: &Path, temporary: &Path, words: &[&str]) -> Ran {
    let mut command = Command::new(program);
    command.args(words).env("CONSORT_TOKEN", "secret").env("TMPDIR", temporary);
    command.env_remove("XDG_RUNTIME_DIR").env_remove("CONSORT_RUNTIME_DIR");
    command.uid(LISTED).gid(LISTED).current_dir("/").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    World::begin(command, words, None).wait()
}

fn directory(path: PathBuf, mode: u32, user: u32) -> PathBuf {
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    chown(&path, Some(user), Some(user)).unwrap();
    path
}

#[test]
fn a_squatter_of_the_runtime_directory_is_shown_no_token_and_sent_nothing() {
    let Some((world, program)) = open_world() else { return };
    let temporary = directory(world.path("temporary"), 0o1777, 0);
    let squatted = directory(temporary.join(format!("consort-{LISTED}")), 0o711, STRANGER);
    let _daemon = strange_daemon(&world, &program, &squatted, support::free_port());
    let socket = squatted.join(&world.cluster).join("node-1.sock").display().to_string();
    let_through(Path::new(&socket).parent().unwrap());
    let here = format!("{} may be another user's, who could pose as a daemon there", squatted.display());
    let there = format!("no token is shown to the daemon at unix:{socket}: it runs as user {STRANGER}");
    for words in [&["send", "hello"][..], &["status"], &["groups"]] {
        let found = run_with_token(&program, &temporary, words);
        assert!(found.code == 3 && found.errors.contains(&here), "{words:?}: {}", found.errors);
        let named = run_with_token(&program, &temporary, &[words, &["--daemon", &socket]].concat());
        assert!(named.code == 3 && named.errors.contains(&there), "{words:?}: {}", named.errors);
    }
}

#[test]
fn a_daemon_of_a_system_user_is_shown_a_token_in_its_own_directory() {
    let Some((world, program)) = open_world() else { return };
    let own = directory(world.path("own"), 0o711, STRANGER);
    let _daemon = strange_daemon(&world, &program, &own, support::free_port());
    let socket = own.join(&world.cluster).join("node-1.sock").display().to_string();
    let shown = run_with_token(&program, &own, &["send", "hello", "--daemon", &socket]);
    assert!(
        shown.errors.contains("the daemon refused the session: what the client shows is no token"),
        "{}",
        shown.errors
    );
}
