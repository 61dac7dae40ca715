package apt

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
)

// WithMirror returns the sources with their URIs replaced by a mirror's. Suites and components
// stay. A URL without a prefix and without a path replaces the host of a URI and keeps the path. If
// its last path element is that of one of the sources, it stands for the folder that has the
// archives: .../debian also means .../debian-security. Else it is the only place for everything. If
// the mirror matches no source, the error is distros.ErrSources.
func WithMirror(sources []Source, m distros.Mirror) ([]Source, error) {
	out := slices.Clone(sources)
	var uris []*string
	family := false // of archives below one folder
	place := pathOf(m.Bare)
	for i := range out {
		out[i].URIs = slices.Clone(out[i].URIs)
		for j, uri := range out[i].URIs {
			uris = append(uris, &out[i].URIs[j])
			archive := pathOf(uri)
			family = family || archive != "" && path.Base(archive) == path.Base(place)
		}
	}
	err := m.ReplaceAll(uris, func(uri string) string {
		switch {
		case place == "":
			return m.Bare + pathOf(uri)
		case family:
			return m.Bare[:strings.LastIndex(m.Bare, "/")+1] + path.Base(pathOf(uri))
		}
		return m.Bare
	})
	return out, err
}

// pathOf returns the path of a URL without a trailing slash; "" if there is none.
func pathOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	return strings.TrimRight(u.EscapedPath(), "/")
}
