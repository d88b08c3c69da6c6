package leafd

import (
	"fmt"
	"strings"
	"testing"
)

func TestRangesAreReadOnlyIfWhole(t *testing.T) {
	cases := []struct {
		text  string
		count int
		ok    bool
	}{
		{"1 100\n", 100, true},
		{"0 0\n", 1, true},
		{"5 9\n20 24\n", 10, true},
		{"9223372036854775807 9223372036854775807\n", 1, true},
		{"9223372036854775808 9223372036854775808\n", 1, false}, // beyond 63 bits
		{"99999999999999999999 99999999999999999999\n", 1, false},
		{"1 100", 100, false}, // cut
		{"1 10", 100, false},
		{"", 1, false},
		{"1 100\n", 99, false},
		{"1 100\n", 101, false},
		{"5 9\n5 9\n", 10, false}, // twice
		{"5 9\n9 13\n", 10, false},
		{"20 24\n5 9\n", 10, false}, // falling
		{"9 5\n", 5, false},
		{"1 100\r\n", 100, false},
		{" 1 100\n", 100, false},
		{"1  100\n", 100, false},
		{"01 100\n", 100, false},
		{"-1 98\n", 100, false},
		{"+1 100\n", 100, false},
		{"1 100\n\n", 100, false},
		{"1\n", 1, false},
		{"0 9223372036854775807\n", 100000, false},
	}
	for _, c := range cases {
		if _, ok := parseRanges([]byte(c.text), c.count, false); ok != c.ok {
			t.Errorf("%q as %d ids: %v", c.text, c.count, ok)
		}
	}
}

func TestStepsAreReadOnlyIfWhole(t *testing.T) {
	for text, want := range map[string]bool{
		"1 21 5\n":          true,
		"1 11 5\n12 13 1\n": true,
		"0 9223372036854775804 2305843009213693951\n": true,
		"1 5\n": false, "1 5 \n": false, "1 21 0\n": false, "1 21 -5\n": false, "1 22 5\n": false,
		"21 1 5\n": false, "1 16 5\n": false, "1 26 5\n": false, "1 21 5 1\n": false, "1 21 5": false,
		"1 11 5\n11 12 1\n": false, "1 21 9223372036854775808\n": false, "1 21 18446744073709551621\n": false,
		"9223372036854775804 9223372036854775808 1\n": false,
	} {
		if _, ok := parseRanges([]byte(text), 5, true); ok != want {
			t.Errorf("%q: %v", text, ok)
		}
	}
}

func TestRangesAreBounded(t *testing.T) {
	for _, many := range []int{rangesMost, rangesMost + 1} {
		var text strings.Builder
		for i := 0; i < many; i++ {
			fmt.Fprintf(&text, "%d %d\n", 10*i, 10*i)
		}
		if _, ok := parseRanges([]byte(text.String()), many, false); ok != (many == rangesMost) {
			t.Errorf("%d ranges: %v", many, ok)
		}
	}
}

func TestGrantsAreReadOnlyIfWhole(t *testing.T) {
	good := `{"worker_id":3,"epoch":1,"from_ms":0,"until_ms":60,"layout":` + leafLayout + `}`
	if g, ok := parseGrant([]byte(good)); !ok || g.worker != 3 || g.layout.SequenceBits != 12 {
		t.Fatalf("%s: %v", good, ok)
	}
	for _, change := range [][2]string{
		{`"worker_id":3`, `"worker_id":1024`}, {`"worker_id":3`, `"worker_id":-1`},
		{`"worker_id":3`, `"worker_id":"3"`}, {`"worker_id":3,`, ``}, {`"epoch":1`, `"epoch":0`},
		{`"from_ms":0`, `"from_ms":61`}, {`"until_ms":60`, `"until_ms":6e30`}, {`"until_ms":60,`, ``},
		{`"time_bits":41`, `"time_bits":38`}, {`"time_bits":41`, `"time_bits":46`},
		{`"worker_bits":10`, `"worker_bits":1`}, {`"worker_bits":10`, `"worker_bits":11`},
		{`"sequence_bits":12`, `"sequence_bits":3`}, {`"sequence_bits":12`, `"sequence_bits":13`},
		{`"sequence_bits":12`, `"sequence_bits":null`}, {leafLayout, `[]`}, {good, `[1]`}, {good, ``},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if _, ok := parseGrant([]byte(text)); ok {
			t.Errorf("%s is taken", text)
		}
	}
	g, ok := parseGrant([]byte(strings.Replace(good, leafLayout, "null", 1)))
	if !ok || g.layout != nil {
		t.Error("a node may not know the layout")
	}
	if _, ok := parseGrant([]byte(strings.Replace(good, "{", `{"newer":[1],`, 1))); !ok {
		t.Error("a newer node may say more")
	}
}

func TestRefusalsAreReadOnlyIfTheyAreLeafds(t *testing.T) {
	code, message, ok := parseRefusal([]byte(`{"code":"no_leader","message":"a\nb"}`))
	if !ok || code != "no_leader" || message != "a?b" {
		t.Errorf("%q %q %v", code, message, ok)
	}
	for _, text := range []string{``, `null`, `{}`, `{"code":""}`, `{"code":7}`, `<html>`, `{"code":"a b"}`,
		`{"code":"` + strings.Repeat("x", codeMost+1) + `"}`} {
		if _, _, ok := parseRefusal([]byte(text)); ok {
			t.Errorf("%s is taken", text)
		}
	}
	_, message, _ = parseRefusal([]byte(`{"code":"x","message":"` + strings.Repeat("m", 2000) + `"}`))
	if len(message) != messageMost+3 {
		t.Errorf("a message of %d bytes", len(message))
	}
}

func TestIdsAreTakenApart(t *testing.T) {
	leaf := Layout{EpochMs: 1288834974657, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
	if got := leaf.At(1588421624602); got != 1256557484210913280 || leaf.At(leaf.EpochMs) != 0 {
		t.Error(got)
	}
	if got := leaf.Decode(1256557484213448722); got != (Parts{1588421624602, 619, 18}) {
		t.Errorf("%+v", got)
	}
}

func FuzzRanges(f *testing.F) {
	f.Add([]byte("1 100\n"), 100, false)
	f.Add([]byte("5 9\n20 24\n"), 10, false)
	f.Add([]byte("9223372036854775807 9223372036854775807\n"), 1, false)
	f.Add([]byte("1 496 5\n"), 100, true)
	f.Fuzz(func(t *testing.T, text []byte, count int, stepped bool) {
		ranges, ok := parseRanges(text, count, stepped)
		if !ok {
			return
		}
		var made strings.Builder
		total, last := int64(0), int64(-1)
		for _, r := range ranges {
			if r.First <= last || r.Last < r.First {
				t.Fatalf("%q gives %v", text, ranges)
			}
			total, last = total+r.Count(), r.Last
			if stepped {
				fmt.Fprintf(&made, "%d %d %d\n", r.First, r.Last, r.Increment)
			} else {
				fmt.Fprintf(&made, "%d %d\n", r.First, r.Last)
			}
		}
		if total != int64(count) || made.String() != string(text) {
			t.Fatalf("%q, %d ids, gives %v", text, count, ranges)
		}
	})
}

func TestTextsAreReadOnlyIfWhole(t *testing.T) {
	long := strings.Repeat("x", textMost)
	for _, c := range []struct {
		text  string
		count int
		ok    bool
	}{
		{"INV-1\n", 1, true},
		{"!\n~\n", 2, true},
		{long + "\n", 1, true},
		{long + "x\n", 1, false},
		{"", 1, false},
		{"INV-1", 1, false}, // cut
		{"INV-1\n", 2, false},
		{"INV-1\nINV-2\n", 1, false},
		{"INV-1\n\n", 2, false},
		{"INV 1\n", 1, false},
		{"INV-1\r\n", 1, false},
		{"INV-\u00e4\n", 1, false},
		{"\x00\n", 1, false},
	} {
		if texts, ok := parseTexts([]byte(c.text), c.count); ok != c.ok {
			t.Errorf("%q of %d: %v %v", c.text, c.count, texts, ok)
		}
	}
	for text, want := range map[string]int64{
		`{"id":"42","granted":false}`:                 42,
		`{"id":"9223372036854775807","granted":true}`: 1<<63 - 1,
		`{"id":"9223372036854775808","granted":true}`: -1,
		`{"id":"-1","granted":true}`:                  -1,
		`{"id":"42x","granted":true}`:                 -1,
		`{"id":42,"granted":true}`:                    -1,
		`{"id":"42"}`:                                 -1,
		`{"granted":true}`:                            -1,
		`[]`:                                          -1,
		`{"id":"42","granted":"true"}`:                -1,
	} {
		if id, ok := parseTextID([]byte(text)); ok != (want >= 0) || ok && id != want {
			t.Errorf("%s: %d %v", text, id, ok)
		}
	}
}

func FuzzTexts(f *testing.F) {
	f.Add([]byte("INV-1\nINV-2\n"), 2)
	f.Fuzz(func(t *testing.T, text []byte, count int) {
		if texts, ok := parseTexts(text, count); ok && (len(texts) != count ||
			count > 0 && strings.Join(texts, "\n")+"\n" != string(text)) {
			t.Fatalf("%q gives %q", text, texts)
		}
	})
}

func FuzzGrant(f *testing.F) {
	f.Add([]byte(`{"worker_id":3,"epoch":1,"from_ms":0,"until_ms":60,"layout":` + leafLayout + `}`))
	f.Add([]byte(`{"worker_id":3,"epoch":1,"from_ms":7,"until_ms":60,"layout":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, ok := parseGrant(text)
		if !ok || g.layout == nil {
			return
		}
		// Whatever was read makes ids within its window, or none.
		m := newGenerator(g, "x", newRandom())
		for _, now := range []int64{g.fromMs, g.fromMs + 1, g.untilMs, g.untilMs + 1, timeMostMs} {
			id, done, _ := m.make(now)
			if done != madeID {
				continue
			}
			p := g.layout.Decode(id)
			if id < 0 || p.TimeMs <= g.fromMs || p.TimeMs > g.untilMs || p.Worker != g.worker {
				t.Fatalf("%s at %d gives %d: %+v", text, now, id, p)
			}
		}
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add([]byte(`{"code":"no_leader","message":"none"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		code, message, ok := parseRefusal(text)
		if ok && (code == "" || strings.ContainsAny(code+message, "\n\r\x00\x1b ") && code != strings.TrimSpace(code) ||
			strings.ContainsAny(message, "\n\r\x00\x1b")) {
			t.Fatalf("%q gives %q %q", text, code, message)
		}
	})
}
