package consort_test

import (
	"consort"
	"context"
	"fmt"
	"log"
	"os"
)

// A send has one fate, whichever daemons are lost meanwhile.
func ExampleDialSession() {
	ctx := context.Background()
	daemons := []string{"10.0.0.1:4840", "10.0.0.2:4840", "10.0.0.3:4840"}
	session, err := consort.DialSession(ctx, daemons, consort.SessionOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
	sent, err := session.SendAndWait(ctx, consort.Agreed, []string{"orders"}, []byte("a pound of tea"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent)
}

// What is new since a program ran last is read from the bookmark in its file.
func ExampleSession_Read() {
	const file = "orders.bookmark"
	ctx := context.Background()
	session, err := consort.DialSession(ctx, []string{"10.0.0.1:4840", "10.0.0.2:4840"}, consort.SessionOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
	from := consort.FromNew()
	if text, err := os.ReadFile(file); err == nil {
		if from, err = consort.ParseReadFrom(string(text)); err != nil {
			log.Fatal(err)
		}
	}
	if err := session.Read([]string{"orders"}, from); err != nil {
		log.Fatal(err)
	}
	for event := range session.Events() {
		switch event := event.(type) {
		case *consort.Message:
			fmt.Printf("%s\n", event.Payload)
		case *consort.Gap, *consort.Parted, *consort.ReadingEnded:
			log.Printf("%T %+v", event, event)
		}
		if bookmark := session.Bookmark(); !bookmark.IsZero() {
			if err := os.WriteFile(file, []byte(bookmark.String()), 0o600); err != nil {
				log.Fatal(err)
			}
		}
	}
	log.Fatal(session.Err())
}
