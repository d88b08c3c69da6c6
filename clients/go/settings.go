package leafd

import (
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Settings of a client. What is zero has the default.
type Settings struct {
	Endpoints      []string      // base URLs of the listener for ids; those of the environment
	AdminEndpoints []string      // of the listener for worker ids; Endpoints
	Token          string        // sent as a bearer token; none
	TokenFile      string        // a file with it, read again once it has changed; none
	CAFile         string        // PEM of who signs the servers' certificates; the system's
	CertFile       string        // PEM of a certificate of the client's own; none
	KeyFile        string        // and of its key
	Connect        time.Duration // a connection to a node, twice as long after each round; 300 ms
	Attempt        time.Duration // one request to one node; 4 s
	Deadline       time.Duration // a call whose context has none; 10 s
	Cover          time.Duration // for so long a range is to last; 10 s
	MinCount       int           // ids asked for at once, at least; 100
	MaxCount       int           // and at most; 100000
	Window         time.Duration // of a worker id; 60 s
	MaxAge         time.Duration // a range that is older is dropped, within a second; 1 hour

	Zone     string // whose nodes are asked first; none
	Discover *bool  // nodes are found by asking one; true with a Zone

	adminIsIDs bool // AdminEndpoints were not given

	// OnEvent is called at each event by the goroutine that it happens in, without a lock; a panic of it is
	// dropped. It must not wait for a source.
	OnEvent func(Event)
}

// The numbers among the settings, by the names that all libraries share: times in milliseconds.
const (
	timeMost = 600 * 1000
	day      = 24 * 3600 * 1000
)

var numberSettings = []struct {
	name           string
	least, most    int64
	withoutSetting int64
	time           func(*Settings) *time.Duration
	count          func(*Settings) *int
}{
	{"connect_ms", 1, timeMost, 300, func(s *Settings) *time.Duration { return &s.Connect }, nil},
	{"attempt_ms", 1, timeMost, 4000, func(s *Settings) *time.Duration { return &s.Attempt }, nil},
	{"deadline_ms", 1, timeMost, 10000, func(s *Settings) *time.Duration { return &s.Deadline }, nil},
	{"cover_ms", 1, timeMost, 10000, func(s *Settings) *time.Duration { return &s.Cover }, nil},
	{"min_count", 1, countMost, 100, nil, func(s *Settings) *int { return &s.MinCount }},
	{"max_count", 1, countMost, countMost, nil, func(s *Settings) *int { return &s.MaxCount }},
	{"window_ms", 1000, day, 60000, func(s *Settings) *time.Duration { return &s.Window }, nil},
	{"max_age_ms", 1, day, 3600 * 1000, func(s *Settings) *time.Duration { return &s.MaxAge }, nil},
}

// Set sets what is known by that name in all libraries ("attempt_ms", "endpoints" with commas between),
// for settings that come as text. A value that breaks its rule is a bad_setting.
func (s *Settings) Set(name, value string) error {
	switch name {
	case "endpoints":
		s.Endpoints = strings.Split(value, ",")
		return nil
	case "admin_endpoints":
		s.AdminEndpoints = strings.Split(value, ",")
		return nil
	case "discover":
		discover := value == "true"
		if !discover && value != "false" {
			return badSetting("discover=%q is neither true nor false", shown(value, 100))
		}
		s.Discover = &discover
		return nil
	case "zone":
		if err := checkName("zone", value); err != nil {
			return err
		}
	}
	if text := s.text(name); text != nil {
		*text = value
		return nil
	}
	for _, rule := range numberSettings {
		if rule.name != name {
			continue
		}
		number, err := strconv.ParseInt(value, 10, 64)
		if err != nil || number < rule.least || number > rule.most {
			return badSetting("%s=%q is not a whole number from %d to %d", name, shown(value, 100),
				rule.least, rule.most)
		}
		if rule.time != nil {
			*rule.time(s) = time.Duration(number) * time.Millisecond
		} else {
			*rule.count(s) = int(number)
		}
		return nil
	}
	return badSetting("there is no setting %q", shown(name, 100))
}

// text is a setting that is a text, by that name; nil: there is none.
func (s *Settings) text(name string) *string {
	switch name {
	case "token":
		return &s.Token
	case "token_file":
		return &s.TokenFile
	case "ca_file":
		return &s.CAFile
	case "cert_file":
		return &s.CertFile
	case "key_file":
		return &s.KeyFile
	case "zone":
		return &s.Zone
	}
	return nil
}

// fromEnvironment has the environment say which cluster it is, and who is asking, where the program names
// no cluster.
func (s *Settings) fromEnvironment() error {
	urls, has := os.LookupEnv("LEAFD_ENDPOINTS")
	if !has {
		return badSetting("endpoints: none is given, here or as LEAFD_ENDPOINTS")
	}
	s.Endpoints = strings.Split(urls, ",")
	if urls, has := os.LookupEnv("LEAFD_ADMIN_ENDPOINTS"); has && len(s.AdminEndpoints) == 0 {
		s.AdminEndpoints = strings.Split(urls, ",")
	}
	names := []string{"ca_file", "cert_file", "key_file", "zone"}
	if s.Token == "" && s.TokenFile == "" {
		names = append(names, "token", "token_file")
	}
	for _, name := range names {
		if text := s.text(name); *text == "" {
			*text = os.Getenv("LEAFD_" + strings.ToUpper(name))
		}
	}
	if text, has := os.LookupEnv("LEAFD_DISCOVER"); has && s.Discover == nil {
		return s.Set("discover", text)
	}
	return nil
}

// checked gives the settings with their defaults, or says which rule is broken.
func (s Settings) checked() (Settings, error) {
	if len(s.Endpoints) == 0 {
		if err := s.fromEnvironment(); err != nil {
			return s, err
		}
	}
	for _, rule := range numberSettings {
		if rule.time != nil {
			value := rule.time(&s)
			if *value == 0 {
				*value = time.Duration(rule.withoutSetting) * time.Millisecond
			}
			if *value < time.Duration(rule.least)*time.Millisecond ||
				*value > time.Duration(rule.most)*time.Millisecond {
				return s, badSetting("%s=%v is not from %d ms to %d ms", rule.name, *value, rule.least,
					rule.most)
			}
			continue
		}
		value := rule.count(&s)
		if *value == 0 {
			*value = int(rule.withoutSetting)
		}
		if int64(*value) < rule.least || int64(*value) > rule.most {
			return s, badSetting("%s=%d is not from %d to %d", rule.name, *value, rule.least, rule.most)
		}
	}
	if s.Zone != "" {
		if err := checkName("zone", s.Zone); err != nil {
			return s, err
		}
	}
	if s.Discover == nil {
		discover := s.Zone != ""
		s.Discover = &discover
	}
	if s.MinCount > s.MaxCount {
		return s, badSetting("min_count=%d is more than max_count=%d", s.MinCount, s.MaxCount)
	}
	if err := checkToken("token", s.Token); err != nil {
		return s, err
	}
	return s, s.checkEndpoints()
}

func (s *Settings) checkEndpoints() error {
	var err error
	if s.adminIsIDs = len(s.AdminEndpoints) == 0; s.adminIsIDs {
		s.AdminEndpoints = s.Endpoints
	}
	if s.Endpoints, err = checkURLs("endpoints", s.Endpoints); err != nil {
		return err
	}
	s.AdminEndpoints, err = checkURLs("admin_endpoints", s.AdminEndpoints)
	return err
}

const endpointsMost = 64

func checkURLs(name string, urls []string) ([]string, error) {
	var bases []string
	seen := map[string]bool{}
	if len(urls) > endpointsMost {
		return nil, badSetting("%s: %d URLs are more than %d", name, len(urls), endpointsMost)
	}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err == nil && strings.HasSuffix(u.Scheme, "+srv") && u.Port() == "" && u.Path == "" {
			u.Scheme = strings.TrimSuffix(u.Scheme, "+srv")
		}
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
			strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
			return nil, badSetting("%s=%q is not http://HOST:PORT, https://HOST:PORT or http+srv://NAME", name,
				shown(text, 200))
		}
		if port, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || port < 1 || port > 65535) {
			return nil, badSetting("%s=%q: its port must be 1 to 65535", name, shown(text, 200))
		}
		if u.User != nil { // what stands there is not shown
			return nil, badSetting("%s: a URL has a user or a password; use token", name)
		}
		if base := strings.TrimRight(text, "/"); !seen[base] { // one that comes twice is one node
			seen[base] = true
			bases = append(bases, base)
		}
	}
	return bases, nil
}

// checkName checks the name of a tag or of a holder, by the rule of the server.
func checkName(what, name string) error {
	if len(name) < 1 || len(name) > 128 || !utf8.ValidString(name) {
		return badSetting("%s %q is not 1 to 128 bytes of UTF-8", what, shown(name, 128))
	}
	for _, r := range name {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return badSetting("%s %q holds a control character", what, shown(name, 128))
		}
	}
	return nil
}

func checkCount(count int) error {
	if count < 1 || count > countMost {
		return badSetting("count %d is not from 1 to %d", count, countMost)
	}
	return nil
}

func checkTextCount(count int) error {
	if count < 1 || count > textsMost {
		return badSetting("count %d of texts is not from 1 to %d", count, textsMost)
	}
	return nil
}

func checkKey(key string) error {
	if len(key) < 1 || len(key) > 128 || key[0] == ' ' || key[len(key)-1] == ' ' {
		return badSetting("key %q is not 1 to 128 characters without a space at an end", shown(key, 128))
	}
	for i := 0; i < len(key); i++ {
		if key[i] < ' ' || key[i] > '~' {
			return badSetting("key: its byte %d is not a printable ASCII character", i)
		}
	}
	return nil
}
