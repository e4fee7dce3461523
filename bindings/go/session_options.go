package consort

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

const (
	// unsettledMost, connectMost and reconnectMost are what holds where nothing is said.
	unsettledMost = 4 << 20
	connectMost   = 5 * time.Second
	reconnectMost = time.Minute
)

// SessionOptions say how a Session behaves.
type SessionOptions struct {
	// Options say how each connection is made.
	Options
	// ConnectWithin is how long one daemon may take to let the session in: 5 s where it is 0.
	ConnectWithin time.Duration
	// ReconnectWithin is how long no daemon may be reached before the session gives up, as an UnreachableError: a minute
	// where it is 0.
	ReconnectWithin time.Duration
	// UnsettledMax is how many bytes of sends are kept whose fate is not known; a Send of more waits. 4 MiB where it is 0.
	UnsettledMax int
	// Producer is whose sends these are; the zero Producer has the session make one of its own. With one that sent before,
	// the session goes on behind its last send, *Resumed says where that is, and whoever else still sends under it is
	// stopped.
	Producer Producer
}

// checked are these options with what holds where nothing is said, and where daemons are.
func (o SessionOptions) checked(addresses []string) (SessionOptions, []endpoint, error) {
	if len(addresses) == 0 {
		return o, nil, invalid("no daemon is named; give the address of at least one")
	}
	endpoints := make([]endpoint, len(addresses))
	for at, address := range addresses {
		endpoint, err := o.endpoint(address)
		if err != nil {
			return o, nil, err
		}
		endpoint.roams = true
		endpoints[at] = endpoint
	}
	switch {
	case o.ConnectWithin < 0:
		return o, nil, invalid("ConnectWithin is %v; give how long one daemon may take", o.ConnectWithin)
	case o.ReconnectWithin < 0:
		return o, nil, invalid("ReconnectWithin is %v; give how long no daemon may be reached", o.ReconnectWithin)
	case o.UnsettledMax < 0:
		return o, nil, invalid("UnsettledMax is %d; give how many bytes of sends may have no fate", o.UnsettledMax)
	}
	if o.ConnectWithin == 0 {
		o.ConnectWithin = connectMost
	}
	if o.ReconnectWithin == 0 {
		o.ReconnectWithin = reconnectMost
	}
	if o.UnsettledMax == 0 {
		o.UnsettledMax = unsettledMost
	}
	return o, endpoints, nil
}

// newOpening is the opening of a session that has asked for none yet: of the producer that it was given, or of a new one.
func newOpening(given Producer) (opening, error) {
	var session [8]byte
	if _, err := rand.Read(session[:]); err != nil {
		return opening{}, err
	}
	isGiven := given != Producer{}
	if !isGiven {
		if _, err := rand.Read(given[:]); err != nil {
			return opening{}, err
		}
	}
	return opening{producer: given, session: binary.BigEndian.Uint64(session[:]), known: isGiven}, nil
}
