package leafd

import (
	"bytes"
	"encoding/json"
	"math"
	"math/bits"
)

// What a node sends is read here. All of it is doubted: nothing is used unless it is whole, and is what
// was asked for. FuzzRanges, FuzzTexts, FuzzGrant and FuzzRefusal hold these functions to that.

const (
	rangesMost = 64         // ranges in an answer, by the contract
	countMost  = 100000     // ids in an answer
	textsMost  = 1000       // ids in an answer, as texts
	textMost   = 130        // bytes of an id's text: what a shape can have
	answerMost = 128 * 1024 // bytes of an answer; ranges have some 2600, texts 131000 at most
)

// Range is some ids: First, First + Increment, and so on up to Last. The increment is 1, so that they follow
// each other, for all tags that were not made with another one.
type Range struct {
	First, Last, Increment int64
}

// Count is how many ids the range has.
func (r Range) Count() int64 { return (r.Last-r.First)/r.Increment + 1 }

// appendIDs puts all of them behind ids.
func (r Range) appendIDs(ids []int64) []int64 {
	for id := r.First; ; id += r.Increment {
		ids = append(ids, id)
		if id == r.Last {
			return ids
		}
	}
}

// parseNumber reads digits up to a byte that is none. No sign, no zero in front, at most 2^63 - 1.
func parseNumber(text []byte) (number int64, rest []byte, ok bool) {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		high, low := bits.Mul64(uint64(number), 10)
		low += uint64(text[n] - '0')
		if high != 0 || low > math.MaxInt64 {
			return 0, nil, false
		}
		number = int64(low)
		n++
	}
	if n == 0 || n > 1 && text[0] == '0' {
		return 0, nil, false
	}
	return number, text[n:], true
}

// parseRanges reads lines "first last", or "first last increment" if stepped: rising, apart, and of count ids
// in all.
func parseRanges(body []byte, count int, stepped bool) ([]Range, bool) {
	var ranges []Range
	var total int64
	for len(body) > 0 {
		r := Range{Increment: 1}
		var ok bool
		if r.First, body, ok = parseNumber(body); !ok || len(body) == 0 || body[0] != ' ' {
			return nil, false
		}
		if r.Last, body, ok = parseNumber(body[1:]); !ok || len(body) == 0 {
			return nil, false
		}
		if stepped {
			if body[0] != ' ' {
				return nil, false
			}
			if r.Increment, body, ok = parseNumber(body[1:]); !ok || len(body) == 0 || r.Increment < 1 {
				return nil, false
			}
		}
		if body[0] != '\n' {
			return nil, false
		}
		body = body[1:]
		if len(ranges) == rangesMost || r.Last < r.First || (r.Last-r.First)%r.Increment != 0 ||
			(r.Last-r.First)/r.Increment >= int64(count)-total {
			return nil, false
		}
		if len(ranges) > 0 && r.First <= ranges[len(ranges)-1].Last {
			return nil, false
		}
		total += r.Count()
		ranges = append(ranges, r)
	}
	return ranges, total == int64(count)
}

// isText says if this could be the text of an id.
func isText(text []byte) bool {
	for _, c := range text {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(text) >= 1 && len(text) <= textMost
}

// parseTexts reads lines of one id each, count in all.
func parseTexts(body []byte, count int) ([]string, bool) {
	var texts []string
	for len(body) > 0 {
		end := bytes.IndexByte(body, '\n')
		if end < 0 || len(texts) == count || !isText(body[:end]) {
			return nil, false
		}
		texts = append(texts, string(body[:end]))
		body = body[end+1:]
	}
	return texts, len(texts) == count
}

// parseTextID reads the number that a text was found to have.
func parseTextID(body []byte) (int64, bool) {
	var read struct {
		ID      *string `json:"id"`
		Granted *bool   `json:"granted"`
	}
	if json.Unmarshal(body, &read) != nil || read.ID == nil || read.Granted == nil {
		return 0, false
	}
	id, rest, ok := parseNumber([]byte(*read.ID))
	return id, ok && len(rest) == 0
}

// Layout is how the snowflake ids of a cluster are made.
type Layout struct {
	EpochMs      int64 // time 0, in Unix milliseconds
	TimeBits     uint
	WorkerBits   uint
	SequenceBits uint
}

// Parts is what a snowflake id consists of.
type Parts struct {
	TimeMs   int64 // Unix milliseconds
	Worker   int
	Sequence int
}

// Decode takes an id apart.
func (l Layout) Decode(id int64) Parts {
	return Parts{
		TimeMs:   l.EpochMs + id>>(l.WorkerBits+l.SequenceBits),
		Worker:   int(id >> l.SequenceBits & (1<<l.WorkerBits - 1)),
		Sequence: int(id & (1<<l.SequenceBits - 1)),
	}
}

// LastMs is the last time that an id can have, in Unix milliseconds.
func (l Layout) LastMs() int64 { return l.EpochMs + 1<<l.TimeBits - 1 }

// At gives the smallest id of a time from EpochMs to LastMs.
func (l Layout) At(timeMs int64) int64 {
	return (timeMs - l.EpochMs) << (l.WorkerBits + l.SequenceBits)
}

// grant is a worker id that was lent, with the times that may be stamped: fromMs < t <= untilMs.
type grant struct {
	worker          int
	epoch           int64
	fromMs, untilMs int64
	layout          *Layout // nil: the node did not tell
}

// timeMostMs is the end of the year 9999, beyond which a node speaks of no time.
const timeMostMs = 253402300799999

func within(number *int64, least, most int64) bool {
	return number != nil && *number >= least && *number <= most
}

// parseGrant reads the answer of an acquire or a renewal. Members that it does not know are of a newer
// leafd, and left alone.
func parseGrant(body []byte) (*grant, bool) {
	var read struct {
		Worker *int64 `json:"worker_id"`
		Epoch  *int64 `json:"epoch"`
		From   *int64 `json:"from_ms"`
		Until  *int64 `json:"until_ms"`
		Layout *struct {
			Epoch    *int64 `json:"epoch_ms"`
			Time     *int64 `json:"time_bits"`
			Worker   *int64 `json:"worker_bits"`
			Sequence *int64 `json:"sequence_bits"`
		} `json:"layout"`
	}
	if json.Unmarshal(body, &read) != nil || !within(read.Worker, 0, 1023) ||
		!within(read.Epoch, 1, math.MaxInt64) || !within(read.From, 0, timeMostMs) ||
		!within(read.Until, *read.From, timeMostMs) {
		return nil, false
	}
	g := &grant{worker: int(*read.Worker), epoch: *read.Epoch, fromMs: *read.From, untilMs: *read.Until}
	if read.Layout == nil {
		return g, true
	}
	l := read.Layout
	if !within(l.Epoch, 0, timeMostMs) || !within(l.Time, 39, 45) || !within(l.Worker, 1, 10) ||
		!within(l.Sequence, 4, 16) || *l.Time+*l.Worker+*l.Sequence > 63 ||
		*read.Worker >= 1<<uint(*l.Worker) {
		return nil, false
	}
	g.layout = &Layout{
		EpochMs: *l.Epoch, TimeBits: uint(*l.Time), WorkerBits: uint(*l.Worker),
		SequenceBits: uint(*l.Sequence),
	}
	return g, true
}

// parseRefusal reads the JSON of an error; ok is false for anything else.
func parseRefusal(body []byte) (code, message string, ok bool) {
	var read struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	body = bytes.TrimSpace(body)
	if json.Unmarshal(body, &read) != nil || read.Code == "" || len(read.Code) > codeMost {
		return "", "", false
	}
	for _, c := range []byte(read.Code) {
		if (c < 'a' || c > 'z') && c != '_' && (c < '0' || c > '9') {
			return "", "", false
		}
	}
	return read.Code, shown(read.Message, messageMost), true
}
