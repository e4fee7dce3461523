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
	"os"
	"strconv"
	"strings"
	"time"
)

const patience = 20 * time.Second

var services = map[string]consort.Service{
	"reliable": consort.Reliable, "fifo": consort.FIFO, "causal": consort.Causal, "agreed": consort.Agreed, "safe": consort.Safe,
}

// told does what it is told with a client or with a session, whichever was opened last.
type told struct {
	client  *consort.Client
	session *consort.Session
}

// source is where events come from.
type source interface {
	Receive(ctx context.Context) (consort.Event, error)
}

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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	told.end(ctx)
}

// end ends what is open.
func (t *told) end(ctx context.Context) {
	if t.client != nil {
		_ = t.client.Close(ctx)
	}
	if t.session != nil {
		_ = t.session.Close(ctx)
	}
	t.client, t.session = nil, nil
}

func (t *told) answer(request string, words []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	word := ""
	if len(words) > 0 {
		word = words[0]
	}
	switch {
	case request == "connect":
		return t.connect(ctx, words)
	case request == "has" && word == "session":
		return "ok", nil
	case request == "session":
		return t.openSession(ctx, words)
	case t.session != nil:
		return t.answerInSession(ctx, request, words)
	case t.client == nil:
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
		return receive(t.client, word)
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
	t.end(ctx)
	t.client = client
	return fmt.Sprintf("ok name=%s node=%d message_max=%d", client.Name(), client.Daemon().Node, client.MessageMax()), nil
}

func sent(number uint64, err error) (string, error) { return fmt.Sprintf("ok send=%d", number), err }

func (t *told) send(ctx context.Context, words []string) (string, error) {
	payload, err := payload(words[1])
	if err != nil {
		return "", fmt.Errorf("%w: %w", consort.ErrInvalid, err)
	}
	if t.session != nil {
		return sent(t.session.Send(ctx, services[words[0]], words[2:], payload))
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

func receive(from source, milliseconds string) (string, error) {
	number, err := strconv.Atoi(milliseconds)
	if err != nil {
		return "", fmt.Errorf("%w: %w", consort.ErrInvalid, err)
	}
	// With no time at all it would not even look.
	ctx, cancel := context.WithTimeout(context.Background(), max(time.Duration(number)*time.Millisecond, 50*time.Millisecond))
	defer cancel()
	event, err := from.Receive(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return "none", nil
	}
	if err != nil {
		return "", err
	}
	return line(event), nil
}

func failure(err error) string {
	var notWelcome *consort.NotWelcomeError
	var disconnected *consort.DisconnectedError
	var lost *consort.ConnectionLostError
	var unreachable *consort.UnreachableError
	var notOpened *consort.NotOpenedError
	words := "cannot_connect"
	switch {
	case errors.As(err, &unreachable):
		words = "unreachable"
	case errors.As(err, &notOpened):
		words = fmt.Sprintf("not_opened reason=%s", notOpened.Cause)
	case errors.Is(err, consort.ErrTakenOver):
		words = "taken_over"
	case errors.Is(err, consort.ErrUnread):
		words = "unread"
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
