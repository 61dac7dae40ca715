package repoconf

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/confdir"
)

// repoParser makes a Source from a section. Its first error stays in err.
type repoParser struct {
	section
	defaults defaults
	vars     Vars
	where    string
	err      error
}

func (p *repoParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = distros.BadSources(
			"%s: source %s: %s",
			p.where,
			p.name,
			fmt.Sprintf(format, args...),
		)
	}
}

// get returns the value of the section, otherwise that of the main section, with its variables
// replaced.
func (p *repoParser) get(keys ...string) string {
	for _, from := range []map[string]string{p.values, p.defaults.values} {
		for _, key := range keys {
			if v, ok := from[key]; ok {
				return p.vars.Expand(v)
			}
		}
	}
	return ""
}

func (p *repoParser) truth(key string, otherwise bool) bool {
	text := strings.TrimSpace(p.get(key))
	if text == "" {
		return otherwise
	}
	v, ok := truth(text)
	if !ok {
		p.fail("%s=%.40q is neither yes nor no", key, text)
	}
	return v
}

// number reads a number of the section itself, not of the main section.
func (p *repoParser) number(key string) int {
	text := strings.TrimSpace(p.values[key])
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		p.fail("%s=%.40q is not a number", key, text)
	}
	return n
}

func (p *repoParser) source(root fs.FS) Source {
	s := Source{
		Origin: p.where, ID: p.vars.Expand(p.name), Name: p.vars.Expand(p.values["name"]),
		MirrorList: strings.TrimSpace(
			p.vars.Expand(p.values["mirrorlist"]),
		), Metalink: strings.TrimSpace(p.vars.Expand(p.values["metalink"])),
		GPGKeys: distros.SplitList(p.vars.Expand(p.values["gpgkey"])),
		SSL: SSL{
			CA:       p.get("sslcacert"),
			Cert:     p.get("sslclientcert"),
			Key:      p.get("sslclientkey"),
			NoVerify: !p.truth("sslverify", true),
		},
		Username: p.get("username"), Password: p.get("password"),
		Priority: p.number("priority"), Cost: p.number("cost"),
		Exclude: append(
			distros.SplitList(p.vars.Expand(p.values["excludepkgs"])),
			distros.SplitList(p.vars.Expand(p.values["exclude"]))...),
		Include: distros.SplitList(
			p.get("includepkgs"),
		), ModuleHotfixes: p.truth("module_hotfixes", false),
		SkipUnavailable: p.truth("skip_if_unavailable", false),
	}
	// those of the main section count as well
	for _, key := range []string{"excludepkgs", "exclude"} {
		s.Exclude = append(s.Exclude, distros.SplitList(p.defaults.values[key])...)
	}
	if urls := distros.SplitList(p.vars.Expand(p.comment["baseurl"])); len(urls) > 0 &&
		len(p.values["baseurl"]) == 0 {
		s.Unused = strings.TrimRight(urls[0], "/")
	}
	p.checks(&s)
	p.proxy(&s)
	for _, raw := range distros.SplitList(p.vars.Expand(p.values["baseurl"])) {
		p.baseURL(root, &s, raw)
	}
	s.SeparateSecrets()
	return s
}

// checks sets what must be signed. Zypper's gpgcheck, which is on by default, concerns repomd.xml:
// the digests in it then bind the packages.
func (p *repoParser) checks(s *Source) {
	if !p.defaults.zypp {
		s.GPGCheck = p.truth("gpgcheck", false)
		s.RepoGPGCheck = p.truth("repo_gpgcheck", false)
		return
	}
	check := p.truth("gpgcheck", true)
	s.RepoGPGCheck = p.truth("repo_gpgcheck", check)
	s.GPGCheck = p.truth("pkg_gpgcheck", check && !s.RepoGPGCheck)
}

func (p *repoParser) proxy(s *Source) {
	text := strings.TrimSpace(p.get("proxy"))
	switch strings.ToLower(text) {
	case "":
		return
	case "_none_", "none":
		s.Proxy = "none"
		return
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		p.fail("proxy is not a URL")
		return
	}
	if user := p.get("proxy_username"); user != "" && u.User == nil {
		u.User = url.UserPassword(user, p.get("proxy_password"))
	}
	s.Proxy = u.String()
}

// baseURL adds a folder to the source.
func (p *repoParser) baseURL(root fs.FS, s *Source, raw string) {
	scheme, rest, _ := strings.Cut(raw, ":")
	switch scheme {
	case "cd", "dvd", "hd", "iso", "cdrom", "media":
		return // media do not exist in containers
	case "dir":
		raw = "file:" + rest
	}
	u, err := url.Parse(raw)
	if err != nil {
		p.fail("a baseurl is not a URL")
		return
	}
	var query []string
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		if name, ok := strings.CutPrefix(part, "credentials="); ok {
			p.credentials(root, s, name)
		} else if part != "" {
			query = append(query, part)
		}
	}
	u.RawQuery = strings.Join(query, "&")
	if sub := strings.Trim(p.values["path"], "/"); p.defaults.zypp && sub != "" {
		u = u.JoinPath(sub)
	}
	s.BaseURLs = append(s.BaseURLs, strings.TrimRight(u.String(), "/"))
}

// SeparateSecrets moves the credentials out of the base URLs, so that no URL of a package ever
// holds a secret.
func (s *Source) SeparateSecrets() {
	login := func(u *url.URL) {
		if u.User != nil {
			s.Username = u.User.Username()
			s.Password, _ = u.User.Password()
			u.User = nil
		}
	}
	// the query of a list selects its content and stays
	for _, list := range []*string{&s.MirrorList, &s.Metalink} {
		u, err := url.Parse(*list)
		if err != nil {
			continue // Check refuses it
		}
		login(u)
		*list = u.String()
	}
	s.BaseURLs = slices.Clone(s.BaseURLs)
	for i, raw := range s.BaseURLs {
		u, err := url.Parse(raw)
		if err != nil {
			continue // Check refuses it
		}
		login(u)
		s.Query = cmp.Or(u.RawQuery, s.Query)
		u.RawQuery = ""
		u.ForceQuery = false
		u.Fragment = ""
		s.BaseURLs[i] = strings.TrimRight(u.String(), "/")
	}
}

// credentials reads the file in which zypper stores a user and a password.
func (p *repoParser) credentials(root fs.FS, s *Source, name string) {
	if !fs.ValidPath(name) || path.Base(name) != name || name == "." {
		p.fail("credentials=%.40q is not the name of a file", name)
		return
	}
	data, err := confdir.Optional(root, path.Join("etc/zypp/credentials.d", name))
	if err != nil {
		p.fail("credentials %s: %v", name, err)
		return
	}
	for line := range strings.Lines(string(data)) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); strings.TrimSpace(key) {
		case "username":
			s.Username = strings.TrimSpace(value)
		case "password":
			s.Password = strings.TrimSpace(value)
		}
	}
}
