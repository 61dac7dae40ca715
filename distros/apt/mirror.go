package apt

import (
	"fmt"
	"net/url"
	"path"
	"strings"
)

// WithMirror returns the sources with their URIs replaced by a mirror's. Suites and components stay. The
// mirror is one or more words, separated by spaces or commas:
//
//	PREFIX=URL  URIs that begin with PREFIX (host, host/path or a whole URI) get URL instead of it; the
//	            longest PREFIX wins
//	URL         for all other URIs: without a path it replaces their host and keeps their path. If its last
//	            path element is that of one of the sources, it stands for the folder that has the archives:
//	            .../debian also means .../debian-security. Else it is the only place for everything.
//
// If the mirror matches no source, the error is ErrSources.
func WithMirror(sources []Source, mirror string) ([]Source, error) {
	words := strings.FieldsFunc(mirror, func(r rune) bool { return strings.ContainsRune(", \t\n", r) })
	if len(words) == 0 {
		return sources, nil
	}
	var bare string
	prefixes := map[string]string{}
	for _, w := range words {
		from, to, pair := strings.Cut(w, "=")
		if strings.Contains(from, "?") || !pair { // the = of a query does not separate
			from, to = "", w
		}
		if u, err := url.Parse(to); err != nil || u.Scheme == "" {
			return nil, fmt.Errorf("mirror %q: %w: want URL or PREFIX=URL", w, ErrSources)
		}
		if from != "" {
			prefixes[strings.TrimSuffix(from, "/")] = strings.TrimSuffix(to, "/")
		} else if bare != "" {
			return nil, fmt.Errorf("mirror %q: %w: two URLs without a prefix; want HOST/PATH=URL for all but one", mirror, ErrSources)
		} else {
			bare = strings.TrimSuffix(to, "/")
		}
	}
	family := lastElements(sources)[path.Base(pathOf(bare))]
	out := make([]Source, len(sources))
	hits := 0
	for i, s := range sources {
		uris := make([]string, len(s.URIs))
		for j, uri := range s.URIs {
			uris[j] = replaceURI(uri, prefixes, bare, family)
			if uris[j] != uri || bare != "" {
				hits++
			}
		}
		s.URIs = uris
		out[i] = s
	}
	if hits == 0 && len(sources) > 0 {
		return nil, fmt.Errorf("mirror %q: %w: none of the sources begins with it; they are %s", mirror, ErrSources, uriList(sources))
	}
	return out, nil
}

func replaceURI(uri string, prefixes map[string]string, bare string, family bool) string {
	best := ""
	for p := range prefixes {
		if hasPrefix(uri, p) && len(p) > len(best) {
			best = p
		}
	}
	switch {
	case best != "":
		at := strings.Index(uri, best) + len(best)
		return prefixes[best] + uri[at:]
	case bare == "":
		return uri
	case pathOf(bare) == "":
		return bare + pathOf(uri)
	case family:
		return bare[:strings.LastIndex(bare, "/")+1] + path.Base(pathOf(uri))
	}
	return bare
}

// hasPrefix compares with and without the scheme, and only up to the end of a path element.
func hasPrefix(uri, prefix string) bool {
	if _, after, ok := strings.Cut(uri, "://"); ok && !strings.Contains(prefix, "://") {
		uri = after
	}
	rest, ok := strings.CutPrefix(uri, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

func lastElements(sources []Source) map[string]bool {
	out := map[string]bool{}
	for _, s := range sources {
		for _, uri := range s.URIs {
			if p := pathOf(uri); p != "" {
				out[path.Base(p)] = true
			}
		}
	}
	return out
}

// pathOf returns the path of a URL without a trailing slash; "" if there is none.
func pathOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	return strings.TrimRight(u.EscapedPath(), "/")
}

func uriList(sources []Source) string {
	var all []string
	for _, s := range sources {
		all = append(all, s.URIs...)
	}
	return strings.Join(all, ", ")
}
