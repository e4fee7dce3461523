//! The switch's end of a TAP device.
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use super::namespace::{Namespace, NetworkError, failed};

/// The interface's name within its namespace, where nodes stand in one network.
pub const INTERFACE: &str = "eth0";

/// The name of the interface to one of several networks, counted from 0.
pub fn interface(network: usize) -> String {
    format!("eth{network}")
}

/// The largest frame a TAP device gives: an MTU of 65,535 and the Ethernet header.
pub const FRAME_MAX: usize = 65_535 + 14;

/// An interface that was taken away keeps its name until the last descriptor of it is closed. A program that another thread
/// starts has a copy of it for a moment, between `fork` and `exec`.
const RELEASED_WITHIN: Duration = Duration::from_secs(2);

/// The switch's end of a TAP device: what is read here was sent by the interface in the namespace, what is written here
/// is received by it. The interface vanishes with this value.
pub struct Port {
    device: SyncDevice,
}

impl Port {
    /// Makes the interface to a network within the namespace, still down and without address.
    ///
    /// # Errors
    /// The system's.
    pub fn open(namespace: &Namespace, network: usize) -> Result<Self, NetworkError> {
        let what = || format!("open a TAP device in {}", namespace.name());
        let build = || DeviceBuilder::new().name(interface(network)).layer(Layer::L2).enable(false).build_sync();
        let deadline = Instant::now() + RELEASED_WITHIN;
        let device = loop {
            match namespace.enter(build)? {
                Err(busy) if busy.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(5));
                }
                built => break built.map_err(failed(what()))?,
            }
        };
        device.set_nonblocking(true).map_err(failed(what()))?;
        Ok(Self { device })
    }

    /// The next frame's length, its bytes in `buffer`; `None` if there is none now.
    ///
    /// # Errors
    /// The system's, if the device is gone.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.device.recv(buffer) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands a frame to the interface.
    ///
    /// # Errors
    /// The system's, if it is down or has no memory.
    pub fn write(&self, frame: &[u8]) -> io::Result<()> {
        self.device.send(frame).map(drop)
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
