package consort

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// session connects to these daemons, of which the first lets it in.
func session(t *testing.T, all []*stage, addresses []string, options SessionOptions) (*Session, *actor) {
	t.Helper()
	options.DaemonTimeout = Forever
	done := make(chan struct{})
	var s *Session
	var err error
	go func() {
		defer close(done)
		s, err = DialSession(long(t), addresses, options)
	}()
	first := all[0].enters()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Close(ctx)
	})
	expect[*Connected](t, s)
	return s, first
}

// alone is a session with one daemon.
func alone(t *testing.T, options SessionOptions) (*Session, *stage, *actor) {
	t.Helper()
	all, addresses := stages(t, 1)
	s, first := session(t, all, addresses, options)
	return s, all[0], first
}

// expect is the next event, of that kind.
func expect[Kind Event](t *testing.T, s *Session) Kind {
	t.Helper()
	event, err := s.Receive(long(t))
	if err != nil {
		t.Fatal(err)
	}
	kind, is := event.(Kind)
	if !is {
		t.Fatalf("%T %+v", event, event)
	}
	return kind
}

func send(t *testing.T, s *Session, payloads ...string) {
	t.Helper()
	for _, payload := range payloads {
		if _, err := s.Send(long(t), Agreed, []string{"g"}, []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
}

func settle(t *testing.T, s *Session) {
	t.Helper()
	if err := s.Settle(long(t)); err != nil {
		t.Fatal(err)
	}
}

func fate(t *testing.T, s *Session) string {
	t.Helper()
	return expect[*Sent](t, s).String()
}

func same(t *testing.T, got any, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, not %v", got, want)
	}
}

func TestASendIsAskedAboutAtTheNextDaemonAndNotRepeated(t *testing.T) {
	all, addresses := stages(t, 2)
	s, first := session(t, all, addresses, SessionOptions{})
	send(t, s, "one", "two", "three")
	first.hears("open 1")
	first.says(opens(0))
	first.hears("one", "two", "three")
	first.says(settles(1))
	same(t, fate(t, s), "send 1 is ordered at 101 of view 1")
	_ = first.Close()
	second := all[1].enters()
	var lost *ConnectionLostError
	if event := expect[*Lost](t, s); !errors.As(event.Err, &lost) {
		t.Fatal(event.Err)
	}
	same(t, expect[*Connected](t, s).Address, addresses[1])
	same(t, s.Unsettled(), 2)
	send(t, s, "four")
	second.hears("open 2 known opened 1")
	second.says(opens(2))
	second.hears("three", "four")
	second.says(settles(4))
	settle(t, s)
	for _, want := range []string{"send 2 is ordered at 102 of view 1", "send 3 is ordered at 104 of view 1", "send 4 is ordered at 104 of view 1"} {
		same(t, fate(t, s), want)
	}
}

func TestASendBeforeTheLastOneOrderedHasNoPlace(t *testing.T) {
	s, stage, first := alone(t, SessionOptions{})
	send(t, s, "one", "two")
	first.hears("open 1")
	first.says(opens(0))
	first.hears("one", "two")
	_ = first.Close()
	second := stage.enters()
	second.hears("open 2 known opened 1")
	second.says(opens(2))
	settle(t, s)
	expect[*Lost](t, s)
	expect[*Connected](t, s)
	same(t, fate(t, s), "send 1 is ordered")
	same(t, fate(t, s), "send 2 is ordered at 102 of view 1")
}

func TestWhatNobodyKnowsOfIsForgotten(t *testing.T) {
	s, _, daemon := alone(t, SessionOptions{})
	send(t, s, "one", "two", "three")
	daemon.hears("open 1")
	daemon.says(opens(0))
	daemon.hears("one", "two", "three")
	// It is certain that two was not ordered, and three behind it neither.
	daemon.says(refuses(2, RefusedNotPrimary))
	daemon.hears("open 2 known opened 1")
	daemon.says(numbers(kindWaits, nil, byte(WaitsForMemory)), forgets())
	daemon.hears("two", "three")
	daemon.says(settles(2))
	settle(t, s)
	same(t, expect[*Waits](t, s).For.String(), "memory")
	same(t, fate(t, s), "send 1 is forgotten")
	same(t, fate(t, s), "send 2 is ordered at 102 of view 1")
	same(t, expect[*Sent](t, s).Send, uint64(3))
}

func TestARefusedSendHasItsFateAndThoseBehindItGoAgain(t *testing.T) {
	s, _, daemon := alone(t, SessionOptions{})
	send(t, s, "one", "two", "three")
	daemon.hears("open 1")
	daemon.says(opens(0))
	daemon.hears("one", "two", "three")
	daemon.says(refuses(1, RefusedClosed), numbers(kindNumberingEnded, nil))
	daemon.hears("open 2 known opened 1")
	send(t, s, "four")
	daemon.says(opens(0))
	daemon.hears("two", "three", "four")
	daemon.says(settles(3))
	refused, err := s.Outcome(long(t), 1)
	if err != nil || refused.Fate != FateRefused || refused.Cause != RefusedClosed || refused.Text != "no" || refused.Place != nil {
		t.Fatalf("%+v, %v", refused, err)
	}
	same(t, fmt.Sprint(refused), "send 1 was refused: no")
	settle(t, s)
	same(t, fate(t, s), "send 2 is ordered at 103 of view 1")
}

func TestWhatADaemonCannotTakeIsRefusedHere(t *testing.T) {
	s, _, daemon := alone(t, SessionOptions{UnsettledMax: 1 << 20})
	send(t, s, strings.Repeat("x", 16<<20+1))
	daemon.hears("open 1")
	daemon.says(opens(0))
	event := expect[*Sent](t, s)
	if event.Cause != RefusedTooLarge || !strings.Contains(event.Text, "a message of 16777217 bytes; this cluster allows 16777216") {
		t.Fatalf("%+v", event)
	}
	send(t, s, "two")
	daemon.hears("two")
	if _, err := s.Send(long(t), Agreed, make([]string, 1001), nil); !errors.Is(err, ErrTargets) {
		t.Fatal(err)
	}
}

func TestSendsWaitForRoomOneBehindTheOther(t *testing.T) {
	s, _, daemon := alone(t, SessionOptions{UnsettledMax: 1000})
	large := strings.Repeat("l", 5000)
	send(t, s, large)
	if _, err := s.Send(within(t, 30*time.Millisecond), Agreed, []string{"g"}, []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := s.Settle(within(t, 30*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	sent := make(chan error, 2)
	for _, payload := range []string{large, "small"} {
		go func() {
			_, err := s.Send(long(t), Agreed, []string{"g"}, []byte(payload))
			sent <- err
		}()
		// It waits before the next one does.
		for waits := 0; waits == 0 || payload == "small" && waits < 2; {
			s.look(func() { waits = len(s.loop.sends) })
		}
	}
	daemon.hears("open 1")
	daemon.says(opens(0))
	daemon.hears(large)
	daemon.says(settles(1))
	daemon.hears(large)
	daemon.says(settles(2))
	daemon.hears("small")
	if err := errors.Join(<-sent, <-sent); err != nil {
		t.Fatal(err)
	}
	daemon.says(settles(3))
	settle(t, s)
}

func TestASessionWithoutADaemonRests(t *testing.T) {
	s, _, daemon := alone(t, SessionOptions{ConnectWithin: time.Minute})
	_ = daemon.Close()
	expect[*Lost](t, s)
	send(t, s, "one")
	var changed <-chan struct{}
	// The step behind the call has been taken before the next one is.
	s.look(func() {})
	s.look(func() { changed = s.loop.changed })
	if changed != nil {
		t.Fatal("it takes one step after the other")
	}
}

func TestSendsAndJoinsWaitForCredit(t *testing.T) {
	s, _, daemon := alone(t, SessionOptions{})
	large := strings.Repeat("l", 200<<10)
	send(t, s, large, large)
	daemon.hears("open 1")
	daemon.says(opens(0))
	daemon.hears(large)
	if err := s.Join("a"); err != nil {
		t.Fatal(err)
	}
	daemon.hears("join a")
	// The second one is larger than what is left.
	daemon.says(gives(2, 200<<10), settles(1))
	daemon.hears(large)
}

func TestAFateIsToldOnce(t *testing.T) {
	s, _, daemon := alone(t, SessionOptions{})
	send(t, s, "one", "two", "three")
	daemon.hears("open 1")
	daemon.says(opens(0))
	daemon.hears("one", "two", "three")
	if _, err := s.Outcome(within(t, 20*time.Millisecond), 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	outcomes := make(chan *Sent)
	go func() {
		sent, _ := s.Outcome(long(t), 2)
		outcomes <- sent
	}()
	for waits := 0; waits == 0; {
		s.look(func() { waits = len(s.loop.machine.outcomes) })
	}
	if _, err := s.Outcome(long(t), 2); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "waited for already") {
		t.Fatal(err)
	}
	daemon.says(settles(3))
	same(t, (<-outcomes).Send, uint64(2))
	settle(t, s)
	three, err := s.Outcome(long(t), 3)
	if err != nil || three.Place.Position != 103 {
		t.Fatal(three, err)
	}
	for _, send := range []uint64{0, 2, 3, 4} {
		if _, err := s.Outcome(long(t), send); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("send %d: no fate", send)) {
			t.Fatal(err)
		}
	}
	same(t, fate(t, s), "send 1 is ordered at 103 of view 1")
}

func TestASendThatIsWaitedForIsToldToNobodyElse(t *testing.T) {
	s, _, daemon := alone(t, SessionOptions{})
	daemon.hears("open 1")
	daemon.says(opens(0))
	go func() {
		daemon.hears("one")
		daemon.says(settles(1))
	}()
	sent, err := s.SendAndWait(long(t), Agreed, []string{"g"}, []byte("one"))
	if err != nil || sent.Send != 1 || sent.Fate != FateOrdered {
		t.Fatal(sent, err)
	}
	sent, err = s.SendAndWait(within(t, 20*time.Millisecond), Agreed, []string{"g"}, []byte("two"))
	if !errors.Is(err, context.DeadlineExceeded) || *sent != (Sent{Send: 2}) {
		t.Fatal(sent, err)
	}
	if sent, err := s.SendAndWait(long(t), Agreed, nil, nil); sent != nil || !errors.Is(err, ErrTargets) {
		t.Fatal(sent, err)
	}
	daemon.hears("two")
	daemon.says(settles(2))
	same(t, fate(t, s), "send 2 is ordered at 102 of view 1")
}

func TestWhatIsNotReceivedStopsWhatElseIsWaitedFor(t *testing.T) {
	s, _, daemon := alone(t, SessionOptions{UnsettledMax: 1})
	send(t, s, "one")
	daemon.hears("open 1")
	daemon.says(opens(0))
	daemon.hears("one")
	written := make(chan struct{})
	go func() {
		defer close(written)
		message := tells(1, strings.Repeat("m", 9<<20))
		for range 8 {
			_, _ = daemon.Write(message)
		}
		_, _ = daemon.Write(settles(1))
	}()
	if err := s.Settle(long(t)); !errors.Is(err, ErrUnread) {
		t.Fatal(err)
	}
	if _, err := s.Outcome(long(t), 1); !errors.Is(err, ErrUnread) {
		t.Fatal(err)
	}
	if _, err := s.Send(long(t), Agreed, []string{"g"}, nil); !errors.Is(err, ErrUnread) {
		t.Fatal(err)
	}
	for range 8 {
		expect[*Message](t, s)
	}
	<-written
	if sent, err := s.Outcome(long(t), 1); err != nil || sent.Fate != FateOrdered {
		t.Fatal(err)
	}
}

func TestASessionGoesOnWithAProducer(t *testing.T) {
	producer, err := ParseProducer("000102030405060708090a0b0c0d0e0f")
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range [][]byte{opens(9), forgets()} {
		s, _, daemon := alone(t, SessionOptions{Producer: producer})
		same(t, s.Producer().String(), "000102030405060708090a0b0c0d0e0f")
		daemon.hears("open 1 known")
		send(t, s, "ten")
		daemon.says(says)
		daemon.hears("ten")
		resumed := expect[*Resumed](t, s)
		same(t, *resumed, map[bool]Resumed{true: {Known: true, Ordered: 9}, false: {}}[says[len(says)-1] == 0])
		daemon.says(settles(resumed.Ordered + 1))
		settle(t, s)
	}
	s, _, daemon := alone(t, SessionOptions{})
	daemon.hears("open 1")
	if s.Producer() == (Producer{}) || s.Producer() == producer {
		t.Fatal(s.Producer())
	}
}
