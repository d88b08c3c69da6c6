package leafd

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"sync/atomic"
)

// random is a generator without a lock, for waits, first nodes and first sequences: nothing that must
// not be guessed. SplitMix64 over a counter.
type random struct{ state atomic.Uint64 }

func newRandom() *random {
	r := &random{}
	r.state.Store(binary.LittleEndian.Uint64(secret(8)))
	return r
}

func (r *random) below(n uint64) uint64 {
	x := r.state.Add(0x9e3779b97f4a7c15)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return (x ^ x>>31) % n
}

// secret is bytes that cannot be guessed.
func secret(n int) []byte {
	bytes := make([]byte, n)
	if _, err := rand.Read(bytes); err != nil {
		panic("leafd: the system gives no random bytes: " + err.Error())
	}
	return bytes
}

const keyLength = 26 // characters of base 32: 130 bits

// NewKey makes an Idempotency-Key for Strict.Repeatable.
func NewKey() string {
	return base32.StdEncoding.EncodeToString(secret(20))[:keyLength]
}
