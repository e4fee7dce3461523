//! What a store holds, as another project's client reads it: Debian's redis-cli, or our own client where there is none.
use super::machines::PATIENCE;
use consort_kv::{Connected, Reply};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// How many keys one command asks for.
const KEYS: usize = 500;

/// How many keys a server has.
///
/// # Errors
/// What it answered instead.
pub fn size(address: &str) -> Result<usize, String> {
    let lines = ask(address, &[vec!["DBSIZE"]])?;
    let number = lines.first().and_then(|line| line.parse().ok());
    number.ok_or_else(|| format!("DBSIZE at {address} was answered with {lines:?}"))
}

/// The values of these keys at a server, an empty text where there is none.
///
/// # Errors
/// What it answered instead.
pub fn values(address: &str, keys: &[&str]) -> Result<Vec<String>, String> {
    let commands: Vec<_> = keys.chunks(KEYS).map(|keys| [&["MGET"], keys].concat()).collect();
    let lines = ask(address, &commands)?;
    let refused = lines.len() != keys.len();
    if refused { Err(format!("MGET at {address} was answered with {:?}", lines.first())) } else { Ok(lines) }
}

/// Runs these commands; a line for each answer, and for each item of a list.
fn ask(address: &str, commands: &[Vec<&str>]) -> Result<Vec<String>, String> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    let installed = || Command::new("redis-cli").arg("--version").output().is_ok();
    if *INSTALLED.get_or_init(installed) { ask_foreign(address, commands) } else { ask_own(address, commands) }
}

fn ask_foreign(address: &str, commands: &[Vec<&str>]) -> Result<Vec<String>, String> {
    let (host, port) = address.rsplit_once(':').ok_or("it does not serve")?;
    let limit = PATIENCE.as_secs().to_string();
    let mut client = Command::new("timeout");
    client.args([&limit, "redis-cli", "-h", host, "-p", port]);
    let client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut client = client.map_err(|error| format!("cannot start redis-cli: {error}"))?;
    let text: String = commands.iter().map(|words| words.join(" ") + "\n").collect();
    let mut input = client.stdin.take().ok_or("redis-cli has no input")?;
    let writer = thread::spawn(move || input.write_all(text.as_bytes()));
    let ran = client.wait_with_output().map_err(|error| error.to_string())?;
    // A client that ended early does not read all commands: its exit code says so.
    let _ = writer.join();
    let out = String::from_utf8_lossy(&ran.stdout).into_owned();
    if ran.status.success() {
        return Ok(out.lines().map(str::to_owned).collect());
    }
    Err(format!("redis-cli at {address} ended with {}: {}", ran.status, String::from_utf8_lossy(&ran.stderr)))
}

fn ask_own(address: &str, commands: &[Vec<&str>]) -> Result<Vec<String>, String> {
    let asked = || -> std::io::Result<Vec<String>> {
        let mut server = Connected::to(address, Duration::from_secs(1))?;
        server.set_timeout(Some(PATIENCE))?;
        let mut lines = Vec::new();
        for words in commands {
            match server.call(words)? {
                Reply::Array(items) => lines.extend(items.iter().map(line)),
                reply => lines.push(line(&reply)),
            }
        }
        Ok(lines)
    };
    asked().map_err(|error| format!("{address} cannot be asked: {error}"))
}

fn line(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Reply::Integer(number) => number.to_string(),
        Reply::Nil => String::new(),
        other => format!("{other:?}"),
    }
}
