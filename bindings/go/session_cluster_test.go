package consort

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
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

// patient are options for a machine that others use, too.
var patient = SessionOptions{ReconnectWithin: 5 * time.Minute}

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

// follower keeps what it reads, and where that stands.
type follower struct {
	came   []string
	places []Place
	gaps   int
	parted int
	lost   int
}

func (r *follower) run(ctx context.Context, session *Session, last string) error {
	for {
		event, err := session.Receive(ctx)
		if err != nil {
			return fmt.Errorf("behind %d messages: %w", len(r.came), err)
		}
		switch event := event.(type) {
		case *Message:
			if string(event.Payload) == last {
				return nil
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
func (r *follower) forget(common Place) {
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
	underLoad(t, c.from, func() {
		for round := 0; round < rounds() && !t.Failed(); round++ {
			time.Sleep(100 * time.Millisecond)
			c.kill(round % 3)
			time.Sleep(time.Duration(round%5) * 100 * time.Millisecond)
			c.start(round % 3)
			c.awaitAll()
		}
	})
}

// Connections are cut in the middle of frames, in both directions.
func TestEachMessageIsOrderedOnceThoughConnectionsAreCut(t *testing.T) {
	c := newCluster(t, "ring", "[sessions]\nretain = 67_108_864\n")
	var cuts atomic.Int64
	var shaky []string
	for _, address := range c.addresses {
		shaky = append(shaky, shakyWay(t, address, &cuts))
	}
	from := func(at int) []string { return append(append([]string{}, shaky[at:]...), shaky[:at]...) }
	underLoad(t, from, func() {
		for cuts.Load() < int64(10*rounds()) && !t.Failed() {
			time.Sleep(10 * time.Millisecond)
		}
	})
	t.Logf("%d cuts", cuts.Load())
}

// shakyWay leads to a daemon; each connection is cut behind some bytes.
func shakyWay(t *testing.T, address string, cuts *atomic.Int64) string {
	return serveAll(t, func(conn net.Conn) {
		daemon, err := net.Dial("unix", address)
		if err != nil {
			_ = conn.Close()
			return
		}
		cut := func() {
			cuts.Add(1)
			_ = conn.Close()
			_ = daemon.Close()
		}
		go func() {
			defer cut()
			_, _ = io.CopyN(daemon, conn, 100+rand.Int63n(20_000))
		}()
		defer cut()
		_, _ = io.CopyN(conn, daemon, 100+rand.Int63n(100_000))
	})
}

// serveAll has a function serve each connection.
func serveAll(t *testing.T, each func(net.Conn)) string {
	return serve(t, "unix", func(conn net.Conn) { go each(conn) })
}

// underLoad has sessions send and read while something happens to their daemons, and judges them.
func underLoad(t *testing.T, from func(int) []string, happens func()) {
	ctx := within(t, time.Duration(5+rounds())*time.Minute)
	open := func(at int) *Session {
		session, err := DialSession(ctx, from(at), patient)
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
	var readers []*follower
	var reading, sending sync.WaitGroup
	for at := range 3 {
		session, reader := open(at), &follower{}
		readers = append(readers, reader)
		begin(ctx, t, session)
		reading.Add(1)
		go func() {
			defer reading.Done()
			if err := reader.run(ctx, session, "last"); err != nil {
				t.Errorf("reader %d: %v", at, err)
			}
		}()
	}
	var senders []*sender
	done := make(chan struct{})
	for at := range 3 {
		session, sender := open(at), &sender{name: strconv.Itoa(at), fates: map[uint64]*Sent{}}
		senders = append(senders, sender)
		sending.Add(1)
		go func() {
			defer sending.Done()
			if err := sender.run(ctx, session, done); err != nil {
				t.Errorf("sender %d: %v", at, err)
			}
		}()
	}
	happens()
	close(done)
	sending.Wait()
	last := open(0)
	if _, err := last.Send(ctx, Agreed, []string{"orders"}, []byte("last")); err != nil {
		t.Fatal(err)
	}
	if err := last.Close(ctx); err != nil {
		t.Fatal(err)
	}
	reading.Wait()
	judge(t, senders, readers)
}

// begin has a session read what comes.
func begin(ctx context.Context, t *testing.T, session *Session) {
	if err := session.Read([]string{"orders"}, FromNew()); err != nil {
		t.Fatal(err)
	}
	for caughtUp := false; !caughtUp; {
		_, caughtUp = receive(ctx, t, session).(*CaughtUp)
	}
}

// judge compares what was sent, what was told of it, and what was read.
func judge(t *testing.T, senders []*sender, readers []*follower) {
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
	t.Logf("%d rounds; fates: %v", rounds(), total)
}

func TestASessionThatGoesOnWithAProducerStopsTheOther(t *testing.T) {
	c, ctx := newCluster(t, "ring", ""), within(t, 5*time.Minute)
	open := func(at int, producer Producer) *Session {
		session, err := DialSession(ctx, c.from(at), SessionOptions{Producer: producer, ReconnectWithin: patient.ReconnectWithin})
		if err != nil {
			t.Fatal(err)
		}
		return session
	}
	first := open(0, Producer{})
	one, err := first.SendAndWait(ctx, Safe, []string{"orders"}, []byte("one"))
	if err != nil || one.Fate != FateOrdered {
		t.Fatal(one, err)
	}
	second := open(1, first.Producer())
	two, err := second.SendAndWait(ctx, Agreed, []string{"orders"}, []byte("two"))
	if err != nil || two.Fate != FateOrdered {
		t.Fatal(two, err)
	}
	if late, err := first.SendAndWait(ctx, Agreed, []string{"orders"}, []byte("late")); !errors.Is(err, ErrTakenOver) {
		t.Fatal(late, err)
	}
	if err := first.Close(ctx); !errors.Is(err, ErrTakenOver) {
		t.Fatal(err)
	}
	rest, err := second.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range rest {
		if resumed, is := event.(*Resumed); is {
			same(t, *resumed, Resumed{Known: true, Ordered: 1})
			return
		}
	}
	t.Fatal(rest)
}

func TestAReadingGoesOnBehindABookmarkAndTellsWhatIsNotRetained(t *testing.T) {
	c, ctx := newCluster(t, "ring", "[sessions]\nretain = 100_000\n"), within(t, 5*time.Minute)
	sends, reads := dials(ctx, t, c.from(0)), dials(ctx, t, c.from(1))
	begin(ctx, t, reads)
	puts(ctx, t, sends, 1, 10, 0)
	readsOn(ctx, t, reads, 1, 5)
	// The text is what a program keeps.
	from, err := ParseReadFrom(reads.Bookmark().String())
	if err != nil {
		t.Fatal(err)
	}
	c.kill(1)
	readsOn(ctx, t, reads, 6, 10)
	other := dials(ctx, t, c.from(2))
	if err := other.Read([]string{"orders"}, from); err != nil {
		t.Fatal(err)
	}
	number, gap := nextNumber(ctx, t, other)
	same(t, []any{number, gap}, []any{byte(6), false})
	puts(ctx, t, sends, 11, 210, 2000)
	if err := other.Read([]string{"orders"}, from); err != nil {
		t.Fatal(err)
	}
	// The reading before may have met a gap, and left its daemon.
	for began := (Place{}); began != from.at.next; {
		if event, is := receive(ctx, t, other).(*ReadingBegan); is {
			began = event.From
		}
	}
	if number, gap = nextNumber(ctx, t, other); !gap || number <= 11 {
		t.Fatal(number, gap)
	}
	for _, session := range []*Session{sends, reads, other} {
		if err := session.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAReaderWhoseDaemonWasCutOffReadsOnAtAnother(t *testing.T) {
	c, ctx := newCluster(t, "ring", ""), within(t, 5*time.Minute)
	sends := dials(ctx, t, []string{c.addresses[1], c.addresses[2]})
	// The daemon that is silent for a while is not to be left for that.
	options := SessionOptions{ReconnectWithin: patient.ReconnectWithin, Options: Options{DaemonTimeout: Forever}}
	reads, err := DialSession(ctx, c.from(0)[:2], options)
	if err != nil {
		t.Fatal(err)
	}
	begin(ctx, t, reads)
	puts(ctx, t, sends, 1, 3, 0)
	readsOn(ctx, t, reads, 1, 3)
	c.signal(0, "STOP")
	c.await(1, 2)
	puts(ctx, t, sends, 4, 6, 0)
	c.signal(0, "CONT")
	c.awaitAll()
	puts(ctx, t, sends, 7, 7, 0)
	var numbers []byte
	isLeft := false
	for len(numbers) == 0 || numbers[len(numbers)-1] < 7 {
		switch event := receive(ctx, t, reads).(type) {
		case *Message:
			numbers = append(numbers, event.Payload[0])
		case *Lost:
			isLeft = isLeft || errors.Is(event.Err, ErrLacking)
		case *Gap, *Parted:
			t.Errorf("%T %+v behind %v", event, event, numbers)
		}
	}
	same(t, numbers, []byte{4, 5, 6, 7})
	same(t, isLeft, true)
	for _, session := range []*Session{sends, reads} {
		if err := session.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func dials(ctx context.Context, t *testing.T, addresses []string) *Session {
	t.Helper()
	session, err := DialSession(ctx, addresses, patient)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// puts sends messages that begin with these numbers, and waits until all are ordered.
func puts(ctx context.Context, t *testing.T, session *Session, first, last, size int) {
	t.Helper()
	for n := first; n <= last; n++ {
		if _, err := session.Send(ctx, Agreed, []string{"orders"}, append([]byte{byte(n)}, make([]byte, size)...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := session.Settle(ctx); err != nil {
		t.Fatal(err)
	}
}

func readsOn(ctx context.Context, t *testing.T, session *Session, first, last byte) {
	t.Helper()
	for want := first; want <= last; want++ {
		number, _ := nextNumber(ctx, t, session)
		same(t, number, want)
	}
}

// nextNumber is that of the next message, and whether there was a gap before it.
func nextNumber(ctx context.Context, t *testing.T, session *Session) (number byte, gap bool) {
	t.Helper()
	for {
		switch event := receive(ctx, t, session).(type) {
		case *Message:
			return event.Payload[0], gap
		case *Gap:
			gap = event.From.View != event.To.View || event.From.isBefore(event.To)
		}
	}
}

func receive(ctx context.Context, t *testing.T, session *Session) Event {
	t.Helper()
	event, err := session.Receive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return event
}
