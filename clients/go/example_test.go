package leafd_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"leafd.io/leafd"
)

// node stands for a cluster in these examples.
func node() *httptest.Server {
	var next atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var count int64
		if r.URL.Path == "/api/segment/get/unheard" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"code":"unknown_tag","message":"there is no tag \"unheard\""}`)
			return
		}
		fmt.Sscan(r.URL.Query().Get("count"), &count)
		last := next.Add(count)
		if r.URL.Query().Get("format") == "" { // of a tag with the shape INV-{id:6}
			fmt.Fprintf(w, "INV-%06d\n", last)
			return
		}
		fmt.Fprintf(w, "%d %d\n", last-count+1, last)
	}))
}

func ExampleClient_Segment() {
	cluster := node()
	defer cluster.Close()

	client, err := leafd.Open(leafd.Settings{Endpoints: []string{cluster.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	orders, err := client.Segment("order")
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := 0; i < 3; i++ {
		id, err := orders.Next(context.Background())
		fmt.Println(id, err)
	}
	// Output:
	// 1 <nil>
	// 2 <nil>
	// 3 <nil>
}

func ExampleStrict_Repeatable() {
	cluster := node()
	defer cluster.Close()
	client, err := leafd.Open(leafd.Settings{Endpoints: []string{cluster.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	invoices, err := client.Strict("invoice")
	if err != nil {
		fmt.Println(err)
		return
	}
	// The key is kept with what the ids are for, so that another process can come again with it.
	ids, err := invoices.Repeatable(context.Background(), 2, "order-4711")
	fmt.Println(ids.IDs(), ids.Replayed, err)
	// Output: [1 2] false <nil>
}

func ExampleTexts() {
	cluster := node()
	defer cluster.Close()
	client, err := leafd.Open(leafd.Settings{Endpoints: []string{cluster.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	invoices, err := client.Texts("invoice")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := invoices.Next(context.Background())
	fmt.Println(text, err)
	// Output: INV-000001 <nil>
}

func ExampleError() {
	cluster := node()
	defer cluster.Close()
	client, err := leafd.Open(leafd.Settings{Endpoints: []string{cluster.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	source, err := client.Segment("unheard")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = source.Next(ctx)
	var e *leafd.Error
	if errors.As(err, &e) {
		fmt.Println(e.Code, e.Status, e.Retryable, e.Message)
	}
	// Output: unknown_tag 404 false there is no tag "unheard"
}
