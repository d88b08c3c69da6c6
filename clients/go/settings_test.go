package leafd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSettingsThatBreakTheirRuleAreRefused(t *testing.T) {
	ok := []string{"http://127.0.0.1:1"}
	noPEM := filepath.Join(t.TempDir(), "ca")
	if err := os.WriteFile(noPEM, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, s := range map[string]Settings{
		"endpoints: none":                   {},
		"endpoints=\"ftp://a\"":             {Endpoints: []string{"ftp://a"}},
		"endpoints=\"http://\"":             {Endpoints: []string{"http://"}},
		"endpoints=\"http://a?b=1\"":        {Endpoints: []string{"http://a?b=1"}},
		"admin_endpoints=\"127.0.0.1:1\"":   {Endpoints: ok, AdminEndpoints: []string{"127.0.0.1:1"}},
		"endpoints: a URL has a user":       {Endpoints: []string{"http://me:secret@a"}},
		"endpoints: 65 URLs":                {Endpoints: make([]string, 65)},
		"attempt_ms=-1ns":                   {Endpoints: ok, Attempt: -1},
		"deadline_ms=10m0.001s":             {Endpoints: ok, Deadline: 10*time.Minute + time.Millisecond},
		"cover_ms=1µs":                      {Endpoints: ok, Cover: time.Microsecond},
		"min_count=-1":                      {Endpoints: ok, MinCount: -1},
		"max_count=100001":                  {Endpoints: ok, MaxCount: 100001},
		"min_count=7 is more than max_coun": {Endpoints: ok, MinCount: 7, MaxCount: 6},
		"min_count=100 is more than max_c":  {Endpoints: ok, MaxCount: 99},
		"window_ms=999ms":                   {Endpoints: ok, Window: 999 * time.Millisecond},
		"token: its byte 1":                 {Endpoints: ok, Token: "a b"},
		"ca_file: open":                     {Endpoints: ok, CAFile: noPEM + "x"},
		"has no certificate":                {Endpoints: ok, CAFile: noPEM},
	} {
		_, err := Open(s)
		if e := wantCode(t, err, CodeBadSetting, 0); !strings.Contains(e.Message, says) ||
			strings.Contains(e.Message, "secret") {
			t.Errorf("%q is not in %q", says, e.Message)
		}
	}
}

func TestSettingsAtTheirBoundsAreTaken(t *testing.T) {
	long := 10 * time.Minute
	for _, s := range []Settings{
		{},
		{Attempt: time.Millisecond, Deadline: time.Millisecond, Cover: time.Millisecond, MinCount: 1, MaxCount: 1,
			Window: time.Second},
		{Attempt: long, Deadline: long, Cover: long, MinCount: 100000, MaxCount: 100000, Window: 24 * time.Hour},
	} {
		openFor(t, s, "http://127.0.0.1:1/", "https://[::1]:2")
	}
}

func TestSettingsComeAsText(t *testing.T) {
	var s Settings
	for name, value := range map[string]string{"endpoints": "http://a,http://b", "attempt_ms": "7",
		"max_count": "9", "admin_endpoints": "http://c", "token": "t", "ca_file": "f"} {
		if err := s.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Endpoints) != 2 || s.Attempt != 7*time.Millisecond || s.MaxCount != 9 || s.CAFile != "f" {
		t.Errorf("%+v", s)
	}
	for _, bad := range [][2]string{{"attempt_ms", "0"}, {"attempt_ms", "x"}, {"window_ms", "999"}, {"other", "1"},
		{"min_count", "100001"}, {"discover", "yes"}, {"zone", ""}, {"zone", "a\nb"}} {
		wantCode(t, s.Set(bad[0], bad[1]), CodeBadSetting, 0)
	}
}

func TestNamesCountsAndKeysAreChecked(t *testing.T) {
	c := openFor(t, Settings{}, "http://127.0.0.1:1")
	for _, bad := range []string{"", strings.Repeat("x", 129), "a\nb", "a\u0085b", "\xff", "\x7f"} {
		_, err := c.Segment(bad)
		wantCode(t, err, CodeBadSetting, 0)
		_, err = c.Strict(bad)
		wantCode(t, err, CodeBadSetting, 0)
	}
	_, err := c.Snowflake("a\x00")
	wantCode(t, err, CodeBadSetting, 0)
	s := segmentOf(t, c, strings.Repeat("x", 128))
	for _, count := range []int{-1, 0, 100001} {
		_, err = s.NextN(soon(t, time.Second), count)
		wantCode(t, err, CodeBadSetting, 0)
		_, err = s.NextRange(soon(t, time.Second), count)
		wantCode(t, err, CodeBadSetting, 0)
	}
	strict, _ := c.Strict("a/b")
	for _, key := range []string{"", strings.Repeat("k", 129), "a\n", " a", "a ", "ä"} {
		_, err = strict.Repeatable(soon(t, time.Second), 1, key)
		wantCode(t, err, CodeBadSetting, 0)
	}
	if c.Stats().Requests != 0 {
		t.Error("something was sent")
	}
}
