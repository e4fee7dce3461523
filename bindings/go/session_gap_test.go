package consort

import (
	"errors"
	"strings"
	"testing"
)

// What only some daemons have.

func isRead(position uint64) Event {
	return &Message{WasRead: true, Position: position, next: Place{Position: position + 1}}
}

func hasBegun(order, position uint64) Event {
	return &ReadingBegan{order: order, From: Place{Position: position}, Oldest: 1, Newest: 9}
}

func isIn(number, line uint64) Event { return &inView{view: view(number), line: line} }

func gapOf(from, to Place) *Gap { return &Gap{From: from, To: to} }

func isEnded(cause ReadingEndCause) Event { return &ReadingEnded{Cause: cause} }

// says: the daemon says this. True if the session leaves it.
func (w *world) says(events ...Event) bool {
	w.t.Helper()
	for at, event := range events {
		err := w.take(event)
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrLacking) || at != len(events)-1 {
			w.t.Fatal(err, at)
		}
		w.lost(err, w.now)
		return true
	}
	return false
}

// goesOn connects, and the daemon goes on with the reading where it is asked for, in that view.
func (w *world) goesOn(number uint64) (daemon int, at uint64) {
	w.t.Helper()
	daemon, words := w.connects()
	from := w.reading.from.at
	at = from.next.Position
	if asked := words[len(words)-1]; !strings.HasPrefix(asked, "read on ") {
		w.t.Fatal(words)
	}
	if w.says(&opened{}, hasBegun(0, at), isIn(number, 60)) {
		w.t.Fatal("it is left at once")
	}
	return daemon, at
}

// goesOnAt is the same in view 7 at a place, with a daemon that was to be next.
func (w *world) goesOnAt(wantDaemon int, wantAt uint64) {
	w.t.Helper()
	daemon, at := w.goesOn(7)
	same(w.t, []any{daemon, at}, []any{wantDaemon, wantAt})
}

// gaps are those that the program was told; nothing has parted.
func (w *world) gaps() (gaps []Gap) {
	w.t.Helper()
	for _, event := range w.events.rest() {
		switch event := event.(type) {
		case *Gap:
			gaps = append(gaps, *event)
		case *Parted, *ReadingEnded:
			w.t.Fatalf("%T %+v", event, event)
		}
	}
	return gaps
}

// toldGap checks that the program was told this gap and no other.
func (w *world) toldGap(gap *Gap) {
	w.t.Helper()
	same(w.t, w.gaps(), []Gap{*gap})
}

func (w *world) toldNothing() {
	w.t.Helper()
	same(w.t, w.gaps(), []Gap(nil))
}

// readerOf is one that reads on in view 7, at the first of so many daemons.
func readerOf(t *testing.T, daemons int) *world {
	t.Helper()
	w := worldOf(t, daemons)
	w.readsOn()
	w.goesOnAt(1, 3)
	return w
}

func TestAGapOfAReplacedReadingIsToldAndMovesNothing(t *testing.T) {
	w := readerOf(t, 2)
	w.read([]string{"h"}, FromPosition(9))
	w.asks(9)
	gap := gapOf(placeIn(7, 3), placeIn(8, 0))
	same(t, w.says(gap), false)
	w.toldGap(gap)
	same(t, w.events.bookmark(), Bookmark{})
	w.says(isEnded(EndEnded), hasBegun(7, 9))
	w.events.rest()
	same(t, w.events.bookmark().String(), "0000000000000007:9")
	same(t, w.says(isEnded(EndClosed)), false)
	w.read([]string{"h"}, FromPosition(12))
	same(t, w.asks(9), []string{"read 0:12 h"})
	w.says(hasBegun(7, 12))
	w.events.rest()
	// What was over is not waited for.
	same(t, w.events.bookmark().String(), "0000000000000007:12")
}

func TestWhatOneDaemonLacksIsReadAtAnother(t *testing.T) {
	w := readerOf(t, 3)
	w.says(isRead(4))
	same(t, w.says(gapOf(placeIn(7, 5), placeIn(8, 0))), true)
	w.goesOnAt(2, 5)
	w.says(isRead(6))
	w.toldNothing()
	// That is another gap: each is asked anew.
	same(t, w.says(gapOf(placeIn(7, 7), placeIn(9, 0))), true)
	w.goesOnAt(3, 7)
	w.loses()
	w.goesOnAt(1, 7)
	same(t, w.says(isIn(9, 7), &CaughtUp{Position: 9}), false)
	w.toldNothing()
}

func TestWhatAllLackIsToldWhereLeastIsLacking(t *testing.T) {
	w := readerOf(t, 3)
	same(t, w.says(gapOf(placeIn(7, 3), placeIn(8, 4))), true)
	w.goesOnAt(2, 3)
	same(t, w.says(gapOf(placeIn(7, 3), placeIn(8, 0))), true)
	same(t, w.turnOf(), 3)
	w.fails()
	w.goesOnAt(2, 3)
	w.toldNothing()
	// It lacks more now, and is asked no third time.
	gap := gapOf(placeIn(7, 3), placeIn(8, 6))
	same(t, w.says(gap), false)
	w.toldGap(gap)
	same(t, w.events.bookmark().String(), "0000000000000000:6@8/1/1+6/1/1/60+7/1/1/3")
}

func TestTheLastOneThatIsAskedTellsAtOnceIfItLacksNoMoreThanOthers(t *testing.T) {
	w := readerOf(t, 2)
	same(t, w.says(gapOf(placeIn(7, 3), placeIn(9, 0))), true)
	w.goesOnAt(2, 3)
	gap := gapOf(placeIn(7, 3), placeIn(8, 0))
	same(t, w.says(gap), false)
	w.toldGap(gap)
	alone := readerOf(t, 1)
	same(t, alone.says(gap), false)
	alone.toldGap(gap)
}

func TestDaemonsThatLackEverMoreAreAskedOnceAndTheProgramIsTold(t *testing.T) {
	w := worldOf(t, 5)
	w.readsOn()
	var met []int
	to := uint64(10)
	for isLeft := true; isLeft; to++ {
		daemon, _ := w.goesOn(7)
		met = append(met, daemon)
		isLeft = w.says(gapOf(placeIn(7, 3), placeIn(7, to)))
	}
	// The first lacked least.
	same(t, met, []int{1, 2, 3, 4, 5, 1})
	w.toldGap(gapOf(placeIn(7, 3), placeIn(7, 15)))
	// The program is too slow for them all.
	gap := gapOf(placeIn(7, 20), placeIn(7, 40))
	same(t, w.says(gap), false)
	w.toldGap(gap)
	// That is not for its slowness.
	same(t, w.says(gapOf(placeIn(7, 40), placeIn(8, 0))), true)
}

func TestWhoReadNothingInAViewOfItsOwnGoesOnFromTheViewBefore(t *testing.T) {
	w := readerOf(t, 2)
	w.says(isRead(4), isIn(8, 5), &CaughtUp{Position: 2}, isIn(9, 3))
	same(t, w.says(gapOf(placeIn(9, 0), placeIn(10, 0))), true)
	daemon, words := w.connects()
	same(t, daemon, 2)
	same(t, words[1], "read on 9:0 behind 6:60 behind 7:5 behind 8:3 g")
	common := placeIn(7, 5)
	// Nothing was read behind that.
	same(t, w.isOther(&common), false)
	same(t, w.asks(9), []string{"read on 7:5 behind 6:60 g"})
	w.says(hasBegun(0, 5), isIn(7, 60), isRead(5))
	w.toldNothing()
	same(t, w.events.bookmark().String(), "0000000000000000:6@7/1/1+6/1/1/60")
}

func TestWhoReadSomethingInAViewOfItsOwnIsToldTheGap(t *testing.T) {
	w := readerOf(t, 2)
	w.says(isIn(8, 5), isRead(1))
	gap := gapOf(placeIn(8, 2), placeIn(9, 0))
	same(t, w.says(gap), true)
	daemon, _ := w.connects()
	same(t, daemon, 2)
	common := placeIn(7, 5)
	same(t, w.isOther(&common), true)
	daemon, words := w.connects()
	same(t, daemon, 1)
	same(t, words[1], "read on 8:2 behind 6:60 behind 7:5 g")
	same(t, w.says(hasBegun(0, 2), isIn(8, 5), gap), false)
	w.toldGap(gap)
}

func TestWhoReadMoreThanIsInCommonIsToldTheGapThoughItReadNothingInItsOwnView(t *testing.T) {
	w := readerOf(t, 2)
	w.says(isRead(4), isIn(8, 5))
	gap := gapOf(placeIn(8, 0), placeIn(9, 0))
	same(t, w.says(gap), true)
	w.connects()
	common := placeIn(7, 4)
	same(t, w.isOther(&common), true)
	daemon, at := w.goesOn(8)
	same(t, []any{daemon, at}, []any{1, uint64(0)})
	same(t, w.says(gap), false)
	w.toldGap(gap)
}

func TestOneThatClosedTheViewOtherwiseIsNoReasonToPartWhileAnotherGoesOn(t *testing.T) {
	w := readerOf(t, 2)
	w.says(isRead(4))
	gap := gapOf(placeIn(7, 5), placeIn(8, 0))
	same(t, w.says(gap), true)
	w.connects()
	common := placeIn(7, 4)
	same(t, w.isOther(&common), true)
	w.goesOnAt(1, 5)
	same(t, w.says(gap), false)
	w.toldGap(gap)
}

func TestOneThatDoesNotLetItReadDoesNotEndWhatAnotherGoesOnWith(t *testing.T) {
	w := readerOf(t, 2)
	gap := gapOf(placeIn(7, 3), placeIn(8, 0))
	same(t, w.says(gap), true)
	w.connects()
	same(t, w.says(isEnded(EndUnsupported)), true)
	w.goesOnAt(1, 3)
	same(t, w.says(gap), false)
	w.toldGap(gap)
	// There it is over.
	same(t, w.says(isEnded(EndClosed)), false)
	same(t, w.events.front(), isEnded(EndClosed))
}

func TestWhereNoneAnswersAnyMoreNothingIsToldAndAllAreTriedAgain(t *testing.T) {
	w := readerOf(t, 2)
	gap := gapOf(placeIn(7, 3), placeIn(8, 0))
	same(t, w.says(gap), true)
	for _, daemon := range []int{2, 1, 2} {
		same(t, w.turnOf(), daemon)
		w.fails()
	}
	w.toldNothing()
	w.goesOnAt(1, 3)
	// The other one may be back.
	same(t, w.says(gap), true)
	w.goesOnAt(2, 3)
	same(t, w.says(isIn(8, 3), &CaughtUp{Position: 3}), false)
	w.toldNothing()
}

func TestOneThatIsCutOffItselfIsLeftForOneThatHasComeFurther(t *testing.T) {
	w := readerOf(t, 3)
	same(t, w.says(gapOf(placeIn(7, 3), placeIn(9, 0))), true)
	w.goesOnAt(2, 3)
	// It has not come to view 9.
	same(t, w.says(isRead(4), isIn(8, 5), &CaughtUp{Position: 2}), true)
	goesOn := func(daemon int) {
		t.Helper()
		met, at := w.goesOn(8)
		same(t, []any{met, at}, []any{daemon, uint64(0)})
	}
	gap := gapOf(placeIn(8, 0), placeIn(9, 0))
	goesOn(3)
	same(t, w.says(gap), true)
	goesOn(1)
	same(t, w.says(gapOf(placeIn(8, 0), placeIn(10, 0))), true)
	goesOn(3)
	same(t, w.says(gap), false)
	w.toldGap(gap)
	same(t, w.says(&CaughtUp{Position: 1}), false)
}

func TestOneThatIsCutOffIsStayedWithWhileNobodyElseAnswers(t *testing.T) {
	w := readerOf(t, 2)
	same(t, w.says(gapOf(placeIn(7, 3), placeIn(9, 0))), true)
	w.goesOnAt(2, 3)
	same(t, w.says(&CaughtUp{Position: 2}), true)
	same(t, w.turnOf(), 1)
	w.fails()
	w.goesOnAt(2, 3)
	same(t, w.says(&CaughtUp{Position: 2}), false)
	w.toldNothing()
}
