package leafd

import (
	"fmt"
	"strings"
	"unicode"
)

// Codes of this library; others are the server's (docs/http-api.md).
const (
	CodeBadSetting    = "bad_setting"    // a setting, tag, count or key breaks its rule; nothing was sent
	CodeUnreachable   = "unreachable"    // no node answered by the deadline
	CodeOtherCluster  = "other_cluster"  // the nodes are of another cluster than the client's
	CodeUntrusted     = "untrusted"      // no node's certificate is trusted (ca_file)
	CodeBadAnswer     = "bad_answer"     // what came is no answer of leafd
	CodeWindowOver    = "window_over"    // no time of the worker id's window could be used by the deadline
	CodeFenced        = "fenced"         // another client holds the worker id; the next call takes another
	CodeLayoutUnknown = "layout_unknown" // no node knows the layout of the cluster's ids
	CodeClosed        = "closed"         // the client, or the source, was closed
	CodeCanceled      = "canceled"       // the caller's context was cancelled
)

// Of the server.
const (
	codeExhausted = "exhausted" // fewer ids than that are left below the tag's max
	codePaused    = "paused"    // by an operator
	codeStepped   = "stepped"   // they do not follow each other: ask with stepped=1
)

const (
	codeMost    = 64   // bytes of a server's code that are shown
	messageMost = 1024 // and of a message
)

// Error is what every function of this package returns when it fails.
type Error struct {
	Code      string // for programs: the server's, or one of those above
	Status    int    // of HTTP; 0: no server answered
	Message   string // for people; never has the token
	Retryable bool   // whether it would make sense to come again
	Cause     error  // such as context.Canceled; may be nil
	Key       string // of a strict call, and one of texts, that had one: under which to come again
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("leafd: %s (%d): %s", e.Code, e.Status, e.Message)
	}
	return fmt.Sprintf("leafd: %s: %s", e.Code, e.Message)
}

// Unwrap gives the cause to errors.Is.
func (e *Error) Unwrap() error { return e.Cause }

func failure(code string, retryable bool, format string, args ...any) *Error {
	return &Error{Code: code, Retryable: retryable, Message: fmt.Sprintf(format, args...)}
}

func badSetting(format string, args ...any) *Error {
	return failure(CodeBadSetting, false, format, args...)
}

func badAnswer(status int, format string, args ...any) *Error {
	e := failure(CodeBadAnswer, false, format, args...)
	e.Status = status
	return e
}

// keyed is the error of a call that had this key.
func (e *Error) keyed(key string) *Error {
	with := *e
	with.Key = key
	return &with
}

// shown makes bytes from outside fit for a message: of one line, printable, not too long.
func shown(text string, most int) string {
	cut := ""
	if len(text) > most {
		text, cut = text[:most], "..."
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text) + cut
}
