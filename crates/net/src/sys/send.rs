//! Many datagrams with one call, equal ones in one super-packet.
use super::checked;
use consort_node::Datagram;
use socket2::SockAddr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Room for the one control message we write, with its header.
const CONTROL_LEN: usize = 32;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct ControlMessage([u8; CONTROL_LEN]);

/// Datagrams that leave together: one alone, or several of equal length (the last may be shorter) as one super-packet
/// that the kernel or the network card cuts (GSO).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentedBatch {
    /// How many datagrams.
    pub(crate) count: usize,
    /// The length of each but the last, in bytes.
    pub(crate) segment: u16,
}

/// Reusable memory for `sendmmsg`.
#[derive(Default)]
pub(crate) struct Sending {
    headers: Vec<libc::mmsghdr>,
    iovecs: Vec<libc::iovec>,
    controls: Vec<ControlMessage>,
}

impl Sending {
    /// Sends the batches, cut from `datagrams` in order, to one address without waiting. Returns how many batches left.
    ///
    /// # Errors
    /// The kernel's, about the first batch; none has left then.
    pub(crate) fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        to: &SockAddr,
        datagrams: impl Iterator<Item = &'a Datagram>,
        batches: &[SegmentedBatch],
    ) -> io::Result<usize> {
        self.fill(datagrams);
        self.build_messages(to, batches);
        let (headers, count) = (self.headers.as_mut_ptr(), self.headers.len() as libc::c_uint);
        // SAFETY: `headers` are `count` valid headers. They point to iovecs and control messages of this structure, which do not
        // move until the call is over, to datagrams that are borrowed for longer than that, and to the borrowed address.
        let answer = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers, count, libc::MSG_DONTWAIT) };
        checked(answer).map(|n| n as usize)
    }

    /// Two iovecs for each datagram.
    fn fill<'a>(&mut self, datagrams: impl Iterator<Item = &'a Datagram>) {
        self.iovecs.clear();
        for datagram in datagrams {
            for part in [&datagram.head, &datagram.body] {
                self.iovecs.push(libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
            }
        }
    }

    fn build_messages(&mut self, to: &SockAddr, batches: &[SegmentedBatch]) {
        self.headers.clear();
        self.controls.clear();
        self.controls.extend(batches.iter().map(|batch| segment_message(batch.segment)));
        let mut iovecs = &mut self.iovecs[..];
        for (batch, control) in batches.iter().zip(&mut self.controls) {
            let (parts, rest) = std::mem::take(&mut iovecs).split_at_mut(batch.count * 2);
            iovecs = rest;
            // SAFETY: for this plain structure all-zero bytes are a valid value: no name, no buffers.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_name = to.as_ptr().cast_mut().cast();
            header.msg_hdr.msg_namelen = to.len();
            header.msg_hdr.msg_iov = parts.as_mut_ptr();
            header.msg_hdr.msg_iovlen = parts.len() as _;
            if batch.count > 1 {
                header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
                header.msg_hdr.msg_controllen = control_message_len() as _;
            }
            self.headers.push(header);
        }
    }
}

fn control_message_len() -> usize {
    // SAFETY: arithmetic only.
    unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) as usize }
}

/// Tells the kernel how long the datagrams in a super-packet are.
fn segment_message(segment: u16) -> ControlMessage {
    let mut control = ControlMessage([0; CONTROL_LEN]);
    // SAFETY: arithmetic only.
    let len = unsafe { libc::CMSG_LEN(size_of::<u16>() as u32) };
    let header = libc::cmsghdr { cmsg_len: len as _, cmsg_level: libc::SOL_UDP, cmsg_type: libc::UDP_SEGMENT };
    let start: *mut libc::cmsghdr = control.0.as_mut_ptr().cast();
    // SAFETY: the control message is aligned for a header and has room for it and two bytes behind it (NOTE >= CMSG_SPACE(2)).
    unsafe {
        start.write(header);
        libc::CMSG_DATA(start).cast::<u16>().write_unaligned(segment);
    }
    control
}
