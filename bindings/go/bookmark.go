package consort

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bookmark is how far a reading has come: with it a reading goes on later, at any daemon and in any program. The zero
// Bookmark is that of no reading.
//
// Its text is for a file, and the same in all languages. Should the daemons have begun another order meanwhile, or have
// another history, the reading ends as *ReadingEnded or goes on as *Parted says.
type Bookmark struct {
	// order names the order; 0 where positions belong to views.
	order uint64
	// next is the first place that was not read, without its view.
	next Place
	// trail has the view of that, and those before; nil where positions last.
	trail *viewTrail
}

// IsZero is whether it is the bookmark of no reading.
func (b Bookmark) IsZero() bool { return b == Bookmark{} }

// Next is the first place that was not read.
func (b Bookmark) Next() Place {
	next := b.next
	if b.trail != nil {
		next.View = b.trail.view
	}
	return next
}

// String is its text, which ParseBookmark reads: 00000000deadbeef:1234, with views behind it where positions belong to those.
// That of no reading is empty.
func (b Bookmark) String() string {
	if b.IsZero() {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%016x:%s", b.order, b.next)
	if b.trail == nil {
		return text.String()
	}
	fmt.Fprintf(&text, "@%s", slashed(b.trail.view))
	if closing := b.trail.closing; closing != nil {
		fmt.Fprintf(&text, "!%d/%d", closing.line, closing.together)
	}
	for _, before := range b.trail.before {
		fmt.Fprintf(&text, "+%s/%d", slashed(before.view), before.line)
	}
	return text.String()
}

func slashed(view ViewID) string {
	return fmt.Sprintf("%d/%d/%d", view.Number, view.Representative.Node, view.Representative.Incarnation)
}

// MarshalText is its text.
func (b Bookmark) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads its text, as ParseBookmark does, and also that of no reading.
func (b *Bookmark) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*b = Bookmark{}
		return nil
	}
	read, err := ParseBookmark(string(text))
	if err == nil {
		*b = read
	}
	return err
}

// ParseBookmark reads the text of a bookmark. The error is ErrInvalid.
func ParseBookmark(text string) (Bookmark, error) {
	place, views, hasTrail := strings.Cut(text, "@")
	order, next, is := strings.Cut(place, ":")
	bookmark := Bookmark{}
	var err error
	if bookmark.order, err = strconv.ParseUint(order, 16, 64); err != nil || !is || len(order) != 16 {
		return Bookmark{}, noPlace(text)
	}
	if bookmark.next, is = parsePlace(next); !is {
		return Bookmark{}, noPlace(text)
	}
	if hasTrail {
		if bookmark.trail = parseTrail(views); bookmark.trail == nil {
			return Bookmark{}, noPlace(text)
		}
	}
	return bookmark, nil
}

// noPlace says that a text names no place; the front of a long one is enough.
func noPlace(text string) error {
	return invalid("%.60q is no place to read from; give `start`, `new`, a position or a bookmark", text)
}

// parseTrail reads the views of a bookmark; nil where they are none.
func parseTrail(text string) *viewTrail {
	parts := strings.Split(text, "+")
	if len(parts) > 1+trailMax {
		return nil
	}
	first, closing, closes := strings.Cut(parts[0], "!")
	numbers := slashes(first, 3)
	if numbers == nil {
		return nil
	}
	trail := &viewTrail{view: viewOf(numbers)}
	if closes {
		if numbers = slashes(closing, 2); numbers == nil {
			return nil
		}
		trail.closing = &viewClosing{line: numbers[0], together: numbers[1]}
	}
	for _, part := range parts[1:] {
		if numbers = slashes(part, 4); numbers == nil {
			return nil
		}
		trail.before = append(trail.before, viewLine{view: viewOf(numbers), line: numbers[3]})
	}
	return trail
}

// slashes reads so many numbers between slashes, of which the second is one of 16 bits where there are more than two.
func slashes(text string, count int) []uint64 {
	parts := strings.Split(text, "/")
	if len(parts) != count {
		return nil
	}
	numbers := make([]uint64, count)
	for at, part := range parts {
		number, is := digits(part, 64)
		if !is || at == 1 && count > 2 && number > math.MaxUint16 {
			return nil
		}
		numbers[at] = number
	}
	return numbers
}

func viewOf(numbers []uint64) ViewID {
	return ViewID{Number: numbers[0], Representative: DaemonID{Node: uint16(numbers[1]), Incarnation: numbers[2]}}
}

// ReadFrom is where a reading begins. The zero ReadFrom is the start.
type ReadFrom struct {
	at Bookmark
	// goesOn: something was read before that.
	goesOn bool
}

// FromStart begins at the oldest message that there is, whichever that is.
func FromStart() ReadFrom { return ReadFrom{} }

// FromNew begins with what comes; nothing from before.
func FromNew() ReadFrom { return FromPosition(math.MaxUint64) }

// FromPosition begins at a position of whatever order the daemons keep. Where positions belong to views, none means anything
// without its view.
func FromPosition(position uint64) ReadFrom {
	return ReadFrom{at: Bookmark{next: Place{Position: position}}}
}

// FromBookmark goes on behind what was read before.
func FromBookmark(bookmark Bookmark) ReadFrom {
	return ReadFrom{at: bookmark, goesOn: !bookmark.IsZero()}
}

// ParseReadFrom reads where a reading begins: start, new, a position such as 1234 or 1234.2, or a bookmark. The error is
// ErrInvalid.
func ParseReadFrom(text string) (ReadFrom, error) {
	switch {
	case text == "start":
		return FromStart(), nil
	case text == "new":
		return FromNew(), nil
	case strings.Contains(text, ":"):
		bookmark, err := ParseBookmark(text)
		return FromBookmark(bookmark), err
	}
	place, is := parsePlace(text)
	if !is {
		return ReadFrom{}, noPlace(text)
	}
	return ReadFrom{at: Bookmark{next: place}}, nil
}
