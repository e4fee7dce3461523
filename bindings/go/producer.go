package consort

import (
	"encoding/binary"
	"encoding/hex"
)

// Producer says whose sends a Session's are: with it another one goes on, SessionOptions.Producer. Who knows it may send
// under it. The zero Producer is none.
type Producer [16]byte

// String is its text, which ParseProducer reads: 32 digits of 0-9 and a-f, the same in all languages.
func (p Producer) String() string { return hex.EncodeToString(p[:]) }

// MarshalText is its text.
func (p Producer) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads its text, as ParseProducer does.
func (p *Producer) UnmarshalText(text []byte) error {
	read, err := ParseProducer(string(text))
	if err == nil {
		*p = read
	}
	return err
}

// ParseProducer reads the text of a producer. The error is ErrInvalid.
func ParseProducer(text string) (producer Producer, err error) {
	if len(text) == hex.EncodedLen(len(producer)) {
		if _, err := hex.Decode(producer[:], []byte(text)); err == nil {
			return producer, nil
		}
	}
	return Producer{}, invalid("%.60q is no producer; give what another session says, 32 digits of 0-9 and a-f", text)
}

// OpeningWait is what a session waits for that cannot send yet.
type OpeningWait uint8

const (
	WaitsForMembership OpeningWait = 1 // The daemons agree on who is there.
	WaitsForPrimary    OpeningWait = 2 // The daemon is not in the primary part of the network.
	WaitsForMemory     OpeningWait = 3 // Too many daemons have started anew: a majority that remembers is needed, or all.
)

// OpeningCause is why no daemon keeps account of a session's sends.
type OpeningCause uint8

const (
	OpeningNoPolicy OpeningCause = 1 // No policy says which part of a parted network goes on.
	OpeningFull     OpeningCause = 2 // There are as many producers as there may be.
	OpeningLeaving  OpeningCause = 3 // The daemon is leaving; a Session goes on at the next.
	OpeningFenced   OpeningCause = 4 // Another session has the producer; a Session tells ErrTakenOver.
)

var (
	openingWaits  = []string{"", "membership", "primary", "memory"}
	openingCauses = []string{"", "no_policy", "full", "leaving", "fenced"}
)

func (w OpeningWait) String() string  { return named(openingWaits, uint8(w)) }
func (c OpeningCause) String() string { return named(openingCauses, uint8(c)) }

// HistoryPlace is where a send is ordered: later places are greater.
type HistoryPlace struct{ View, Position uint64 }

// opening asks that a producer be opened.
type opening struct {
	producer Producer
	// session and attempt tell the openings of one session from those of others.
	session, attempt uint64
	// opened is the last attempt of which this session was told that it is open; 0 for none.
	opened uint64
	// known: it was opened before, by this session or an earlier one.
	known bool
}

func (o opening) request() []byte {
	var known byte
	if o.known {
		known = 1
	}
	return frame(kindOpen, func(bytes []byte) []byte {
		bytes = binary.BigEndian.AppendUint64(append(bytes, o.producer[:]...), o.session)
		bytes = binary.BigEndian.AppendUint64(bytes, o.attempt)
		return append(binary.BigEndian.AppendUint64(bytes, o.opened), known)
	})
}

func forgetRequest() []byte { return frame(kindForget, func(bytes []byte) []byte { return bytes }) }

// What a daemon says of a producer. A Session keeps all of it to itself.
type (
	// opened says that the next send has the number behind last, which is that of the last one in the order, and stands at
	// that place. It is forgotten where it was opened before and nobody knows of it.
	opened struct {
		last      uint64
		at        HistoryPlace
		forgotten bool
	}
	// settled says that all sends up to this number are ordered, the last of them at that place.
	settled struct {
		number uint64
		at     HistoryPlace
	}
	// numberingEnded says that sends are refused until the producer is opened again.
	numberingEnded struct{}
	// notOpened says why it cannot be opened.
	notOpened struct{ NotOpenedError }
)

func (o *opened) weight() int         { return 64 }
func (s *settled) weight() int        { return 64 }
func (e *numberingEnded) weight() int { return 64 }
func (n *notOpened) weight() int      { return len(n.Text) }

// ofProducer reads what is told of a producer; nil where a frame of this kind tells nothing of one.
func (r *reader) ofProducer(kind byte) Event {
	switch kind {
	case kindOpened:
		return &opened{last: r.u64(), at: r.historyPlace(), forgotten: r.flag()}
	case kindSettled:
		return &settled{number: r.u64(), at: r.historyPlace()}
	case kindNumberingEnded:
		return &numberingEnded{}
	case kindWaits:
		return &Waits{For: OpeningWait(r.u8())}
	case kindNotOpened:
		return &notOpened{NotOpenedError{Cause: OpeningCause(r.u8()), Text: r.text()}}
	}
	return nil
}

func (r *reader) historyPlace() HistoryPlace { return HistoryPlace{View: r.u64(), Position: r.u64()} }
