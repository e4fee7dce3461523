package consort

import "slices"

// eventCost is what an event that waits costs beside its weight, in bytes.
const eventCost = 128

// eventQueue has the events that wait for the program, and how far the program has read.
type eventQueue struct {
	events []Event
	// bytes is how many bytes they cost.
	bytes   int
	reached progress
	// from is where the reading was asked to go on, until it has begun.
	from Bookmark
}

// readingAsked stands among the events where a reading is asked for: it concerns what is told behind it.
type readingAsked struct{ from ReadFrom }

func (a *readingAsked) weight() int { return 0 }

func (q *eventQueue) push(event Event) {
	q.events = append(q.events, event)
	q.bytes += eventCost + event.weight()
	q.pass()
}

// front is what the program is told next; nil where nothing waits.
func (q *eventQueue) front() Event {
	if len(q.events) == 0 {
		return nil
	}
	return q.events[0]
}

// pop: the program was told what is in front.
func (q *eventQueue) pop() {
	event := q.shift()
	q.reached.on(event)
	q.pass()
}

func (q *eventQueue) shift() Event {
	event := q.events[0]
	q.events[0] = nil
	q.events = q.events[1:]
	q.bytes -= eventCost + event.weight()
	return event
}

// pass takes off what no program is told. It is never in front, so that a bookmark is of all that was told.
func (q *eventQueue) pass() {
	for len(q.events) > 0 {
		switch event := q.events[0].(type) {
		case *readingAsked:
			q.reached.ask(event.from)
			q.from = Bookmark{}
			if event.from.goesOn {
				q.from = event.from.at
			}
		case *inView:
			q.reached.on(event)
		default:
			return
		}
		q.shift()
	}
}

// bookmark is how far the program has read.
func (q *eventQueue) bookmark() Bookmark {
	if bookmark, is := q.reached.bookmark(); is {
		return bookmark
	}
	return q.from
}

// takeFate takes the fate of a send, if it waits to be told.
func (q *eventQueue) takeFate(send uint64) *Sent {
	at := slices.IndexFunc(q.events, func(event Event) bool {
		sent, is := event.(*Sent)
		return is && sent.Send == send
	})
	if at < 0 {
		return nil
	}
	sent := q.events[at].(*Sent)
	q.events = slices.Delete(q.events, at, at+1)
	q.bytes -= eventCost + sent.weight()
	q.pass()
	return sent
}

// rest is all that waits; nothing does any more.
func (q *eventQueue) rest() (rest []Event) {
	for event := q.front(); event != nil; event = q.front() {
		rest = append(rest, event)
		q.pop()
	}
	return rest
}
