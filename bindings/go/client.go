package consort

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// unreadMax is how many bytes of events may wait to be received; with more, nothing is read.
const unreadMax = 64 << 20

// handedMax is the same for a Session, which takes them as they come and then has them wait itself.
const handedMax = 1 << 20

// Options say how a client connects.
type Options struct {
	// Name is what the client is called, which no other client of the daemon may be; the daemon finds one where it is empty.
	Name string
	// Views asks for views of the network.
	Views bool
	// Positions asks for the position of each message, and its sender's incarnation.
	Positions bool
	// Token proves who the client is, where the daemon asks for it; `consort token` makes it. Empty for none, 160 bytes at
	// most. Whoever reads it on its way can show it, too.
	Token string
	// HostTimeout is how long a daemon at a TCP address may be silent before the connection is given up, as a
	// ConnectionLostError whose cause is a SilenceError: 1 s to 6 h, 2 s where it is 0. Its machine has vanished then, or
	// the daemon is stopped for that long. The daemon says something four times in that time, so that a stop of half of it
	// is never too long. A daemon of an earlier release promises to say nothing, and is not given up.
	HostTimeout time.Duration
	// DaemonTimeout is the same for a daemon of this machine, at a Unix socket: 1 s to 6 h, 10 s where it is 0, and Forever.
	// It is stopped then, or hangs: a daemon that ends is noticed at once.
	DaemonTimeout time.Duration
}

// Forever, as a DaemonTimeout, has the daemon be silent for as long as it likes.
const Forever time.Duration = -1

// Client is a session with a daemon, for any number of goroutines.
type Client struct {
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

type welcome struct {
	daemon                DaemonID
	number                uint32
	name                  string
	messageMax, creditMax uint32
	groupsMax             uint16
}

// Dial connects to a daemon and opens a session: at a path of a Unix socket, with a slash in it, or at host:port.
func Dial(ctx context.Context, address string, options Options) (*Client, error) {
	door, err := options.door(address)
	if err != nil {
		return nil, err
	}
	client, err := door.dial(ctx)
	if err != nil {
		return nil, err
	}
	go client.pump()
	return client, nil
}

// door is where a daemon lets clients in, and what is asked of it there.
type door struct {
	kind, at, address string
	options           Options
	// silence is how long the daemon may be silent; 0 for ever.
	silence time.Duration
	// roams: a Session connects.
	roams bool
}

// door checks what was given; nobody is connected to.
func (o Options) door(address string) (door, error) {
	kind, at, err := network(address)
	if err != nil {
		return door{}, err
	}
	if o.Name != "" && !isClient(o.Name) {
		return door{}, invalid("%q is no name for a client: use 1 to %d printable ASCII characters, no space, no `#`", o.Name, clientMax)
	}
	silence, err := o.silenceAt(kind)
	return door{kind: kind, at: at, address: address, options: o, silence: silence}, err
}

// dial connects to the daemon.
func (d door) dial(ctx context.Context) (*Client, error) {
	client, err := d.enter(ctx)
	var refused *NotWelcomeError
	if d.silence > 0 && errors.As(err, &refused) && refused.Reason == ReasonMalformed {
		// So says a daemon of an earlier release, which knows no heartbeats.
		d.silence = 0
		return d.enter(ctx)
	}
	return client, err
}

// enter connects once.
func (d door) enter(ctx context.Context) (*Client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, d.kind, d.at)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w; is a daemon running there?", d.address, err)
	}
	// A context that ends makes whatever is being read or written late.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	client, from, err := d.open(conn)
	if !stop() {
		err = fmt.Errorf("%s did not let us in in time: %w", d.address, context.Cause(ctx))
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	go client.write()
	go client.read(from)
	return client, nil
}

// hello is what such a client says first; it asks for heartbeats where a daemon may not be silent for ever.
func hello(options Options, silence time.Duration) []byte {
	var flags byte
	if options.Views {
		flags |= 1
	}
	if options.Positions {
		flags |= 16
	}
	if silence > 0 {
		flags |= 32
	}
	if options.Token != "" {
		flags |= 128
	}
	return frame(kindHello, func(bytes []byte) []byte {
		bytes = binary.BigEndian.AppendUint32(bytes, magic)
		bytes = append(binary.BigEndian.AppendUint16(bytes, version), flags)
		bytes = append(appendName(bytes, options.Name), make([]byte, 16)...)
		if silence > 0 {
			bytes = binary.BigEndian.AppendUint32(bytes, uint32((silence / silenceBeats).Milliseconds()))
		}
		if options.Token != "" {
			bytes = appendName(bytes, options.Token)
		}
		return bytes
	})
}

// open says hello, and reads the answer.
func (d door) open(conn net.Conn) (*Client, *bufio.Reader, error) {
	stranger := func(why any) error { return fmt.Errorf("%s: %w: %v", d.address, ErrNoDaemon, why) }
	if _, err := conn.Write(hello(d.options, d.silence)); err != nil {
		return nil, nil, stranger(err)
	}
	client := &Client{conn: conn, silence: silence{conn: conn, bound: d.silence}, roams: d.roams}
	from := bufio.NewReaderSize(&client.silence, 64<<10)
	kind, body, err := readFrame(from, textMax)
	if err != nil {
		return nil, nil, stranger(err)
	}
	r := &reader{bytes: body}
	switch kind {
	case kindDisconnect:
		return nil, nil, &NotWelcomeError{Reason: Reason(r.u8()), Text: r.text()}
	case kindWelcome:
	default:
		return nil, nil, stranger(fmt.Sprintf("it began with an event of kind %#x", kind))
	}
	if spoken := r.u16(); spoken != version {
		return nil, nil, stranger(fmt.Sprintf("it speaks version %d, this client version %d; use those of one release", spoken, version))
	}
	w := welcome{daemon: r.daemon()}
	r.u64()
	w.number = r.u32()
	r.text()
	w.name, w.messageMax, w.creditMax, w.groupsMax = r.name(), r.u32(), r.u32(), r.u16()
	if err := r.done("welcome"); err != nil {
		return nil, nil, stranger(err)
	}
	client.welcome, client.events = w, make(chan Event)
	client.left, client.changed = make(chan struct{}), make(chan struct{})
	return client, from, nil
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
	_ = c.conn.Close()
	switch err := c.ended(); {
	case errors.Is(err, ErrClosed):
		return nil
	case err != nil:
		return err
	default:
		return ctx.Err()
	}
}
