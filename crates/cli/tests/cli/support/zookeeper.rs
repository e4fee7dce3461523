//! A real ZooKeeper, started from Debian's package: a server of one test's own, and a look into it.
#![allow(dead_code, reason = "each test file uses its part")]

use std::future::Future;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use zookeeper_client::{Acls, Client, CreateMode, Error};

/// What the package brings.
const JAR: &str = "/usr/share/java/zookeeper.jar";
const SERVER: &str = "org.apache.zookeeper.server.ZooKeeperServerMain";
const PACKAGES: [&str; 2] = ["libzookeeper-java", "default-jre-headless"];
/// No start takes longer, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server; killed when dropped.
pub struct ZooKeeper {
    port: u16,
    directory: PathBuf,
    server: Option<Child>,
}

impl ZooKeeper {
    /// One at this port, with its files in a directory of its own; `None` where there is none and none can be installed, with
    /// the reason printed.
    pub fn start_for_test(directory: &Path, port: u16) -> Option<Self> {
        static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
        if let Err(reason) = INSTALLED.get_or_init(installed) {
            eprintln!("SKIPPED: no ZooKeeper: {reason}");
            return None;
        }
        let directory = directory.join("zookeeper");
        std::fs::create_dir_all(directory.join("data")).unwrap();
        let text = format!(
            "tickTime=500\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
            directory.join("data").display()
        );
        std::fs::write(directory.join("zoo.cfg"), text).unwrap();
        let mut zookeeper = Self { port, directory, server: None };
        zookeeper.start();
        Some(zookeeper)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts it with what its files hold, and waits until it takes connections.
    pub fn start(&mut self) {
        let log = std::fs::File::create(self.directory.join("log")).unwrap();
        let server = Command::new("java")
            .args(["-Xmx96m", "-XX:+UseSerialGC", "-cp", JAR, SERVER])
            .arg(self.directory.join("zoo.cfg"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.server = Some(server.unwrap());
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address()).is_err() {
            let log = std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "ZooKeeper does not answer: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    /// What stands below a path, sorted; nothing where there is no such path.
    pub fn children(&self, path: &str) -> Vec<String> {
        let mut found = self.ask(async |client| client.list_children(path).await).unwrap_or_default();
        found.sort_unstable();
        found
    }

    /// What a path holds; `None` where there is no such path.
    pub fn text(&self, path: &str) -> Option<String> {
        match self.ask(async |client| client.get_data(path).await) {
            Ok((data, _)) => Some(String::from_utf8(data).unwrap()),
            Err(Error::NoNode) => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Writes what an operator would.
    pub fn write(&self, path: &str, text: &str) {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let written = self.ask(async |client| match client.create(path, text.as_bytes(), &options).await {
            Err(Error::NodeExists) => client.set_data(path, text.as_bytes(), None).await.map(drop),
            created => created.map(drop),
        });
        written.unwrap();
    }

    fn ask<T, F: Future<Output = Result<T, Error>>>(&self, question: impl FnOnce(Client) -> F) -> Result<T, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (connector, address) = (Client::connector(), self.address());
            question(connector.with_session_timeout(Duration::from_secs(10)).connect(&address).await?).await
        })
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether there is a ZooKeeper, or root can install it.
fn installed() -> Result<(), String> {
    let is_there = || Path::new(JAR).exists() && Command::new("java").arg("-version").output().is_ok();
    if is_there() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err(format!("{JAR} or `java` is missing, and only root can install {}", PACKAGES.join(" and ")));
    }
    let run = |words: &[&str]| {
        let ran = Command::new("apt-get").args(words).env("DEBIAN_FRONTEND", "noninteractive").output();
        let ran = ran.map_err(|error| format!("apt-get: {error}"))?;
        let errors = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
        if ran.status.success() { Ok(()) } else { Err(format!("apt-get {}: {errors}", words.join(" "))) }
    };
    run(&["update", "-qq"])?;
    run(&[&["install", "-y", "-qq", "--no-install-recommends"][..], &PACKAGES].concat())?;
    if is_there() { Ok(()) } else { Err(format!("{} brought no {JAR}", PACKAGES.join(" and "))) }
}
