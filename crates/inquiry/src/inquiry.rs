//! Asking a daemon for its status, and for lists page by page: a session that does nothing else.
use crate::connect;
use crate::failure::{Code, Failure, Outcome};
use crate::runtime_dir::Card;
use consort::{Address, ClientTls};
use consort_session::listing::{Connection, GroupEntry, ListPage, ListQuery, Listing, PAGE_MAX};
use consort_session::{Inquirer, Member, Reply};
use consort_types::{ClientId, GroupName, MemberId, NodeId};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long a daemon may take for one answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A session with a daemon that is only asked.
pub struct Inquiry {
    address: Address,
    stream: Box<dyn Stream>,
    inquirer: Inquirer,
    /// Which node answers.
    pub node: NodeId,
    /// The number of this session there.
    pub own: ClientId,
}

/// Asks a daemon for its status.
pub fn status(address: &Address) -> Outcome<Vec<(String, String)>> {
    Inquiry::open(address)?.status()
}

/// One counter of a daemon.
pub fn counter(card: &Card, name: &str) -> Outcome<u64> {
    let status = status(&Address::Unix(card.socket.clone()))?;
    let value = status.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.parse().ok());
    value.ok_or_else(|| Failure::new(format!("node {} does not count `{name}`", card.node)))
}

trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

impl Inquiry {
    /// Connects to a daemon.
    pub fn open(address: &Address) -> Outcome<Self> {
        let tls = connect::shown_tls()?;
        let absent = |error| connect::absent(&format!("cannot connect to {address}: {error};"));
        let socket = address.dial(PATIENCE).map_err(absent)?;
        let token = connect::shown_token();
        if token.is_some() {
            let checked = consort::check_peer(&socket, address);
            checked.map_err(|error| Failure::new(error.to_string()).with(Code::NoDaemon))?;
        }
        let stream = open(socket, address, tls.as_ref()).map_err(absent)?;
        let (address, inquirer) = (address.clone(), Inquirer::showing(token));
        let mut inquiry = Self { address, stream, inquirer, node: NodeId(0), own: ClientId(0) };
        match inquiry.hear()? {
            Reply::Welcome(welcome) => (inquiry.node, inquiry.own) = (welcome.daemon.node, welcome.client),
            _ => return Err(inquiry.beside_the_point()),
        }
        Ok(inquiry)
    }

    /// The daemon's status: pairs of key and value.
    pub fn status(&mut self) -> Outcome<Vec<(String, String)>> {
        self.inquirer.ask_status();
        match self.hear()? {
            Reply::Status(pairs) => Ok(pairs),
            _ => Err(self.beside_the_point()),
        }
    }

    /// Calls `see` with every group, by name.
    pub fn groups(&mut self, mut see: impl FnMut(&mut Self, &GroupEntry) -> Outcome) -> Outcome {
        let mut after = None;
        loop {
            let page = self.page_of_groups(after.take())?;
            page.items.iter().try_for_each(|group| see(self, group))?;
            after = page.items.last().filter(|_| page.more).map(|group| group.name.clone());
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// The members of a group; none if there is no such group.
    pub fn members(&mut self, group: &GroupName) -> Outcome<Vec<Member>> {
        let (mut after, mut members) = (Default::default(), Vec::new());
        loop {
            let page = self.page_of_members(group, after)?;
            members.extend(page.items);
            match members.last().filter(|_| page.more) {
                Some(last) => after = last.key(),
                None => return Ok(members),
            }
        }
    }

    /// The connections of the daemon, this one among them.
    pub fn clients(&mut self) -> Outcome<Vec<Connection>> {
        let (mut after, mut clients) = (ClientId(0), Vec::new());
        loop {
            let page = self.page_of_clients(after)?;
            clients.extend(page.items);
            match clients.last().filter(|_| page.more) {
                Some(last) => after = last.client,
                None => return Ok(clients),
            }
        }
    }

    /// The first groups by name, at least so many if there are, and how many there are.
    pub fn first_groups(&mut self, most: usize) -> Outcome<(Vec<GroupEntry>, u32)> {
        let (mut after, mut groups) = (None, Vec::new());
        loop {
            let page = self.page_of_groups(after)?;
            groups.extend(page.items);
            after = groups.last().filter(|_| page.more && groups.len() < most).map(|group| group.name.clone());
            if after.is_none() {
                return Ok((groups, page.total));
            }
        }
    }

    /// The first connections by number, at least so many if there are, and how many there are.
    pub fn first_clients(&mut self, most: usize) -> Outcome<(Vec<Connection>, u32)> {
        let (mut after, mut clients) = (ClientId(0), Vec::new());
        loop {
            let page = self.page_of_clients(after)?;
            clients.extend(page.items);
            match clients.last().filter(|_| page.more && clients.len() < most) {
                Some(last) => after = last.client,
                None => return Ok((clients, page.total)),
            }
        }
    }

    fn page_of_groups(&mut self, after: Option<GroupName>) -> Outcome<ListPage<GroupEntry>> {
        match self.ask(&ListQuery::Groups { after, most: PAGE_MAX })? {
            Listing::Groups(page) => Ok(page),
            _ => Err(self.beside_the_point()),
        }
    }

    fn page_of_members(&mut self, group: &GroupName, after: (MemberId, ClientId)) -> Outcome<ListPage<Member>> {
        match self.ask(&ListQuery::Members { group: group.clone(), after, most: PAGE_MAX })? {
            Listing::Members(page) => Ok(page),
            _ => Err(self.beside_the_point()),
        }
    }

    fn page_of_clients(&mut self, after: ClientId) -> Outcome<ListPage<Connection>> {
        match self.ask(&ListQuery::Clients { after, most: PAGE_MAX })? {
            Listing::Clients(page) => Ok(page),
            _ => Err(self.beside_the_point()),
        }
    }

    fn ask(&mut self, question: &ListQuery) -> Outcome<Listing> {
        self.inquirer.ask(question);
        match self.hear()? {
            Reply::Listing(listing) => Ok(listing),
            Reply::Refused(refusal) => Err(Failure::new(format!("{} does not tell it: {refusal}", self.address))),
            _ => Err(self.beside_the_point()),
        }
    }

    /// Says what is to be said, and waits for the next answer.
    fn hear(&mut self) -> Outcome<Reply> {
        let asked = self.inquirer.take_output();
        // A daemon that hangs up may have said why: that is read first.
        let mut broken = self.stream.write_all(&asked).err();
        let mut room = vec![0; 64 << 10];
        loop {
            match self.inquirer.next_reply() {
                Ok(Some(Reply::Farewell(farewell))) => {
                    return Err(Failure::new(format!("{} ends the session: {farewell}", self.address)));
                }
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(error) => return Err(Failure::new(format!("{} is no daemon: {error}", self.address))),
            }
            match self.stream.read(&mut room) {
                Ok(0) => {
                    return Err(self.silent(&broken.take().unwrap_or_else(|| io::Error::other("it hung up"))));
                }
                Ok(n) => self.inquirer.feed(room[..n].to_vec().into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.silent(&error)),
            }
        }
    }

    fn silent(&self, error: &io::Error) -> Failure {
        let why = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!("no answer within {} s", PATIENCE.as_secs()),
            _ => error.to_string(),
        };
        Failure::new(format!("{} does not tell: {why}", self.address)).with(Code::NoDaemon)
    }

    fn beside_the_point(&self) -> Failure {
        Failure::new(format!("{} answers another question than was asked", self.address))
    }
}

fn open(connection: OwnedFd, address: &Address, tls: Option<&ClientTls>) -> io::Result<Box<dyn Stream>> {
    let connection = match (address, tls) {
        (Address::Tcp { host, .. }, Some(tls)) => tls.bridge(connection.into(), host, PATIENCE)?.stream.into(),
        _ => connection,
    };
    match address {
        Address::Tcp { .. } if tls.is_none() => {
            let stream = TcpStream::from(connection);
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(Box::new(stream))
        }
        _ => {
            let stream = UnixStream::from(connection);
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(Box::new(stream))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn whoever_is_no_daemon_is_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let ask = |answer: &'static [u8]| {
            std::thread::scope(|scope| {
                scope.spawn(|| listener.accept().unwrap().0.write_all(answer).unwrap());
                Inquiry::open(&Address::Unix(path.clone())).err().unwrap().message
            })
        };
        let told = ask(b"HTTP/1.1 400 Bad Request\r\n");
        assert!(told.contains("is no daemon: malformed frame length"), "{told}");
        assert!(ask(&[0, 0, 0, 12, 0x8a, 0, 0]).contains("does not tell: "));
        assert!(ask(&[0, 0, 0, 8, 0x8a, 0, 0, 0, 0, 0, 0, 0]).contains("another question"));
        let gone = Address::Unix("/nowhere/node-1.sock".into());
        let failure = Inquiry::open(&gone).err().unwrap();
        assert!(failure.code == Code::NoDaemon && failure.message.contains("/nowhere/node-1.sock"));
    }
}
