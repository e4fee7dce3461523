package consort

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// write writes what is pending: all that was collected while the last write took its time.
func (c *Client) write() {
	for {
		c.mutex.Lock()
		for len(c.pending) == 0 && c.end == nil {
			changed := c.changed
			c.mutex.Unlock()
			<-changed
			c.mutex.Lock()
		}
		bytes, over := c.pending, c.end != nil
		c.pending = nil
		c.mutex.Unlock()
		if over {
			return
		}
		if _, err := c.conn.Write(bytes); err != nil {
			// The daemon's last words may still be unread: they say more.
			return
		}
	}
}

// read reads events until the session's end.
func (c *Client) read(from *bufio.Reader) {
	incarnations := map[uint16]uint64{}
	max := int(c.welcome.messageMax) + textMax
	for {
		kind, body, err := readFrame(from, max)
		if err == nil {
			err = c.handle(kind, body, incarnations)
		}
		if err != nil {
			c.finish(err)
			return
		}
	}
}

// finish keeps why the session is over.
func (c *Client) finish(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the daemon closed it")
	}
	c.hangUp()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	unknown := UnknownFate{First: c.ordered + 1, Count: c.sent - c.ordered}
	var said *DisconnectedError
	if errors.As(err, &said) {
		said.UnknownFate = unknown
		c.end = said
	} else {
		c.end = &ConnectionLostError{Cause: err, UnknownFate: unknown}
	}
	c.tell()
}

// handle takes one event of the daemon's. An error ends the session.
func (c *Client) handle(kind byte, body []byte, incarnations map[uint16]uint64) error {
	r := &reader{bytes: body}
	switch kind {
	case kindHeartbeat:
		c.silence.armed = true
		return r.done("heartbeat")
	case kindProgress:
		r.u64()
		return c.progress(r.u64(), r.u64(), r)
	case kindIncarnation:
		node := r.u16()
		incarnations[node] = r.u64()
		return r.done("incarnation")
	case kindDisconnect:
		end := &DisconnectedError{Reason: Reason(r.u8()), Text: r.text()}
		return errors.Join(r.done("disconnect"), end)
	case kindRefused:
		event := &Refused{Send: r.u64(), Cause: RefusalCause(r.u8()), Text: r.text()}
		return c.receive(event, r.done("refusal"))
	case kindView:
		event := r.networkView()
		return c.receive(event, r.done("view"))
	case kindGroupView:
		event := r.groupView()
		return c.receive(event, r.done("group view"))
	case kindSignal:
		event := &GroupSignal{Group: r.name(), ID: GroupViewID{r.view(), r.u64()}}
		return c.receive(event, r.done("transitional signal"))
	}
	return c.handleMessages(kind, r, incarnations)
}

// handleMessages takes a message or a batch.
func (c *Client) handleMessages(kind byte, r *reader, incarnations map[uint16]uint64) error {
	family, service := kind&0xf0, Service(kind&0x0f)
	isBatch := family == kindBatch || family == kindPlacedBatch || family == kindReadBatch
	isRead := family == kindReadMessage || family == kindReadBatch
	isPlaced := family == kindPlaced || family == kindPlacedBatch || isRead
	isMessage := (isBatch || isPlaced || family == kindMessage) && service >= Reliable && service <= Safe
	switch {
	case isRead && !c.roams:
		// Nobody has asked for it.
		return nil
	case !isMessage && c.roams:
		return c.handleOfSession(kind, r)
	case !isMessage:
		return nil
	}
	common := Message{Service: service, WasRead: isRead}
	if isPlaced {
		common.Position = r.u64()
		common.next.Position = behind(common.Position)
	}
	if isPlaced && isBatch {
		common.Index = r.u16()
	}
	messages := r.messages(common, isBatch)
	if err := r.done("message"); err != nil {
		return err
	}
	for _, message := range messages {
		if isPlaced {
			message.Incarnation = incarnations[message.SenderNode]
		}
		if err := c.receive(message, nil); err != nil {
			return err
		}
	}
	return nil
}

// handleOfSession takes what is told of a producer or a reading.
func (c *Client) handleOfSession(kind byte, r *reader) error {
	event := r.ofProducer(kind)
	if event == nil {
		event = r.ofReading(kind)
	}
	if event == nil {
		return nil
	}
	return c.receive(event, r.done("producer or reading"))
}

func (c *Client) progress(ordered, credit uint64, r *reader) error {
	if err := r.done("progress"); err != nil {
		return err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if ordered > c.sent || credit > c.spent {
		return fmt.Errorf("%w: progress beyond what was sent", errMalformed)
	}
	c.ordered, c.credit = ordered, credit
	c.tell()
	return nil
}

// receive has an event received, once there is room for it.
func (c *Client) receive(event Event, err error) error {
	if err != nil {
		return err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	most := unreadMax
	if c.roams {
		most = handedMax
	}
	for c.unread > most && !c.goodbye {
		changed := c.changed
		c.mutex.Unlock()
		<-changed
		c.mutex.Lock()
	}
	if !c.goodbye {
		c.queue = append(c.queue, event)
		c.unread += event.weight()
		c.tell()
	}
	return nil
}

// pump hands events to whoever receives, until there are no more.
func (c *Client) pump() {
	defer close(c.events)
	for {
		event := c.next()
		if event == nil {
			return
		}
		select {
		case c.events <- event:
		case <-c.left:
			return
		}
	}
}

// next takes the next event off the queue; nil at the end.
func (c *Client) next() Event {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for len(c.queue) == 0 {
		if c.end != nil || c.goodbye {
			return nil
		}
		changed := c.changed
		c.mutex.Unlock()
		<-changed
		c.mutex.Lock()
	}
	event := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	c.unread -= event.weight()
	c.tell()
	return event
}

// The methods below are for a Session, to which nothing is pumped: it takes what there is, and waits for nothing.

// take is all events that wait, and why there will be no more behind them; nil as long as there may be. The channel is
// closed once there is more to see: events, credit, or the end.
func (c *Client) take() (events []Event, end error, changed <-chan struct{}) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if events = c.queue; len(events) > 0 {
		c.queue, c.unread = nil, 0
		// Who reads may wait for room.
		c.tell()
	}
	return events, c.end, c.changed
}

// try numbers a request and has it written, if there is credit for it now.
func (c *Client) try(bytes []byte) (number uint64, sent bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.end != nil || c.goodbye || !c.hasCredit(len(bytes)) {
		return 0, false
	}
	return c.put(bytes), true
}

// ask has a request written that is not numbered.
func (c *Client) ask(bytes []byte) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.pending = append(c.pending, bytes...)
	c.tell()
}

// abandon ends the connection without a word.
func (c *Client) abandon() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.goodbye = true
	c.tell()
	c.hangUp()
}

// hangUp closes the connection. It waits for nothing, as a good-bye of TLS would where the daemon reads nothing.
func (c *Client) hangUp() { _ = c.silence.conn.Close() }
