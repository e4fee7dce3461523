//! Metrics for Prometheus, and whether the daemon is ready and live, over HTTP.
//!
//! A thread beside the daemon's own: it asks it for its status over its local socket like any client, so nothing that
//! comes to this port reaches the loop that orders messages.
mod http;
mod port;
mod server;
mod table;
mod text;

use crate::clock;
use crate::failure::{Failure, Outcome};
use consort_tls::ServerTls;
use http::{HttpRequest, HttpResponse};
use port::MetricsPort;
use server::{Server, ServerEnd};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// An answer of the daemon is good for so long, in nanoseconds: many who ask at once cost it one question.
const FRESH: u64 = 100_000_000;

/// Whether what a status tells under this key is a number that is counted or measured.
pub fn is_number(key: &str) -> bool {
    let prefixes = table::LABELLED.iter().map(|(prefix, ..)| prefix);
    let labelled =
        prefixes.chain(table::BY_RING.iter().map(|(prefix, _)| prefix)).any(|prefix| key.starts_with(prefix));
    labelled || table::METRICS.iter().any(|(known, ..)| *known == key)
}

/// Asks the daemon behind a socket for its status: pairs of key and value, or why there are none.
pub type Ask = fn(&Path) -> Result<Vec<(String, String)>, NoStatus>;

/// Why a daemon gives no status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoStatus {
    /// It cannot be reached, or does not answer: its loop does not turn, and to start it again may help.
    Silent(String),
    /// It answers, but with something else.
    Refused(String),
}

impl NoStatus {
    fn text(&self) -> String {
        let (Self::Silent(text) | Self::Refused(text)) = self;
        text.clone()
    }
}

type Status = BTreeMap<String, String>;
/// A daemon's status, or why there is none.
type StatusAnswer = Result<Arc<Status>, NoStatus>;

/// The daemon that is asked.
pub struct Daemon {
    /// Where it serves clients of this machine.
    pub socket: PathBuf,
    /// Its cluster's name.
    pub cluster: String,
    ask: Ask,
    /// What this machine is called, where its port can be reached from nowhere else.
    local: Option<String>,
    /// When it was asked last, and what it said.
    last: Mutex<Option<(u64, StatusAnswer)>>,
}

impl Daemon {
    /// The one behind this socket.
    pub fn new(socket: PathBuf, cluster: String, ask: Ask) -> Self {
        Self { socket, cluster, ask, local: None, last: Mutex::new(None) }
    }

    fn status(&self) -> StatusAnswer {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, answer)) = &*last
            && clock::now_ns() < at + FRESH
        {
            return answer.clone();
        }
        let answer = (self.ask)(&self.socket).map(|pairs| Arc::new(pairs.into_iter().collect()));
        *last = Some((clock::now_ns(), answer.clone()));
        answer
    }

    fn answer(&self, request: &HttpRequest) -> HttpResponse {
        if let (Some(host), Some(own)) = (&request.host, &self.local)
            && !names_this_machine(host, own)
        {
            let sentence = format!(
                "these metrics are this machine's own, and {host} is not its name: ask for localhost or an address (a \
                 proxy in front sets Host)"
            );
            return HttpResponse::text("403 Forbidden", sentence);
        }
        match request.path.as_str() {
            "/metrics" => match self.status() {
                Ok(status) => HttpResponse::metrics(text::exposition(&status, &self.cluster, std::process::id())),
                Err(why) => HttpResponse::unavailable(why.text()),
            },
            "/ready" => match self.status().map_err(|why| why.text()).and_then(|status| ready(&status)) {
                Ok(()) => HttpResponse::text("200 OK", "ready"),
                Err(why) => HttpResponse::unavailable(why),
            },
            "/live" => match self.status() {
                Ok(_) | Err(NoStatus::Refused(_)) => HttpResponse::text("200 OK", "live"),
                Err(NoStatus::Silent(why)) => HttpResponse::unavailable(format!("not live: {why}")),
            },
            _ => HttpResponse::text("404 Not Found", "here are /metrics, /ready and /live"),
        }
    }
}

/// Whether a host is this machine. A web page can have its own name lead to this machine, and a browser here would then read
/// the metrics for it; but the browser says which name that was.
fn names_this_machine(host: &str, own: &str) -> bool {
    let is_local = host == "localhost" || host.ends_with(".localhost") || host.parse::<IpAddr>().is_ok();
    is_local || host == own || !own.is_empty() && host.strip_prefix(own).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether a write that is given to the daemon now is ordered soon; else why not.
fn ready(status: &Status) -> Result<(), String> {
    match status.get("ready").map(String::as_str) {
        Some("yes") => Ok(()),
        Some(why) => Err(format!("not ready: {why}")),
        None => Err("not ready: the daemon does not tell".into()),
    }
}

/// Opens the port, for TLS if that is given.
pub fn open(address: SocketAddr, tls: Option<&ServerTls>) -> Outcome<MetricsPort> {
    MetricsPort::open(address, tls).map_err(|error| {
        Failure::new(format!("cannot serve metrics at {address}: {error}; choose another address with --metrics"))
    })
}

/// A port that is served until this is dropped.
pub struct Serving {
    end: ServerEnd,
    thread: Option<JoinHandle<()>>,
}

/// Serves from here on.
pub fn serve(port: MetricsPort, mut daemon: Daemon) -> Outcome<Serving> {
    let own = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_local = port.address().is_some_and(|address| address.ip().is_loopback());
    daemon.local = is_local.then(|| own().trim().to_ascii_lowercase());
    let server = Server::new(port, move |request| daemon.answer(request))
        .map_err(|error| Failure::new(format!("cannot watch the port for metrics: {error}")))?;
    let end = server.end();
    Ok(Serving { end, thread: Some(std::thread::spawn(move || server.run())) })
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end.set();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the thread of the metrics had panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_this_machine_answers_no_page_of_another() {
        let ask: Ask = |_| Ok(vec![("ready".into(), "yes".into())]);
        let asked = |is_local: bool, host: Option<&str>| {
            let local = is_local.then(|| "node-7".to_owned());
            let daemon = Daemon { local, ..Daemon::new(PathBuf::new(), "c".into(), ask) };
            let host = host.map(ToOwned::to_owned);
            daemon.answer(&HttpRequest { head_only: false, path: "/ready".into(), host }).status
        };
        for host in [
            None,
            Some("node-7"),
            Some("node-7.site"),
            Some("localhost"),
            Some("127.0.0.1"),
            Some("::1"),
            Some("a.localhost"),
        ] {
            assert_eq!(asked(true, host), "200 OK", "{host:?}");
        }
        for host in ["evil.example", "", "node-7evil", "127.0.0.1.evil.example", "localhost.evil.example"] {
            assert_eq!(asked(true, Some(host)), "403 Forbidden", "{host}");
            assert_eq!(asked(false, Some(host)), "200 OK", "{host}");
        }
    }

    #[test]
    fn readiness_is_what_the_daemon_says() {
        let status = |pairs: &[(&str, &str)]| -> Status {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(ready(&status(&[("ready", "yes")])), Ok(()));
        assert_eq!(ready(&status(&[("ready", "the view is closing")])), Err("not ready: the view is closing".into()));
        assert_eq!(ready(&status(&[])), Err("not ready: the daemon does not tell".into()));
    }

    #[test]
    fn a_daemon_that_does_not_answer_is_unavailable() {
        let silent = |socket: &Path| Err(NoStatus::Silent(socket.display().to_string()));
        let daemon = Daemon::new("/nowhere/node-1.sock".into(), "c".into(), silent);
        let answer = |daemon: &Daemon, path: &str| {
            daemon.answer(&HttpRequest { head_only: false, path: path.into(), host: None })
        };
        for path in ["/metrics", "/ready", "/live"] {
            let response = answer(&daemon, path);
            assert!(response.status.starts_with("503"), "{response:?}");
            assert!(response.body.contains("/nowhere/node-1.sock"), "{response:?}");
        }
        let busy = Daemon::new("/x".into(), "c".into(), |_| Err(NoStatus::Refused("too many clients".into())));
        assert!(answer(&busy, "/live").status.starts_with("200"), "it answers: to start it again would not help");
        assert!(answer(&busy, "/ready").body.contains("too many clients"));
    }
}
