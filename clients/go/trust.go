package leafd

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"sync"
	"time"
)

// trust is whom a client trusts, and what it shows. The files are read again once one has changed; while
// they do not fit together, what was read last holds.
type trust struct {
	settings *Settings

	mu     sync.Mutex // guards what follows
	config *tls.Config
	seen   [3]os.FileInfo // nil: there is none
	looked time.Time
}

func newTrust(settings *Settings) (*trust, error) {
	t := &trust{settings: settings, looked: time.Now()}
	return t, t.read()
}

func (t *trust) current() *tls.Config {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.looked) >= tokenLook {
		t.looked = time.Now()
		_ = t.read() // one may be written at this moment
	}
	return t.config
}

func (t *trust) read() error {
	var seen [3]os.FileInfo
	same := t.config != nil
	for i, file := range []string{t.settings.CAFile, t.settings.CertFile, t.settings.KeyFile} {
		seen[i], _ = os.Stat(file)
		same = same && sameFile(seen[i], t.seen[i])
	}
	if same {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if t.settings.CAFile != "" {
		pem, err := os.ReadFile(t.settings.CAFile)
		if err != nil {
			return badSetting("ca_file: %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return badSetting("ca_file=%q has no certificate in PEM", shown(t.settings.CAFile, 200))
		}
	}
	if t.settings.CertFile != "" || t.settings.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(t.settings.CertFile, t.settings.KeyFile)
		if err != nil {
			return badSetting("cert_file=%q, key_file=%q: %v", shown(t.settings.CertFile, 200),
				shown(t.settings.KeyFile, 200), err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	t.config, t.seen = config, seen
	return nil
}
