package consort

// progress follows one reading after the other: how far each has come.
type progress struct {
	// begun: the reading has begun, and has come as far as reached.
	begun   bool
	reached Bookmark
	// trail is what the next reading that begins goes on with.
	trail *viewTrail
}

// ask forgets how far a reading came: another one was asked for.
func (p *progress) ask(from ReadFrom) {
	*p = progress{trail: from.at.trail}
}

// bookmark is where to read on, unless no reading has begun, or the one that has does not know its view yet.
func (p *progress) bookmark() (bookmark Bookmark, is bool) {
	if !p.begun || p.reached.order == 0 && p.reached.trail == nil {
		return Bookmark{}, false
	}
	return p.reached, true
}

// place is the same in a view; nil where positions last, too.
func (p *progress) place() *Place {
	bookmark, is := p.bookmark()
	if !is || bookmark.trail == nil {
		return nil
	}
	place := bookmark.Next()
	return &place
}

// on takes what was told.
func (p *progress) on(event Event) {
	switch event := event.(type) {
	case *Message:
		if event.WasRead {
			p.next(event.next)
		}
	case *ReadingBegan:
		if event.isReplaced {
			return
		}
		p.begun, p.reached = true, Bookmark{order: event.order, next: event.From}
		if event.order == 0 {
			p.reached.trail = p.trail
		}
		p.trail = nil
	case *CaughtUp:
		p.next(Place{Position: behind(event.Position)})
	case *inView:
		p.enter(event.view, event.line, event.closing)
	case *Gap:
		if event.To.View != (ViewID{}) {
			p.enter(event.To.View, p.line(), event.closing)
		}
		p.next(Place{Position: event.To.Position, Index: event.To.Index})
	}
}

// line: up to here all daemons surely have what was told of the view.
func (p *progress) line() uint64 {
	line := p.reached.next.Position
	if trail := p.reached.trail; trail != nil && trail.closing != nil {
		line = min(line, trail.closing.line)
	}
	return line
}

// next: all before this place was told.
func (p *progress) next(place Place) {
	if p.begun && p.reached.next.isBefore(place) {
		p.reached.next = place
	}
}

func (p *progress) enter(view ViewID, line uint64, closing *viewClosing) {
	if !p.begun {
		return
	}
	if p.reached.trail != nil && p.reached.trail.view != view {
		p.reached.next = Place{}
	}
	p.reached.trail = p.reached.trail.entered(view, line, closing)
}
