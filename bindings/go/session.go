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
	lives := map[uint16]uint64{}
	max := int(c.welcome.messageMax) + textMax
	for {
		kind, body, err := readFrame(from, max)
		if err == nil {
			err = c.handle(kind, body, lives)
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
	_ = c.conn.Close()
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
func (c *Client) handle(kind byte, body []byte, lives map[uint16]uint64) error {
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
		lives[node] = r.u64()
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
	return c.handleMessages(kind, r, lives)
}

// handleMessages takes a message or a batch. What else there is nobody has asked for.
func (c *Client) handleMessages(kind byte, r *reader, lives map[uint16]uint64) error {
	family, service := kind&0xf0, Service(kind&0x0f)
	isBatch := family == kindBatch || family == kindPlacedBatch
	isPlaced := family == kindPlaced || family == kindPlacedBatch
	if !isBatch && !isPlaced && family != kindMessage || service < Reliable || service > Safe {
		return nil
	}
	common := Message{Service: service}
	if isPlaced {
		common.Position = r.u64()
	}
	if family == kindPlacedBatch {
		r.u16()
	}
	messages := r.messages(common, isBatch)
	if err := r.done("message"); err != nil {
		return err
	}
	for _, message := range messages {
		if isPlaced {
			message.Incarnation = lives[message.SenderNode]
		}
		if err := c.receive(message, nil); err != nil {
			return err
		}
	}
	return nil
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
	for c.unread > unreadMax && !c.goodbye {
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
