package leafd

import (
	"os"
	"strings"
	"sync"
	"time"
)

const (
	tokenLook = time.Second // how often it is seen whether the file of the token has changed
	tokenMost = 4096        // bytes of that file that are read
)

// token is what is sent as the bearer token: the one given, or the line of a file. The file is read again
// once it has changed; while there is no token in it, the last one is sent.
type token struct {
	file string // empty: none

	mu     sync.Mutex // guards what follows
	text   string     // empty: none
	seen   os.FileInfo
	looked time.Time
}

func newToken(settings *Settings) (*token, error) {
	t := &token{file: settings.TokenFile, text: settings.Token, looked: time.Now()}
	if t.file == "" {
		return t, nil
	}
	if t.text != "" {
		return nil, badSetting("token_file=%q is given beside token", shown(t.file, 200))
	}
	return t, t.read()
}

func (t *token) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != "" && time.Since(t.looked) >= tokenLook {
		t.looked = time.Now()
		_ = t.read() // it may be written at this moment
	}
	return t.text
}

func (t *token) read() error {
	info, err := os.Stat(t.file)
	if err != nil {
		return badSetting("token_file: %v", err)
	}
	if t.seen != nil && sameFile(info, t.seen) {
		return nil
	}
	data, err := os.ReadFile(t.file)
	if err != nil {
		return badSetting("token_file: %v", err)
	}
	text := strings.TrimSpace(string(data))
	if text == "" || len(data) > tokenMost {
		return badSetting("token_file=%q has no token", shown(t.file, 200))
	}
	if err := checkToken("token_file's token", text); err != nil {
		return err
	}
	t.text, t.seen = text, info
	return nil
}

// sameFile says whether a file has not changed since. nil: there was none.
func sameFile(now, before os.FileInfo) bool {
	if now == nil || before == nil {
		return now == nil && before == nil
	}
	return os.SameFile(now, before) && now.Size() == before.Size() && now.ModTime().Equal(before.ModTime())
}

func checkToken(name, text string) error {
	for i := 0; i < len(text); i++ {
		if text[i] <= ' ' || text[i] > '~' {
			return badSetting("%s: its byte %d is not a printable ASCII character", name, i)
		}
	}
	return nil
}
