package consort

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The texts are those that the library in Rust, and so C and Python, write and read.
func TestBookmarksReadBackAndOtherTextsAreNone(t *testing.T) {
	atView := func(number uint64) ViewID {
		return ViewID{Number: number, Representative: DaemonID{Node: 3, Incarnation: 1_700_000}}
	}
	whole := &viewTrail{view: atView(6), closing: &viewClosing{line: 9, together: 1<<64 - 1}, before: []viewLine{{atView(4), 7}, {atView(5), 0}}}
	for text, bookmark := range map[string]Bookmark{
		"00000000deadbeef:1234.2":         {order: 0xdeadbeef, next: Place{Position: 1234, Index: 2}},
		"0000000000000000:12@6/3/1700000": {next: Place{Position: 12}, trail: &viewTrail{view: atView(6)}},
		"0000000000000000:12@6/3/1700000!9/18446744073709551615+4/3/1700000/7+5/3/1700000/0": {next: Place{Position: 12}, trail: whole},
	} {
		same(t, bookmark.String(), text)
		var read Bookmark
		if err := read.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		same(t, read, bookmark)
	}
	for _, trail := range []string{"", "6", "6/3", "6/70000/1", "6/3/1!", "6/3/1!5", "6/3/1+", "6/3/1+4/3/1", "6/3/1/1", "-6/3/1",
		"6/3/1" + strings.Repeat("+4/3/1/7", 17)} {
		if _, err := ParseBookmark("0000000000000000:12@" + trail); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", trail, err)
		}
	}
	for _, text := range []string{"", ":", "1234", "deadbeef:1", "00000000deadbeef:", "00000000deadbeef:x", "+000000deadbeef0:1"} {
		if _, err := ParseBookmark(text); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("%q is no place to read from; give", text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for bookmark, want := range map[Bookmark]string{{order: 5}: "0000000000000005:0", {}: ""} {
		text, err := bookmark.MarshalText()
		read := Bookmark{order: 9}
		if string(text) != want || err != nil || read.UnmarshalText(text) != nil || read != bookmark {
			t.Fatal(string(text), err, read)
		}
	}
}

func TestWhereAReadingBeginsIsReadFromText(t *testing.T) {
	for text, want := range map[string]string{
		"start": "read 0:0 g", "new": "read 0:18446744073709551615 g", "12": "read 0:12 g", "12.3": "read 0:12.3 g",
		"00000000deadbeef:7": "read 3735928559:7 g", "0000000000000000:7@6/3/1!5/9+4/3/1/2": "read on 6:7 closing at 5 behind 4:2 g",
	} {
		from, err := ParseReadFrom(text)
		if err != nil {
			t.Fatal(err)
		}
		request := readRequest([]string{"g"}, from)
		same(t, inWords(request[4], request[head:]), want)
	}
	for _, text := range []string{"", ".", "1.", ".1", "-1", "+1", "1.2.3", "18446744073709551616", "1.65536", "yesterday", "0123:4"} {
		if _, err := ParseReadFrom(text); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "is no place to read from") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The bytes are those of the protocol page, section 6.
func TestAReadingOfTheProtocolPage(t *testing.T) {
	same(t, hex.EncodeToString(readRequest([]string{"g"}, FromStart())), strings.ReplaceAll("00000017 0b 0000000000000000 0000000000000000 0000 0001 0167", " ", ""))
	client := &Client{left: make(chan struct{}), changed: make(chan struct{}), roams: true}
	_ = readAll(client, unhex(t, "00000023 f8 00000000deadbeef 0000000000000005 0000 0000000000000005 0000000000000007"+
		"0000000b fc 0001 0000000000000065"+
		"00000019 e4 0000000000000006 0001 00000002 03626f62 0001 0167 6869"+
		"00000009 fa 0000000000000007"))
	var queue eventQueue
	queue.push(&readingAsked{})
	for _, event := range client.queue {
		queue.push(event)
	}
	began := queue.front().(*ReadingBegan)
	same(t, *began, ReadingBegan{From: Place{Position: 5}, Oldest: 5, Newest: 7, order: 0xdeadbeef})
	same(t, queue.bookmark().IsZero(), true)
	queue.pop()
	message := queue.front().(*Message)
	if !message.WasRead || message.Incarnation != 0x65 || message.Position != 6 || string(message.Payload) != "hi" {
		t.Fatalf("%+v", message)
	}
	queue.pop()
	same(t, queue.bookmark().String(), "00000000deadbeef:7")
	same(t, *queue.front().(*CaughtUp), CaughtUp{Position: 7})
	queue.pop()
	same(t, queue.bookmark().String(), "00000000deadbeef:8")
	// Whoever did not ask is told nothing of it.
	plain := &Client{left: make(chan struct{}), changed: make(chan struct{})}
	_ = readAll(plain, append(tells(1, "x"), begins(1, 1)...))
	same(t, len(plain.queue), 0)
}

func TestProgressFollowsWhatWasToldAndNeverGoesBack(t *testing.T) {
	var p progress
	told := func(position uint64) { p.on(&Message{WasRead: true, next: Place{Position: position}}) }
	told(3)
	if _, is := p.bookmark(); is {
		t.Fatal("nothing was begun")
	}
	p.on(&ReadingBegan{order: 7, From: Place{Position: 6, Index: 2}})
	same(t, p.reached.String(), "0000000000000007:6.2")
	told(8)
	told(7)
	p.on(&Message{next: Place{Position: 50}})
	same(t, p.reached.String(), "0000000000000007:8")
}

func TestProgressFollowsViews(t *testing.T) {
	p := progress{}
	p.on(&ReadingBegan{From: Place{Position: 6}})
	if _, is := p.bookmark(); is {
		t.Fatal("it is in no view yet")
	}
	in := func(number, line uint64, closing *viewClosing) { p.on(&inView{view(number), line, closing}) }
	in(4, 0, nil)
	p.on(&Message{WasRead: true, next: Place{Position: 8}})
	in(4, 0, &viewClosing{line: 8, together: 5})
	first, _ := p.bookmark()
	same(t, first.String(), "0000000000000000:8@4/1/1!8/5")
	same(t, first.Next(), placeIn(4, 8))
	in(5, 8, nil)
	same(t, p.reached.String(), "0000000000000000:0@5/1/1+4/1/1/8")
	p.on(&Gap{From: placeIn(5, 0), To: placeIn(5, 30)})
	same(t, p.reached.String(), "0000000000000000:30@5/1/1+4/1/1/8")
	p.on(&Gap{From: placeIn(5, 30), To: placeIn(6, 2)})
	same(t, p.reached.String(), "0000000000000000:2@6/1/1+4/1/1/8+5/1/1/30")
	// What was read before is kept.
	p.ask(FromBookmark(first))
	p.on(&ReadingBegan{From: Place{Position: 8}})
	in(4, 0, nil)
	in(5, 8, nil)
	same(t, p.reached.String(), "0000000000000000:0@5/1/1+4/1/1/8")
	for number := range uint64(20) {
		in(6+number, number, nil)
	}
	same(t, len(p.reached.trail.before), trailMax)
	if _, err := ParseBookmark(p.reached.String()); err != nil {
		t.Fatal(err)
	}
}
