//! How the others are set up where their own defaults do not do them justice.
use consort_daemon::args::Args;
use consort_daemon::failure::Outcome;
use serde::Serialize;

/// The lines of a help text that show these options.
#[macro_export]
macro_rules! tuning_help {
    () => {
        "  --nats-storage KIND  where servers of NATS keep messages: memory or file
                       [memory]
  --aeron-frame N      bytes of a frame of Aeron, 1408 to 65504 in steps of 32
                       [8192]
  --aeron-window N     own messages under way at each node; 0 for any number, as
                       it is by itself [2000]
  --jgroups-stack S    udp or tcp, of those that come with it [udp]
  --jgroups-window N   own messages under way at each node; 0 for any number, as
                       it is by itself [2000]
  --corosync-realtime    its daemons go before all other programs, as they do by
                         themselves: then they starve their clients here
  --corosync-netmtu N    bytes of a frame, 1500 to 65000 [its default]
  --corosync-window N    messages a rotation, to 1024 [its default]
  --corosync-messages N  of these by one node, to 1024 [its default]
"
    };
}

/// Where servers of NATS keep messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NatsStorage {
    Memory,
    /// Written, and synced every two minutes, as it is by itself.
    File,
}

const NATS_STORAGES: [(&str, NatsStorage); 2] = [("memory", NatsStorage::Memory), ("file", NatsStorage::File)];

/// What carries a node of JGroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    Udp,
    Tcp,
}

const STACKS: [(&str, Stack); 2] = [("udp", Stack::Udp), ("tcp", Stack::Tcp)];

/// How the others are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tuning {
    /// Where servers of NATS keep messages.
    pub nats_storage: NatsStorage,
    /// Bytes of a frame of Aeron.
    pub aeron_frame: u32,
    /// How many own messages a node of Aeron has under way; 0 for any number.
    pub aeron_window: u32,
    /// What carries a node of JGroups.
    pub stack: Stack,
    /// How many own messages a node of JGroups has under way; 0 for any number.
    pub jgroups_window: u32,
    /// Whether daemons of Corosync have real-time priority.
    pub realtime: bool,
    /// Of Corosync; 0 for its own defaults.
    pub netmtu: u32,
    /// Messages of all in a rotation.
    pub window_size: u32,
    /// Messages of one node in a rotation.
    pub max_messages: u32,
}

/// JGroups queues without bound what it is given, and collapses at small messages without a window. Daemons of Corosync
/// with real-time priority carry a third to a fifth, for they share two cores with their clients. Aeron collapses likewise, and carries four times as
/// much in frames of 8192 bytes as in those of an Ethernet.
impl Default for Tuning {
    fn default() -> Self {
        Self {
            nats_storage: NatsStorage::Memory,
            aeron_frame: 8_192,
            aeron_window: 2_000,
            stack: Stack::Udp,
            jgroups_window: 2_000,
            realtime: false,
            netmtu: 0,
            window_size: 0,
            max_messages: 0,
        }
    }
}

impl Tuning {
    /// Takes an option; whether it was one of these.
    pub fn take(&mut self, option: &str, args: &mut Args) -> Outcome<bool> {
        match option {
            "--nats-storage" => self.nats_storage = args.choice(&NATS_STORAGES)?,
            "--aeron-frame" => self.aeron_frame = aeron_frame(args)?,
            "--aeron-window" => self.aeron_window = args.number(0..=1_000_000)? as u32,
            "--jgroups-stack" => self.stack = args.choice(&STACKS)?,
            "--jgroups-window" => self.jgroups_window = args.number(0..=1_000_000)? as u32,
            "--corosync-realtime" => self.realtime = true,
            "--corosync-netmtu" => self.netmtu = frame(args)?,
            "--corosync-window" => self.window_size = args.number(0..=1_024)? as u32,
            "--corosync-messages" => self.max_messages = args.number(0..=1_024)? as u32,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What its file says of Corosync's ring.
    pub const fn corosync(&self) -> [(&'static str, u32); 3] {
        [("netmtu", self.netmtu), ("window_size", self.window_size), ("max_messages", self.max_messages)]
    }

    /// A line for people.
    pub fn line(&self) -> String {
        let set = |value: u32| if value == 0 { "default".into() } else { value.to_string() };
        let corosync = self.corosync().map(|(name, value)| format!("{name} {}", set(value))).join(", ");
        let window = |own: u32| match own {
            0 => "any number of own messages under way".into(),
            own => format!("at most {own} own messages under way"),
        };
        let (aeron, jgroups): (String, String) = (window(self.aeron_window), window(self.jgroups_window));
        let priority = if self.realtime { "real-time" } else { "ordinary" };
        let (nats, frame, stack) = (self.nats_storage.name(), self.aeron_frame, self.stack.file());
        format!(
            "NATS: in {nats}; Aeron: frames of {frame}, {aeron}; JGroups: {stack}, {jgroups}; Corosync: {priority} priority, {corosync}"
        )
    }
}

impl NatsStorage {
    /// As options and the server name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
        }
    }
}

impl Stack {
    /// The file in the jar.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Udp => "udp.xml",
            Self::Tcp => "tcp.xml",
        }
    }
}

fn frame(args: &mut Args) -> Outcome<u32> {
    let text = args.text()?;
    match text.parse() {
        Ok(bytes) if bytes == 0 || (1_500..=65_000).contains(&bytes) => Ok(bytes),
        _ => Err(args.wrong(&text, "bytes from 1500 to 65000, or 0 for the default")),
    }
}

/// Aeron's frames are a multiple of their own alignment, and one must fit into a datagram.
fn aeron_frame(args: &mut Args) -> Outcome<u32> {
    let text = args.text()?;
    match text.parse() {
        Ok(bytes) if (1_408..=65_504).contains(&bytes) && bytes % 32 == 0 => Ok(bytes),
        _ => Err(args.wrong(&text, "a multiple of 32 from 1408 to 65504")),
    }
}
