// Conformance is the Go client, told what to do line by line: docs/clients.md.
package main

import (
	"bufio"
	"bytes"
	"consort"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"
	"time"
)

const patience = 20 * time.Second

var services = map[string]consort.Service{
	"reliable": consort.Reliable, "fifo": consort.FIFO, "causal": consort.Causal, "agreed": consort.Agreed, "safe": consort.Safe,
}

type told struct{ client *consort.Client }

func main() {
	lines := bufio.NewReader(os.Stdin)
	var told told
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		words := strings.Fields(line)
		if len(words) == 0 {
			words = []string{""}
		}
		reply, err := told.answer(words[0], words[1:])
		if err != nil {
			reply = failure(err)
		}
		fmt.Println(reply)
	}
	if told.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = told.client.Close(ctx)
	}
}

func (t *told) answer(request string, words []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	word := ""
	if len(words) > 0 {
		word = words[0]
	}
	if request == "connect" {
		return t.connect(ctx, words)
	}
	if t.client == nil {
		return "", consort.ErrClosed
	}
	switch request {
	case "join":
		return sent(t.client.Join(ctx, word))
	case "join_closed":
		return sent(t.client.JoinClosed(ctx, word))
	case "leave":
		return sent(t.client.Leave(ctx, word))
	case "send":
		return t.send(ctx, words)
	case "receive":
		return t.receive(word)
	case "wait":
		return "ok", t.client.WaitOrdered(ctx)
	case "close":
		client := t.client
		t.client = nil
		return "ok", client.Close(ctx)
	}
	return "", fmt.Errorf("%w: %q is no request", consort.ErrInvalid, request)
}

func (t *told) connect(ctx context.Context, words []string) (string, error) {
	var options consort.Options
	for _, word := range words[1:] {
		switch name, is := strings.CutPrefix(word, "name="); {
		case is:
			options.Name = name
		case word == "views":
			options.Views = true
		case word == "positions":
			options.Positions = true
		}
	}
	client, err := consort.Dial(ctx, words[0], options)
	if err != nil {
		return "", err
	}
	if t.client != nil {
		_ = t.client.Close(ctx)
	}
	t.client = client
	return fmt.Sprintf("ok name=%s node=%d message_max=%d", client.Name(), client.Daemon().Node, client.MessageMax()), nil
}

func sent(number uint64, err error) (string, error) { return fmt.Sprintf("ok send=%d", number), err }

func (t *told) send(ctx context.Context, words []string) (string, error) {
	payload, err := payload(words[1])
	if err != nil {
		return "", fmt.Errorf("%w: %w", consort.ErrInvalid, err)
	}
	return sent(t.client.Multicast(ctx, services[words[0]], words[2:], payload))
}

// payload is hexadecimal, `-` for none, `5a*9` for nine times the same.
func payload(written string) ([]byte, error) {
	if written == "-" {
		return nil, nil
	}
	one, count, repeats := strings.Cut(written, "*")
	payload, err := hex.DecodeString(one)
	if err != nil || !repeats {
		return payload, err
	}
	times, err := strconv.Atoi(count)
	return bytes.Repeat(payload, times), err
}

func (t *told) receive(milliseconds string) (string, error) {
	number, err := strconv.Atoi(milliseconds)
	if err != nil {
		return "", fmt.Errorf("%w: %w", consort.ErrInvalid, err)
	}
	// With no time at all it would not even look.
	ctx, cancel := context.WithTimeout(context.Background(), max(time.Duration(number)*time.Millisecond, 50*time.Millisecond))
	defer cancel()
	event, err := t.client.Receive(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return "none", nil
	}
	if err != nil {
		return "", err
	}
	return line(event), nil
}

func line(event consort.Event) string {
	switch event := event.(type) {
	case *consort.Message:
		line := fmt.Sprintf("message service=%s sender=%s length=%d crc=%08x to=%s", event.Service, event.Sender,
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
	return "other"
}

func private(members []consort.Member) string {
	var names []string
	for _, member := range members {
		names = append(names, member.PrivateName())
	}
	return strings.Join(names, ",")
}

func failure(err error) string {
	var notWelcome *consort.NotWelcomeError
	var disconnected *consort.DisconnectedError
	var lost *consort.ConnectionLostError
	words := "cannot_connect"
	switch {
	case errors.As(err, &notWelcome):
		words = fmt.Sprintf("not_welcome reason=%s", notWelcome.Reason)
	case errors.As(err, &disconnected):
		words = fmt.Sprintf("disconnected reason=%s unknown=%d", disconnected.Reason, disconnected.Count)
	case errors.As(err, &lost):
		words = fmt.Sprintf("connection_lost unknown=%d", lost.Count)
	case errors.Is(err, consort.ErrInvalid):
		words = "invalid"
	case errors.Is(err, consort.ErrClosed):
		words = "closed"
	case errors.Is(err, consort.ErrTooLarge):
		words = "too_large"
	case errors.Is(err, consort.ErrTargets):
		words = "targets"
	case errors.Is(err, consort.ErrNoDaemon):
		words = "no_daemon"
	case errors.Is(err, context.DeadlineExceeded):
		words = "timed_out"
	}
	return fmt.Sprintf("error kind=%s : %s", words, err)
}
