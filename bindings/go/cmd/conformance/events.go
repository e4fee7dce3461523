package main

import (
	"consort"
	"fmt"
	"hash/crc32"
	"strings"
)

// line is an event as a line.
func line(event consort.Event) string {
	switch event := event.(type) {
	case *consort.Message:
		kind := map[bool]string{true: "read", false: "message"}[event.WasRead]
		line := fmt.Sprintf("%s service=%s sender=%s length=%d crc=%08x to=%s", kind, event.Service, event.Sender,
			len(event.Payload), crc32.ChecksumIEEE(event.Payload), strings.Join(event.To, ","))
		if event.Position != 0 {
			line += fmt.Sprintf(" position=%d incarnation=%d", event.Position, event.Incarnation)
		}
		return line
	case *consort.GroupView:
		closed := map[bool]string{true: "yes", false: "no"}[event.Closed]
		return fmt.Sprintf("group_view group=%s cause=%s closed=%s primary=%s changed=%s members=%s", event.Group,
			event.Cause, closed, event.Primary, private(event.Changed), private(event.Members))
	case *consort.GroupSignal:
		return "group_signal group=" + event.Group
	case *consort.View:
		kind := map[bool]string{true: "transitional", false: "regular"}[event.Transitional]
		var members []string
		for _, member := range event.Members {
			members = append(members, fmt.Sprintf("n%d", member.Node))
		}
		return fmt.Sprintf("view kind=%s primary=%s members=%s : %s", kind, event.Primary, strings.Join(members, ","), event.Text)
	case *consort.Refused:
		return fmt.Sprintf("refused send=%d cause=%s : %s", event.Send, event.Cause, event.Text)
	}
	return ofSession(event)
}

// ofSession is an event that a session alone tells.
func ofSession(event consort.Event) string {
	switch event := event.(type) {
	case *consort.Sent:
		if event.Fate == consort.FateRefused {
			return fmt.Sprintf("sent send=%d fate=refused cause=%s : %s", event.Send, event.Cause, event.Text)
		}
		return fmt.Sprintf("sent send=%d fate=%s", event.Send, event.Fate)
	case *consort.Connected:
		return "connected : " + event.Address
	case *consort.Lost:
		return fmt.Sprintf("lost : %v", event.Err)
	case *consort.CaughtUp:
		return "caught_up"
	case *consort.Gap:
		return "gap"
	case *consort.Parted:
		return "parted"
	case *consort.ReadingEnded:
		return "reading_ended"
	}
	return "other"
}

func private(members []consort.Member) string {
	var names []string
	for _, member := range members {
		names = append(names, member.PrivateName())
	}
	return strings.Join(names, ",")
}
