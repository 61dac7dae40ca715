package headers

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/driver-container/driver-container/distros/confdir"
)

const maxLogins = 1000

// login is an entry of auth.conf: user and password for a server. It never occurs in a message.
type login struct {
	// scheme "": any scheme that is encrypted; port "": any.
	scheme, host, port, path string
	user, password           string
}

// logins reads etc/apt/auth.conf.d/*.conf and etc/apt/auth.conf; see apt_auth.conf(5).
func (f *fetcher) logins() []login {
	names, err := confdir.List(f.files, "etc/apt/auth.conf.d", ".conf")
	if err != nil {
		f.Log.Warn("logins in the folder are not used", "path", "etc/apt/auth.conf.d", "error", err)
	}
	var all []login
	for _, name := range append(names, "etc/apt/auth.conf") {
		text, err := confdir.Optional(f.files, name)
		if err != nil {
			f.Log.Warn("logins in the file are not used", "path", name, "error", err)
			continue
		}
		more, err := parseLogins(string(text))
		if err != nil {
			f.Log.Warn("the rest of the file is not used", "path", name, "error", err)
		}
		all = append(all, more...)
	}
	return all
}

// parseLogins parses the tokens of netrc: machine, login, password. Like apt it skips others.
// Errors quote nothing of the text, because a token that looks wrong may be a password.
func parseLogins(text string) ([]login, error) {
	var all []login
	words := strings.FieldsSeq(text)
	var want string
	for w := range words {
		switch {
		case want == "machine":
			l, err := machine(w)
			if err != nil {
				return all, fmt.Errorf("machine %d: %w", len(all)+1, err)
			}
			if len(all) == maxLogins {
				return all, fmt.Errorf("more than %d machines", maxLogins)
			}
			all = append(all, l)
		case want == "login" && len(all) > 0:
			all[len(all)-1].user = w
		case want == "password" && len(all) > 0:
			all[len(all)-1].password = w
		case w == "machine" || w == "login" || w == "password":
			want = w
			continue
		}
		want = ""
	}
	return all, nil
}

// machine parses [scheme://]host[:port][/path].
func machine(s string) (login, error) {
	text := s
	if !strings.Contains(text, "://") {
		text = "any://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return login{}, errors.New("want host, host:port or host/path after the word machine")
	}
	l := login{
		scheme: strings.ToLower(u.Scheme),
		host:   strings.ToLower(u.Hostname()),
		port:   u.Port(),
		path:   u.Path,
	}
	if l.scheme == "any" {
		l.scheme = ""
	}
	return l, nil
}

// find returns the first login for a URL.
func find(all []login, u *url.URL) (login, bool) {
	for _, l := range all {
		if l.scheme == u.Scheme || l.scheme == "" && u.Scheme == "https" {
			if l.host == strings.ToLower(u.Hostname()) && (l.port == "" || l.port == u.Port()) &&
				strings.HasPrefix(u.Path, l.path) {
				return l, true
			}
		}
	}
	return login{}, false
}

// transport adds logins to requests, for each request again: a redirect does not carry them to
// another server.
type transport struct {
	*http.Transport
	logins []login
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if l, ok := find(t.logins, r.URL); ok && r.URL.User == nil &&
		r.Header.Get("Authorization") == "" {
		r = r.Clone(r.Context())
		r.SetBasicAuth(l.user, l.password)
	}
	return t.Transport.RoundTrip(r)
}
