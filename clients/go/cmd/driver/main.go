// The driver: commands of clients/conformance/driver.py on standard input, one answer a line on standard output.
//
// The happy path: read a line, do it with the library, answer, until the input ends. Failure modes: an error
// of the library is answered, and the driver goes on; so is a line that is no command. Exit codes: 0 at the
// end of input, 1 if it cannot be read or the answers cannot be written.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"leafd.io/leafd"
)

// driver is what the commands share.
type driver struct {
	client   *leafd.Client
	segments map[string]*leafd.Segment
	stricts  map[string]*leafd.Strict
	texts    map[string]*leafd.Texts
	deadline time.Duration // of this command; 0: the client's
	// One that was closed is kept: asking for it anew would make another one.
	stamps *leafd.Snowflake
	events *events
}

// events are counts by their kind.
type events struct {
	mu    sync.Mutex
	kinds map[string]int
}

func (e *events) add(event leafd.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kinds[event.Kind]++
}

var commands = map[string]struct {
	words int // behind the command, at least
	most  int
	do    func(*driver, []string) (string, error)
}{
	"open":         {0, 100, (*driver).open},
	"segment":      {2, 2, (*driver).segment},
	"range":        {2, 2, (*driver).contiguous},
	"strict":       {2, 3, (*driver).strict},
	"texts":        {2, 3, (*driver).textsOf},
	"textid":       {2, 2, (*driver).textID},
	"strict1":      {2, 2, (*driver).strict1},
	"snowflake":    {1, 1, (*driver).snowflake},
	"threads":      {3, 3, (*driver).threads},
	"fork":         {0, 100, unsupported},
	"forksnow":     {0, 100, unsupported},
	"loop":         {2, 2, (*driver).loop},
	"mix":          {3, 3, (*driver).mix},
	"bench":        {2, 2, (*driver).bench},
	"benchthreads": {3, 3, (*driver).benchThreads},
	"decode":       {1, 1, (*driver).decode},
	"at":           {1, 1, (*driver).at},
	"stats":        {0, 0, (*driver).stats},
	"statstext":    {0, 0, (*driver).statsText},
	"events":       {0, 0, (*driver).eventsSeen},
	"close_source": {2, 2, (*driver).closeSource},
	"close":        {0, 0, (*driver).close},
}

const lineBytes = 1 << 20

func main() {
	d := &driver{segments: map[string]*leafd.Segment{}, stricts: map[string]*leafd.Strict{},
		texts: map[string]*leafd.Texts{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 0, 4096), lineBytes)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		fmt.Fprintln(out, d.answer(lines.Text()))
		if out.Flush() != nil {
			os.Exit(1)
		}
	}
	if lines.Err() != nil {
		os.Exit(1)
	}
}

func (d *driver) answer(line string) string {
	words := strings.Split(line, " ")
	command, known := commands[words[0]]
	words = words[1:]
	d.deadline = 0
	if n := len(words); n > 0 && strings.HasPrefix(words[n-1], "deadline_ms=") {
		if words0 := strings.SplitN(line, " ", 2)[0]; words0 != "open" {
			ms, err := strconv.ParseInt(words[n-1][len("deadline_ms="):], 10, 32)
			if err != nil || ms < 1 {
				return "fault " + words[n-1] + " is no time"
			}
			d.deadline = time.Duration(ms) * time.Millisecond
			words = words[:n-1]
		}
	}
	if !known || len(words) < command.words || len(words) > command.most {
		return "fault no such command: " + strconv.Quote(line)
	}
	if d.client == nil && strings.SplitN(line, " ", 2)[0] != "open" {
		return "fault open comes first"
	}
	text, err := command.do(d, words)
	if err != nil {
		return failed(err)
	}
	return text
}

func failed(err error) string {
	var e *leafd.Error
	if errors.As(err, &e) {
		return fmt.Sprintf("error %s %d %s", e.Code, e.Status, e.Message)
	}
	return "fault " + err.Error()
}

func unsupported(*driver, []string) (string, error) { return "unsupported", nil }

// context is that of one call.
func (d *driver) context() (context.Context, context.CancelFunc) {
	if d.deadline == 0 {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), d.deadline)
}

// runs are ids in the order in which they came, joined where one follows the other.
type runs struct{ ranges []leafd.Range }

func (r *runs) add(id int64) { r.join(leafd.Range{First: id, Last: id}) }

func (r *runs) join(next leafd.Range) {
	if n := len(r.ranges); n > 0 && r.ranges[n-1].Last+1 == next.First {
		r.ranges[n-1].Last = next.Last
		return
	}
	r.ranges = append(r.ranges, next)
}

func (r *runs) String() string {
	text := []byte("ids")
	for _, one := range r.ranges {
		text = append(text, ' ')
		text = strconv.AppendInt(text, one.First, 10)
		text = append(text, '-')
		text = strconv.AppendInt(text, one.Last, 10)
	}
	return string(text)
}

func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return n, nil
}

func (d *driver) open(words []string) (string, error) {
	var settings leafd.Settings
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		if err := settings.Set(name, value); err != nil {
			return "", err
		}
	}
	seen := &events{kinds: map[string]int{}}
	settings.OnEvent = seen.add
	client, err := leafd.Open(settings)
	if err != nil {
		return "", err
	}
	*d = driver{client: client, segments: map[string]*leafd.Segment{}, stricts: map[string]*leafd.Strict{},
		texts: map[string]*leafd.Texts{}, events: seen}
	return "ok", nil
}

func (d *driver) snowflakeSource() (*leafd.Snowflake, error) {
	if d.stamps == nil {
		s, err := d.client.Snowflake("")
		if err != nil {
			return nil, err
		}
		d.stamps = s
	}
	return d.stamps, nil
}

func (d *driver) closeSource(words []string) (string, error) {
	switch words[0] {
	case "segment":
		s, err := d.source(words[1])
		if err != nil {
			return "", err
		}
		s.Close()
	case "strict":
		s, err := d.strictSource(words[1])
		if err != nil {
			return "", err
		}
		s.Close()
	case "texts":
		s, err := d.textSource(words[1])
		if err != nil {
			return "", err
		}
		s.Close()
	case "snowflake":
		s, err := d.snowflakeSource()
		if err != nil {
			return "", err
		}
		return "ok", s.Close(context.Background())
	default:
		return "", fmt.Errorf("%q is no kind of source", words[0])
	}
	return "ok", nil
}

func (d *driver) eventsSeen([]string) (string, error) {
	d.events.mu.Lock()
	defer d.events.mu.Unlock()
	text := "events"
	for kind, count := range d.events.kinds {
		text += fmt.Sprintf(" %s %d", kind, count)
	}
	d.events.kinds = map[string]int{}
	return text, nil
}

func (d *driver) statsText([]string) (string, error) {
	return "statstext " + strings.ReplaceAll(d.client.Stats().Text(), "\n", "|"), nil
}

func (d *driver) source(tag string) (*leafd.Segment, error) {
	if d.segments[tag] == nil {
		s, err := d.client.Segment(tag)
		if err != nil {
			return nil, err
		}
		d.segments[tag] = s
	}
	return d.segments[tag], nil
}

func (d *driver) strictSource(tag string) (*leafd.Strict, error) {
	if d.stricts[tag] == nil {
		s, err := d.client.Strict(tag)
		if err != nil {
			return nil, err
		}
		d.stricts[tag] = s
	}
	return d.stricts[tag], nil
}

// repeat calls next count times, each with the deadline of the command.
func (d *driver) repeat(text string, next func(context.Context) (int64, error)) (string, error) {
	var got runs
	count, err := number(text)
	if err != nil {
		return "", err
	}
	for i := 0; i < count; i++ {
		ctx, cancel := d.context()
		id, err := next(ctx)
		cancel()
		if err != nil {
			return "", err
		}
		got.add(id)
	}
	return got.String(), nil
}

func (d *driver) segment(words []string) (string, error) {
	s, err := d.source(words[0])
	if err != nil {
		return "", err
	}
	return d.repeat(words[1], s.Next)
}

func (d *driver) contiguous(words []string) (string, error) {
	s, err := d.source(words[0])
	if err != nil {
		return "", err
	}
	count, err := number(words[1])
	if err != nil {
		return "", err
	}
	ctx, cancel := d.context()
	defer cancel()
	r, err := s.NextRange(ctx, count)
	text := fmt.Sprintf("ids %d-%d", r.First, r.Last)
	if r.Increment != 1 {
		text += fmt.Sprintf(" step %d", r.Increment)
	}
	return text, err
}

func (d *driver) strict(words []string) (string, error) {
	s, err := d.strictSource(words[0])
	if err != nil {
		return "", err
	}
	count, err := number(words[1])
	if err != nil {
		return "", err
	}
	key := leafd.NewKey()
	if len(words) > 2 {
		key = words[2]
	}
	ctx, cancel := d.context()
	defer cancel()
	ids, err := s.Repeatable(ctx, count, key)
	var got runs
	for _, r := range ids.Ranges {
		if r.Increment == 1 {
			got.join(r)
			continue
		}
		for id := r.First; id <= r.Last && id >= r.First; id += r.Increment {
			got.add(id)
		}
	}
	text := got.String()
	if ids.Replayed {
		text += " replayed"
	}
	return text, err
}

func (d *driver) textSource(tag string) (*leafd.Texts, error) {
	if d.texts[tag] == nil {
		s, err := d.client.Texts(tag)
		if err != nil {
			return nil, err
		}
		d.texts[tag] = s
	}
	return d.texts[tag], nil
}

func (d *driver) textsOf(words []string) (string, error) {
	s, err := d.textSource(words[0])
	if err != nil {
		return "", err
	}
	count, err := number(words[1])
	if err != nil {
		return "", err
	}
	ctx, cancel := d.context()
	defer cancel()
	key := ""
	if len(words) > 2 {
		key = words[2]
	}
	ids, err := s.Repeatable(ctx, count, key)
	if err != nil {
		return "", err
	}
	how := "new"
	if ids.Replayed {
		how = "replayed"
	}
	return "texts " + how + " " + strings.Join(ids.Texts, " "), nil
}

func (d *driver) textID(words []string) (string, error) {
	s, err := d.textSource(words[0])
	if err != nil {
		return "", err
	}
	ctx, cancel := d.context()
	defer cancel()
	id, err := s.Decode(ctx, words[1])
	return fmt.Sprintf("textid %d", id), err
}

func (d *driver) strict1(words []string) (string, error) {
	s, err := d.strictSource(words[0])
	if err != nil {
		return "", err
	}
	return d.repeat(words[1], s.Next)
}

func (d *driver) snowflake(words []string) (string, error) {
	s, err := d.snowflakeSource()
	if err != nil {
		return "", err
	}
	return d.repeat(words[0], s.Next)
}

// atOnce runs f in count goroutines that begin together; the first error, and how long they took.
func atOnce(count int, f func(int) error) (time.Duration, error) {
	var done sync.WaitGroup
	begin := make(chan struct{})
	errs := make([]error, count)
	for i := 0; i < count; i++ {
		done.Add(1)
		go func(i int) {
			defer done.Done()
			<-begin
			errs[i] = f(i)
		}(i)
	}
	from := time.Now()
	close(begin)
	done.Wait()
	took := time.Since(from)
	for _, err := range errs {
		if err != nil {
			return took, err
		}
	}
	return took, nil
}

func (d *driver) threads(words []string) (string, error) {
	threads, err := number(words[0])
	if err != nil {
		return "", err
	}
	s, err := d.source(words[1])
	if err != nil {
		return "", err
	}
	count, err := number(words[2])
	if err != nil {
		return "", err
	}
	got := make([]runs, threads)
	_, err = atOnce(threads, func(t int) error {
		last := int64(-1)
		for i := 0; i < count; i++ {
			id, err := s.Next(context.Background())
			if err != nil {
				return err
			}
			if id <= last {
				return fmt.Errorf("goroutine %d got %d behind %d", t, id, last)
			}
			last = id
			got[t].add(id)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	var all []leafd.Range
	for _, one := range got {
		all = append(all, one.ranges...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].First < all[j].First })
	var joined runs // one that came twice stays apart
	for _, r := range all {
		joined.join(r)
	}
	return joined.String(), nil
}

// histogram has bins of a sixteenth of their power of two.
type histogram struct {
	bins  [64 * 16]int64
	count int64
	most  int64
}

func (h *histogram) add(ns int64) {
	h.count++
	if ns > h.most {
		h.most = ns
	}
	bin := ns
	if ns >= 16 {
		power := bits.Len64(uint64(ns)) - 5
		bin = int64(power)*16 + ns>>power
	}
	h.bins[bin]++
}

// at is the upper bound of the bin in which a share of all lies.
func (h *histogram) at(share float64) int64 {
	left := int64(share * float64(h.count))
	for bin, count := range h.bins {
		if left -= count; left < 0 {
			if bin < 16 {
				return int64(bin)
			}
			power := bin/16 - 1
			if end := (int64(bin%16)+17)<<power - 1; end < h.most {
				return end
			}
			break
		}
	}
	return h.most
}

func (d *driver) loop(words []string) (string, error) {
	s, err := d.source(words[0])
	if err != nil {
		return "", err
	}
	seconds, err := number(words[1])
	if err != nil {
		return "", err
	}
	var got runs
	var times histogram
	ctx := context.Background()
	before := time.Now()
	for end := before.Add(time.Duration(seconds) * time.Second); before.Before(end); {
		id, err := s.Next(ctx)
		if err != nil {
			return "", err
		}
		now := time.Now()
		times.add(int64(now.Sub(before)))
		before = now
		got.add(id)
	}
	return fmt.Sprintf("loop %d %d %d %s", times.count, times.most, times.at(0.9999), &got), nil
}

func (d *driver) mix(words []string) (string, error) {
	segment, err := d.source(words[0])
	if err != nil {
		return "", err
	}
	strict, err := d.strictSource(words[1])
	if err != nil {
		return "", err
	}
	snowflake, err := d.snowflakeSource()
	if err != nil {
		return "", err
	}
	seconds, err := number(words[2])
	if err != nil {
		return "", err
	}
	var got [3]runs
	ctx := context.Background()
	kinds := []func(context.Context) (int64, error){segment.Next, strict.Next, snowflake.Next}
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
		for kind, next := range kinds {
			id, err := next(ctx)
			if err != nil {
				return "", err
			}
			got[kind].add(id)
		}
	}
	return fmt.Sprintf("mix %s ; %s ; %s", &got[0], strings.TrimPrefix(got[1].String(), "ids "),
		strings.TrimPrefix(got[2].String(), "ids ")), nil
}

func (d *driver) bench(words []string) (string, error) {
	s, err := d.source(words[0])
	if err != nil {
		return "", err
	}
	return bench([]*leafd.Segment{s}, words[1])
}

func (d *driver) benchThreads(words []string) (string, error) {
	threads, err := number(words[0])
	if err != nil {
		return "", err
	}
	var sources []*leafd.Segment
	for i := 0; i < threads; i++ {
		s, err := d.client.Segment(words[1])
		if err != nil {
			return "", err
		}
		defer s.Close()
		sources = append(sources, s)
	}
	return bench(sources, words[2])
}

// bench has each source in a goroutine of its own give so many ids, twice: the second time is measured.
func bench(sources []*leafd.Segment, text string) (string, error) {
	count, err := number(text)
	if err != nil {
		return "", err
	}
	if count*len(sources) == 0 {
		return "", errors.New("nothing to measure")
	}
	ctx := context.Background()
	round := func(t int) error {
		for i := 0; i < count; i++ {
			if _, err := sources[t].Next(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err = atOnce(len(sources), round); err != nil {
		return "", err
	}
	took, err := atOnce(len(sources), round)
	return fmt.Sprintf("bench %.2f", float64(took.Nanoseconds())/float64(count*len(sources))), err
}

func (d *driver) decode(words []string) (string, error) {
	id, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return "", fmt.Errorf("%q is no id", words[0])
	}
	s, err := d.snowflakeSource()
	if err != nil {
		return "", err
	}
	parts, err := s.Decode(id)
	return fmt.Sprintf("decode %d %d %d", parts.TimeMs, parts.Worker, parts.Sequence), err
}

func (d *driver) at(words []string) (string, error) {
	timeMs, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return "", fmt.Errorf("%q is no time", words[0])
	}
	s, err := d.snowflakeSource()
	if err != nil {
		return "", err
	}
	id, err := s.At(timeMs)
	return fmt.Sprintf("at %d", id), err
}

func (d *driver) stats([]string) (string, error) {
	text := "stats"
	d.client.Stats().Each(func(name string, value int64) { text += fmt.Sprintf(" %s=%d", name, value) })
	return text, nil
}

func (d *driver) close([]string) (string, error) {
	return "ok", d.client.Close(context.Background())
}
