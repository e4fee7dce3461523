package main

import (
	"consort"
	"context"
	"fmt"
	"strconv"
	"time"
)

func (t *told) openSession(ctx context.Context, addresses []string) (string, error) {
	session, err := consort.DialSession(ctx, addresses, consort.SessionOptions{})
	if err != nil {
		return "", err
	}
	t.end(ctx)
	t.session = session
	return "ok", nil
}

func (t *told) answerInSession(ctx context.Context, request string, words []string) (string, error) {
	word := ""
	if len(words) > 0 {
		word = words[0]
	}
	switch request {
	case "join":
		return "ok", t.session.Join(word)
	case "join_closed":
		return "ok", t.session.JoinClosed(word)
	case "leave":
		return "ok", t.session.Leave(word)
	case "read":
		from, err := consort.ParseReadFrom(word)
		if err != nil {
			return "", err
		}
		return "ok", t.session.Read(words[1:], from)
	case "send":
		return t.send(ctx, words)
	case "receive":
		return receive(t.session, word)
	case "wait":
		return t.settle(word)
	case "close":
		session := t.session
		t.session = nil
		return "ok", session.Close(ctx)
	}
	return "", fmt.Errorf("%w: %q is no request", consort.ErrInvalid, request)
}

func (t *told) settle(milliseconds string) (string, error) {
	number, err := strconv.Atoi(milliseconds)
	if err != nil {
		return "", fmt.Errorf("%w: %w", consort.ErrInvalid, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(number)*time.Millisecond)
	defer cancel()
	return "ok", t.session.Settle(ctx)
}
