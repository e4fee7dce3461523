package consort

// takeReading takes what a daemon said of a reading. An error says why the daemon is to be left.
func (m *sessionMachine) takeReading(event Event) error {
	began, begins := event.(*ReadingBegan)
	ended, ends := event.(*ReadingEnded)
	if begins || ends {
		m.link.answered(begins)
	}
	// One that was replaced is over, whatever is told of it.
	if m.reading == nil || m.link.unanswered > 0 {
		if begins {
			began.isReplaced = true
		}
		m.events.push(event)
		return nil
	}
	if ends {
		return m.readingEnded(ended)
	}
	switch event := event.(type) {
	case *Gap:
		return m.meetsGap(event)
	case *CaughtUp:
		return m.caughtUp(event)
	}
	m.tellReading(event)
	return nil
}

// tellReading: it goes on, as the program is told.
func (m *sessionMachine) tellReading(event Event) {
	m.reading.goesOn(event, &m.arrived)
	m.arrived.on(event)
	m.events.push(event)
}

// readingEnded: the daemon does not go on with what was read, or not for this client.
func (m *sessionMachine) readingEnded(ended *ReadingEnded) error {
	step, why := nextStep{kind: stepGive}, ErrLacking
	switch {
	case ended.Cause == EndParted:
		step, why = m.reading.isOther(m.at(), ended.common, len(m.addresses)), ErrOtherHistory
	case m.reading.isAsking():
		// One that was asked because another one does not go on does not end the reading.
		step = m.reading.noAnswer(m.at(), len(m.addresses))
	}
	if step.kind == stepGive {
		m.tellReading(ended)
		return nil
	}
	m.follow(step)
	if m.asks >= 0 && m.asks != m.at() {
		return why
	}
	m.asks = -1
	m.link.request(kindRead, "")
	return nil
}

// follow has a daemon asked, or the histories part.
func (m *sessionMachine) follow(step nextStep) {
	m.asks = step.at
	if step.kind == stepPart {
		m.events.push(&Parted{Common: step.common})
		m.reading.part(step.common)
		m.begin(m.reading.from)
	}
}

// meetsGap: the daemon lacks what follows.
func (m *sessionMachine) meetsGap(gap *Gap) error {
	// E30 of sessions.md. Where all have let go of what a slow program has yet to read, they soon have again.
	isSlow := m.link.toldGap && gap.To.Position > 0
	if m.arrived.place() != nil && gap.To.View != (ViewID{}) && !isSlow {
		if next := m.reading.lacks(m.at(), &gap.To, len(m.addresses)); next >= 0 {
			m.asks = next
			return ErrLacking
		}
	}
	m.link.toldGap = true
	m.tellReading(gap)
	return nil
}

// caughtUp: the daemon has told all that it has.
func (m *sessionMachine) caughtUp(event *CaughtUp) error {
	if next := m.reading.isBehind(m.at(), &m.arrived, len(m.addresses)); next >= 0 {
		m.asks = next
		return ErrLacking
	}
	m.tellReading(event)
	return nil
}
