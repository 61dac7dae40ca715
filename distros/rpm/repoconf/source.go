package repoconf

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/redact"
)

// Source is one repository of the configuration. The zero values of its switches are dnf's
// defaults, except for GPGCheck and RepoGPGCheck: a source that checks neither, and has no Key, is
// refused when it is opened.
type Source struct {
	Origin   string // file and line, "etc/yum.repos.d/rocky.repo:12"; for messages only
	ID, Name string // "baseos", and the name for users
	// folders that hold repodata, all with the same content: http, https or file
	BaseURLs   []string
	MirrorList string // URL of a list of more such folders
	Metalink   string // URL of such a list that also has the checksums of repomd.xml
	// Unused is a base URL that the file has as a comment, as many distributions put it beside
	// their mirror list. Only WithMirror uses it.
	Unused string

	GPGCheck bool // packages must be signed by a key of the source
	// repomd.xml must be signed by a key of the source; packages then need no signature
	RepoGPGCheck bool
	// GPGKeys are URLs of keys. File URLs and absolute paths are read from the base, other URLs
	// never. Empty: all keys of the base.
	GPGKeys []string
	// Key holds armoured public keys. If it is set, only these keys and Options.Keyrings are
	// trusted for this source, and without GPGCheck and RepoGPGCheck it counts as GPGCheck.
	Key string

	SSL                SSL
	Proxy              string // URL; "": the proxy of the environment; "none": no proxy
	Username, Password string // for the source's hosts; never part of a URL or a message
	// Query is added to every URL, without its question mark. SUSE's update servers authenticate
	// with it, so it is a secret as well.
	Query string

	Priority        int // the lower number wins; 0: 99
	Cost            int // decides for the same package in sources of one priority; 0: 1000
	Exclude         []string
	Include         []string // if not empty, only these packages are available
	ModuleHotfixes  bool     // modules do not hide its packages
	SkipUnavailable bool     // leave the source out, with a note, if it cannot be reached
}

// SSL holds the TLS settings of a source. Paths are absolute, in the base or on the machine: see
// Options.Machine.
type SSL struct {
	CA, Cert, Key string // PEM; "": the machine's certificates, no client certificate
	// accept any certificate of the server; only if signatures bind what it serves
	NoVerify bool
}

// The values of a source that does not set its own, as dnf has them.
const (
	DefaultPriority = 99
	DefaultCost     = 1000
)

// Check returns an error that says what makes a source unusable.
func (s *Source) Check() error {
	bad := func(format string, args ...any) error {
		return distros.BadSources(
			"%s: source %s: %s",
			cmp.Or(s.Origin, "options"),
			s.ID,
			fmt.Sprintf(format, args...),
		)
	}
	if s.ID == "" {
		return bad("it has no id")
	}
	all := slices.DeleteFunc(
		slices.Concat(s.BaseURLs, []string{s.MirrorList, s.Metalink}),
		func(raw string) bool { return raw == "" },
	)
	if len(all) == 0 {
		return bad("none of baseurl, mirrorlist and metalink is there")
	}
	for _, raw := range all {
		// A $ in the query goes to the server unchanged, as with dnf: EPEL's metalink on RHEL has
		// one.
		address, _, _ := strings.Cut(raw, "?")
		if i := strings.IndexByte(address, '$'); i >= 0 {
			return bad(
				"nothing says what %s stands for; put it into etc/dnf/vars or etc/yum/vars, or into the matrix",
				firstVar(raw[i:]),
			)
		}
		u, err := url.Parse(raw)
		if err != nil || !slices.Contains([]string{"http", "https", "file"}, u.Scheme) ||
			u.Scheme == "file" && !strings.HasPrefix(u.Path, "/") ||
			u.Scheme != "file" && u.Host == "" {
			return bad("%s is not a URL of http, https or file", redact.URL(raw))
		}
	}
	if !s.GPGCheck && !s.RepoGPGCheck && s.Key == "" && slices.ContainsFunc(all, IsRemote) {
		return bad(
			"nothing vouches for what it serves: gpgcheck and repo_gpgcheck are both off; set gpgcheck=1 and gpgkey in its file, or give its key in the matrix",
		)
	}
	return nil
}

// IsRemote reports whether a URL is one of http or https.
func IsRemote(raw string) bool {
	return strings.HasPrefix(raw, "http:") || strings.HasPrefix(raw, "https:")
}

func firstVar(text string) string {
	n := 1
	for n < len(text) && (validVar(text[n:n+1]) || n == 1 && text[n] == '{') {
		n++
	}
	return text[:n]
}
