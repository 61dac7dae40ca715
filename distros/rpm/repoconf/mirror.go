package repoconf

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
)

// WithMirror returns the sources with their URLs replaced by a mirror's.
//
// For a source with a mirror list or a metalink, the mirror applies to the base URL that stands as
// a comment beside it, as in the files of most distributions, and that base URL is used instead of
// the list. If there is none, the URL of the list is replaced, and so are the URLs in the list. A
// mirror that matches no source is distros.ErrSources.
func WithMirror(sources []Source, m distros.Mirror) ([]Source, error) {
	out := slices.Clone(sources)
	var addresses []*string
	for i := range out {
		s := &out[i]
		s.BaseURLs = slices.Clone(s.BaseURLs)
		moved, _ := m.Replace(s.Unused, Rebase(m))
		if len(s.BaseURLs) == 0 && moved != s.Unused {
			s.BaseURLs = []string{s.Unused}
			s.MirrorList = ""
			s.Metalink = ""
		}
		addresses = append(addresses, &s.MirrorList, &s.Metalink)
		for j := range s.BaseURLs {
			addresses = append(addresses, &s.BaseURLs[j])
		}
	}
	return out, m.ReplaceAll(addresses, Rebase(m))
}

// Rebase returns how a mirror's URL without a prefix replaces others, except file URLs: it replaces
// their host and keeps their path. If its last path element occurs in their path, it replaces
// everything up to there: .../rocky for https://host/pub/rocky/9/BaseOS/x86_64/os.
func Rebase(m distros.Mirror) func(string) string {
	return func(uri string) string {
		u, err := url.Parse(uri)
		if err != nil || !IsRemote(uri) || distros.HasURLPrefix(uri, m.Bare) {
			return uri
		}
		rest := u.EscapedPath()
		if b, err := url.Parse(m.Bare); err == nil && strings.Trim(b.Path, "/") != "" {
			if _, after, ok := strings.Cut(rest+"/", "/"+path.Base(b.EscapedPath())+"/"); ok {
				rest = "/" + strings.TrimSuffix(after, "/")
			}
		}
		to := m.Bare + strings.TrimSuffix(rest, "/")
		if u.RawQuery != "" {
			to += "?" + u.RawQuery
		}
		return to
	}
}
