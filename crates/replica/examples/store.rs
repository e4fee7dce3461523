//! A replicated key-value store. Start it several times, at the same or other daemons; each takes lines from its standard
//! input: `set KEY VALUE`, `cas KEY OLD NEW`, `add KEY NUMBER`, `get KEY`.
//!
//! `cargo run -p consort-replica --features serde --example store -- kv 127.0.0.1:4840 127.0.0.1:4841`
use consort_replica::{Options, Position, Replica, State};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, env, io, sync::Arc};

/// Values are shared with snapshots, not copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Store(pub BTreeMap<String, Arc<str>>);

impl State for Store {
    fn apply(&mut self, _at: Position, command: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(command);
        let held = |key: &str| self.0.get(key).map_or("0", |value| value).to_owned();
        let (key, value) = match text.split(' ').collect::<Vec<_>>()[..] {
            ["set", key, value] => (key, value.to_owned()),
            ["cas", key, old, new] if held(key) == old => (key, new.to_owned()),
            ["add", key, n] => (key, (held(key).parse().unwrap_or(0_i64) + n.parse().unwrap_or(0)).to_string()),
            _ => return b"no".into(),
        };
        self.0.insert(key.into(), value.as_str().into());
        value.into()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = env::args().skip(1);
    let group = consort::GroupName::new(words.next().unwrap_or_default())?;
    let daemons = words.map(|daemon| daemon.parse()).collect::<Result<Vec<_>, _>>()?;
    let store = Replica::start(Store::default(), &group, Options::at(&daemons))?;
    for line in io::stdin().lines().map_while(Result::ok) {
        match line.strip_prefix("get ") {
            Some(key) => println!("{:?}", store.read_latest(|store| store.0.get(key).cloned())?),
            None => println!("{}", String::from_utf8_lossy(&store.call(line)?.bytes)),
        }
    }
    Ok(store.stop()?)
}
