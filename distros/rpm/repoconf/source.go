package repoconf

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ErrSources says that the configuration of the sources cannot be understood or used.
var ErrSources = errors.New("bad package sources")

// Source is one repository of the configuration. The zero values of its switches are those of dnf, but for GPGCheck and
// RepoGPGCheck: a source that checks neither, and has no Key, is refused when it is opened.
type Source struct {
	Origin     string   // where it was written, "etc/yum.repos.d/rocky.repo:12"; for messages only
	ID, Name   string   // "baseos", and what it is called for people
	BaseURLs   []string // folders that hold repodata, each the same: http, https or file
	MirrorList string   // URL of a list of more such folders
	Metalink   string   // URL of such a list that also says what repomd.xml must be
	// Unused is a base URL that stands in the file as a comment, as many distributions have it beside their mirror list. Only
	// WithMirror uses it.
	Unused string

	GPGCheck     bool     // packages must be signed by a key of the source
	RepoGPGCheck bool     // repomd.xml must be signed by a key of the source; then packages need not be
	GPGKeys      []string // URLs of keys: file URLs and absolute paths are read from the base, all others never; empty: all keys of the base
	Key          string   // armoured public keys; if set, they and Options.Keyrings are all that is trusted for this source; without GPGCheck and RepoGPGCheck it counts as GPGCheck

	SSL                SSL
	Proxy              string // URL; "": that of the environment; "none": no proxy
	Username, Password string // for the source's hosts; never part of a URL or a message
	Query              string // added to every URL, without its question mark: SUSE's update servers authenticate so; a secret as well

	Priority        int // the lower number wins; 0: 99
	Cost            int // among the same package of sources of one priority; 0: 1000
	Exclude         []string
	Include         []string // if not empty, only these packages are to be had
	ModuleHotfixes  bool     // modules do not hide its packages
	SkipUnavailable bool     // leave it out, with a note, when it cannot be reached
}

// SSL is how a source is talked to over https. Paths are absolute, in the base or on the machine: see Options.Machine.
type SSL struct {
	CA, Cert, Key string // PEM; "": the machine's certificates, no client certificate
	NoVerify      bool   // any certificate of the server will do; only where signatures bind what it serves
}

const (
	DefaultPriority = 99
	DefaultCost     = 1000
)

// sourceFolders are where sources are configured, in the order in which they are read.
var sourceFolders = []string{"etc/yum.repos.d", "etc/yum/repos.d", "etc/distro.repos.d", "etc/zypp/repos.d"}

const (
	redhatRepo    = "etc/yum.repos.d/redhat.repo"
	mountedRedhat = "run/secrets/redhat.repo"
)

// ReadSources reads the sources of a root file system: *.repo in the folders of yum, dnf and zypper, with the defaults of the
// main sections of etc/yum.conf or, if it exists, etc/dnf/dnf.conf, and those of etc/zypp/zypp.conf for zypper's. What
// run/secrets/redhat.repo holds, which container runtimes mount for subscribed systems, replaces redhat.repo of the base.
// Disabled sources and those on media are left out. None at all is not an error. Mistakes are ErrSources and name file and
// line. Variables are replaced; those that do not exist stay as they are.
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

// WithSubscription adds the sources of a subscription that are mounted into this machine, run/secrets/redhat.repo of it, to
// those of a base, as containers of subscribed hosts have them. Only for RHEL's own bases: others have no use for them.
func WithSubscription(sources []Source, base, machine fs.FS, v Vars) ([]Source, error) {
	if base == nil || machine == nil {
		return sources, nil
	}
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		data, err := ReadOptional(base, name)
		if err != nil {
			return nil, fmt.Errorf("read package sources: %w", err)
		}
		switch osReleaseField(data, "ID") {
		case "":
			continue
		case "rhel":
			entitled, err := readEntitled(machine, v)
			if err != nil {
				return nil, fmt.Errorf("read package sources of this machine: %w", err)
			}
			return merge(slices.Clone(sources), entitled), nil
		}
		return sources, nil
	}
	return sources, nil
}

// merge lets the sources of a subscription take the place of those the base has of it, and of those of the same id.
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

// defaults are what main sections say for all sources.
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

// Check finds what makes a source unusable.
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
			// Behind the question mark they go to the server as they are, as with dnf: EPEL's metalink on RHEL has such.
			place, _, _ := strings.Cut(raw, "?")
			if i := strings.IndexByte(place, '$'); i >= 0 {
				return bad("nothing says what %s stands for; put it into etc/dnf/vars or etc/yum/vars, or into the matrix", firstVar(raw[i:]))
			}
			u, err := url.Parse(raw)
			if err != nil || !slices.Contains([]string{"http", "https", "file"}, u.Scheme) || u.Scheme == "file" && !strings.HasPrefix(u.Path, "/") || u.Scheme != "file" && u.Host == "" {
				return bad("%s is not a URL of http, https or file", HideSecrets(raw))
			}
		}
	}
	if !s.GPGCheck && !s.RepoGPGCheck && s.Key == "" && slices.ContainsFunc(slices.Concat(s.BaseURLs, []string{s.MirrorList, s.Metalink}), IsRemote) {
		return bad("nothing vouches for what it serves: gpgcheck and repo_gpgcheck are both off; set gpgcheck=1 and gpgkey in its file, or give its key in the matrix")
	}
	return nil
}

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

// HideSecrets is a URL without user, password and query, for messages.
func HideSecrets(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return strconv.Quote(path.Base(raw))
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
