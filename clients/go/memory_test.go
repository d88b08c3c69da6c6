package leafd

import (
	"context"
	"net/http"
	"testing"
	"time"
)

func TestAClusterInMemory(t *testing.T) {
	ctx := soon(t, 10*time.Second)
	fake := NewFake()
	c, err := fake.Open(Settings{Deadline: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	orders := segmentOf(t, c, "a/b")
	strict, _ := c.Strict("numbers")
	stamps, _ := c.Snowflake("")
	texts, _ := c.Texts("texts")
	for _, source := range []Source{orders, strict} {
		for want := int64(1); want <= 3; want++ {
			if id, err := source.Next(ctx); err != nil || id != want {
				t.Fatal(id, err)
			}
		}
	}
	if id, err := stamps.Next(ctx); err != nil || id <= 0 {
		t.Error(id, err)
	}
	if ids, err := texts.NextN(ctx, 2); err != nil || len(ids) != 2 || ids[1] != "2" {
		t.Error(ids, err)
	}
	first, err := strict.Repeatable(ctx, 2, "mine")
	again, _ := strict.Repeatable(ctx, 2, "mine")
	if err != nil || !again.Replayed || first.Ranges[0] != again.Ranges[0] {
		t.Error(first, again, err)
	}

	fake.SetNext("a/b", 1000)
	fake.SetNext("numbers", 7)
	if id := next(t, orders); id != 1000 {
		t.Error(id)
	}
	fake.SetNext("a/b", 50)
	if id := next(t, orders); id != 50 {
		t.Error(id)
	}
	if id, err := strict.Next(ctx); err != nil || id != 7 {
		t.Error(id, err)
	}

	fake.Fail(1, http.StatusNotFound, "unknown_tag")
	_, err = strict.Next(ctx)
	wantCode(t, err, "unknown_tag", 404)
	fake.Fail(2, http.StatusServiceUnavailable, "no_leader")
	if id, err := strict.Next(ctx); err != nil || id != 8 {
		t.Error(id, err)
	}
	fake.Fail(1000, 0, "")
	_, err = strict.Next(soon(t, 100*time.Millisecond))
	wantCode(t, err, CodeUnreachable, 0)
	fake.Fail(0, 0, "")
	if id, err := stamps.Next(ctx); err != nil || id <= 0 {
		t.Error(id, err)
	}
}
