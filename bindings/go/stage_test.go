package consort

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// stage is where a test plays a daemon by hand.
type stage struct {
	t       *testing.T
	address string
	conns   chan net.Conn
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, conns: make(chan net.Conn, 16)}
	s.address = serve(t, "unix", func(conn net.Conn) { s.conns <- conn })
	return s
}

func stages(t *testing.T, count int) (all []*stage, addresses []string) {
	for range count {
		one := newStage(t)
		all, addresses = append(all, one), append(addresses, one.address)
	}
	return all, addresses
}

// actor is a daemon at one connection.
type actor struct {
	net.Conn
	t    *testing.T
	from *bufio.Reader
}

// enters waits for a client, and lets it in.
func (s *stage) enters() *actor {
	s.t.Helper()
	select {
	case conn := <-s.conns:
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		s.t.Cleanup(func() { _ = conn.Close() })
		a := &actor{conn, s.t, bufio.NewReader(conn)}
		if kind, _, err := readFrame(a.from, textMax); err != nil || kind != kindHello {
			s.t.Fatal(kind, err)
		}
		a.says(unhex(s.t, welcomeOfBob))
		return a
	case <-time.After(20 * time.Second):
		s.t.Fatal("nobody connects")
		return nil
	}
}

func (a *actor) says(frames ...[]byte) {
	a.t.Helper()
	for _, frame := range frames {
		if _, err := a.Write(frame); err != nil {
			a.t.Fatal(err)
		}
	}
}

// hears waits for these requests, in words.
func (a *actor) hears(requests ...string) {
	a.t.Helper()
	for _, want := range requests {
		kind, body, err := readFrame(a.from, 32<<20)
		if err != nil {
			a.t.Fatalf("%v, in place of %q", err, want)
		}
		if got := inWords(kind, body); got != want {
			a.t.Fatalf("heard %q, in place of %q", got, want)
		}
	}
}

// inWords is a request as tests write it.
func inWords(kind byte, body []byte) string {
	r := &reader{bytes: body}
	switch kind {
	case kindOpen:
		r.take(16 + 8)
		attempt, opened, known := r.u64(), r.u64(), r.u8()
		words := fmt.Sprintf("open %d", attempt) + []string{"", " known"}[known]
		if opened > 0 {
			words += fmt.Sprintf(" opened %d", opened)
		}
		return words
	case kindForget:
		return "forget"
	case kindGoodbye:
		return "goodbye"
	case kindJoin, kindJoinClosed, kindLeave:
		return map[byte]string{kindJoin: "join ", kindJoinClosed: "close ", kindLeave: "leave "}[kind] + r.name()
	case kindRead:
		return fmt.Sprintf("read %d:%s %s", r.u64(), r.place(), strings.Join(r.targets(), ","))
	case kindReadOn:
		view, place, closing := r.view(), r.place(), r.closing()
		words := fmt.Sprintf("read on %d:%s", view.Number, place)
		if closing != nil {
			words += fmt.Sprintf(" closing at %d", closing.line)
		}
		for range r.u16() {
			words += fmt.Sprintf(" behind %d:%d", r.view().Number, r.u64())
		}
		return words + " " + strings.Join(r.targets(), ",")
	}
	r.targets()
	return string(r.rest())
}

// numbers is a frame of numbers of 8 bytes, and what stands behind them.
func numbers(kind byte, numbers []uint64, rest ...byte) []byte {
	return frame(kind, func(bytes []byte) []byte {
		for _, number := range numbers {
			bytes = binary.BigEndian.AppendUint64(bytes, number)
		}
		return append(bytes, rest...)
	})
}

// What a daemon says of a producer: places are in view 1, at 100 and the number.

func opens(last uint64) []byte     { return numbers(kindOpened, []uint64{last, 1, 100 + last}, 0) }
func forgets() []byte              { return numbers(kindOpened, []uint64{0, 1, 100}, 1) }
func settles(number uint64) []byte { return numbers(kindSettled, []uint64{number, 1, 100 + number}) }

func doesNotOpen(cause OpeningCause) []byte {
	return numbers(kindNotOpened, nil, append([]byte{byte(cause), 0, 2}, "no"...)...)
}

func refuses(request uint64, cause RefusalCause) []byte {
	return numbers(kindRefused, []uint64{request}, append([]byte{byte(cause), 0, 2}, "no"...)...)
}

// gives back so much credit, and has ordered so many requests.
func gives(ordered, credit uint64) []byte {
	return numbers(kindProgress, []uint64{ordered, ordered, credit})
}

// What a daemon says of a reading.

func begins(order, position uint64) []byte {
	return numbers(kindBegan, []uint64{order, position}, append([]byte{0, 0}, make([]byte, 16)...)...)
}

func catchesUp(position uint64) []byte { return numbers(kindCaughtUp, []uint64{position}) }

func endsReading(cause ReadingEndCause, rest ...byte) []byte {
	return frame(kindNoReading, func(bytes []byte) []byte {
		return append(append(append(bytes, byte(cause)), make([]byte, 16+2)...), rest...)
	})
}

func parts(common *Place) []byte {
	if common == nil {
		return endsReading(EndParted, 0)
	}
	return endsReading(EndParted, appendPlace(appendView([]byte{1}, common.View), *common)...)
}

func entersView(number, line uint64) []byte {
	return frame(kindInView, func(bytes []byte) []byte {
		return append(binary.BigEndian.AppendUint64(appendView(bytes, view(number)), line), 0)
	})
}

// lacks tells a gap between places of views.
func lacks(from, to Place) []byte {
	return frame(kindGap, func(bytes []byte) []byte {
		for _, place := range []Place{from, to} {
			bytes = appendPlace(appendView(bytes, place.View), place)
		}
		return append(bytes, 0)
	})
}

func view(number uint64) ViewID {
	return ViewID{Number: number, Representative: DaemonID{Node: 1, Incarnation: 1}}
}

func placeIn(number, position uint64) Place { return Place{View: view(number), Position: position} }

// tells is a message to group g that is read.
func tells(position uint64, payload string) []byte {
	body := append(unhexed("0001 00000002 03626f62 0001 0167"), payload...)
	return numbers(kindReadMessage+byte(Agreed), []uint64{position}, body...)
}

// tellsBatch is several of them that were ordered as one, of which the first ones are left out.
func tellsBatch(position uint64, index byte, payloads ...string) []byte {
	body := append([]byte{0, index}, unhexed("0001 00000002 03626f62")...)
	for _, payload := range payloads {
		body = append(body, multicast(Agreed, []string{"g"}, []byte(payload))...)
	}
	return numbers(kindReadBatch+byte(Agreed), []uint64{position}, body...)
}
