//! The program under test: built, configured, and started at each node.
use std::fmt::{Display, Formatter};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Network;
use super::namespace::{NetworkError, failed};
use super::process::Process;

/// The cluster's name.
const CLUSTER: &str = "network";
/// The group that all join.
const GROUP: &str = "lines";

/// The file that all daemons share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many nodes it names.
    pub nodes: usize,
    /// Lines of the whole cluster, in front of the nodes.
    pub head: String,
    /// Sections, behind them.
    pub sections: String,
}

/// The `consort` program and the directory in which its processes live.
#[derive(Debug)]
pub struct Program {
    file: PathBuf,
    directory: PathBuf,
}

/// Names the file of the program, so that none is built.
const PROGRAM: &str = "CONSORT_PROGRAM";

/// The file that `CONSORT_PROGRAM` names, or that of the released program, which is built.
///
/// # Errors
/// If no such file is there, or cargo cannot be run or fails; then it has said why.
pub fn build() -> Result<PathBuf, NetworkError> {
    let Some(file) = std::env::var_os(PROGRAM).map(PathBuf::from) else {
        return crate::program("consort-cli", "release").map_err(failed("build the program"));
    };
    let found = file.canonicalize();
    found.map_err(failed(format!("find {}, which {PROGRAM} names; unset it to have it built", file.display())))
}

/// The same, built as the running test is: most often it is there already.
pub fn program_for_tests() -> Result<PathBuf, NetworkError> {
    crate::program_for_tests().map_err(failed("build the program"))
}

impl Program {
    /// Prepares the directory: the configuration file that all daemons share, and a place for each.
    ///
    /// # Errors
    /// The system's.
    pub fn new(file: PathBuf, directory: &Path, settings: &Settings) -> Result<Self, NetworkError> {
        let program = Self { file, directory: directory.to_owned() };
        let write = || -> std::io::Result<()> {
            std::fs::write(program.config(), settings.to_string())?;
            (0..settings.nodes).try_for_each(|node| std::fs::create_dir(program.place(node)))
        };
        write().map_err(failed(format!("write to {}", directory.display())))?;
        Ok(program)
    }

    /// Starts a node's daemon. It ends when this process does, however that ends.
    ///
    /// # Errors
    /// The system's.
    pub fn daemon(&self, network: &Network, node: usize) -> Result<Process, NetworkError> {
        let mut command = self.command(node, "daemon");
        command.arg("--config").arg(self.config()).args(["--node", &(node + 1).to_string(), "--while-stdin-open"]);
        command.arg("--state-dir").arg(self.place(node).join("state"));
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        self.start(network, node, "daemon", &mut command)
    }

    /// True once a node's daemon serves clients.
    pub fn serves(&self, node: usize) -> bool {
        std::os::unix::net::UnixStream::connect(self.socket_path(node)).is_ok()
    }

    /// The socket at which a node's daemon serves clients, from wherever they are.
    pub fn socket_path(&self, node: usize) -> PathBuf {
        self.place(node).join(CLUSTER).join(format!("node-{}.sock", node + 1))
    }

    /// Starts a node's receiver of so many lines, and returns it with the file into which it writes them.
    ///
    /// # Errors
    /// The system's.
    pub fn receiver(&self, network: &Network, node: usize, count: u64) -> Result<(Process, File), NetworkError> {
        let path = self.directory.join(format!("received-{}", node + 1));
        let what = || format!("write {}", path.display());
        let written = File::create(&path).map_err(failed(what()))?;
        let followed = File::open(&path).map_err(failed(what()))?;
        let mut command = self.command(node, "receive");
        command.args(["--group", GROUP, "--count", &count.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::from(written));
        Ok((self.start(network, node, "receive", &mut command)?, followed))
    }

    /// Starts a node's sender of the lines in its file.
    ///
    /// # Errors
    /// The system's.
    pub fn sender(&self, network: &Network, node: usize) -> Result<Process, NetworkError> {
        let path = self.lines(node);
        let lines = File::open(&path).map_err(failed(format!("read {}", path.display())))?;
        let mut command = self.command(node, "send");
        command.args(["--group", GROUP]).stdin(Stdio::from(lines)).stdout(Stdio::null());
        self.start(network, node, "send", &mut command)
    }

    /// The file with the lines that a node sends.
    pub fn lines(&self, node: usize) -> PathBuf {
        self.directory.join(format!("lines-{}", node + 1))
    }

    fn start(
        &self,
        network: &Network,
        node: usize,
        command: &str,
        line: &mut Command,
    ) -> Result<Process, NetworkError> {
        Process::start(network, node, &format!("{command}-{}", node + 1), &self.directory, line)
    }

    /// A command at a node: daemon and clients of a node share a runtime directory that no other node sees.
    fn command(&self, node: usize, command: &str) -> Command {
        let mut line = Command::new(&self.file);
        line.arg(command).env("CONSORT_RUNTIME_DIR", self.place(node));
        line
    }

    fn place(&self, node: usize) -> PathBuf {
        self.directory.join(format!("node-{}", node + 1))
    }

    fn config(&self) -> PathBuf {
        self.directory.join("consort.toml")
    }
}

impl Display for Settings {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "cluster = \"{CLUSTER}\"\n{}", self.head)?;
        for node in 0..self.nodes {
            write!(f, "\n[[node]]\nid = {}\naddress = \"{}\"\n", node + 1, Network::address(node))?;
        }
        f.write_str(&self.sections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_every_node_and_what_was_asked_for() {
        let [head, sections] = ["datagram = 9000\n", "\n[plato]\nevery = 3\n"].map(String::from);
        let settings = Settings { nodes: 2, head, sections };
        let expected = "cluster = \"network\"\ndatagram = 9000\n\n[[node]]\nid = 1\naddress = \"10.77.0.1\"\n\
                        \n[[node]]\nid = 2\naddress = \"10.77.0.2\"\n\n[plato]\nevery = 3\n";
        assert_eq!(settings.to_string(), expected);
    }
}
