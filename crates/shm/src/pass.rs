//! Files that go through a Unix socket.
use rustix::fs::fstat;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg, sockopt,
};
use rustix::process::geteuid;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The other end's memory file, and who has made it.
#[derive(Debug)]
pub struct MemoryFile {
    pub(crate) file: OwnedFd,
    pub(crate) is_trusted: bool,
}

impl From<OwnedFd> for MemoryFile {
    /// Of whom nothing is known.
    fn from(file: OwnedFd) -> Self {
        Self { file, is_trusted: false }
    }
}

impl MemoryFile {
    /// What came through a socket. Whoever runs as our own user, or as root, could read and write all our memory as it is:
    /// it is trusted to keep to the rules of a writer. That is so only if both the process at the other end and the one
    /// that made the file are such.
    fn through(socket: BorrowedFd<'_>, file: OwnedFd) -> Self {
        let peer = sockopt::socket_peercred(socket).is_ok_and(|peer| is_trusted(peer.uid.as_raw()));
        let is_trusted = peer && fstat(&file).is_ok_and(|file| is_trusted(file.st_uid));
        Self { file, is_trusted }
    }
}

/// Users whom this process has no name for.
const NOBODY: u32 = 65_534;

fn is_trusted(user: u32) -> bool {
    (user == geteuid().as_raw() || user == 0) && user != NOBODY
}

/// Sends the front of `bytes`, and a file with the first of them, without waiting; returns how many bytes.
///
/// # Errors
/// What the kernel says.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)?)
}

/// Receives bytes without waiting, and memory if just one file came with them: others are closed.
///
/// # Errors
/// What the kernel says.
pub fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<(usize, Option<MemoryFile>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let n = recvmsg(socket, &mut [IoSliceMut::new(into)], &mut control, flags)?.bytes;
    let mut files: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            files.extend(more);
        }
    }
    let only = files.len() == 1;
    Ok((n, files.pop().filter(|_| only).map(|file| MemoryFile::through(socket, file))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_file_comes_with_its_bytes_and_with_no_others() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let mut file = std::fs::File::from(rustix::fs::memfd_create(c"test", rustix::fs::MemfdFlags::empty()).unwrap());
        file.write_all(b"inside").unwrap();
        file.rewind().unwrap();
        assert_eq!(send(here.as_fd(), b"hello", file.as_fd()).unwrap(), 5);
        let mut bytes = [0; 99];
        let (n, passed) = receive(there.as_fd(), &mut bytes).unwrap();
        let mut inside = String::new();
        std::fs::File::from(passed.unwrap().file).read_to_string(&mut inside).unwrap();
        assert_eq!((&bytes[..n], &inside[..]), (&b"hello"[..], "inside"));
        there.write_all(b"plain").unwrap();
        assert!(matches!(receive(here.as_fd(), &mut bytes), Ok((5, None))));
        assert_eq!(receive(here.as_fd(), &mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(there);
        assert!(matches!(receive(here.as_fd(), &mut bytes), Ok((0, None))));
    }

    #[test]
    fn only_what_our_own_user_or_root_has_made_is_trusted() {
        let own = geteuid().as_raw();
        assert!(is_trusted(own) && is_trusted(0));
        assert!(!is_trusted(own + 1) && !is_trusted(NOBODY));
        let (here, there) = UnixStream::pair().unwrap();
        let file = || rustix::fs::memfd_create(c"test", rustix::fs::MemfdFlags::empty()).unwrap();
        assert!(!MemoryFile::from(file()).is_trusted);
        send(here.as_fd(), b"x", file().as_fd()).unwrap();
        assert!(receive(there.as_fd(), &mut [0]).unwrap().1.unwrap().is_trusted);
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!MemoryFile::through(tcp.as_fd(), file()).is_trusted, "nobody knows who is there");
    }

    #[test]
    fn more_than_one_file_is_none() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [here.as_fd(); 4];
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        sendmsg(&here, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        assert!(matches!(receive(there.as_fd(), &mut [0; 9]), Ok((1, None))));
    }

    #[test]
    fn who_knows_nothing_of_files_reads_the_bytes() {
        let (here, mut there) = UnixStream::pair().unwrap();
        send(here.as_fd(), b"hello", here.as_fd()).unwrap();
        let mut bytes = [0; 5];
        there.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"hello");
    }
}
