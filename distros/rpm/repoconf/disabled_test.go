package repoconf

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestReadDisabled(t *testing.T) {
	t.Parallel()
	root := fstest.MapFS{
		"etc/yum.repos.d/CentOS-Vault.repo": {Data: []byte("[C7.7.1908-base]\nname=7.7\nbaseurl=http://example.com/7.7.1908/os/$basearch/\ngpgcheck=1\nenabled=0\n" +
			"gpgkey=file:///etc/pki/rpm-gpg/KEY\n\n[C7.7.1908-updates]\nbaseurl=http://example.com/7.7.1908/updates/$basearch/\nenabled=0\n\n[base]\nbaseurl=http://example.com/7\n")},
		"etc/yum.repos.d/redhat.repo":  {Data: []byte("[eus]\nbaseurl=http://base.example.com/$releasever\nenabled=0\n")},
		"run/secrets/redhat.repo":      {Data: []byte("[eus]\nbaseurl=http://mounted.example.com/$releasever\nenabled = 0\n[other]\nbaseurl=http://example.com/\nenabled=0\n")},
		"etc/yum.repos.d/README":       {Data: []byte("no repository")},
		"etc/zypp/repos.d/debug.repo":  {Data: []byte("[debug]\nenabled=0\nbaseurl=http://example.com/debug\n")},
		"etc/yum.repos.d/nowhere.repo": {Data: []byte("[nowhere]\nenabled=0\n")},
	}
	got, err := ReadDisabled(root, Vars{"basearch": "x86_64", "releasever": "9.4"}, "C7.7.1908-base", "eus", "base", "nowhere", "missing")
	require.NoError(t, err)
	var names []string
	for _, s := range got {
		names = append(names, s.ID+" "+strings.Join(s.BaseURLs, " "))
	}
	want := []string{"C7.7.1908-base http://example.com/7.7.1908/os/x86_64", "eus http://mounted.example.com/9.4"}
	assert.Same(t, want, names)
	if len(got) == 2 && (!got[0].GPGCheck || len(got[0].GPGKeys) != 1) {
		t.Errorf("%+v", got[0])
	}
	if got, err := ReadDisabled(root, nil); got != nil || err != nil {
		t.Errorf("without ids: %v, %v", got, err)
	}
	root["etc/yum.repos.d/bad.repo"] = &fstest.MapFile{Data: []byte("[a\n")}
	assert.ErrorContainsf(t, assert.Err(ReadDisabled(root, nil, "a")), "bad.repo:1", "a broken file")
}
