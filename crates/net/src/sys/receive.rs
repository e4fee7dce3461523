//! Many datagrams with one call.
use super::{Arena, checked};
use bytes::BytesMut;
use consort_wire::copy::{LARGE_COPY, STAGGER, stagger};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// A buffer that is less than one in so many parts full is moved up to its predecessor, so that small datagrams do not
/// pin large rooms; a fuller one stays where the kernel put it.
const SPARSE: usize = 4;
/// Room for the three notes that we ask the kernel for, with their headers.
const NOTES: usize = 128;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct ControlBuffer([u8; NOTES]);

/// One buffer as it came: one datagram, or several equal ones of one sender.
#[derive(Debug)]
pub(crate) struct ReceivedBuffer {
    /// The bytes.
    pub(crate) bytes: BytesMut,
    /// The length of each datagram in it, if there are several; the last may be shorter.
    pub(crate) segment: Option<usize>,
    /// When it arrived, as time of day since 1970.
    pub(crate) stamp: Option<Duration>,
    /// How many datagrams this socket has dropped so far, modulo 2^32; absent means none.
    pub(crate) dropped: Option<u32>,
    /// The datagram was longer than its room; what is here is its front.
    pub(crate) cut: bool,
}

/// Reusable memory for `recvmmsg`.
pub(crate) struct Receiving {
    headers: Vec<libc::mmsghdr>,
    iovecs: Vec<libc::iovec>,
    notes: Vec<ControlBuffer>,
    /// The last buffer was a large one.
    large: bool,
}

impl Receiving {
    /// For at most `slots` buffers a call.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            headers: Vec::with_capacity(slots),
            iovecs: Vec::with_capacity(slots),
            notes: vec![ControlBuffer([0; NOTES]); slots],
            large: false,
        }
    }

    /// Receives what is there without waiting, each buffer into its own room of `room` bytes, and hands it to `sink`.
    /// Returns whether the socket was emptied.
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` where nothing is there.
    pub(crate) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        arena: &mut Arena,
        room: usize,
        mut sink: impl FnMut(ReceivedBuffer),
    ) -> io::Result<bool> {
        if std::mem::take(&mut self.large) {
            arena.room(room + STAGGER);
            arena.skip(stagger());
        }
        let space = arena.room(room);
        let slots = (space.len() / room).min(self.notes.len());
        self.prepare(space, room, slots);
        let count = self.call(socket)?;
        let mut end = 0; // of the last buffer, from where the space began
        for i in 0..count {
            let (start, len) = (self.place(arena, i * room, end, room, i), self.headers[i].msg_len as usize);
            arena.skip(start - end);
            let bytes = arena.take_mut(len);
            end = start + len;
            self.large = len >= LARGE_COPY;
            sink(self.describe(i, bytes));
        }
        Ok(count < slots)
    }

    fn prepare(&mut self, space: &mut [u8], room: usize, slots: usize) {
        self.iovecs.clear();
        self.headers.clear();
        for part in space.chunks_exact_mut(room).take(slots) {
            self.iovecs.push(libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: room });
        }
        for (iovec, notes) in self.iovecs.iter_mut().zip(&mut self.notes) {
            // SAFETY: for this plain structure all-zero bytes are a valid value: no name, no buffers.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = iovec;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = notes.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = NOTES as _;
            self.headers.push(header);
        }
    }

    fn call(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let (headers, count) = (self.headers.as_mut_ptr(), self.headers.len() as libc::c_uint);
        let now = std::ptr::null_mut();
        // SAFETY: `headers` are `count` valid headers; their iovecs point into the arena's room, which nobody else can
        // reach (it is borrowed mutably by our caller), their notes into `self.notes`; none moves during the call.
        let answer = unsafe { libc::recvmmsg(socket.as_raw_fd(), headers, count, libc::MSG_DONTWAIT, now) };
        checked(answer).map(|n| n as usize)
    }

    /// Where buffer `i` is to lie, counted from where the space began; moves it there if it is small.
    fn place(&self, arena: &mut Arena, from: usize, end: usize, room: usize, i: usize) -> usize {
        let len = self.headers[i].msg_len as usize;
        if from == end || len * SPARSE > room {
            return from;
        }
        let space = arena.room(0);
        space.copy_within(from - end..from - end + len, 0);
        end
    }

    fn describe(&self, i: usize, bytes: BytesMut) -> ReceivedBuffer {
        let header = &self.headers[i].msg_hdr;
        let cut = header.msg_flags & libc::MSG_TRUNC != 0;
        let mut received = ReceivedBuffer { bytes, segment: None, stamp: None, dropped: None, cut };
        let mut note = first_note(header);
        while let Some(present) = note {
            read_note(present, &mut received);
            note = next_note(header, present);
        }
        received
    }
}

fn first_note(header: &libc::msghdr) -> Option<&libc::cmsghdr> {
    // SAFETY: the kernel has filled in the header's notes and their length; the macro's answer is null or lies in them,
    // and they live as long as the header is borrowed.
    unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }
}

fn next_note<'a>(header: &'a libc::msghdr, note: &libc::cmsghdr) -> Option<&'a libc::cmsghdr> {
    // SAFETY: `note` came from the same header's notes, see `first_note`.
    unsafe { libc::CMSG_NXTHDR(header, note).as_ref() }
}

fn read_note(note: &libc::cmsghdr, into: &mut ReceivedBuffer) {
    match (note.cmsg_level, note.cmsg_type) {
        (libc::SOL_UDP, libc::UDP_GRO) => {
            let segment = usize::try_from(value::<libc::c_int>(note)).unwrap_or(0);
            into.segment = (segment > 0 && segment < into.bytes.len()).then_some(segment);
        }
        (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => into.dropped = Some(value::<u32>(note)),
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => into.stamp = time(value::<[i64; 2]>(note)),
        _ => {}
    }
}

fn time([seconds, nanoseconds]: [i64; 2]) -> Option<Duration> {
    Some(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?))
}

/// What a note carries. All kinds that are read here are plain numbers.
fn value<T: Copy + Default>(note: &libc::cmsghdr) -> T {
    let carried = note.cmsg_len.saturating_sub(size_of::<libc::cmsghdr>());
    if carried < size_of::<T>() {
        return T::default();
    }
    // SAFETY: the note's own length says that a `T` follows its header; it may not be aligned, so it is copied. `T` is a
    // number or an array of numbers, for which all bytes are valid.
    unsafe { libc::CMSG_DATA(note).cast::<T>().read_unaligned() }
}
