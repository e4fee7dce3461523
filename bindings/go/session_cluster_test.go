package consort

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// rounds is how often a daemon is killed: CONSORT_ROUNDS.
func rounds() int {
	if rounds, err := strconv.Atoi(os.Getenv("CONSORT_ROUNDS")); err == nil {
		return rounds
	}
	return 4
}

// sender sends numbered messages until it is told to end, and keeps their fates.
type sender struct {
	name  string
	fates map[uint64]*Sent
	// twice has the sends that were told two fates.
	twice []uint64
	made  uint64
}

func (s *sender) run(ctx context.Context, session *Session, done <-chan struct{}) error {
	receiving := make(chan error, 1)
	go func() {
		for event := range session.Events() {
			if sent, is := event.(*Sent); is {
				if s.fates[sent.Send] != nil {
					s.twice = append(s.twice, sent.Send)
				}
				s.fates[sent.Send] = sent
			}
		}
		receiving <- session.Err()
	}()
	for pace := time.NewTicker(time.Millisecond); ; {
		select {
		case <-done:
			pace.Stop()
			rest, err := session.Finish(ctx)
			err = errors.Join(err, <-receiving)
			for _, event := range rest {
				if sent, is := event.(*Sent); is {
					s.fates[sent.Send] = sent
				}
			}
			return err
		case <-pace.C:
			send, err := session.Send(ctx, Agreed, []string{"orders"}, []byte(fmt.Sprintf("%s:%d", s.name, s.made+1)))
			if err != nil {
				return err
			}
			if s.made++; send != s.made {
				return fmt.Errorf("send %d was called %d", s.made, send)
			}
		}
	}
}

// reader keeps what it reads, and where that stands.
type roundsReader struct {
	came   []string
	places []Place
	gaps   int
	parted int
	lost   int
}

func (r *roundsReader) run(ctx context.Context, session *Session, last string) error {
	left := 3
	for {
		event, err := session.Receive(ctx)
		if err != nil {
			return fmt.Errorf("behind %d messages: %w", len(r.came), err)
		}
		switch event := event.(type) {
		case *Message:
			if string(event.Payload) == last {
				if left--; left == 0 {
					return nil
				}
				continue
			}
			next := session.Bookmark().Next()
			r.came = append(r.came, string(event.Payload))
			r.places = append(r.places, Place{View: next.View, Position: event.Position, Index: event.Index})
		case *Gap:
			r.gaps++
		case *Parted:
			r.parted++
			if event.Common == nil {
				return errors.New("parted, and nothing is in common")
			}
			r.forget(*event.Common)
		case *Lost:
			r.lost++
		case *ReadingEnded:
			return fmt.Errorf("the reading ended: %s %s", event.Cause, event.Text)
		}
	}
}

// forget forgets what was read from there on.
func (r *roundsReader) forget(common Place) {
	for at, place := range r.places {
		if place.View == common.View && !place.isBefore(common) {
			r.came, r.places = r.came[:at], r.places[:at]
			return
		}
	}
}

func TestEachMessageIsOrderedOnceThoughDaemonsAreKilled(t *testing.T) {
	for _, protocol := range []string{"ring", "paxos"} {
		t.Run(protocol, func(t *testing.T) {
			more := "[sessions]\nretain = 67_108_864\n"
			if protocol == "paxos" {
				more = "[paxos]\nstorage = \"memory\"\nretain = 67_108_864\n"
			}
			killsUnderLoad(t, newCluster(t, protocol, more))
		})
	}
}

func killsUnderLoad(t *testing.T, c *cluster) {
	ctx := within(t, time.Duration(rounds())*time.Minute)
	open := func(at int) *Session {
		session, err := DialSession(ctx, c.from(at), SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = session.Close(ctx)
		})
		return session
	}
	var senders []*sender
	var readers []*roundsReader
	var all, reading sync.WaitGroup
	done := make(chan struct{})
	for at := range 3 {
		session, reads := open(at), &roundsReader{}
		if err := session.Read([]string{"orders"}, FromNew()); err != nil {
			t.Fatal(err)
		}
		for caughtUp := false; !caughtUp; {
			event, err := session.Receive(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_, caughtUp = event.(*CaughtUp)
		}
		readers = append(readers, reads)
		reading.Add(1)
		go func() {
			defer reading.Done()
			if err := reads.run(ctx, session, "last"); err != nil {
				t.Errorf("reader %d: %v", at, err)
			}
		}()
	}
	for at := range 3 {
		session, sends := open(at), &sender{name: strconv.Itoa(at), fates: map[uint64]*Sent{}}
		senders = append(senders, sends)
		all.Add(1)
		go func() {
			defer all.Done()
			if err := sends.run(ctx, session, done); err != nil {
				t.Errorf("sender %d: %v", at, err)
			}
		}()
	}
	for round := range rounds() {
		time.Sleep(100 * time.Millisecond)
		c.kill(round % 3)
		time.Sleep(time.Duration(round%5) * 100 * time.Millisecond)
		c.start(round % 3)
		c.awaitAll()
	}
	close(done)
	all.Wait()
	for at := range 3 {
		last := open(at)
		if _, err := last.Send(ctx, Agreed, []string{"orders"}, []byte("last")); err != nil {
			t.Fatal(err)
		}
		if err := last.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	reading.Wait()
	judge(t, senders, readers)
}

// judge compares what was sent, what was told of it, and what was read.
func judge(t *testing.T, senders []*sender, readers []*roundsReader) {
	total := map[Fate]int{}
	ordered := map[string]bool{}
	for _, sender := range senders {
		if len(sender.twice) > 0 || uint64(len(sender.fates)) != sender.made {
			t.Errorf("sender %s: of %d sends %d have a fate, and %v two", sender.name, sender.made, len(sender.fates), sender.twice)
		}
		for send, sent := range sender.fates {
			total[sent.Fate]++
			if sent.Fate == FateOrdered {
				ordered[fmt.Sprintf("%s:%d", sender.name, send)] = true
			} else {
				t.Errorf("sender %s: %s", sender.name, sent)
			}
		}
	}
	for at, reader := range readers {
		seen, last := map[string]bool{}, map[string]int{}
		for _, came := range reader.came {
			var name string
			var number int
			if _, err := fmt.Sscanf(came, "%1s:%d", &name, &number); err != nil {
				t.Fatal(err)
			}
			if seen[came] || number <= last[name] || !ordered[came] {
				t.Errorf("reader %d: %q came twice (%v), behind number %d, ordered %v", at, came, seen[came], last[name], ordered[came])
			}
			seen[came], last[name] = true, number
		}
		if len(seen) != len(ordered) && reader.gaps == 0 {
			t.Errorf("reader %d: %d of %d came", at, len(seen), len(ordered))
		}
		for n := range min(len(reader.came), len(readers[0].came)) {
			if reader.came[n] != readers[0].came[n] && reader.gaps+readers[0].gaps == 0 {
				t.Fatalf("readers 0 and %d differ at %d: %q and %q", at, n, readers[0].came[n], reader.came[n])
			}
		}
		t.Logf("reader %d: %d messages once, %d gaps, parted %d times, lost its daemon %d times", at, len(seen), reader.gaps, reader.parted, reader.lost)
	}
	t.Logf("%d kills; fates: %v", rounds(), total)
}
