package consort

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// unreadMax is how many bytes of events may wait to be received; with more, nothing is read.
const unreadMax = 64 << 20

// handedMax is the same for a Session, which takes them as they come and then has them wait itself.
const handedMax = 1 << 20

// Client is a session with a daemon, for any number of goroutines.
type Client struct {
	// conn is what is written to and read from, silence what is below it.
	conn    net.Conn
	silence silence
	welcome welcome
	// roams: a Session has it, and is told of producers and readings, too.
	roams  bool
	events chan Event
	// left is closed once nobody will receive any more.
	left chan struct{}

	mutex sync.Mutex
	// changed is closed, and made anew, whenever anything below has changed.
	changed chan struct{}
	// sent counts sends; spent is how many bytes they took, credit how many of those came back.
	sent, spent, ordered, credit uint64
	// pending has what is to be written.
	pending []byte
	// queue has what is to be received, and is of that weight.
	queue  []Event
	unread int
	// end is why the session is over.
	end     error
	goodbye bool
}

// Name is what the client is called.
func (c *Client) Name() string { return c.welcome.name }

// PrivateName is the name by which others send to this client alone, as to a group.
func (c *Client) PrivateName() string { return privateName(c.welcome.name, c.welcome.daemon.Node) }

// Daemon is the client's daemon.
func (c *Client) Daemon() DaemonID { return c.welcome.daemon }

// MessageMax is the largest payload of one message, in bytes.
func (c *Client) MessageMax() int { return int(c.welcome.messageMax) }

// Join asks to join a group, and returns the send's number. The group view that follows says that it happened.
func (c *Client) Join(ctx context.Context, group string) (uint64, error) {
	return c.toGroup(ctx, kindJoin, group)
}

// JoinClosed does the same; if the group has no members yet, only members may send to it from here on.
func (c *Client) JoinClosed(ctx context.Context, group string) (uint64, error) {
	return c.toGroup(ctx, kindJoinClosed, group)
}

// Leave asks to leave a group, and returns the send's number.
func (c *Client) Leave(ctx context.Context, group string) (uint64, error) {
	return c.toGroup(ctx, kindLeave, group)
}

func (c *Client) toGroup(ctx context.Context, kind byte, group string) (uint64, error) {
	if err := checkGroup(group); err != nil {
		return 0, err
	}
	return c.send(ctx, groupRequest(kind, group))
}

func groupRequest(kind byte, group string) []byte {
	return frame(kind, func(bytes []byte) []byte { return appendName(bytes, group) })
}

// Multicast sends a message to groups, and to clients by their private names, and returns the send's number. It waits for
// credit as long as the context allows; where that ends first nothing was sent.
func (c *Client) Multicast(ctx context.Context, service Service, to []string, payload []byte) (uint64, error) {
	if err := checkMulticast(service, to, int(c.welcome.groupsMax)); err != nil {
		return 0, err
	}
	if err := c.checkLength(len(payload)); err != nil {
		return 0, err
	}
	return c.send(ctx, multicast(service, to, payload))
}

// checkMulticast refuses what is no service, and what cannot be sent to.
func checkMulticast(service Service, to []string, groupsMax int) error {
	if service < Reliable || service > Safe {
		return invalid("%d is no service; give one of Reliable to Safe", service)
	}
	if err := checkCount(len(to), groupsMax); err != nil {
		return err
	}
	for _, name := range to {
		if err := checkTarget(name); err != nil {
			return err
		}
	}
	return nil
}

func checkCount(groups, most int) error {
	if groups == 0 || groups > most {
		return fmt.Errorf("%w: a message to %d groups; name 1 to %d", ErrTargets, groups, most)
	}
	return nil
}

func (c *Client) checkTargets(targets int) error {
	return checkCount(targets, int(c.welcome.groupsMax))
}

func (c *Client) checkLength(payload int) error {
	if payload > int(c.welcome.messageMax) {
		return fmt.Errorf("%w: a message of %d bytes; this cluster allows %d", ErrTooLarge, payload, c.welcome.messageMax)
	}
	return nil
}

func multicast(service Service, to []string, payload []byte) []byte {
	return frame(kindMulticast+byte(service), func(bytes []byte) []byte {
		return append(appendNames(bytes, to), payload...)
	})
}

// send numbers a request once there is credit for it, and has it written.
func (c *Client) send(ctx context.Context, bytes []byte) (uint64, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err := c.await(ctx, func() bool { return c.hasCredit(len(bytes)) }); err != nil {
		return 0, err
	}
	return c.put(bytes), nil
}

// hasCredit is whether so many bytes may follow now; the mutex is held.
func (c *Client) hasCredit(size int) bool {
	underWay := c.spent - c.credit
	return underWay == 0 || underWay+uint64(size) <= uint64(c.welcome.creditMax)
}

// put numbers a request, and has it written; the mutex is held.
func (c *Client) put(bytes []byte) uint64 {
	c.sent++
	c.spent += uint64(len(bytes))
	c.pending = append(c.pending, bytes...)
	c.tell()
	return c.sent
}

// WaitOrdered waits until every send is ordered or refused.
func (c *Client) WaitOrdered(ctx context.Context) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	sent := c.sent
	isOrdered := func() bool { return c.ordered >= sent }
	if isOrdered() {
		return nil
	}
	return c.await(ctx, isOrdered)
}

// await waits until something is so; the mutex is held, but not meanwhile.
func (c *Client) await(ctx context.Context, isSo func() bool) error {
	for {
		switch {
		case c.end != nil:
			return c.ended()
		case c.goodbye:
			return ErrClosed
		case isSo():
			return nil
		}
		changed := c.changed
		c.mutex.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		c.mutex.Lock()
		if err := ctx.Err(); err != nil && c.end == nil && !isSo() {
			return err
		}
	}
}

// tell wakes all that wait for something; the mutex is held.
func (c *Client) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// ended is why the session is over, for whoever still wants something of it; the mutex is held.
func (c *Client) ended() error {
	var said *DisconnectedError
	if errors.As(c.end, &said) && said.Reason == ReasonGoodbye {
		return ErrClosed
	}
	return c.end
}

// Events is where events come, in the order in which things happened. It is closed at the session's end: Err tells why.
func (c *Client) Events() <-chan Event { return c.events }

// Err is why the session is over; nil while it is not, and where the client said good-bye.
func (c *Client) Err() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err := c.ended(); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// Receive is the next event. Where the context ends first it is that context's error, and nothing is lost.
func (c *Client) Receive(ctx context.Context) (Event, error) {
	select {
	case event, is := <-c.events:
		if is {
			return event, nil
		}
		c.mutex.Lock()
		defer c.mutex.Unlock()
		return nil, c.ended()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close says good-bye and waits until the daemon has taken all that was sent, as long as the context allows. Events that
// were not received are lost.
func (c *Client) Close(ctx context.Context) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.goodbye {
		return nil
	}
	c.goodbye = true
	c.pending = append(c.pending, frame(kindGoodbye, func(bytes []byte) []byte { return bytes })...)
	close(c.left)
	c.tell()
	for c.end == nil && ctx.Err() == nil {
		changed := c.changed
		c.mutex.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		c.mutex.Lock()
	}
	c.hangUp()
	switch err := c.ended(); {
	case errors.Is(err, ErrClosed):
		return nil
	case err != nil:
		return err
	default:
		return ctx.Err()
	}
}
