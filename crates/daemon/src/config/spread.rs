//! The listener for existing Spread clients: none unless the file names a port.
use super::reader::Section;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where Spread clients come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadListener {
    /// The TCP address.
    pub address: SocketAddr,
    /// The socket file; `None` for none.
    pub unix: Option<PathBuf>,
    /// How many messages may wait for one of them; `None` for as many as the bytes allow.
    pub messages: Option<usize>,
}

impl SpreadListener {
    //= S42
    /// The listener at this port of this machine, with the socket file that Spread's library looks for.
    pub fn at(port: u16) -> Self {
        let unix = Some(format!("/tmp/{port}").into());
        Self { address: (Ipv4Addr::LOCALHOST, port).into(), unix, messages: None }
    }
}

/// Reads the section; `None` where it names no port.
pub fn read(section: &mut Section<'_, '_>) -> Option<SpreadListener> {
    let port = section.number("port", 1..=u16::MAX);
    let address = section.text("address", |text| {
        text.parse::<IpAddr>().map_err(|_| format!("\"{text}\" is not an address; write it like \"0.0.0.0\""))
    });
    let unix = section.text("unix", |text| Ok(Some(PathBuf::from(text)).filter(|_| text != "off")));
    let messages = section.number("messages", 0..=1_000_000_000);
    let asks = address.is_some() || unix.is_some() || messages.is_some();
    let port = if asks { section.require("port", port, "nobody listens without: port = 4803") } else { port };
    section.finish();
    let mut listener = SpreadListener::at(port?);
    listener.address.set_ip(address.unwrap_or(listener.address.ip()));
    listener.unix = unix.unwrap_or(listener.unix);
    listener.messages = messages.filter(|messages| *messages > 0);
    Some(listener)
}
