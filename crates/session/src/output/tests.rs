//! Whatever is put, shared, inlaid or spooled comes out in order, and leaves nothing.
use super::*;
use consort_types::Rng;

/// All that is still to be written.
fn rest_of(output: &mut FrameQueue) -> Vec<u8> {
    let mut all = Vec::new();
    while !output.is_empty() {
        let front = output.front().to_vec();
        output.written(front.len());
        all.extend(front);
    }
    all
}

#[test]
fn it_wakes_once_until_it_is_empty() {
    let mut output = FrameQueue::default();
    assert!(!output.wakes());
    output.put(3).extend_from_slice(b"abc");
    assert!(output.wakes() && !output.wakes());
    output.written(2);
    output.put(3).extend_from_slice(b"de");
    assert!(!output.wakes());
    assert_eq!(output.front(), b"cde");
    output.written(99);
    assert!(output.is_empty() && !output.wakes());
    output.put(3).extend_from_slice(b"f");
    assert!(output.wakes());
}

#[test]
fn steady_traffic_needs_no_more_room_and_a_burst_is_given_back() {
    let mut output = FrameQueue::default();
    for round in 0..20_000 {
        output.put(100).extend_from_slice(&[7; 100]);
        if round % 10 != 0 {
            output.written(120);
        }
        assert!(output.last.capacity() + output.in_pieces <= 3 * PIECE);
    }
    output.put(0).resize(10 * PIECE, 0);
    output.written(usize::MAX);
    assert_eq!((output.last.capacity(), output.charge()), (0, 0));
}

#[test]
fn a_stream_that_never_runs_dry_uses_its_pieces_again() {
    let mut output = FrameQueue::default();
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..100_000 {
        output.put(1000).extend_from_slice(&[7; 1000]);
        if output.len() > 2 * PIECE {
            output.written(PIECE);
        }
        places.extend((output.last.len() == 1000).then(|| output.last.as_ptr() as usize));
    }
    assert!(places.len() <= 6, "{}", places.len());
}

#[test]
fn what_goes_over_the_disk_comes_out_in_order_and_leaves_nothing_there() {
    let mut rng = Rng::new(11);
    for _ in 0..40 {
        let (mut output, mut put, mut got) = (FrameQueue::default(), Vec::new(), Vec::new());
        let mut disk = VecDeque::new();
        for at in 0..300u32 {
            let frame = Bytes::from(vec![at as u8; rng.below(30_000) as usize + 5]);
            put.extend_from_slice(&frame);
            match rng.below(3) {
                0 => output.share(&frame),
                1 => inlay(&mut output, &frame),
                _ => output.put(frame.len()).extend_from_slice(&frame),
            }
            if rng.below(40) == 0 {
                output.begin_spooling();
            }
            while let Some(bytes) = output.next_to_spool() {
                disk.push_back(bytes);
            }
            if rng.below(3) == 0
                && let Some(len) = output.next_to_read()
            {
                assert_eq!(output.next_to_read(), None, "asked for once");
                assert!(!output.put_read(Bytes::from(vec![0; len + 1])), "not what was asked for");
                assert!(output.put_read(disk.pop_front().unwrap()));
            }
            let ready: Vec<u8> = output.pieces().flatten().copied().collect();
            assert_eq!(ready.is_empty(), !output.is_ready());
            let n = (rng.below(40_000) as usize).min(ready.len());
            got.extend_from_slice(&ready[..n]);
            output.written(n);
            assert_eq!(output.len(), put.len() - got.len());
            assert_eq!(output.spooled() as usize, disk.iter().map(Bytes::len).sum::<usize>());
            assert!(put.starts_with(&got));
        }
        while !output.is_empty() {
            if output.next_to_read().is_some() {
                assert!(output.put_read(disk.pop_front().unwrap()));
            }
            let front = output.front().to_vec();
            output.written(front.len());
            got.extend(front);
        }
        assert!(got == put && disk.is_empty());
        assert!(output.next_to_read().is_none() && !output.is_spooling());
        assert_eq!(output.charge(), 0);
    }
}

#[test]
fn whoever_is_cut_off_loses_what_is_on_disk_and_reads_the_frame_that_it_has_begun() {
    let mut output = FrameQueue::default();
    output.put(4).extend_from_slice(b"3abc3def");
    output.written(5);
    output.begin_spooling();
    (0..3).for_each(|_| output.put(PIECE).extend_from_slice(&vec![7; PIECE]));
    assert!(output.spooled() > 0 && output.next_to_spool().is_some());
    output.cut(|frame| 1 + usize::from(frame[0] - b'0'));
    output.put(1).extend_from_slice(b"0");
    assert_eq!((rest_of(&mut output), output.is_spooling(), output.spooled()), (b"def0".to_vec(), false, 0));
}

#[test]
fn whatever_is_appended_shared_and_written_comes_out_in_order() {
    let mut rng = Rng::new(7);
    for _ in 0..50 {
        let (mut output, mut put, mut got) = (FrameQueue::default(), Vec::new(), Vec::new());
        for byte in 0..200u8 {
            let frame = Bytes::from(vec![byte; rng.below(20_000) as usize]);
            put.extend_from_slice(&frame);
            match rng.below(4) {
                0 => output.share(&frame),
                1 => inlay(&mut output, &frame),
                _ => output.put(frame.len()).extend_from_slice(&frame),
            }
            let n = (rng.below(60_000) as usize).min(output.len());
            got.extend(output.pieces().flatten().take(n));
            output.written(n);
            assert_eq!(output.len(), put.len() - got.len());
            assert!(output.pieces().flatten().eq(&put[got.len()..]));
        }
        got.extend(rest_of(&mut output));
        assert!(got == put);
        assert_eq!(output.charge(), 0);
    }
}

/// A frame of which all but the first byte may be inlaid, in two slices.
fn inlay(output: &mut FrameQueue, frame: &Bytes) {
    let Some(first) = frame.first() else { return };
    output.put(frame.len()).extend_from_slice(&[*first]);
    output.inlay(frame, 1..frame.len() / 2);
    output.inlay(frame, (frame.len() / 2).max(1)..frame.len());
}

#[test]
fn who_keeps_up_is_given_large_slices_where_they_lie() {
    let frame = Bytes::from(vec![7; 10_000]);
    let mut output = FrameQueue::default();
    for _ in 0..3 {
        inlay(&mut output, &frame);
        inlay(&mut output, &frame.slice(..100));
    }
    let lying: Vec<_> = output.pieces().filter(|piece| frame.as_ptr_range().contains(&piece.as_ptr())).collect();
    assert_eq!(lying.iter().map(|piece| piece.len()).sum::<usize>(), 3 * 9_999);
    assert_eq!((output.len(), output.charge(), output.last.len()), (30_300, 30_300, 303));
    output.written(30_300);
    assert!(output.is_empty() && output.charge() == 0 && frame.is_unique());
}

#[test]
fn who_is_behind_keeps_no_slice() {
    let frame = Bytes::from(vec![7; 10_000]);
    let mut output = FrameQueue::default();
    inlay(&mut output, &frame);
    output.written(0);
    assert!(frame.is_unique() && output.len() == 10_000);
    inlay(&mut output, &frame);
    assert!(frame.is_unique(), "it is behind still");
    output.written(20_000);
    inlay(&mut output, &frame);
    assert!(!frame.is_unique(), "it has caught up");
    output.cut(|_| 10_000);
    assert!(frame.is_unique() && output.is_empty());
}

/// A message of that many bytes, as it comes in packets.
fn message(output: &mut FrameQueue, len: usize) {
    let slice = Bytes::from(vec![7; 1350]);
    output.put(len).extend_from_slice(b"head");
    (0..len / 1350).for_each(|_| output.inlay(&slice, 0..1350));
}

#[test]
fn what_a_large_message_took_is_given_back_once_it_is_read() {
    let mut output = FrameQueue::default();
    message(&mut output, 9 << 20);
    output.written(1);
    output.written(usize::MAX);
    let kept = output.last.capacity() + output.spare.capacity();
    assert!(output.is_empty() && kept < 4 * PIECE, "{kept} bytes are kept");
}

#[test]
fn large_messages_for_who_is_behind_take_about_what_they_cost() {
    let mut output = FrameQueue::default();
    output.share(&Bytes::from(vec![7; SHARED]));
    output.written(0);
    for _ in 0..3 {
        message(&mut output, 9 << 20);
        let (kept, charged) = (output.last.capacity() + output.spare.capacity(), output.last.len());
        assert!(kept < charged + 3 * PIECE, "{kept} bytes for {charged}");
    }
}

#[test]
fn no_more_is_inlaid_than_one_write_takes() {
    let frame = Bytes::from(vec![7; 2 * SHARED + 2]);
    let mut output = FrameQueue::default();
    (0..200).for_each(|_| inlay(&mut output, &frame));
    let (pieces, bytes) = output.pieces().fold((0, 0), |(n, len), piece| (n + 1, len + piece.len()));
    assert!((INLAID_MAX..=OUTPUT_PIECES).contains(&pieces), "{pieces}");
    assert_eq!((bytes, output.len()), (200 * frame.len(), bytes));
}

#[test]
fn what_many_read_is_kept_once() {
    let frame = Bytes::from(vec![7; 30_000]);
    let mut outputs: Vec<_> = std::iter::repeat_with(FrameQueue::default).take(100).collect();
    outputs.iter_mut().for_each(|output| output.share(&frame));
    assert!(outputs.iter().all(|output| output.front().as_ptr() == frame.as_ptr()));
    assert_eq!(outputs.iter().map(FrameQueue::charge).sum::<usize>(), 100 * EACH);
    let mut small = FrameQueue::default();
    small.share(&frame.slice(..SHARED - 1));
    assert_eq!((small.pieces.len(), small.charge()), (0, SHARED - 1));
}

/// A frame whose first byte is its length in hundreds.
fn frame(hundreds: u8) -> Vec<u8> {
    vec![hundreds; usize::from(hundreds) * 100]
}

#[test]
fn a_cut_leaves_only_the_frame_that_is_begun() {
    let len_of = |bytes: &[u8]| usize::from(bytes[0]) * 100;
    for (written, left) in
        [(0, 0), (1, 99), (99, 1), (100, 0), (250, 50), (300, 0), (2300, 0), (2301, 1_499), (3800, 0)]
    {
        for how in 0..3 {
            let mut output = FrameQueue::default();
            for hundreds in [1, 2, 20, 15, 3] {
                match how {
                    0 => output.share(&frame(hundreds).into()),
                    1 => inlay(&mut output, &frame(hundreds).into()),
                    _ => output.put(0).extend_from_slice(&frame(hundreds)),
                }
            }
            output.wakes();
            output.written(written);
            output.cut(len_of);
            assert_eq!(output.len(), left, "{written}");
            output.put(3).extend_from_slice(b"bye");
            assert_eq!(output.wakes(), left == 0);
            assert!(rest_of(&mut output).ends_with(b"bye"));
        }
    }
}
