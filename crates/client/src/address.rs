//! Where a daemon listens.
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a daemon listens for clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket on this machine.
    Unix(PathBuf),
    /// A TCP socket: a name or an IP address, and a port.
    Tcp {
        /// The name or IP address; an IPv6 address without its brackets.
        host: String,
        /// The port.
        port: u16,
    },
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no address: {why}; write a path with a slash in it, or host:port")]
pub struct AddressError {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads `unix:<path>`, any path with a slash in it, `tcp:<host>:<port>` or `<host>:<port>`.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let bad = |why| AddressError { text: text.to_owned(), why };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(bad("the path is empty")) } else { Ok(Self::Unix(path.into())) };
        }
        if text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        let rest = text.strip_prefix("tcp:").unwrap_or(text);
        let (host, port) = rest.rsplit_once(':').ok_or(bad("there is no port"))?;
        let port = port.parse().map_err(|_| bad("the port is no number from 0 to 65535"))?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        match bare {
            None if host.contains(':') => Err(bad("an IPv6 address stands in brackets")),
            None if host.is_empty() => Err(bad("the host is empty")),
            _ => Ok(Self::Tcp { host: bare.unwrap_or(host).to_owned(), port }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.into(), port }
    }

    #[test]
    fn every_form_is_read_and_printed_so_that_it_reads_back() {
        let unix = Address::Unix("/run/consort.sock".into());
        for (text, meant) in [
            ("/run/consort.sock", unix.clone()),
            ("unix:/run/consort.sock", unix),
            ("unix:relative", Address::Unix("relative".into())),
            ("localhost:4803", tcp("localhost", 4803)),
            ("tcp:10.0.0.1:1", tcp("10.0.0.1", 1)),
            ("[::1]:4803", tcp("::1", 4803)),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address, meant, "{text}");
            assert_eq!(address.to_string().parse(), Ok(address));
        }
    }

    #[test]
    fn what_is_no_address_says_why() {
        for (text, why) in [
            ("localhost", "there is no port"),
            ("localhost:http", "the port is no number from 0 to 65535"),
            ("localhost:70000", "the port is no number from 0 to 65535"),
            (":4803", "the host is empty"),
            ("::1:4803", "an IPv6 address stands in brackets"),
            ("unix:", "the path is empty"),
        ] {
            assert_eq!(text.parse::<Address>(), Err(AddressError { text: text.into(), why }));
        }
    }
}
