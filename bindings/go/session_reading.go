package consort

// sessionReading is what a session reads, where it goes on, and when it believes that histories have parted.
type sessionReading struct {
	groups []string
	// from is where the next connection begins.
	from ReadFrom
	// asked has the daemons that were not in the view that was read last, or say nothing, by the number of their address:
	// up to where each has what was read, nil for nowhere.
	asked map[int]*Place
}

// nextStep is what follows where a daemon does not go on with the reading.
type nextStep struct {
	// parts: the histories have parted, at the place that they have in common, if there is one.
	parts  bool
	common *Place
	// at is the number of the address that knows: of the daemon to ask, or of the one that has that place; -1 for none.
	at int
}

// isAsking is whether some daemon did not know, and others are asked.
func (r *sessionReading) isAsking() bool { return len(r.asked) > 0 }

// begun: a daemon goes on with it.
func (r *sessionReading) begun() { r.asked = nil }

// isOther: the daemon at this address, of so many, has another history from here on.
func (r *sessionReading) isOther(at int, common *Place, addresses int) nextStep {
	if common != nil && r.depth(common) == 0 {
		return nextStep{parts: true, common: common, at: at}
	}
	r.note(at, common)
	return r.next(at, addresses)
}

// noAnswer: the daemon at this address, of so many, gives no answer.
func (r *sessionReading) noAnswer(at, addresses int) nextStep {
	if _, is := r.asked[at]; !is {
		r.note(at, nil)
	}
	return r.next(at, addresses)
}

func (r *sessionReading) note(at int, common *Place) {
	if r.asked == nil {
		r.asked = map[int]*Place{}
	}
	r.asked[at] = common
}

// part goes on there, or with the oldest that there is.
func (r *sessionReading) part(common *Place) {
	r.asked, r.from = nil, FromStart()
	if common != nil {
		next := Place{Position: common.Position, Index: common.Index}
		r.from = FromBookmark(Bookmark{next: next, trail: &viewTrail{view: common.View}})
	}
}

func (r *sessionReading) next(at, addresses int) nextStep {
	for step := 1; step < addresses; step++ {
		other := (at + step) % addresses
		if _, is := r.asked[other]; !is {
			return nextStep{at: other}
		}
	}
	return r.latest(addresses)
}

// latest parts at the latest place that a daemon has in common with the reader.
func (r *sessionReading) latest(addresses int) nextStep {
	latest := nextStep{parts: true, at: -1}
	for at := range addresses {
		place := r.asked[at]
		if place != nil && (latest.common == nil || r.isLater(place, latest.common)) {
			latest.common, latest.at = place, at
		}
	}
	return latest
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
