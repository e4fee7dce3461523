package consort

import (
	"errors"
	"testing"
)

func TestGroupsAndReadingsGoOnAtTheNextDaemon(t *testing.T) {
	all, addresses := stages(t, 2)
	s, first := session(t, all, addresses, SessionOptions{})
	for _, err := range []error{s.Join("b"), s.JoinClosed("c"), s.Join("a"), s.Leave("a"), s.Read([]string{"g", "h"}, FromStart())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	first.hears("open 1", "join b", "close c", "join a", "leave a", "read 0:0 g,h")
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
	second.hears("open 2", "join b", "close c", "read 7:6 g,h")
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
	first.hears("open 1")
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
	stage.enters().hears("open 2", "read on 6:1 behind 4:9 behind 5:5 g")
}

// A reading that was asked for and not begun goes on where it was to begin, however far another came.
func TestALossDoesNotMixReadings(t *testing.T) {
	s, stage, first := alone(t, SessionOptions{})
	if err := s.Read([]string{"g"}, FromStart()); err != nil {
		t.Fatal(err)
	}
	first.hears("open 1", "read 0:0 g")
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
	stage.enters().hears("open 2", "read 0:2 h")
	same(t, s.Bookmark(), Bookmark{})
}

func TestASessionLeavesADaemonThatLacksWhatItReads(t *testing.T) {
	all, addresses := stages(t, 2)
	s, first := session(t, all, addresses, SessionOptions{})
	if err := s.Read([]string{"g"}, FromStart()); err != nil {
		t.Fatal(err)
	}
	first.hears("open 1", "read 0:0 g")
	first.says(opens(0), begins(0, 1), entersView(7, 0), tells(3, "three"), lacks(placeIn(7, 4), placeIn(7, 9)))
	second := all[1].enters()
	second.hears("open 2 known opened 1", "read on 7:4 g")
	second.says(opens(0), begins(0, 4), entersView(7, 0), tells(4, "four"), lacks(placeIn(7, 5), placeIn(8, 0)))
	first = all[0].enters()
	first.hears("open 3 known opened 2", "read on 7:5 g")
	first.says(opens(0), begins(0, 5), entersView(7, 0), lacks(placeIn(7, 5), placeIn(8, 2)))
	second = all[1].enters()
	second.hears("open 4 known opened 3", "read on 7:5 g")
	second.says(opens(0), begins(0, 5), entersView(7, 0), lacks(placeIn(7, 5), placeIn(8, 0)), catchesUp(0))
	var told []string
	for caughtUp := false; !caughtUp; {
		event, err := s.Receive(long(t))
		if err != nil {
			t.Fatal(err)
		}
		switch event := event.(type) {
		case *Message:
			told = append(told, string(event.Payload))
		case *Gap:
			same(t, *event, Gap{From: placeIn(7, 5), To: placeIn(8, 0)})
			told = append(told, "gap")
		case *Lost:
			same(t, errors.Is(event.Err, ErrLacking), true)
			told = append(told, "elsewhere")
		case *CaughtUp:
			caughtUp = true
		}
	}
	same(t, told, []string{"three", "elsewhere", "four", "elsewhere", "elsewhere", "gap"})
	same(t, s.Bookmark().String(), "0000000000000000:1@8/1/1+7/1/1/5")
}
