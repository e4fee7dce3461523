package consort

import (
	"errors"
	"slices"
	"time"
)

const (
	// backoffLeast and backoffMost are how long a session waits before it tries the next daemon, at first and at most.
	backoffLeast, backoffMost = 20 * time.Millisecond, time.Second
	// sessionUnreadMax is how many bytes of events wait for the program at most while it waits for something else.
	sessionUnreadMax = 64 << 20
)

// sessionMachine is what a session decides: which daemon is next, what it is asked for, and what its answers mean. It has
// no socket and reads no clock.
type sessionMachine struct {
	addresses []string
	options   SessionOptions
	opening   opening
	// resumes: another session opened the producer, and what that one sent was not told yet.
	resumes bool
	// link is the connection that there is. While it is nil the next attempt is made at that time.
	link   *link
	next   time.Time
	trying trying
	// end is why the session is over.
	end error
	// turn counts the attempts: whose turn it is.
	turn int
	// asks is the number of the address to be asked next; -1 for none.
	asks    int
	pending pendingSends
	// groups are those it is in, and whether it closes them.
	groups  map[string]bool
	reading *sessionReading
	// arrived is how far the reading has come on this connection, which may be further than the program has.
	arrived progress
	events  eventQueue
	// outcomes has who waits for the fate of a send.
	outcomes map[uint64]*outcome
}

// trying is since when daemons are tried, and how long to wait before the next.
type trying struct {
	since   time.Time
	backoff time.Duration
}

// link is a connection.
type link struct {
	// requests are what the daemon is still to be asked for.
	requests []linkRequest
	// isOpen: the producer is open, and sends are numbered.
	isOpen bool
	// joins has the group that each request to join is for.
	joins map[uint64]string
	// unanswered counts requests to read, each of which replaces the one before; reads: the daemon goes on with one.
	unanswered int
	reads      bool
	// toldGap: the program was told of a gap here that no daemon could fill.
	toldGap bool
	// isOfUse: the daemon has done something for the session.
	isOfUse bool
}

// linkRequest is what a daemon is asked for: a kind of request, and a group with some.
type linkRequest struct {
	kind  byte
	group string
}

// connection is what a session asks of a client. Nothing here waits.
type connection interface {
	ask(bytes []byte)
	try(bytes []byte) (number uint64, sent bool)
	checkLength(payload int) error
	checkTargets(targets int) error
}

func newSessionMachine(addresses []string, options SessionOptions, now time.Time) (*sessionMachine, error) {
	opening, err := newOpening(options.Producer)
	if err != nil {
		return nil, err
	}
	m := &sessionMachine{addresses: addresses, options: options, opening: opening, resumes: opening.known,
		next: now, trying: trying{since: now, backoff: backoffLeast}, asks: -1,
		groups: map[string]bool{}, outcomes: map[uint64]*outcome{}}
	m.pending.tell = m.tellFate
	return m, nil
}

// tellFate tells a fate to whoever waits for it, or else among the events.
func (m *sessionMachine) tellFate(sent *Sent) {
	if outcome := m.outcomes[sent.Send]; outcome != nil {
		delete(m.outcomes, sent.Send)
		outcome.sent = sent
		outcome.done <- nil
		return
	}
	m.events.push(sent)
}

// at is the number of the address whose turn it is.
func (m *sessionMachine) at() int { return m.turn % len(m.addresses) }

// connected: the attempt has brought a connection.
func (m *sessionMachine) connected() {
	m.link = &link{joins: map[uint64]string{}}
	m.link.request(kindOpen, "")
	for _, group := range m.joined() {
		m.link.requestJoin(group, m.groups[group])
	}
	if m.reading != nil {
		m.link.request(kindRead, "")
	}
	m.events.push(&Connected{Address: m.addresses[m.at()]})
}

// joined has the groups it is in, by name.
func (m *sessionMachine) joined() []string {
	groups := make([]string, 0, len(m.groups))
	for group := range m.groups {
		groups = append(groups, group)
	}
	slices.Sort(groups)
	return groups
}

// failed: the attempt has failed.
func (m *sessionMachine) failed(why error, now time.Time) {
	if m.isOverdue(m.trying.since, why, now) {
		return
	}
	// All are tried before it waits for longer.
	m.next = now
	if m.turnOn() {
		m.trying.backoff = min(2*m.trying.backoff, backoffMost)
		m.next = now.Add(m.trying.backoff)
	}
}

// lost: the connection is of no use any more. A daemon that lets this session in and then sends it away is as good as none.
func (m *sessionMachine) lost(why error, now time.Time) {
	if m.link.isOfUse {
		m.next, m.trying = now, trying{since: now, backoff: backoffLeast}
		if isLeaving(why) {
			// It may let the session in again until it has left.
			m.next = now.Add(backoffLeast)
		}
	} else {
		m.next = now.Add(m.trying.backoff)
		m.trying.backoff = min(2*m.trying.backoff, backoffMost)
	}
	m.link = nil
	m.pending.disconnect()
	if bookmark, is := m.arrived.bookmark(); is && m.reading != nil {
		m.reading.from = FromBookmark(bookmark)
	}
	m.events.push(&Lost{Err: why})
	m.turnOn()
	m.isOverdue(m.trying.since, why, now)
}

// isLeaving: the daemon takes no more, because it is leaving.
func isLeaving(why error) bool {
	var leaving *LeavingError
	var notOpened *NotOpenedError
	return errors.As(why, &leaving) || errors.As(why, &notOpened)
}

// turnOn: the next address is the one to be asked, or else the one behind. Whether all had their turn.
func (m *sessionMachine) turnOn() bool {
	if m.asks < 0 && m.reading != nil && m.reading.isAsking() {
		m.follow(m.reading.noAnswer(m.at(), len(m.addresses)))
	}
	count, steps := len(m.addresses), 1
	if m.asks >= 0 {
		steps = (m.asks + count - m.at()) % count
		m.asks = -1
	}
	before := m.turn
	m.turn += steps
	return m.turn/count > before/count
}

// isOverdue ends a session that has met no daemon of use for as long as is allowed.
func (m *sessionMachine) isOverdue(since time.Time, last error, now time.Time) bool {
	if within := m.options.ReconnectWithin; now.Sub(since) >= within {
		m.end = &UnreachableError{Within: within, Last: last}
	}
	return m.end != nil
}

func (m *sessionMachine) join(group string, closed bool) {
	m.groups[group] = closed
	if m.link != nil {
		m.link.requestJoin(group, closed)
	}
}

func (m *sessionMachine) leave(group string) {
	delete(m.groups, group)
	if m.link != nil {
		m.link.request(kindLeave, group)
	}
}

func (m *sessionMachine) read(groups []string, from ReadFrom) {
	m.reading = &sessionReading{groups: groups, from: from}
	m.begin(from)
	if m.link != nil {
		m.link.request(kindRead, "")
	}
}

// begin: what is told from here on is of a reading from there.
func (m *sessionMachine) begin(from ReadFrom) {
	m.arrived.ask(from)
	m.events.push(&readingAsked{from})
}

func (l *link) request(kind byte, group string) {
	if kind == kindRead {
		// The last request to read is the one that counts.
		before := len(l.requests)
		l.requests = slices.DeleteFunc(l.requests, func(other linkRequest) bool { return other.kind == kindRead })
		l.unanswered += 1 - (before - len(l.requests))
	}
	l.requests = append(l.requests, linkRequest{kind, group})
}

// answered: the daemon goes on with a reading, or with none; an answer, unless it is the end of one that it went on with.
func (l *link) answered(reads bool) {
	if reads || !l.reads {
		l.unanswered = max(0, l.unanswered-1)
	}
	l.reads = reads
}

func (l *link) requestJoin(group string, closed bool) {
	if closed {
		l.request(kindJoinClosed, group)
	} else {
		l.request(kindJoin, group)
	}
}

// work asks the daemon for what it is to be asked for, and sends what waits, as far as there is credit.
func (m *sessionMachine) work(daemon connection) {
	for m.link != nil && len(m.link.requests) > 0 {
		if !m.ask(m.link.requests[0], daemon) {
			return
		}
		m.link.requests = m.link.requests[1:]
	}
	if m.link != nil && m.link.isOpen {
		m.sendPending(daemon)
	}
}

// ask is false where there is no credit for it now.
func (m *sessionMachine) ask(request linkRequest, daemon connection) bool {
	switch request.kind {
	case kindOpen:
		m.opening.attempt++
		daemon.ask(m.opening.request())
	case kindRead:
		m.begin(m.reading.from)
		daemon.ask(readRequest(m.reading.groups, m.reading.from))
	default:
		number, sent := daemon.try(groupRequest(request.kind, request.group))
		if sent && request.kind != kindLeave {
			m.link.joins[number] = request.group
		}
		return sent
	}
	return true
}

func (m *sessionMachine) sendPending(daemon connection) {
	for next := m.pending.nextUnsent(); next != nil; next = m.pending.nextUnsent() {
		if err := daemon.checkLength(next.payload); err != nil {
			m.pending.refuseUnsent(RefusedTooLarge, err.Error())
			continue
		}
		if err := daemon.checkTargets(next.targets); err != nil {
			m.pending.refuseUnsent(RefusedTooManyTargets, err.Error())
			continue
		}
		request, sent := daemon.try(next.bytes)
		if !sent {
			return
		}
		m.pending.sent(next, request)
	}
}

// take takes what a daemon said. An error says why the daemon is to be left.
func (m *sessionMachine) take(event Event) error {
	switch event := event.(type) {
	case *opened:
		m.isOpened(event)
	case *settled:
		m.pending.settle(event.number, event.at)
	case *numberingEnded:
		m.reopen()
	case *notOpened:
		return m.isNotOpened(&event.NotOpenedError)
	case *Waits:
		m.link.isOfUse = true
		m.events.push(event)
	case *Refused:
		return m.isRefused(event)
	case *ReadingBegan, *ReadingEnded, *CaughtUp, *Gap, *inView:
		return m.takeReading(event)
	case *Message:
		if event.WasRead {
			return m.takeReading(event)
		}
		m.events.push(event)
	default:
		m.events.push(event)
	}
	return nil
}

func (m *sessionMachine) isOpened(opened *opened) {
	m.pending.open(opened.last, opened.at, opened.forgotten)
	if m.resumes {
		m.resumes = false
		resumed := &Resumed{Known: !opened.forgotten}
		if resumed.Known {
			resumed.Ordered = opened.last
		}
		m.events.push(resumed)
	}
	m.opening.known, m.opening.opened = true, m.opening.attempt
	m.link.isOpen, m.link.isOfUse = true, true
}

func (m *sessionMachine) isNotOpened(why *NotOpenedError) error {
	switch why.Cause {
	case OpeningLeaving:
		return why
	case OpeningFenced:
		m.end = ErrTakenOver
	default:
		m.end = why
	}
	return nil
}

// reopen: the producer is to be opened again at this daemon, unless that was asked for already.
func (m *sessionMachine) reopen() {
	if m.link.isOpen {
		m.link.isOpen = false
		m.link.request(kindOpen, "")
	}
}

func (m *sessionMachine) isRefused(refused *Refused) error {
	as := m.pending.refuse(refused)
	if refused.Cause == RefusedLeaving {
		// E13 of sessions.md.
		return &LeavingError{Text: refused.Text}
	}
	switch as {
	case refusedForGood, refusedForNow:
		m.reopen()
	case refusedTakenOver:
		m.end = ErrTakenOver
	case refusedOther:
		if group, is := m.link.joins[refused.Send]; is {
			delete(m.link.joins, refused.Send)
			m.events.push(&JoinRefused{Group: group, Cause: refused.Cause, Text: refused.Text})
		} else if refused.Send == 0 {
			// It was made to leave a group.
			m.events.push(refused)
		}
	}
	return nil
}

// isFull is whether so much waits for the program that nothing more is taken.
func (m *sessionMachine) isFull() bool { return m.events.bytes >= sessionUnreadMax }
