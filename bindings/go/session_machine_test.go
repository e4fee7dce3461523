package consort

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// asked is a daemon that is asked, and has credit for so much more.
type asked struct {
	words    []string
	credit   int
	requests uint64
}

func (a *asked) note(bytes []byte) { a.words = append(a.words, inWords(bytes[4], bytes[head:])) }

func (a *asked) ask(bytes []byte) { a.note(bytes) }

func (a *asked) try(bytes []byte) (uint64, bool) {
	if a.credit == 0 {
		return 0, false
	}
	a.credit--
	a.requests++
	if len(bytes) > 0 {
		a.note(bytes)
	}
	return a.requests, true
}

func (a *asked) checkLength(int) error  { return nil }
func (a *asked) checkTargets(int) error { return nil }

func machineOf(t *testing.T, daemons int) *sessionMachine {
	t.Helper()
	var addresses []string
	for at := range daemons {
		addresses = append(addresses, fmt.Sprintf("host:%d", at+1))
	}
	options, _, err := SessionOptions{}.checked(addresses)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := newSessionMachine(addresses, options, time.Unix(100, 0))
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

// world is a machine, and what time it is.
type world struct {
	*sessionMachine
	t   *testing.T
	now time.Time
}

func worldOf(t *testing.T, daemons int) *world {
	return &world{machineOf(t, daemons), t, time.Unix(100, 0)}
}

// turnOf is which daemon is next, once it is time for that.
func (w *world) turnOf() int {
	if w.next.After(w.now) {
		w.now = w.next
	}
	return w.at() + 1
}

func (w *world) connects() (daemon int, words []string) {
	daemon = w.turnOf()
	w.connected()
	return daemon, w.asks(100)
}

func (w *world) asks(credit int) []string {
	asked := &asked{credit: credit}
	w.work(asked)
	return asked.words
}

func (w *world) fails() {
	w.turnOf()
	w.failed(errors.New("nobody"), w.now)
}

func (w *world) loses() { w.lost(errors.New("gone"), w.now) }

// isOther: the daemon says that its history is another. True if the session leaves it.
func (w *world) isOther(common *Place) bool {
	w.t.Helper()
	err := w.take(&ReadingEnded{Cause: EndParted, common: common})
	if err == nil {
		return false
	}
	if !errors.Is(err, ErrOtherHistory) {
		w.t.Fatal(err)
	}
	w.lost(err, w.now)
	return true
}

func (w *world) parted() (common []any) {
	for _, event := range w.events.rest() {
		if parted, is := event.(*Parted); is && parted.Common != nil {
			common = append(common, *parted.Common)
		} else if is {
			common = append(common, nil)
		}
	}
	return common
}

// readsOn reads on in view 7, after view 6.
func (w *world) readsOn() {
	trail := &viewTrail{view: view(7), before: []viewLine{{view(6), 60}}}
	w.read([]string{"g"}, FromBookmark(Bookmark{next: Place{Position: 3}, trail: trail}))
}

const readOn = "read on 7:3 behind 6:60 g"

func TestAddressesTakeTurnsAndARoundWithoutSuccessMakesItWait(t *testing.T) {
	w := worldOf(t, 3)
	begun := w.now
	for daemon := range 3 {
		same(t, w.turnOf(), daemon+1)
		same(t, w.now, begun)
		w.fails()
	}
	same(t, w.turnOf(), 1)
	same(t, w.now.Sub(begun), 40*time.Millisecond)
	for range 3 * 10 {
		w.fails()
	}
	w.turnOf()
	before := w.now
	for range 3 {
		w.fails()
	}
	same(t, w.turnOf(), 1)
	same(t, w.now.Sub(before), time.Second)
	w.connects()
	if err := w.take(&opened{}); err != nil {
		t.Fatal(err)
	}
	before = w.now
	w.loses()
	same(t, w.turnOf(), 2)
	same(t, w.now, before)
	// A daemon that lets it in and then sends it away is as good as none.
	w.connects()
	w.loses()
	same(t, w.turnOf(), 3)
	same(t, w.now.Sub(before), 20*time.Millisecond)
	w.connects()
	w.loses()
	w.turnOf()
	same(t, w.now.Sub(before), 60*time.Millisecond)
}

func TestItGivesUpAfterTheTimeThatIsAllowed(t *testing.T) {
	w := worldOf(t, 2)
	w.fails()
	w.now = w.now.Add(reconnectMost)
	w.fails()
	var gone *UnreachableError
	if !errors.As(w.end, &gone) || gone.Within != time.Minute || gone.Last.Error() != "nobody" {
		t.Fatal(w.end)
	}
}

func TestWhatThereIsNoCreditForIsAskedLater(t *testing.T) {
	w := worldOf(t, 1)
	w.join("a", false)
	w.connected()
	same(t, w.asks(0), []string{"open 1"})
	same(t, w.asks(0), []string(nil))
	same(t, w.asks(1), []string{"join a"})
}

func TestOneThatJustStartedIsLeftForOneThatKnows(t *testing.T) {
	w := worldOf(t, 3)
	w.connects()
	w.readsOn()
	w.loses()
	daemon, words := w.connects()
	same(t, daemon, 2)
	same(t, words, []string{"open 2", readOn})
	same(t, w.isOther(nil), true)
	daemon, words = w.connects()
	same(t, daemon, 3)
	same(t, words, []string{"open 3", readOn})
	same(t, w.parted(), []any(nil))
	if err := w.take(&ReadingBegan{From: Place{Position: 3}}); err != nil {
		t.Fatal(err)
	}
	w.loses()
	same(t, w.turnOf(), 1)
}

func TestWhereNoneKnowsTheyHavePartedAndItGoesOnWhereMostIsInCommon(t *testing.T) {
	w := worldOf(t, 3)
	w.connects()
	w.readsOn()
	w.loses()
	w.connects()
	common := placeIn(6, 8)
	same(t, w.isOther(&common), true)
	same(t, w.turnOf(), 3)
	w.fails()
	same(t, w.parted(), []any(nil))
	daemon, _ := w.connects()
	same(t, daemon, 1)
	same(t, w.isOther(nil), true)
	same(t, w.parted(), []any{common})
	daemon, words := w.connects()
	same(t, daemon, 2)
	same(t, words, []string{"open 4", "read on 6:8 g"})
}

func TestWhereTheLastOneCannotBeReachedItIsToldAllTheSame(t *testing.T) {
	w := worldOf(t, 2)
	w.connects()
	w.readsOn()
	w.loses()
	w.connects()
	same(t, w.isOther(nil), true)
	same(t, w.turnOf(), 1)
	w.fails()
	same(t, w.parted(), []any{nil})
	daemon, words := w.connects()
	same(t, daemon, 2)
	same(t, words, []string{"open 3", "read 0:0 g"})
}

func TestOneThatWasThereIsBelievedAtOnce(t *testing.T) {
	w := worldOf(t, 3)
	w.connects()
	w.readsOn()
	w.loses()
	w.connects()
	common := placeIn(7, 2)
	same(t, w.isOther(&common), false)
	same(t, w.parted(), []any{common})
	same(t, w.asks(9), []string{"read on 7:2 g"})
}

func TestTheLatestPlaceInCommonCountsWhoeverNamedIt(t *testing.T) {
	w := worldOf(t, 4)
	w.readsOn()
	trail := w.reading.from.at.trail
	trail.before = append([]viewLine{{view(5), 50}}, trail.before...)
	at := func(number, position uint64) *Place {
		place := placeIn(number, position)
		return &place
	}
	same(t, w.reading.isOther(0, at(5, 50), 4), nextStep{kind: stepAsk, at: 1})
	same(t, w.reading.isOther(1, at(6, 8), 4), nextStep{kind: stepAsk, at: 2})
	same(t, w.reading.isOther(2, at(6, 7), 4), nextStep{kind: stepAsk, at: 3})
	same(t, w.reading.isOther(3, at(9, 99), 4), nextStep{kind: stepPart, common: at(6, 8), at: 1})
	alone := worldOf(t, 1)
	alone.readsOn()
	same(t, alone.reading.isOther(0, at(6, 9), 1), nextStep{kind: stepPart, common: at(6, 9), at: 0})
}

func TestThatAReplacedReadingHasPartedIsNoAffairOfTheNext(t *testing.T) {
	w := worldOf(t, 2)
	w.readsOn()
	w.connects()
	w.join("a", false)
	w.read([]string{"h"}, FromPosition(4))
	same(t, w.asks(0), []string(nil))
	common := placeIn(7, 2)
	same(t, w.isOther(&common), false)
	same(t, w.parted(), []any(nil))
	same(t, w.asks(9), []string{"join a", "read 0:4 h"})
	if err := w.take(&ReadingBegan{order: 5, From: Place{Position: 4}}); err != nil {
		t.Fatal(err)
	}
	w.events.rest()
	same(t, w.events.bookmark().String(), "0000000000000005:4")
}

func TestOfTwoReadingsThatWaitForCreditOnlyTheLastIsAskedFor(t *testing.T) {
	w := worldOf(t, 1)
	w.connects()
	w.join("a", false)
	w.read([]string{"h"}, FromPosition(4))
	w.read([]string{"h"}, FromPosition(9))
	same(t, w.asks(9), []string{"join a", "read 0:9 h"})
	if err := w.take(&ReadingBegan{order: 5, From: Place{Position: 9}}); err != nil {
		t.Fatal(err)
	}
	w.events.rest()
	same(t, w.events.bookmark().String(), "0000000000000005:9")
}

func TestAProgramThatSendsAndNeverReceivesIsToldSoBeforeItsMemoryIsFull(t *testing.T) {
	w := worldOf(t, 1)
	w.connects()
	if err := w.take(&opened{}); err != nil {
		t.Fatal(err)
	}
	for made := uint64(0); !w.isFull(); {
		if made > 1<<20 {
			t.Fatal("fates wait without a bound")
		}
		for range 1000 {
			made = w.pending.push(multicast(Agreed, []string{"g"}, nil), 0, 1)
		}
		w.asks(1000)
		if err := w.take(&settled{number: made}); err != nil {
			t.Fatal(err)
		}
	}
	if w.events.takeFate(7) == nil || len(w.events.rest()) < 1000 {
		t.Fatal("fates are missing")
	}
	same(t, w.events.bytes, 0)
}
