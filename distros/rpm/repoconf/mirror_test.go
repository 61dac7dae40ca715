package repoconf

import (
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros"
)

func TestWithMirror(t *testing.T) {
	t.Parallel()
	sources := []Source{
		{ID: "a", BaseURLs: []string{"https://dl.example.com/pub/rocky/9/BaseOS/x86_64/os"}},
		{ID: "b", MirrorList: "https://mirrors.example.com/mirrorlist?repo=AppStream-9", Unused: "http://dl.example.com/pub/rocky/9/AppStream/x86_64/os"},
		{ID: "c", MirrorList: "https://cdn.example.com/al2023/mirror.list"},
		{ID: "d", BaseURLs: []string{"file:///srv/repo"}},
	}
	for mirror, want := range map[string][]string{
		"":                        {"https://dl.example.com/pub/rocky/9/BaseOS/x86_64/os", "https://mirrors.example.com/mirrorlist?repo=AppStream-9", "https://cdn.example.com/al2023/mirror.list", "file:///srv/repo"},
		"http://m.example":        {"http://m.example/pub/rocky/9/BaseOS/x86_64/os", "http://m.example/pub/rocky/9/AppStream/x86_64/os", "http://m.example/al2023/mirror.list", "file:///srv/repo"},
		"http://m.example/rocky/": {"http://m.example/rocky/9/BaseOS/x86_64/os", "http://m.example/rocky/9/AppStream/x86_64/os", "http://m.example/rocky/al2023/mirror.list", "file:///srv/repo"},
		"dl.example.com/pub=https://u:p@m.example/x, https://cdn.example.com=http://n.example": {
			"https://u:p@m.example/x/rocky/9/BaseOS/x86_64/os", "https://u:p@m.example/x/rocky/9/AppStream/x86_64/os", "http://n.example/al2023/mirror.list", "file:///srv/repo",
		},
		"nowhere=http://m": nil, "http://a http://b": nil, "x": nil,
	} {
		got, err := mirrored(sources, mirror)
		if want == nil {
			assert.ErrorIsf(t, err, distros.ErrSources, "WithMirror(%q)", mirror)
			continue
		}
		var urls []string
		for _, s := range got {
			urls = append(urls, strings.Join(append(s.BaseURLs, s.MirrorList), ""))
		}
		if err != nil || !slices.Equal(urls, want) {
			t.Errorf("WithMirror(%q) = %q, %v; want %q", mirror, urls, err, want)
		}
	}
	assert.Equalf(t, "https://dl.example.com/pub/rocky/9/BaseOS/x86_64/os", sources[0].BaseURLs[0], "WithMirror changed its input")
}

func mirrored(sources []Source, mirror string) ([]Source, error) {
	m, err := distros.ParseMirror(mirror)
	if err != nil {
		return nil, err
	}
	return WithMirror(sources, m)
}

// TestMirrorSecrets checks that no message contains credentials.
func TestMirrorSecrets(t *testing.T) {
	t.Parallel()
	sources := []Source{{ID: "a", BaseURLs: []string{"https://x.example.com/os"}, Unused: "https://u:secret@y.example.com/os?token=secret"}, {ID: "b", Unused: "https://u:secret@y.example.com/"}}
	_, err := mirrored(sources, "z.example.com/os=https://me:secret@mirror.example.com/?secret")
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "z.example.com/os=https://mirror.example.com/") {
		t.Error(err)
	}
}
