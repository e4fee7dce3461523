package consort

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	magic   = 0xc04ec11e
	version = 2
	// head is the length of a frame's head: length and kind.
	head = 5
	// textMax is more than the largest frame has beside its payload.
	textMax = 1 << 20
)

const (
	kindHello, kindJoin, kindLeave, kindGoodbye, kindJoinClosed, kindMulticast = 0x01, 0x02, 0x03, 0x06, 0x07, 0x10
	kindRead, kindReadOn, kindOpen, kindForget                                 = 0x0b, 0x0e, 0x0c, 0x0d

	kindWelcome, kindProgress, kindRefused, kindView, kindGroupView = 0x81, 0x82, 0x83, 0x84, 0x85
	kindHeartbeat, kindDisconnect, kindSignal, kindIncarnation      = 0x80, 0x88, 0x89, 0xfc
	kindMessage, kindBatch, kindPlaced, kindPlacedBatch             = 0x90, 0xb0, 0xc0, 0xd0
	kindReadMessage, kindReadBatch                                  = 0xe0, 0xf0

	kindInView, kindGap, kindBegan, kindNoReading, kindCaughtUp, kindUntold = 0xe6, 0xe7, 0xf8, 0xf9, 0xfa, 0xfb
	kindSettled, kindNumberingEnded, kindOpened, kindWaits, kindNotOpened   = 0xf6, 0xf7, 0xfd, 0xfe, 0xff
)

var errMalformed = errors.New("the daemon sent a malformed frame")

// frame is a request: its length, its kind, then what body appends.
func frame(kind byte, body func([]byte) []byte) []byte {
	bytes := body([]byte{0, 0, 0, 0, kind})
	binary.BigEndian.PutUint32(bytes, uint32(len(bytes)-4))
	return bytes
}

func appendName(bytes []byte, name string) []byte {
	return append(append(bytes, byte(len(name))), name...)
}

// appendNames appends how many names there are, and these.
func appendNames(bytes []byte, names []string) []byte {
	bytes = binary.BigEndian.AppendUint16(bytes, uint16(len(names)))
	for _, name := range names {
		bytes = appendName(bytes, name)
	}
	return bytes
}

// readFrame reads an event's kind and body.
func readFrame(from io.Reader, max int) (byte, []byte, error) {
	var front [head]byte
	if _, err := io.ReadFull(from, front[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(front[:])
	if length < 1 || int64(length) > int64(max) {
		return 0, nil, fmt.Errorf("%w: a length of %d bytes", errMalformed, length)
	}
	body := make([]byte, length-1)
	_, err := io.ReadFull(from, body)
	return front[4], body, err
}

// reader takes fields off a body. Once one is missing all others are empty, and failed tells so.
type reader struct {
	bytes  []byte
	failed bool
}

func (r *reader) take(count int) []byte {
	if count < 0 || count > len(r.bytes) {
		r.failed, r.bytes = true, nil
		return nil
	}
	taken := r.bytes[:count:count]
	r.bytes = r.bytes[count:]
	return taken
}

func (r *reader) number(size int) (number uint64) {
	for _, b := range r.take(size) {
		number = number<<8 | uint64(b)
	}
	return number
}

func (r *reader) u8() uint8    { return uint8(r.number(1)) }
func (r *reader) u16() uint16  { return uint16(r.number(2)) }
func (r *reader) u32() uint32  { return uint32(r.number(4)) }
func (r *reader) u64() uint64  { return r.number(8) }
func (r *reader) name() string { return string(r.take(int(r.u8()))) }
func (r *reader) text() string { return string(r.take(int(r.u16()))) }

// rest is everything that was not taken yet.
func (r *reader) rest() []byte { return r.take(len(r.bytes)) }

// done is whether the fields were all there, and nothing else.
func (r *reader) done(what string) error {
	if r.failed || len(r.bytes) > 0 {
		return fmt.Errorf("%w: %s", errMalformed, what)
	}
	return nil
}

// count is how many entries follow that have at least so many bytes each.
func (r *reader) count(size, least int) int {
	count := r.number(size)
	if count*uint64(least) > uint64(len(r.bytes)) {
		r.failed, r.bytes = true, nil
		return 0
	}
	return int(count)
}

func (r *reader) daemon() DaemonID { return DaemonID{r.u16(), r.u64()} }
func (r *reader) view() ViewID     { return ViewID{r.u64(), r.daemon()} }

func (r *reader) daemons() []DaemonID {
	daemons := make([]DaemonID, r.count(2, 10))
	for i := range daemons {
		daemons[i] = r.daemon()
	}
	return daemons
}

func (r *reader) members(withSets bool) []Member {
	members := make([]Member, r.count(4, 15))
	for i := range members {
		members[i] = Member{Daemon: r.daemon(), Number: r.u32(), Name: r.name()}
		if withSets {
			members[i].Set = r.u16()
		}
	}
	return members
}

func (r *reader) targets() []string {
	targets := make([]string, r.count(2, 1))
	for i := range targets {
		targets[i] = r.name()
	}
	return targets
}

func (r *reader) groupView() *GroupView {
	view := &GroupView{Group: r.name(), ID: GroupViewID{r.view(), r.u64()}, Closed: r.u8()&1 != 0}
	view.Primary, view.Cause = Primary(r.u8()), Cause(r.u8())
	view.Changed, view.Members = r.members(false), r.members(true)
	return view
}

func (r *reader) networkView() *View {
	view := &View{ID: r.view(), Transitional: r.u8() == 2, Primary: Primary(r.u8())}
	view.Members, view.MovedTogether, view.Text = r.daemons(), r.daemons(), r.text()
	return view
}

// from reads who sent a message.
func (r *reader) from(message *Message) {
	message.SenderNode, message.SenderNumber = r.u16(), r.u32()
	message.Sender = privateName(r.name(), message.SenderNode)
}

// messages reads a message, or those of a batch.
func (r *reader) messages(common Message, isBatch bool) (messages []*Message) {
	r.from(&common)
	if !isBatch {
		common.To, common.Payload = r.targets(), r.rest()
		return []*Message{&common}
	}
	for len(r.bytes) > 0 {
		one := common
		inner := reader{bytes: r.take(int(r.u32()))}
		inner.u8()
		one.To, one.Payload = inner.targets(), inner.rest()
		r.failed = r.failed || inner.failed
		messages = append(messages, &one)
		common.Index++
		if len(r.bytes) > 0 {
			one.next = Place{Position: one.Position, Index: common.Index}
		}
	}
	return messages
}
