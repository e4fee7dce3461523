package consort

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Place is where a message stands in the order. Several that were ordered as one have one position, and are counted by Index
// from 0.
type Place struct {
	// View is the view that the position belongs to; the zero ViewID where positions last.
	View     ViewID
	Position uint64
	Index    uint16
}

// String is the place without its view: 1234, or 1234.2.
func (p Place) String() string {
	if p.Index == 0 {
		return strconv.FormatUint(p.Position, 10)
	}
	return strconv.FormatUint(p.Position, 10) + "." + strconv.FormatUint(uint64(p.Index), 10)
}

// isBefore is whether a place stands before another one of the same view.
func (p Place) isBefore(other Place) bool {
	return p.Position < other.Position || p.Position == other.Position && p.Index < other.Index
}

// behind is the position behind another.
func behind(position uint64) uint64 {
	return position + min(1, math.MaxUint64-position)
}

// parsePlace reads a place as it is written.
func parsePlace(text string) (place Place, is bool) {
	position, index, indexed := strings.Cut(text, ".")
	if !indexed {
		index = "0"
	}
	number, ok := digits(index, 16)
	place.Index = uint16(number)
	place.Position, is = digits(position, 64)
	return place, is && ok
}

// digits reads a number of nothing but digits.
func digits(text string, bits int) (number uint64, is bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	number, err := strconv.ParseUint(text, 10, bits)
	return number, err == nil
}

// viewClosing is how a daemon closes a view: before its line all members have the same messages, and those that close the
// view together have the same behind it.
type viewClosing struct{ line, together uint64 }

// viewTrail is what a reader knows of the views it has read: with its place this says whether it may go on elsewhere. It is
// never changed once it is made.
type viewTrail struct {
	view    ViewID
	closing *viewClosing
	// before has the views before, the oldest first.
	before []viewLine
}

// viewLine is a view that was read, and its line.
type viewLine struct {
	view ViewID
	line uint64
}

// trailMax is how many views before the present one are remembered.
const trailMax = 16

// entered is the trail once its daemon has told that it is in a view, which it entered at that line of the view before.
func (t *viewTrail) entered(view ViewID, line uint64, closing *viewClosing) *viewTrail {
	switch {
	case t == nil:
		return &viewTrail{view: view, closing: closing}
	case t.view == view:
		return &viewTrail{view: view, closing: closing, before: t.before}
	}
	before := append(slices.Clone(t.before), viewLine{t.view, line})
	return &viewTrail{view: view, closing: closing, before: before[max(0, len(before)-trailMax):]}
}

// depth is how many views ago a view was read: 0 for the one that was read last, -1 for none of them.
func (t *viewTrail) depth(view ViewID) int {
	if t == nil {
		return -1
	}
	if t.view == view {
		return 0
	}
	for ago := 1; ago <= len(t.before); ago++ {
		if t.before[len(t.before)-ago].view == view {
			return ago
		}
	}
	return -1
}
