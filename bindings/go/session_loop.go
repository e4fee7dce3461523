package consort

import (
	"context"
	"slices"
	"time"
)

// sessionLoop is the goroutine that a session lives in: nobody else touches what it has, but by calls.
type sessionLoop struct {
	session   *Session
	machine   *sessionMachine
	endpoints []endpoint
	// client is the connection that there is, and changed tells that there is more to see of it.
	client  *Client
	changed <-chan struct{}
	// attempts is where the attempt to connect that is on comes to its end; life is that of all attempts.
	attempts chan attempt
	isTrying bool
	life     context.Context
	stop     context.CancelFunc
	// sends wait for room, one behind the other; waits for something else.
	sends, waits []*waiter
	// hasEnded: there are no more events. isShut: the session was closed.
	hasEnded, isShut bool
}

// attempt is what became of an attempt to connect.
type attempt struct {
	client *Client
	err    error
}

// waiter waits for something.
type waiter struct {
	// try does it, if that can be done now.
	try  func() bool
	done chan error
}

// outcome waits for the fate of a send.
type outcome struct {
	sent *Sent
	done chan error
}

func newOutcome() *outcome { return &outcome{done: make(chan error, 1)} }

func newSessionLoop(session *Session, machine *sessionMachine, endpoints []endpoint) *sessionLoop {
	life, stop := context.WithCancel(context.Background())
	return &sessionLoop{session: session, machine: machine, endpoints: endpoints, attempts: make(chan attempt), life: life, stop: stop}
}

// always is a channel that says that there is more to see.
var always = func() <-chan struct{} {
	always := make(chan struct{})
	close(always)
	return always
}()

func (l *sessionLoop) run() {
	defer close(l.session.over)
	for !l.isShut {
		l.step()
		events, front := l.offer()
		select {
		case call := <-l.session.calls:
			call()
		case events <- front:
			l.machine.events.pop()
		case <-l.changed:
		case attempt := <-l.attempts:
			l.tried(attempt)
		}
	}
}

// step does all that can be done now.
func (l *sessionLoop) step() {
	l.changed = nil
	if l.client != nil {
		l.heed()
	}
	if l.client == nil && !l.isTrying && l.machine.end == nil {
		l.isTrying = true
		go l.attempt(l.endpoints[l.machine.at()], l.machine.next)
	}
	l.serve()
}

// heed asks and sends what is to be asked and sent, and takes what the daemon said.
func (l *sessionLoop) heed() {
	l.machine.work(l.client)
	if l.machine.isFull() {
		return
	}
	events, end, changed := l.client.take()
	for _, event := range events {
		if why := l.machine.take(event); why != nil {
			l.lose(why)
			return
		}
		if l.machine.end != nil {
			l.client.abandon()
			l.client = nil
			return
		}
	}
	switch {
	case end != nil:
		l.lose(end)
	case len(events) > 0:
		// They may be reason to ask and send more.
		l.changed = always
	default:
		l.changed = changed
	}
}

// lose goes on without the connection.
func (l *sessionLoop) lose(why error) {
	l.client.abandon()
	l.client = nil
	l.machine.lost(why, time.Now())
}

// attempt connects to a daemon, but not before that time.
func (l *sessionLoop) attempt(endpoint endpoint, at time.Time) {
	due := time.NewTimer(time.Until(at))
	defer due.Stop()
	select {
	case <-due.C:
	case <-l.life.Done():
		return
	}
	ctx, cancel := context.WithTimeout(l.life, l.machine.options.ConnectWithin)
	defer cancel()
	client, err := endpoint.dial(ctx)
	select {
	case l.attempts <- attempt{client, err}:
	case <-l.life.Done():
		if client != nil {
			client.abandon()
		}
	}
}

func (l *sessionLoop) tried(attempt attempt) {
	l.isTrying = false
	if attempt.err != nil {
		l.machine.failed(attempt.err, time.Now())
		return
	}
	l.client = attempt.client
	l.machine.connected()
}

// offer is what the program is told next, and where.
func (l *sessionLoop) offer() (chan<- Event, Event) {
	if front := l.machine.events.front(); front != nil {
		return l.session.events, front
	}
	if l.machine.end != nil {
		l.endEvents()
	}
	return nil, nil
}

func (l *sessionLoop) endEvents() {
	if !l.hasEnded {
		l.hasEnded = true
		close(l.session.events)
	}
}

// serve lets those go on who waited for what is so now, and tells the others where they wait in vain.
func (l *sessionLoop) serve() {
	why := l.machine.end
	if why == nil && l.machine.isFull() {
		why = ErrUnread
	}
	for len(l.sends) > 0 && l.sends[0].goesOn(why) {
		l.sends = l.sends[1:]
		// What was kept is to be sent.
		l.changed = always
	}
	l.waits = slices.DeleteFunc(l.waits, func(w *waiter) bool { return w.goesOn(why) })
	if why != nil {
		l.machine.failOutcomes(why)
	}
}

// goesOn is whether it need not wait any more: what it waited for is so, or it is told why not.
func (w *waiter) goesOn(why error) bool {
	switch {
	case w.try():
		w.done <- nil
	case why != nil:
		w.done <- why
	default:
		return false
	}
	return true
}

// shut ends the loop. The connection is left to the caller, and whether the producer is open there.
func (l *sessionLoop) shut() (client *Client, isOpen bool) {
	l.isShut = true
	l.stop()
	l.endEvents()
	for _, waiter := range append(l.sends, l.waits...) {
		waiter.done <- ErrClosed
	}
	l.sends, l.waits = nil, nil
	l.machine.failOutcomes(ErrClosed)
	client, l.client = l.client, nil
	return client, client != nil && l.machine.link.isOpen
}

// wantOutcome tells a fate to whoever waits for it, now or once it is known.
func (m *sessionMachine) wantOutcome(send uint64, outcome *outcome) {
	switch {
	case m.outcomes[send] != nil:
		outcome.done <- invalid("send %d: its fate is waited for already", send)
	case m.pending.has(send):
		m.outcomes[send] = outcome
	default:
		if outcome.sent = m.events.takeFate(send); outcome.sent != nil {
			outcome.done <- nil
			return
		}
		outcome.done <- invalid("send %d: no fate of this send is left to tell: it was told, or there is no such send", send)
	}
}

// forgoOutcome: nobody waits for the fate any more.
func (m *sessionMachine) forgoOutcome(send uint64, outcome *outcome) {
	if m.outcomes[send] == outcome {
		delete(m.outcomes, send)
	}
}

func (m *sessionMachine) failOutcomes(why error) {
	for send, outcome := range m.outcomes {
		delete(m.outcomes, send)
		outcome.done <- why
	}
}

// call has the loop do something; false where it is over.
func (s *Session) call(act func()) bool {
	done := make(chan struct{})
	select {
	case s.calls <- func() { act(); close(done) }:
		<-done
		return true
	case <-s.over:
		return false
	}
}

// look reads something of the loop's, which does not change any more once that is over.
func (s *Session) look(act func()) {
	if !s.call(act) {
		act()
	}
}

// act has the session do something, unless it is over.
func (s *Session) act(act func(*sessionMachine)) (err error) {
	isOpen := s.call(func() {
		if err = s.loop.machine.end; err == nil {
			act(s.loop.machine)
		}
	})
	if !isOpen {
		return ErrClosed
	}
	return err
}

// wait waits, among others, until the loop has tried something with success.
func (s *Session) wait(ctx context.Context, among *[]*waiter, try func() bool) error {
	waiting := &waiter{try: try, done: make(chan error, 1)}
	begin := func() {
		// Nobody overtakes those that wait.
		if len(*among) == 0 && waiting.goesOn(nil) {
			s.loop.changed = always
			return
		}
		*among = append(*among, waiting)
	}
	if !s.call(begin) {
		return ErrClosed
	}
	return s.await(ctx, waiting.done, func() {
		*among = slices.DeleteFunc(*among, func(w *waiter) bool { return w == waiting })
	})
}

// await waits for an answer of the loop's; where the context ends first the question is taken back.
func (s *Session) await(ctx context.Context, done <-chan error, takeBack func()) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	s.call(takeBack)
	select {
	case err := <-done:
		return err
	default:
		return ctx.Err()
	}
}
