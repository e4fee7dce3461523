package consort

import (
	"slices"
	"sort"
)

// sendCost is what a send without a fate costs beside its payload, in bytes.
const sendCost = 128

// pendingSend is a send without a fate.
type pendingSend struct {
	// send is what the program calls it.
	send uint64
	// bytes is its request, which has so many bytes of payload and so many targets.
	bytes            []byte
	payload, targets int
	// number is the one under which it went last, unless it is certain that it was not ordered under it: then 0.
	number uint64
	// request is which request of the connection it is; 0 while it is none.
	request uint64
}

func (p *pendingSend) cost() int { return sendCost + p.payload }

// refusedAs is what a refusal means for the sends behind it.
type refusedAs int

const (
	// refusedOther: it is none of these sends.
	refusedOther refusedAs = iota
	// refusedForGood: it has its fate; the producer must be opened again for those behind it.
	refusedForGood
	// refusedForNow: it may be sent again, once the producer was opened again.
	refusedForNow
	// refusedTakenOver: another session sends as this producer.
	refusedTakenOver
)

// pendingSends are the sends without a fate, in their order.
type pendingSends struct {
	sends []*pendingSend
	bytes int
	// made counts sends; numbered is the number of the last that went under way.
	made, numbered uint64
	// tell takes the fate of a send.
	tell func(*Sent)
}

// push keeps a send, and returns what it is called.
func (p *pendingSends) push(bytes []byte, payload, targets int) uint64 {
	p.made++
	pending := &pendingSend{send: p.made, bytes: bytes, payload: payload, targets: targets}
	p.bytes += pending.cost()
	p.sends = append(p.sends, pending)
	return p.made
}

// hasRoom is whether one of so many bytes may be kept, too. A large one may go alone.
func (p *pendingSends) hasRoom(payload, most int) bool {
	return len(p.sends) == 0 || p.bytes+sendCost+payload <= most
}

// has is whether this one has no fate.
func (p *pendingSends) has(send uint64) bool {
	at := sort.Search(len(p.sends), func(at int) bool { return p.sends[at].send >= send })
	return at < len(p.sends) && p.sends[at].send == send
}

// areSettled is whether all sends up to this one have their fates.
func (p *pendingSends) areSettled(send uint64) bool {
	return len(p.sends) == 0 || p.sends[0].send > send
}

// unsent is where the next one that is to be sent stands.
func (p *pendingSends) unsent() int {
	return sort.Search(len(p.sends), func(at int) bool { return p.sends[at].request == 0 })
}

// nextUnsent is the next one to be sent; nil where none is.
func (p *pendingSends) nextUnsent() *pendingSend {
	if at := p.unsent(); at < len(p.sends) {
		return p.sends[at]
	}
	return nil
}

// sent: a send went as this request.
func (p *pendingSends) sent(pending *pendingSend, request uint64) {
	p.numbered++
	pending.number, pending.request = p.numbered, request
}

// refuseUnsent refuses the next one to be sent, which cannot be.
func (p *pendingSends) refuseUnsent(cause RefusalCause, text string) {
	refused := p.take(p.unsent())
	p.tell(&Sent{Send: refused.send, Fate: FateRefused, Cause: cause, Text: text})
}

// settle: all up to a number are ordered, the last of them at a place.
func (p *pendingSends) settle(number uint64, at HistoryPlace) {
	for len(p.sends) > 0 && p.sends[0].number != 0 && p.sends[0].number <= number {
		// Those before the last of a batch stand at its place, too.
		p.tell(&Sent{Send: p.take(0).send, Fate: FateOrdered, Place: &at})
	}
}

// open: the producer was opened. What went under a number up to last is ordered, the rest is to be sent again. Where all was
// forgotten nobody knows of those that were under way.
func (p *pendingSends) open(last uint64, at HistoryPlace, forgotten bool) {
	left := p.sends[:0]
	var told []*Sent
	for _, pending := range p.sends {
		sent := &Sent{Send: pending.send}
		switch {
		case pending.number != 0 && forgotten:
			sent.Fate = FateForgotten
		case pending.number != 0 && pending.number <= last:
			sent.Fate = FateOrdered
			if pending.number == last {
				sent.Place = &at
			}
		default:
			pending.number, pending.request = 0, 0
			left = append(left, pending)
			continue
		}
		p.bytes -= pending.cost()
		told = append(told, sent)
	}
	clear(p.sends[len(left):])
	p.sends, p.numbered = left, last
	for _, sent := range told {
		p.tell(sent)
	}
}

// refuse: a request was refused.
func (p *pendingSends) refuse(refused *Refused) refusedAs {
	at := slices.IndexFunc(p.sends, func(pending *pendingSend) bool { return pending.request == refused.Send })
	if at < 0 || refused.Send == 0 {
		return refusedOther
	}
	switch refused.Cause {
	case RefusedFenced:
		return refusedTakenOver
	case RefusedMissing, RefusedNotPrimary, RefusedForgotten, RefusedBudget, RefusedLeaving:
		// It is certain that it was not ordered, and nothing behind it either.
		for _, pending := range p.sends[at:] {
			pending.number = 0
		}
		return refusedForNow
	}
	p.tell(&Sent{Send: p.take(at).send, Fate: FateRefused, Cause: refused.Cause, Text: refused.Text})
	return refusedForGood
}

// disconnect: the connection is gone, and its requests mean nothing any more.
func (p *pendingSends) disconnect() {
	for _, pending := range p.sends {
		pending.request = 0
	}
}

func (p *pendingSends) take(at int) *pendingSend {
	taken := p.sends[at]
	p.bytes -= taken.cost()
	if at == 0 {
		p.sends[0] = nil
		p.sends = p.sends[1:]
	} else {
		p.sends = slices.Delete(p.sends, at, at+1)
	}
	return taken
}
