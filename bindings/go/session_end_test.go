package consort

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestASessionThatIsTakenOverSaysSoToAll(t *testing.T) {
	for _, says := range [][]byte{refuses(1, RefusedFenced), doesNotOpen(OpeningFenced)} {
		s, _, daemon := alone(t, SessionOptions{})
		send(t, s, "one")
		daemon.hears("open 1")
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
	first.hears("open 1")
	first.says(doesNotOpen(OpeningLeaving))
	second := all[1].enters()
	var notOpened *NotOpenedError
	if event := expect[*Lost](t, s); !errors.As(event.Err, &notOpened) || notOpened.Cause != OpeningLeaving {
		t.Fatal(event.Err)
	}
	second.hears("open 2")
	second.says(doesNotOpen(OpeningNoPolicy))
	expect[*Connected](t, s)
	if _, err := s.Receive(long(t)); !errors.As(err, &notOpened) || notOpened.Cause.String() != "no_policy" || !strings.HasSuffix(err.Error(), "sends: no") {
		t.Fatal(err)
	}
}

func TestADaemonThatLeavesRefusesAndTheNextIsAsked(t *testing.T) {
	all, addresses := stages(t, 2)
	s, first := session(t, all, addresses, SessionOptions{})
	if err := s.Join("a"); err != nil {
		t.Fatal(err)
	}
	first.hears("open 1", "join a")
	first.says(refuses(1, RefusedLeaving))
	second := all[1].enters()
	var leaving *LeavingError
	if event := expect[*Lost](t, s); !errors.As(event.Err, &leaving) || leaving.Text != "no" {
		t.Fatal(event.Err)
	}
	second.hears("open 2", "join a")
	second.says(opens(0))
	send(t, s, "one")
	second.hears("one")
	second.says(refuses(2, RefusedLeaving))
	third := all[0].enters()
	third.hears("open 3 known opened 2", "join a")
	third.says(opens(0))
	third.hears("one")
	third.says(settles(1))
	expect[*Connected](t, s)
	expect[*Lost](t, s)
	expect[*Connected](t, s)
	same(t, expect[*Sent](t, s).Fate, FateOrdered)
}

func TestTheEndOfASession(t *testing.T) {
	before := runtime.NumGoroutine()
	s, _, daemon := alone(t, SessionOptions{})
	send(t, s, "one")
	daemon.hears("open 1")
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
	daemon.hears("open 1")
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
	daemon.hears("open 1")
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
		first.hears("open 1")
		_, _ = first.Write(nonsense)
		_ = first.Close()
		second := all[1].enters()
		second.hears("open 2")
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
