package consort

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// targetsMax is how many groups and clients a message may name anywhere.
	targetsMax = 1000
	// farewellMost is how long the good-bye of a session that is done may take.
	farewellMost = time.Second
)

// Session is a session over several daemons, for any number of goroutines: when its daemon is lost it goes on at the next.
//
// Each send has exactly one fate, told as *Sent or by Outcome: one whose fate is not known when a connection is lost is asked
// about, not repeated. Groups are joined again. A reading goes on where it was: each message once, in order; what cannot be
// told is told as *Gap or *Parted.
//
// It needs a policy that says which part of a parted network goes on: primary = "majority", or protocol = "paxos". In another
// part sends wait.
//
// A Session goes on by itself until it is closed. Its events want to be received, fates among them: with 64 MiB that wait
// nothing more is read from the daemon, and whoever waits for something else is told ErrUnread.
type Session struct {
	producer Producer
	events   chan Event
	// calls are what the loop is to do, one after the other.
	calls chan func()
	// over is closed once the loop has come to its end.
	over chan struct{}
	loop *sessionLoop
}

// DialSession connects to the first of these daemons that can be reached, as long as the context allows. Addresses are as of
// Dial. The Session is to be closed.
func DialSession(ctx context.Context, addresses []string, options SessionOptions) (*Session, error) {
	addresses = slices.Clone(addresses)
	options, endpoints, err := options.checked(addresses)
	if err != nil {
		return nil, err
	}
	machine, err := newSessionMachine(addresses, options, time.Now())
	if err != nil {
		return nil, err
	}
	s := &Session{producer: machine.opening.producer, events: make(chan Event), calls: make(chan func()), over: make(chan struct{})}
	s.loop = newSessionLoop(s, machine, endpoints)
	go s.loop.run()
	if err := s.wait(ctx, &s.loop.waits, func() bool { return machine.link != nil }); err != nil {
		s.shut(false)
		return nil, err
	}
	return s, nil
}

// Producer is whose sends these are. Store it, with the payloads of sends without a fate, for a Session that goes on later.
func (s *Session) Producer() Producer { return s.producer }

// Name is what the client is called at the present daemon; empty while there is none.
func (s *Session) Name() (name string) {
	s.ofClient(func(client *Client) { name = client.Name() })
	return name
}

// PrivateName is the name by which others send to this client alone while it is at this daemon; likewise.
func (s *Session) PrivateName() (name string) {
	s.ofClient(func(client *Client) { name = client.PrivateName() })
	return name
}

// Daemon is the present daemon; zero while there is none.
func (s *Session) Daemon() (daemon DaemonID) {
	s.ofClient(func(client *Client) { daemon = client.Daemon() })
	return daemon
}

// MessageMax is the largest payload of one message at the present daemon, in bytes; likewise.
func (s *Session) MessageMax() (bytes int) {
	s.ofClient(func(client *Client) { bytes = client.MessageMax() })
	return bytes
}

func (s *Session) ofClient(look func(*Client)) {
	s.look(func() {
		if s.loop.client != nil {
			look(s.loop.client)
		}
	})
}

// Unsettled is how many sends have no fate yet.
func (s *Session) Unsettled() (count int) {
	s.look(func() { count = len(s.loop.machine.pending.sends) })
	return count
}

// Join joins a group, and joins it again after each loss. A group view follows, or a *JoinRefused.
func (s *Session) Join(group string) error {
	return s.withGroup(group, func(m *sessionMachine) { m.join(group, false) })
}

// JoinClosed does the same; if the group has no members yet, only members may send to it from here on.
func (s *Session) JoinClosed(group string) error {
	return s.withGroup(group, func(m *sessionMachine) { m.join(group, true) })
}

// Leave leaves a group.
func (s *Session) Leave(group string) error {
	return s.withGroup(group, func(m *sessionMachine) { m.leave(group) })
}

func (s *Session) withGroup(group string, act func(*sessionMachine)) error {
	if err := checkGroup(group); err != nil {
		return err
	}
	return s.act(act)
}

// Read reads what groups were sent, from a place on, and then what comes, and goes on with it at the next daemon: nothing
// twice, nothing left out, between two *Gap and *Parted. No group is joined. Another Read ends it.
func (s *Session) Read(groups []string, from ReadFrom) error {
	if len(groups) == 0 || len(groups) > groupsMax {
		return fmt.Errorf("%w: a reading of %d groups; name 1 to %d", ErrTargets, len(groups), groupsMax)
	}
	for _, group := range groups {
		if err := checkGroup(group); err != nil {
			return err
		}
	}
	groups = slices.Clone(groups)
	return s.act(func(m *sessionMachine) { m.read(groups, from) })
}

// Bookmark is how far the reading has come: behind the last event that was received. Store it: with it a reading goes on
// later, FromBookmark. It is zero before any began.
func (s *Session) Bookmark() (bookmark Bookmark) {
	s.look(func() { bookmark = s.loop.machine.events.bookmark() })
	return bookmark
}

// Send sends a message to groups, and to clients by their private names, once; it returns the send's number, under which its
// fate is told. It waits while too many bytes have no fate, as long as the context allows; where that ends first nothing was
// sent.
func (s *Session) Send(ctx context.Context, service Service, to []string, payload []byte) (send uint64, err error) {
	return s.send(ctx, service, to, payload, nil)
}

// SendAndWait does the same and waits for the fate, which is told to nobody else. Where the context ends before that Sent has
// no Fate but the send's number, and the fate is told as an event or by Outcome. It is nil where nothing was sent.
func (s *Session) SendAndWait(ctx context.Context, service Service, to []string, payload []byte) (*Sent, error) {
	outcome := newOutcome()
	send, err := s.send(ctx, service, to, payload, outcome)
	if err != nil {
		return nil, err
	}
	if err := s.awaitOutcome(ctx, send, outcome); err != nil {
		return &Sent{Send: send}, err
	}
	return outcome.sent, nil
}

// send keeps a send; its fate is told to that one, if there is one.
func (s *Session) send(ctx context.Context, service Service, to []string, payload []byte, outcome *outcome) (send uint64, err error) {
	if err := checkMulticast(service, to, targetsMax); err != nil {
		return 0, err
	}
	bytes, m := multicast(service, to, payload), s.loop.machine
	err = s.wait(ctx, &s.loop.sends, func() bool {
		if m.end != nil || !m.pending.hasRoom(len(payload), m.options.UnsettledMax) {
			return false
		}
		send = m.pending.push(bytes, len(payload), len(to))
		if outcome != nil {
			m.outcomes[send] = outcome
		}
		return true
	})
	return send, err
}

// Outcome waits for the fate of a send, which is not received any more then. The error is ErrInvalid where it was told before,
// or there is no such send. A program whose other goroutines receive events may find that they were told first: SendAndWait
// is for those.
func (s *Session) Outcome(ctx context.Context, send uint64) (*Sent, error) {
	outcome := newOutcome()
	if !s.call(func() { s.loop.machine.wantOutcome(send, outcome) }) {
		return nil, ErrClosed
	}
	if err := s.awaitOutcome(ctx, send, outcome); err != nil {
		return nil, err
	}
	return outcome.sent, nil
}

func (s *Session) awaitOutcome(ctx context.Context, send uint64, outcome *outcome) error {
	return s.await(ctx, outcome.done, func() { s.loop.machine.forgoOutcome(send, outcome) })
}

// Settle waits until every send that was made has its fate.
func (s *Session) Settle(ctx context.Context) error {
	var made uint64
	s.look(func() { made = s.loop.machine.pending.made })
	return s.wait(ctx, &s.loop.waits, func() bool { return s.loop.machine.pending.areSettled(made) })
}

// Events is where events come, in the order in which things happened. It is closed at the session's end: Err tells why.
func (s *Session) Events() <-chan Event { return s.events }

// Err is why the session is over: ErrTakenOver, an *UnreachableError or a *NotOpenedError. It is nil while it is not, and
// where it was closed before.
func (s *Session) Err() (err error) {
	s.look(func() { err = s.loop.machine.end })
	return err
}

// Receive is the next event. Where the context ends first it is that context's error, and nothing is lost.
func (s *Session) Receive(ctx context.Context) (Event, error) {
	select {
	case event, is := <-s.events:
		if is {
			return event, nil
		}
		if err := s.Err(); err != nil {
			return nil, err
		}
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close waits until every send has its fate, as long as the context allows, and ends the session in any case. Where each has
// one the daemons forget its producer; else another Session can go on with that. Events that were not received are lost.
func (s *Session) Close(ctx context.Context) error {
	_, err := s.finish(ctx, false)
	return err
}

// Finish does the same, and returns the events that were not received.
func (s *Session) Finish(ctx context.Context) ([]Event, error) { return s.finish(ctx, true) }

func (s *Session) finish(ctx context.Context, receives bool) ([]Event, error) {
	select {
	case <-s.over:
		return nil, nil
	default:
	}
	err := s.Settle(ctx)
	client, isOpen, rest := s.shut(receives)
	switch {
	case client == nil:
	case err != nil:
		client.abandon()
	default:
		if isOpen {
			client.ask(forgetRequest())
		}
		// What is not said in time the daemon finds out.
		ctx, cancel := context.WithTimeout(ctx, farewellMost)
		defer cancel()
		_ = client.Close(ctx)
	}
	return rest, err
}

// shut ends the loop; only the first one is given what is left.
func (s *Session) shut(receives bool) (client *Client, isOpen bool, rest []Event) {
	s.call(func() {
		client, isOpen = s.loop.shut()
		if receives {
			rest = s.loop.machine.events.rest()
		}
	})
	<-s.over
	return client, isOpen, rest
}
