//! The daemons of one configuration, one at each node.
use super::{World, text};
use consort::{Address, Client, ConnectOptions, Event};
use consort_testbed::network::directory;
use consort_testbed::network::process::Process;
use consort_testbed::network::program::{Program, Settings};
use consort_types::ViewKind;
use std::time::{Duration, Instant};

/// How long daemons may need to serve clients, to be in one view, or to answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a daemon may need to end.
const END: Duration = Duration::from_secs(10);
/// How often they are looked after until then.
const STEP: Duration = Duration::from_millis(20);
/// A member that is silent for so long is left out: long enough for a machine that lets daemons wait for its cores.
pub const SILENCE: &str = "2s";

/// Daemons in one view. Dropping them kills those that still run.
pub struct Fleet<'a> {
    world: &'a World,
    daemons: Vec<Process>,
    program: Program,
    // The last, for the daemons live in it.
    _place: tempfile::TempDir,
}

impl<'a> Fleet<'a> {
    /// Starts a daemon at each node and waits until all are in one view.
    ///
    /// # Errors
    /// What kept them from it.
    pub fn start(world: &'a World, head: String, sections: String) -> Result<Self, String> {
        let nodes = world.network.nodes();
        let place = directory("consort-lab-").map_err(|error| format!("cannot make a directory: {error}"))?;
        let settings = Settings { nodes, head, sections };
        let program = Program::new(world.file.clone(), place.path(), &settings).map_err(text)?;
        let daemons = (0..nodes).map(|node| program.daemon(&world.network, node)).collect::<Result<Vec<_>, _>>();
        let mut fleet = Self { world, daemons: daemons.map_err(text)?, program, _place: place };
        (0..nodes).try_for_each(|node| fleet.await_listener(node))?;
        (0..nodes).try_for_each(|node| fleet.await_view(node))?;
        Ok(fleet)
    }

    /// A client of a node's daemon.
    ///
    /// # Errors
    /// The library's.
    pub fn client(&self, node: usize, options: &ConnectOptions) -> Result<Client, String> {
        Client::connect(&Address::Unix(self.program.socket_path(node)), options).map_err(text)
    }

    /// A counter of one daemon; 0 where it has none of that name.
    ///
    /// # Errors
    /// That the daemon does not answer.
    pub fn counter(&self, node: usize, name: &str) -> Result<u64, String> {
        let status = self.client(node, &ConnectOptions::default())?.status(PATIENCE).map_err(text)?;
        Ok(status.counter(name).unwrap_or(0))
    }

    /// Some counters, each summed over all daemons.
    ///
    /// # Errors
    /// That a daemon does not answer.
    pub fn sums<const N: usize>(&self, names: [&str; N]) -> Result<[u64; N], String> {
        let mut sums = [0; N];
        for node in 0..self.daemons.len() {
            let status = self.client(node, &ConnectOptions::default())?.status(PATIENCE).map_err(text)?;
            for (name, sum) in names.iter().zip(&mut sums) {
                *sum += status.counter(name).unwrap_or(0);
            }
        }
        Ok(sums)
    }

    /// Sees that all daemons run, and that nobody wants this to end.
    ///
    /// # Errors
    /// How one ended.
    pub fn watch(&mut self) -> Result<(), String> {
        self.world.goes_on()?;
        self.daemons.iter_mut().try_for_each(|daemon| daemon.runs().map_err(text))
    }

    /// Ends all daemons in good order.
    ///
    /// # Errors
    /// That one does not end, or not well.
    pub fn end(mut self) -> Result<(), String> {
        std::mem::take(&mut self.daemons).into_iter().try_for_each(|daemon| daemon.end(END).map_err(text))
    }

    fn await_listener(&mut self, node: usize) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while !self.program.serves(node) {
            self.watch()?;
            if Instant::now() > deadline {
                return Err(format!("daemon {} serves no clients within {PATIENCE:?}", node + 1));
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    fn await_view(&mut self, node: usize) -> Result<(), String> {
        let mut client = self.client(node, &ConnectOptions::default().with_views())?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.watch()?;
            if let Some(Event::View(view)) = client.receive(STEP).map_err(text)?
                && view.kind == ViewKind::Regular
                && view.members.len() == self.daemons.len()
            {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("daemon {} is not in one view with all others within {PATIENCE:?}", node + 1));
            }
        }
    }
}
