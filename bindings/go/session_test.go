package consort

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"runtime"
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
	first.hears("open 1 claims")
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
	second.hears("open 2 known")
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
	first.hears("open 1 claims")
	first.says(opens(0))
	first.hears("one", "two")
	_ = first.Close()
	second := stage.enters()
	second.hears("open 2 known")
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
	daemon.hears("open 1 claims")
	daemon.says(opens(0))
	daemon.hears("one", "two", "three")
	// It is certain that two was not ordered, and three behind it neither.
	daemon.says(refuses(2, RefusedNotPrimary))
	daemon.hears("open 2 known")
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
	daemon.hears("open 1 claims")
	daemon.says(opens(0))
	daemon.hears("one", "two", "three")
	daemon.says(refuses(1, RefusedClosed), numbers(kindNumberingEnded, nil))
	daemon.hears("open 2 known")
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
	daemon.hears("open 1 claims")
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

func TestASessionThatIsTakenOverSaysSoToAll(t *testing.T) {
	for _, says := range [][]byte{refuses(1, RefusedFenced), doesNotOpen(OpeningFenced)} {
		s, _, daemon := alone(t, SessionOptions{})
		send(t, s, "one")
		daemon.hears("open 1 claims")
		daemon.says(opens(0))
		daemon.hears("one")
		waits := make(chan error)
		go func() {
			_, err := s.Outcome(long(t), 1)
			waits <- err
		}()
		daemon.says(numbers(kindNumberingEnded, nil), says)
		_, received := s.Receive(long(t))
		_, sent := s.Send(long(t), Agreed, []string{"g"}, nil)
		for _, err := range []error{<-waits, received, sent, s.Err(), s.Settle(long(t)), s.Join("g"), s.Read([]string{"g"}, FromNew()), s.Close(long(t))} {
			if !errors.Is(err, ErrTakenOver) {
				t.Fatal(err)
			}
		}
		if _, err := s.Send(long(t), Agreed, []string{"g"}, nil); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
}

func TestDaemonsThatKeepNoAccountEndTheSessionUnlessOneLeaves(t *testing.T) {
	all, addresses := stages(t, 2)
	s, first := session(t, all, addresses, SessionOptions{})
	first.hears("open 1 claims")
	first.says(doesNotOpen(OpeningLeaving))
	second := all[1].enters()
	var notOpened *NotOpenedError
	if event := expect[*Lost](t, s); !errors.As(event.Err, &notOpened) || notOpened.Cause != OpeningLeaving {
		t.Fatal(event.Err)
	}
	second.hears("open 2 claims")
	second.says(doesNotOpen(OpeningNoPolicy))
	expect[*Connected](t, s)
	if _, err := s.Receive(long(t)); !errors.As(err, &notOpened) || notOpened.Cause.String() != "no_policy" || !strings.HasSuffix(err.Error(), "sends: no") {
		t.Fatal(err)
	}
}

func TestGroupsAndReadingsGoOnAtTheNextDaemon(t *testing.T) {
	all, addresses := stages(t, 2)
	s, first := session(t, all, addresses, SessionOptions{})
	for _, err := range []error{s.Join("b"), s.JoinClosed("c"), s.Join("a"), s.Leave("a"), s.Read([]string{"g", "h"}, FromStart())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	first.hears("open 1 claims", "join b", "close c", "join a", "leave a", "read 0:0 g,h")
	first.says(refuses(1, RefusedDenied), refuses(4, RefusedNotMember), refuses(0, RefusedDemoted))
	same(t, *expect[*JoinRefused](t, s), JoinRefused{Group: "b", Cause: RefusedDenied, Text: "no"})
	same(t, expect[*Refused](t, s).Cause, RefusedDemoted)
	same(t, s.Bookmark().IsZero(), true)
	first.says(begins(7, 3), tells(3, "three"), tellsBatch(5, 1, "five.1", "five.2"))
	same(t, expect[*ReadingBegan](t, s).From, Place{Position: 3})
	three := expect[*Message](t, s)
	if !three.WasRead || three.Position != 3 || string(three.Payload) != "three" {
		t.Fatalf("%+v", three)
	}
	same(t, s.Bookmark().String(), "0000000000000007:4")
	five := expect[*Message](t, s)
	same(t, Place{Position: five.Position, Index: five.Index}, Place{Position: 5, Index: 1})
	same(t, s.Bookmark().String(), "0000000000000007:5.2")
	_ = first.Close()
	second := all[1].enters()
	second.hears("open 2 claims", "join b", "close c", "read 7:6 g,h")
	same(t, s.Bookmark().String(), "0000000000000007:5.2")
	same(t, string(expect[*Message](t, s).Payload), "five.2")
	expect[*Lost](t, s)
	expect[*Connected](t, s)
	same(t, s.Bookmark().String(), "0000000000000007:6")
	second.says(begins(7, 6), catchesUp(8), numbers(kindUntold, []uint64{9, 12}), endsReading(EndDenied))
	expect[*ReadingBegan](t, s)
	same(t, expect[*CaughtUp](t, s).Position, uint64(8))
	same(t, s.Bookmark().Next(), Place{Position: 9})
	same(t, *expect[*Gap](t, s), Gap{From: Place{Position: 9}, To: Place{Position: 13}})
	same(t, s.Bookmark().Next(), Place{Position: 13})
	same(t, expect[*ReadingEnded](t, s).Cause.String(), "denied")
}

func TestABookmarkIsOfTheLastReadingAlone(t *testing.T) {
	s, stage, first := alone(t, SessionOptions{})
	bookmark, err := ParseBookmark("0000000000000000:4@5/1/1+4/1/1/9")
	if err != nil {
		t.Fatal(err)
	}
	first.hears("open 1 claims")
	for _, from := range []ReadFrom{FromStart(), FromBookmark(bookmark)} {
		if err := s.Read([]string{"g"}, from); err != nil {
			t.Fatal(err)
		}
	}
	// What was read before that is told still, and its view is another.
	first.hears("read 0:0 g", "read on 5:4 behind 4:9 g")
	first.says(begins(0, 1), entersView(9, 0), tells(70, "old"))
	expect[*ReadingBegan](t, s)
	same(t, string(expect[*Message](t, s).Payload), "old")
	same(t, s.Bookmark(), bookmark)
	first.says(endsReading(EndEnded), begins(0, 4), entersView(5, 0), tells(4, "new"), entersView(6, 5), catchesUp(0))
	expect[*ReadingEnded](t, s)
	expect[*ReadingBegan](t, s)
	same(t, string(expect[*Message](t, s).Payload), "new")
	same(t, s.Bookmark().String(), "0000000000000000:0@6/1/1+4/1/1/9+5/1/1/5")
	_ = first.Close()
	stage.enters().hears("open 2 claims", "read on 6:1 behind 4:9 behind 5:5 g")
}

// A reading that was asked for and not begun goes on where it was to begin, however far another came.
func TestALossDoesNotMixReadings(t *testing.T) {
	s, stage, first := alone(t, SessionOptions{})
	if err := s.Read([]string{"g"}, FromStart()); err != nil {
		t.Fatal(err)
	}
	first.hears("open 1 claims", "read 0:0 g")
	first.says(begins(7, 1), tells(5, "five"))
	expect[*ReadingBegan](t, s)
	expect[*Message](t, s)
	if err := s.Read([]string{"h"}, FromPosition(2)); err != nil {
		t.Fatal(err)
	}
	first.says(tells(6, "six"))
	expect[*Message](t, s)
	first.hears("read 0:2 h")
	_ = first.Close()
	stage.enters().hears("open 2 claims", "read 0:2 h")
	same(t, s.Bookmark(), Bookmark{})
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
	daemon.hears("open 1 claims")
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
	daemon.hears("open 1 claims")
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
	daemon.hears("open 1 claims")
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
	daemon.hears("open 1 claims")
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
	daemon.hears("open 1 claims")
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
		daemon.hears("open 1 known claims")
		send(t, s, "ten")
		daemon.says(says)
		daemon.hears("ten")
		resumed := expect[*Resumed](t, s)
		same(t, *resumed, map[bool]Resumed{true: {Known: true, Ordered: 9}, false: {}}[says[len(says)-1] == 0])
		daemon.says(settles(resumed.Ordered + 1))
		settle(t, s)
	}
	s, _, daemon := alone(t, SessionOptions{})
	daemon.hears("open 1 claims")
	if s.Producer() == (Producer{}) || s.Producer() == producer {
		t.Fatal(s.Producer())
	}
}

func TestTheEndOfASession(t *testing.T) {
	before := runtime.NumGoroutine()
	s, _, daemon := alone(t, SessionOptions{})
	send(t, s, "one")
	daemon.hears("open 1 claims")
	daemon.says(opens(0))
	daemon.hears("one")
	if s.Name() != "bob" || s.PrivateName() != "#bob#n1" || s.Daemon().Node != 1 || s.MessageMax() != 16<<20 {
		t.Fatal(s.Name(), s.PrivateName(), s.Daemon(), s.MessageMax())
	}
	daemon.says(settles(1))
	go func() {
		daemon.hears("forget", "goodbye")
		daemon.says(numbers(kindDisconnect, nil, byte(ReasonGoodbye), 0, 0))
	}()
	rest, err := s.Finish(long(t))
	if err != nil || len(rest) != 1 || rest[0].(*Sent).Send != 1 {
		t.Fatal(rest, err)
	}
	if _, open := <-s.Events(); open || s.Err() != nil || s.Name() != "" || s.Close(long(t)) != nil {
		t.Fatal(s.Err())
	}
	_, sent := s.Send(long(t), Agreed, []string{"g"}, nil)
	_, received := s.Receive(long(t))
	_, outcome := s.Outcome(long(t), 1)
	for _, err := range []error{sent, received, outcome, s.Join("g"), s.Leave("g"), s.Settle(long(t)), s.Read([]string{"g"}, FromNew())} {
		if !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
	// Where fates are missing the producer is not forgotten: another session may go on.
	s, _, daemon = alone(t, SessionOptions{})
	send(t, s, "one")
	daemon.hears("open 1 claims")
	daemon.says(opens(0))
	daemon.hears("one")
	if err := s.Close(within(t, 20*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if kind, _, err := readFrame(daemon.from, textMax); err == nil {
		t.Fatalf("it said %#x", kind)
	}
	// The two stages listen still, and wait for the end of two contexts each.
	for late := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before+2; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("goroutines are left: %s", stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func TestManyGoroutinesUseASessionUntilItIsClosed(t *testing.T) {
	s, _, daemon := alone(t, SessionOptions{UnsettledMax: 1000})
	daemon.hears("open 1 claims")
	daemon.says(opens(0))
	go func() {
		// All that is sent is ordered.
		for sent := uint64(0); ; {
			kind, _, err := readFrame(daemon.from, textMax)
			if err != nil {
				return
			}
			if kind == kindMulticast+byte(Agreed) {
				sent++
				_, _ = daemon.Write(settles(sent))
			}
		}
	}()
	calls := []func() error{
		func() error {
			sent, err := s.SendAndWait(long(t), Agreed, []string{"g"}, make([]byte, 300))
			if err == nil && (sent.Fate != FateOrdered || sent.Send == 0) {
				return errors.New(sent.String())
			}
			return err
		},
		func() error { _, err := s.Receive(within(t, time.Millisecond)); return err },
		func() error { return s.Settle(long(t)) },
		func() error { return s.Join("g") },
		func() error { return s.Read([]string{"g"}, FromNew()) },
		func() error { _ = s.Bookmark(); _ = s.Unsettled(); return s.Err() },
	}
	results := make(chan error)
	for at := range 4 * len(calls) {
		go func() {
			for round := 0; ; round++ {
				err := calls[at%len(calls)]()
				if round == 50 || errors.Is(err, ErrClosed) {
					results <- err
					return
				}
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("call %d: %v", at%len(calls), err)
				}
			}
		}()
	}
	for range 12 {
		<-results
	}
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- s.Close(within(t, 20*time.Millisecond)) }()
	}
	for range 4*len(calls) - 12 {
		<-results
	}
	for range 2 {
		if err := <-closed; err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
}

func TestWhatNamesNoDaemonAndOptionsOutOfRangeAreRefused(t *testing.T) {
	good := []string{"/nowhere/at/all"}
	for says, given := range map[string]struct {
		addresses []string
		options   SessionOptions
	}{
		"no daemon is named":               {nil, SessionOptions{}},
		"`nowhere` is no address":          {[]string{good[0], "nowhere"}, SessionOptions{}},
		"no name for a client":             {good, SessionOptions{Options: Options{Name: "two words"}}},
		"HostTimeout is 1ms":               {good, SessionOptions{Options: Options{HostTimeout: time.Millisecond}}},
		"ConnectWithin is -1s; give how":   {good, SessionOptions{ConnectWithin: -time.Second}},
		"ReconnectWithin is -1s; give how": {good, SessionOptions{ReconnectWithin: -time.Second}},
		"UnsettledMax is -1; give how":     {good, SessionOptions{UnsettledMax: -1}},
	} {
		if _, err := DialSession(long(t), given.addresses, given.options); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	for _, text := range []string{"", strings.Repeat("0", 31), strings.Repeat("g", 32), strings.Repeat("é", 16)} {
		if _, err := ParseProducer(text); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "is no producer; give what another session says") {
			t.Errorf("%q: %v", text, err)
		}
	}
	s, _, _ := alone(t, SessionOptions{})
	for _, groups := range [][]string{nil, make([]string, 101)} {
		if err := s.Read(groups, FromStart()); !errors.Is(err, ErrTargets) || !strings.Contains(err.Error(), fmt.Sprintf("a reading of %d groups", len(groups))) {
			t.Error(err)
		}
	}
	_, sent := s.Send(long(t), 9, []string{"g"}, nil)
	_, nobody := s.Send(long(t), Agreed, []string{"two words"}, nil)
	for _, err := range []error{sent, nobody, s.Join("#g"), s.Leave(""), s.Read([]string{"a b"}, FromStart())} {
		if !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
	}
}

func TestNoDaemonForTooLongEndsTheSession(t *testing.T) {
	var gone *UnreachableError
	_, err := DialSession(long(t), []string{"/nowhere/a", "/nowhere/b"}, SessionOptions{ReconnectWithin: 100 * time.Millisecond})
	if !errors.As(err, &gone) || !strings.HasPrefix(err.Error(), "no daemon could be reached within 100ms: cannot connect to /nowhere/") {
		t.Fatal(err)
	}
	if _, err := DialSession(within(t, 50*time.Millisecond), []string{"/nowhere/a"}, SessionOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// Whatever a daemon says, the session goes on at the next one, or ends with a reason.
func TestADaemonThatTalksNonsenseIsLeft(t *testing.T) {
	for _, nonsense := range [][]byte{
		[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		numbers(kindOpened, []uint64{1, 1, 1}, 2),
		numbers(kindSettled, []uint64{1}),
		numbers(kindBegan, []uint64{1}),
		endsReading(EndParted, 7),
		append(tells(1, "x")[:4:4], 0xe4),
		gives(99, 0),
		numbers(kindNumberingEnded, nil, 0),
	} {
		all, addresses := stages(t, 2)
		s, first := session(t, all, addresses, SessionOptions{})
		send(t, s, "one")
		first.hears("open 1 claims")
		_, _ = first.Write(nonsense)
		_ = first.Close()
		second := all[1].enters()
		second.hears("open 2 claims")
		second.says(opens(0))
		second.hears("one")
		second.says(settles(1))
		settle(t, s)
	}
	all, addresses := stages(t, 1)
	s, first := session(t, all, addresses, SessionOptions{ReconnectWithin: 200 * time.Millisecond})
	go func() {
		for {
			_, _ = first.Write([]byte("nonsense"))
			first = &actor{Conn: <-all[0].conns}
			_, _ = first.Write(unhexed(welcomeOfBob))
		}
	}()
	var gone *UnreachableError
	if err := func() error {
		for {
			if _, err := s.Receive(long(t)); err != nil {
				return err
			}
		}
	}(); !errors.As(err, &gone) {
		t.Fatal(err)
	}
}

func TestDamagedEventsOfASessionEndItsConnectionAndNothingElse(t *testing.T) {
	whole := bytes.Join([][]byte{opens(0), settles(1), numbers(kindWaits, nil, 1), refuses(1, RefusedClosed), begins(0, 1),
		entersView(3, 0), tells(2, "two"), tellsBatch(3, 0, "a", "b"), catchesUp(4), entersView(4, 4),
		frame(kindGap, func(bytes []byte) []byte {
			at := placeIn(4, 1)
			bytes = appendPlace(appendView(bytes, at.View), at)
			return append(appendPlace(appendView(bytes, at.View), placeIn(4, 5)), 0)
		}), numbers(kindUntold, []uint64{9, 10}), parts(&Place{View: view(4), Position: 2}), parts(nil), endsReading(EndTrimmed),
		doesNotOpen(OpeningFull)}, nil)
	chance := rand.New(rand.NewSource(2))
	for round := range 4_000 {
		damaged := bytes.Clone(whole)
		for range round % 4 {
			damaged[chance.Intn(len(damaged))] = byte(chance.Intn(256))
		}
		client := &Client{left: make(chan struct{}), changed: make(chan struct{}), roams: true}
		if err := readAll(client, damaged); err == nil {
			t.Fatal("the bytes have an end")
		}
		machine := machineOf(t, 2)
		machine.read([]string{"g"}, FromBookmark(Bookmark{next: Place{Position: 1}, trail: &viewTrail{view: view(3)}}))
		machine.connected()
		machine.pending.push(nil, 0, 1)
		machine.work(&asked{credit: 9})
		for _, event := range client.queue {
			if machine.take(event) != nil || machine.end != nil {
				break
			}
		}
		if round == 0 && len(client.queue) != 17 {
			t.Fatal(len(client.queue))
		}
		machine.events.rest()
		_ = machine.events.bookmark().String()
	}
}
