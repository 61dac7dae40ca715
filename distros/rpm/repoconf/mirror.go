package repoconf

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
)

// WithMirror returns the sources with their URLs replaced by a mirror's. The mirror is one or more words
// separated by spaces or commas:
//
//	PREFIX=URL  replaces PREFIX (host, host/path or a whole URL) in URLs that begin with it; the longest
//	            PREFIX wins
//	URL         for all other URLs except file URLs: it replaces their host and keeps their path. If its
//	            last path element occurs in their path, it replaces everything up to there:
//	            .../rocky for https://host/pub/rocky/9/BaseOS/x86_64/os.
//
// For a source with a mirror list or a metalink, the mirror applies to the base URL that stands as a comment
// beside it, as in the files of most distributions, and that base URL is used instead of the list. If there
// is none, the URL of the list is replaced, and so are the URLs in the list. A mirror that matches no source
// is ErrSources.
func WithMirror(sources []Source, mirror string) ([]Source, error) {
	m, err := ParseMirror(mirror)
	if err != nil || m.empty() {
		return sources, err
	}
	out := slices.Clone(sources)
	hits := 0
	var all []string
	for i := range out {
		s := &out[i]
		for _, u := range s.BaseURLs {
			all = append(all, HideSecrets(u))
		}
		if len(s.BaseURLs) == 0 && s.Unused != "" {
			if u := m.Replace(s.Unused); u != s.Unused {
				s.BaseURLs, s.MirrorList, s.Metalink = []string{u}, "", ""
				hits++
				continue
			}
			all = append(all, HideSecrets(s.Unused))
		}
		s.BaseURLs = slices.Clone(s.BaseURLs)
		for j := range s.BaseURLs {
			hits += m.apply(&s.BaseURLs[j])
		}
		hits += m.apply(&s.MirrorList) + m.apply(&s.Metalink)
	}
	if hits == 0 && len(sources) > 0 {
		return nil, fmt.Errorf("mirror %q: %w: none of the sources begins with it; they are %s", m.public(), ErrSources, strings.Join(all, ", "))
	}
	return out, nil
}

// MirrorRules are the parsed words of a mirror.
type MirrorRules struct {
	bare     string
	prefixes map[string]string
}

// ParseMirror parses the words of a mirror. Mistakes are ErrSources.
func ParseMirror(mirror string) (m MirrorRules, err error) {
	m.prefixes = map[string]string{}
	for _, w := range words(mirror) {
		from, to, pair := strings.Cut(w, "=")
		if strings.Contains(from, "?") || !pair { // a = in a query separates nothing
			from, to = "", w
		}
		if u, err := url.Parse(to); err != nil || u.Scheme == "" {
			return m, fmt.Errorf("mirror %q: %w: want URL or PREFIX=URL", HideSecrets(to), ErrSources)
		}
		switch to = strings.TrimSuffix(to, "/"); {
		case from != "":
			m.prefixes[strings.TrimSuffix(from, "/")] = to
		case m.bare != "":
			return m, fmt.Errorf("mirror %q: %w: two URLs without a prefix; want HOST/PATH=URL for all but one", HideSecrets(to), ErrSources)
		default:
			m.bare = to
		}
	}
	return m, nil
}

// public returns the mirror without credentials, for messages.
func (m MirrorRules) public() string {
	var all []string
	for _, from := range slices.Sorted(maps.Keys(m.prefixes)) {
		all = append(all, from+"="+HideSecrets(m.prefixes[from]))
	}
	if m.bare != "" {
		all = append(all, HideSecrets(m.bare))
	}
	return strings.Join(all, " ")
}

func (m MirrorRules) empty() bool { return m.bare == "" && len(m.prefixes) == 0 }

// apply replaces a URL and returns 1 if a rule applies to it, otherwise 0.
func (m MirrorRules) apply(uri *string) int {
	was := *uri
	if was == "" {
		return 0
	}
	if *uri = m.Replace(was); *uri != was || m.bare != "" {
		return 1
	}
	return 0
}

// Replace returns the URL at which the mirror serves uri; uri itself if no rule applies.
func (m MirrorRules) Replace(uri string) string {
	best := ""
	for p := range m.prefixes {
		if HasURLPrefix(uri, p) && len(p) > len(best) {
			best = p
		}
	}
	if best != "" {
		return m.prefixes[best] + uri[strings.Index(uri, best)+len(best):]
	}
	u, err := url.Parse(uri)
	if m.bare == "" || err != nil || !IsRemote(uri) || HasURLPrefix(uri, m.bare) {
		return uri
	}
	rest := u.EscapedPath()
	if b, err := url.Parse(m.bare); err == nil && strings.Trim(b.Path, "/") != "" {
		if _, after, ok := strings.Cut(rest+"/", "/"+path.Base(b.EscapedPath())+"/"); ok {
			rest = "/" + strings.TrimSuffix(after, "/")
		}
	}
	to := m.bare + strings.TrimSuffix(rest, "/")
	if u.RawQuery != "" {
		to += "?" + u.RawQuery
	}
	return to
}

// HasURLPrefix reports whether uri begins with prefix, which may lack the scheme and must end with a path
// element.
func HasURLPrefix(uri, prefix string) bool {
	if _, after, ok := strings.Cut(uri, "://"); ok && !strings.Contains(prefix, "://") {
		uri = after
	}
	rest, ok := strings.CutPrefix(uri, prefix)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '?')
}
