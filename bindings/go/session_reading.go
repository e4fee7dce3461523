package consort

// sessionReading is what a session reads, where it goes on, and when it believes that histories have parted, or that
// something is missing.
type sessionReading struct {
	groups []string
	// from is where the next connection begins.
	from ReadFrom
	// readTo is behind the last message, where other views were entered since: nothing was read there.
	readTo *Place
	// asked is what daemons said that do not go on with it, by the number of their address.
	asked map[int]answer
	// sought is the number of the view in which a gap ends that is not told; 0 for none. Who has what is missing has come so
	// far.
	sought uint64
}

// answer is what a daemon said that does not go on with a reading. The zero answer is none, or that it does not let this
// client read.
type answer struct {
	kind answerKind
	// place is up to where a daemon of another history has what was read, nil for nowhere; or up to where one lacks what
	// follows.
	place *Place
}

type answerKind uint8

const (
	answerNone answerKind = iota
	answerOther
	answerLacks
)

// nextStep is what follows where a daemon does not go on with the reading.
type nextStep struct {
	kind stepKind
	// common is the place that parted histories have in common, nil for none.
	common *Place
	// at is the number of the address of the daemon to ask, or of the one that has the place in common; -1 for none.
	at int
}

type stepKind uint8

const (
	// stepGive: no daemon has said anything of use.
	stepGive stepKind = iota
	// stepAsk: the daemon at an address may know better, or lacks least.
	stepAsk
	// stepAgain: the same daemon goes on where the reading begins now.
	stepAgain
	// stepPart: the histories have parted.
	stepPart
)

// goesOn: the program is told this, and had come as far as that before.
func (r *sessionReading) goesOn(event Event, before *progress) {
	switch event := event.(type) {
	case *ReadingBegan:
		// Such a daemon may yet say that something is missing.
		if r.sought == 0 {
			r.asked = nil
		}
	case *inView:
		r.enters(before)
	case *CaughtUp:
		r.asked = nil
		r.enters(before)
	default:
		r.asked, r.readTo = nil, nil
		if _, is := event.(*Gap); is {
			r.sought = 0
		}
	}
}

func (r *sessionReading) enters(before *progress) {
	if r.readTo == nil {
		r.readTo = before.place()
	}
}

// isAsking is whether some daemon did not know, and others are asked.
func (r *sessionReading) isAsking() bool { return len(r.asked) > 0 }

// isOther: the daemon at this address, of so many, has another history from here on.
func (r *sessionReading) isOther(at int, common *Place, addresses int) nextStep {
	// E31 of sessions.md.
	if from, is := r.nothingReadBehind(common); is {
		r.from = FromBookmark(from)
		return nextStep{kind: stepAgain, at: -1}
	}
	// E28 of sessions.md.
	if common != nil && r.depth(common) == 0 && r.sought == 0 {
		return nextStep{kind: stepPart, common: common, at: at}
	}
	r.note(at, answer{answerOther, common})
	return r.next(at, addresses)
}

// noAnswer: the daemon at this address, of so many, gives no answer.
func (r *sessionReading) noAnswer(at, addresses int) nextStep {
	if r.asked[at].kind != answerOther {
		r.note(at, answer{})
	}
	return r.next(at, addresses)
}

// lacks: the daemon at this address, of so many, lacks what follows, up to this place. Which one is to be asked; -1 where the
// program is to be told.
func (r *sessionReading) lacks(at int, to *Place, addresses int) int {
	// E30 of sessions.md.
	r.sought = max(r.sought, to.View.Number)
	again := r.asked[at].kind == answerLacks
	r.note(at, answer{answerLacks, to})
	if step := r.next(at, addresses); step.kind == stepAsk && step.at != at && !again {
		return step.at
	}
	return -1
}

// isBehind: the daemon at this address, of so many, has told all that it has, and so far. Which one is to be asked where
// others have come further, -1 for none.
func (r *sessionReading) isBehind(at int, arrived *progress, addresses int) int {
	// E30 of sessions.md.
	if place := arrived.place(); place != nil && place.View.Number < r.sought {
		if step := r.noAnswer(at, addresses); step.kind == stepAsk && step.at != at {
			return step.at
		}
	}
	r.sought = 0
	return -1
}

func (r *sessionReading) note(at int, said answer) {
	if r.asked == nil {
		r.asked = map[int]answer{}
	}
	r.asked[at] = said
}

// part goes on there, or with the oldest that there is.
func (r *sessionReading) part(common *Place) {
	r.asked, r.readTo, r.sought, r.from = nil, nil, 0, FromStart()
	if common != nil {
		r.from = FromBookmark(bookmarkAt(common, nil))
	}
}

// bookmarkAt is that of somebody who has read the views before, and this one up to a place.
func bookmarkAt(place *Place, before []viewLine) Bookmark {
	next := Place{Position: place.Position, Index: place.Index}
	return Bookmark{next: next, trail: &viewTrail{view: place.View, before: before}}
}

func (r *sessionReading) next(at, addresses int) nextStep {
	for step := 1; step < addresses; step++ {
		other := (at + step) % addresses
		if _, is := r.asked[other]; !is {
			return nextStep{kind: stepAsk, at: other}
		}
	}
	if lacking := r.lacking(addresses); lacking >= 0 {
		return nextStep{kind: stepAsk, at: lacking}
	}
	for _, said := range r.asked {
		if said.kind == answerOther {
			return r.latest(addresses)
		}
	}
	r.asked, r.sought = nil, 0
	return nextStep{kind: stepGive, at: -1}
}

// lacking is the daemon that lacks least; -1 where none has said so.
func (r *sessionReading) lacking(addresses int) int {
	least, to := -1, Place{}
	for at := range addresses {
		if said := r.asked[at]; said.kind == answerLacks && (least < 0 || endsBefore(said.place, &to)) {
			least, to = at, *said.place
		}
	}
	return least
}

// endsBefore is whether a gap ends in an earlier view, or earlier in the same.
func endsBefore(end, other *Place) bool {
	if end.View.Number != other.View.Number {
		return end.View.Number < other.View.Number
	}
	return end.isBefore(*other)
}

// latest parts at the latest place that a daemon has in common with the reader.
func (r *sessionReading) latest(addresses int) nextStep {
	latest := nextStep{kind: stepPart, at: -1}
	for at := range addresses {
		said := r.asked[at]
		if said.kind != answerOther || said.place == nil {
			continue
		}
		if latest.common == nil || r.isLater(said.place, latest.common) {
			latest.common, latest.at = said.place, at
		}
	}
	return latest
}

// nothingReadBehind is where to go on from a place in common, if the reading came further, but no message stood there.
func (r *sessionReading) nothingReadBehind(common *Place) (from Bookmark, is bool) {
	trail := r.from.at.trail
	if common == nil || r.readTo == nil || trail == nil {
		return Bookmark{}, false
	}
	depth, reached := r.depth(common), r.from.at.Next()
	if depth < 0 || r.isLater(common, &reached) || !r.isLater(common, r.readTo) {
		return Bookmark{}, false
	}
	return bookmarkAt(common, trail.before[:len(trail.before)-depth]), true
}

// isLater is whether a place was read no earlier than another one.
func (r *sessionReading) isLater(place, than *Place) bool {
	depth, other := r.depth(place), r.depth(than)
	if depth != other {
		return other < 0 || depth >= 0 && depth < other
	}
	return !place.isBefore(*than)
}

// depth is how many views ago the place's view was read; -1 where it was not.
func (r *sessionReading) depth(place *Place) int { return r.from.at.trail.depth(place.View) }
