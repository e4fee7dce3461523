// Package consort is a client of a Consort daemon: ordered, reliable multicast.
//
// It speaks the session protocol itself and needs nothing but the standard library.
//
//	client, err := consort.Dial(ctx, "127.0.0.1:4840", consort.Options{Name: "ann"})
//	if err != nil {
//		return err
//	}
//	defer client.Close(ctx)
//	if _, err := client.Join(ctx, "orders"); err != nil {
//		return err
//	}
//	for event := range client.Events() {
//		switch event := event.(type) {
//		case *consort.Message:
//			fmt.Printf("%s: %s\n", event.Sender, event.Payload)
//		case *consort.GroupView:
//			fmt.Printf("%d in %s\n", len(event.Members), event.Group)
//		}
//	}
//	return client.Err()
//
// A Client ends with its daemon. A Session, which DialSession opens, has the addresses of several and goes on at the next one:
// each of its sends is ordered once, and what it reads goes on where it was.
//
// All methods of a Client and of a Session may be called by any number of goroutines at once. Sends are numbered from 1 in the order in
// which they return.
package consort
