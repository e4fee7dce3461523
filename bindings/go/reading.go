package consort

import "encoding/binary"

// groupsMax is how many groups one reading may name.
const groupsMax = 100

// ReadingEndCause is why there is no reading, or none any more.
type ReadingEndCause uint8

const (
	EndTrimmed     ReadingEndCause = 1 // What was asked for is not retained any more.
	EndBeyondEnd   ReadingEndCause = 2 // The order does not reach that far.
	EndUnsupported ReadingEndCause = 3 // The daemons retain nothing.
	EndClosed      ReadingEndCause = 4 // A closed group, and the client is not in it.
	EndBadGroup    ReadingEndCause = 5 // No group can be called so.
	EndOtherOrder  ReadingEndCause = 6 // The place belongs to another order than the daemons'.
	EndEnded       ReadingEndCause = 7 // Another reading was asked for.
	EndParted      ReadingEndCause = 8 // A Session tells *Parted in its place, and reads on.
	EndDenied      ReadingEndCause = 9 // The rules do not let the client receive what a group is sent.
)

var readingEnds = []string{"", "trimmed", "beyond_end", "unsupported", "closed", "bad_group", "other_order", "ended", "parted",
	"denied"}

func (c ReadingEndCause) String() string { return named(readingEnds, uint8(c)) }

// ReadingBegan says that a reading begins: the messages follow.
type ReadingBegan struct {
	// From is the first place that is told.
	From Place
	// Oldest and Newest are the positions that the daemon can tell.
	Oldest, Newest uint64
	order          uint64
	// isReplaced: another reading was asked for meanwhile.
	isReplaced bool
}

// CaughtUp says that all that there was is told; messages that follow are new.
type CaughtUp struct {
	// Position is the last one of the order.
	Position uint64
}

// Gap says that the daemon does not have what stands from one place to another; that one is not included. It retains it no
// more, or was cut off when others ordered it. No other daemon of a Session's that was asked has it, or lacks less. The reading
// goes on there.
type Gap struct {
	From, To Place
	closing  *viewClosing
}

// ReadingEnded says that a reading was refused, or is over.
type ReadingEnded struct {
	Cause ReadingEndCause
	// Oldest and Newest are the positions that the daemon can tell; 0 where it can tell none.
	Oldest, Newest uint64
	Text           string
	// common is where histories parted.
	common *Place
}

// inView says that the positions that follow are of this view; also that it is being closed.
type inView struct {
	view    ViewID
	line    uint64
	closing *viewClosing
}

func (b *ReadingBegan) weight() int { return 64 }
func (c *CaughtUp) weight() int     { return 64 }
func (g *Gap) weight() int          { return 64 }
func (e *ReadingEnded) weight() int { return len(e.Text) }
func (v *inView) weight() int       { return 64 }

// readRequest asks to read groups from a place on.
func readRequest(groups []string, from ReadFrom) []byte {
	next, trail := from.at.next, from.at.trail
	if trail == nil {
		return frame(kindRead, func(bytes []byte) []byte {
			bytes = binary.BigEndian.AppendUint64(bytes, from.at.order)
			return appendNames(appendPlace(bytes, next), groups)
		})
	}
	return frame(kindReadOn, func(bytes []byte) []byte {
		bytes = appendPlace(appendView(bytes, trail.view), next)
		if closing := trail.closing; closing == nil {
			bytes = append(bytes, 0)
		} else {
			bytes = binary.BigEndian.AppendUint64(append(bytes, 1), closing.line)
			bytes = binary.BigEndian.AppendUint64(bytes, closing.together)
		}
		bytes = binary.BigEndian.AppendUint16(bytes, uint16(len(trail.before)))
		for _, before := range trail.before {
			bytes = binary.BigEndian.AppendUint64(appendView(bytes, before.view), before.line)
		}
		return appendNames(bytes, groups)
	})
}

func appendPlace(bytes []byte, place Place) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(bytes, place.Position), place.Index)
}

func appendView(bytes []byte, view ViewID) []byte {
	bytes = binary.BigEndian.AppendUint64(bytes, view.Number)
	bytes = binary.BigEndian.AppendUint16(bytes, view.Representative.Node)
	return binary.BigEndian.AppendUint64(bytes, view.Representative.Incarnation)
}

// ofReading reads what is told of a reading beside messages; nil where a frame of this kind tells nothing of one.
func (r *reader) ofReading(kind byte) Event {
	switch kind {
	case kindBegan:
		began := &ReadingBegan{order: r.u64(), From: r.place()}
		began.Oldest, began.Newest = r.u64(), r.u64()
		return began
	case kindNoReading:
		ended := &ReadingEnded{Cause: ReadingEndCause(r.u8()), Oldest: r.u64(), Newest: r.u64(), Text: r.text()}
		if ended.Cause == EndParted && r.flag() {
			common := r.placeInView()
			ended.common = &common
		}
		return ended
	case kindCaughtUp:
		return &CaughtUp{Position: r.u64()}
	case kindUntold:
		from, last := r.u64(), r.u64()
		return &Gap{From: Place{Position: from}, To: Place{Position: behind(last)}}
	case kindInView:
		return &inView{view: r.view(), line: r.u64(), closing: r.closing()}
	case kindGap:
		return &Gap{From: r.placeInView(), To: r.placeInView(), closing: r.closing()}
	}
	return nil
}

func (r *reader) place() Place { return Place{Position: r.u64(), Index: r.u16()} }

func (r *reader) placeInView() Place { return Place{View: r.view(), Position: r.u64(), Index: r.u16()} }

func (r *reader) closing() *viewClosing {
	if !r.flag() {
		return nil
	}
	return &viewClosing{line: r.u64(), together: r.u64()}
}

// flag reads a byte that is 0 or 1.
func (r *reader) flag() bool {
	flag := r.u8()
	if flag > 1 {
		r.failed = true
	}
	return flag == 1
}
