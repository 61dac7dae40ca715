package repoconf

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
)

// ErrSources says that the configuration of the sources cannot be understood or used.
var ErrSources = distros.ErrSources

// Source is one repository of the configuration. The zero values of its switches are dnf's defaults, except
// for GPGCheck and RepoGPGCheck: a source that checks neither, and has no Key, is refused when it is opened.
type Source struct {
	Origin     string   // file and line, "etc/yum.repos.d/rocky.repo:12"; for messages only
	ID, Name   string   // "baseos", and the name for users
	BaseURLs   []string // folders that hold repodata, all with the same content: http, https or file
	MirrorList string   // URL of a list of more such folders
	Metalink   string   // URL of such a list that also has the checksums of repomd.xml
	// Unused is a base URL that the file has as a comment, as many distributions put it beside their mirror
	// list. Only WithMirror uses it.
	Unused string

	GPGCheck     bool // packages must be signed by a key of the source
	RepoGPGCheck bool // repomd.xml must be signed by a key of the source; packages then need no signature
	// GPGKeys are URLs of keys. File URLs and absolute paths are read from the base, other URLs never. Empty:
	// all keys of the base.
	GPGKeys []string
	// Key holds armoured public keys. If it is set, only these keys and Options.Keyrings are trusted for this
	// source, and without GPGCheck and RepoGPGCheck it counts as GPGCheck.
	Key string

	SSL                SSL
	Proxy              string // URL; "": the proxy of the environment; "none": no proxy
	Username, Password string // for the source's hosts; never part of a URL or a message
	// Query is added to every URL, without its question mark. SUSE's update servers authenticate with it, so it
	// is a secret as well.
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
	NoVerify      bool   // accept any certificate of the server; only if signatures bind what it serves
}

// The values of a source that does not set its own, as dnf has them.
const (
	DefaultPriority = 99
	DefaultCost     = 1000
)

// sourceFolders are the folders in which sources are configured, in the order in which they are read.
var sourceFolders = []string{"etc/yum.repos.d", "etc/yum/repos.d", "etc/distro.repos.d", "etc/zypp/repos.d"}

const (
	redhatRepo    = "etc/yum.repos.d/redhat.repo"
	mountedRedhat = "run/secrets/redhat.repo"
)

// ReadSources reads the sources of a root file system: *.repo in the folders of yum, dnf and zypper, with the
// defaults of the main section of etc/dnf/dnf.conf or, if that does not exist, of etc/yum.conf, and that of
// etc/zypp/zypp.conf for zypper's. The sources of run/secrets/redhat.repo, which container runtimes mount for
// subscribed systems, replace those of the base's redhat.repo. Disabled sources and those on media are left
// out. It is not an error if there are no sources. Mistakes are ErrSources and name file and line. Variables
// are replaced; unknown ones stay as they are written.
func ReadSources(root fs.FS, v Vars) ([]Source, error) {
	all, err := readFolders(root, v)
	if err != nil {
		return nil, fmt.Errorf("read package sources: %w", err)
	}
	entitled, err := readEntitled(root, v)
	if err != nil {
		return nil, fmt.Errorf("read package sources: %w", err)
	}
	return merge(all, entitled), nil
}

func readFolders(root fs.FS, v Vars) ([]Source, error) {
	var all []Source
	for _, dir := range sourceFolders {
		files, err := ListFiles(root, dir)
		if err != nil {
			return nil, err
		}
		d, err := readDefaults(root, strings.HasPrefix(dir, "etc/zypp"))
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			if path.Ext(name) != ".repo" {
				continue
			}
			found, err := readRepoFile(root, path.Join(dir, name), d, v)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// readEntitled reads the sources of a subscription that are mounted into a container.
func readEntitled(root fs.FS, v Vars) ([]Source, error) {
	data, err := ReadOptional(root, mountedRedhat)
	if err != nil || len(strings.TrimSpace(string(data))) == 0 {
		return nil, err
	}
	d, err := readDefaults(root, false)
	if err != nil {
		return nil, err
	}
	return parseRepo(root, mountedRedhat, data, d, v)
}

// WithSubscription adds the sources of a subscription that are mounted into this machine, from its
// run/secrets/redhat.repo, to those of a base, like in containers of subscribed hosts. It does so only for
// bases that are RHEL: other systems cannot use them.
func WithSubscription(sources []Source, base, machine fs.FS, v Vars) ([]Source, error) {
	if rhel, err := isRHEL(base); err != nil || !rhel || machine == nil {
		return sources, err
	}
	entitled, err := readEntitled(machine, v)
	if err != nil {
		return nil, fmt.Errorf("read package sources of this machine: %w", err)
	}
	return merge(slices.Clone(sources), entitled), nil
}

// isRHEL reports whether a base, which may be nil, says that it is RHEL.
func isRHEL(base fs.FS) (bool, error) {
	if base == nil {
		return false, nil
	}
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		data, err := ReadOptional(base, name)
		if err != nil {
			return false, fmt.Errorf("read package sources: %w", err)
		}
		if id := osReleaseField(data, "ID"); id != "" {
			return id == "rhel", nil
		}
	}
	return false, nil
}

// merge replaces the base's sources from its own redhat.repo, and those with the same ids, by the sources of
// a subscription.
func merge(all, entitled []Source) []Source {
	if len(entitled) == 0 {
		return all
	}
	return append(slices.DeleteFunc(all, func(s Source) bool {
		return strings.HasPrefix(s.Origin, redhatRepo+":") || slices.ContainsFunc(entitled, func(e Source) bool { return e.ID == s.ID })
	}), entitled...)
}

func readRepoFile(root fs.FS, name string, d defaults, v Vars) ([]Source, error) {
	data, err := ReadOptional(root, name)
	if err != nil {
		return nil, err
	}
	return parseRepo(root, name, data, d, v)
}

// defaults are the values of a main section, which apply to all sources.
type defaults struct {
	values map[string]string
	zypp   bool
}

func readDefaults(root fs.FS, zypp bool) (defaults, error) {
	d := defaults{zypp: zypp, values: map[string]string{}}
	names := []string{"etc/dnf/dnf.conf", "etc/yum.conf"}
	if zypp {
		names = []string{"etc/zypp/zypp.conf"}
	}
	for _, name := range names {
		data, err := ReadOptional(root, name)
		if err != nil {
			return d, err
		}
		if data == nil {
			continue
		}
		sections, err := parseINI(name, data)
		if err != nil {
			return d, err
		}
		for _, s := range sections {
			if s.name == "main" {
				d.values = s.values
			}
		}
		break
	}
	return d, nil
}

// parseRepo reads the enabled sources of a .repo file.
func parseRepo(root fs.FS, name string, data []byte, d defaults, v Vars) ([]Source, error) {
	sections, err := parseINI(name, data)
	if err != nil {
		return nil, err
	}
	var out []Source
	for _, sec := range sections {
		if sec.name == "main" {
			continue
		}
		p := repoParser{section: sec, defaults: d, vars: v, where: fmt.Sprintf("%s:%d", name, sec.line)}
		s, enabled := p.source(root)
		if p.err != nil {
			return nil, p.err
		}
		if enabled && (len(s.BaseURLs) > 0 || s.MirrorList != "" || s.Metalink != "") {
			out = append(out, s)
		}
	}
	return out, nil
}

// Check returns an error that says what makes a source unusable.
func (s *Source) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: source %s: %w: %s", cmp.Or(s.Origin, "options"), s.ID, ErrSources, fmt.Sprintf(format, args...))
	}
	if s.ID == "" {
		return bad("it has no id")
	}
	if len(s.BaseURLs) == 0 && s.MirrorList == "" && s.Metalink == "" {
		return bad("none of baseurl, mirrorlist and metalink is there")
	}
	for _, list := range [][]string{s.BaseURLs, {s.MirrorList, s.Metalink}} {
		for _, raw := range list {
			if raw == "" {
				continue
			}
			// A $ in the query goes to the server unchanged, as with dnf: EPEL's metalink on RHEL has one.
			address, _, _ := strings.Cut(raw, "?")
			if i := strings.IndexByte(address, '$'); i >= 0 {
				return bad("nothing says what %s stands for; put it into etc/dnf/vars or etc/yum/vars, or into the matrix", firstVar(raw[i:]))
			}
			u, err := url.Parse(raw)
			if err != nil || !slices.Contains([]string{"http", "https", "file"}, u.Scheme) || u.Scheme == "file" && !strings.HasPrefix(u.Path, "/") || u.Scheme != "file" && u.Host == "" {
				return bad("%s is not a URL of http, https or file", distros.HideSecrets(raw))
			}
		}
	}
	if !s.GPGCheck && !s.RepoGPGCheck && s.Key == "" && slices.ContainsFunc(slices.Concat(s.BaseURLs, []string{s.MirrorList, s.Metalink}), IsRemote) {
		return bad("nothing vouches for what it serves: gpgcheck and repo_gpgcheck are both off; set gpgcheck=1 and gpgkey in its file, or give its key in the matrix")
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
