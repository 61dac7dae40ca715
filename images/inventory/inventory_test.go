package inventory

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

func example() []File {
	return []File{
		{Path: "etc", Kind: rootfs.Dir, Mode: 0o755},
		{Path: "etc/a b#\\\n\xff", Kind: rootfs.File, Mode: 0o644, UID: 1, GID: 2, Size: 3, SHA256: strings.Repeat("0a", 32)},
		{Path: "etc/link", Kind: rootfs.Link, Target: "../a b"},
		{Path: "usr/bin/ping", Kind: rootfs.File, Mode: 0o755 | fs.ModeSetuid, SHA256: strings.Repeat("1b", 32), Xattrs: map[string]string{"security.capability": "\x01\x00\xff", "user.a =b": "c"}},
		{Path: "usr/bin/pipe", Kind: rootfs.Special, Target: "fifo", Mode: 0o644},
		{Path: "usr/dev", Kind: rootfs.Special, Target: "char device=native,1,3", Mode: 0o644},
	}
}

const exampleText = `#mtree v2.0
./etc type=dir mode=0755 uid=0 gid=0
./etc/a\040b\043\134\012\377 type=file size=3 sha256digest=0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a mode=0644 uid=1 gid=2
./etc/link type=link link=../a\040b
./usr/bin/ping type=file size=0 sha256digest=1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b mode=4755 uid=0 gid=0 xattr.security.capability=AQD/ xattr.user.a\040\075b=Yw==
./usr/bin/pipe type=fifo mode=0644 uid=0 gid=0
./usr/dev type=char device=native,1,3 mode=0644 uid=0 gid=0
`

func TestEncodeDecode(t *testing.T) {
	t.Parallel()
	list := List{Files: example()}
	assert.Same(t, exampleText, string(require.Value(list.Encode())(t)))
	assert.Same(t, list, require.Value(decode([]byte(exampleText)))(t))
	list.Config = &v1.ConfigFile{Architecture: "amd64", Config: v1.Config{Env: []string{"A=\n"}, Volumes: map[string]struct{}{"/a": {}}}}
	assert.Same(t, list, require.Value(decode(require.Value(list.Encode())(t)))(t))
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ old, with string }{
		"no header":    {"#mtree v2.0\n", ""},
		"order":        {"./etc/link", "./etc"},
		"path":         {"./etc/link", "./etc/../link"},
		"absolute":     {"./etc/link", "/etc/link"},
		"escape":       {`\040b\043`, `\04`},
		"octal":        {`\040b\043`, `\999`},
		"type":         {"type=dir", "type=char"},
		"device of it": {"type=dir", "type=dir device=native,1,3"},
		"no type":      {"type=dir ", ""},
		"keyword":      {"uid=0 gid=0\n./etc/a", "uid=0 gid=0 flags=none\n./etc/a"},
		"mode":         {"mode=0755", "mode=99999"},
		"size":         {"size=3", "size=-3"},
		"digest":       {"sha256digest=0a", "sha256digest=0A"},
		"digest of it": {"type=dir", "type=dir sha256digest=" + strings.Repeat("0a", 32)},
		"base64":       {"AQD/", "*"},
		"empty line":   {"./etc/link", "\n./etc/link"},
		"no record":    {"./etc type", "#config null\n./etc type"},
		"record":       {"./etc type", "#config {\n./etc type"},
		"late record":  {"./etc/link", "#config {}\n./etc/link"},
	} {
		text := strings.Replace(exampleText, c.old, c.with, 1)
		if _, err := decode([]byte(text)); !errors.Is(err, errFormat) || text == exampleText {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	dir := recipe.ModulesDir + "/x/"
	old := []File{{Path: "a"}, {Path: dir + "nvidia.ko", Size: 1}, {Path: dir + "old.ko"}, {Path: "z"}}
	got := Replace(old, recipe.ModulesDir, []File{{Path: dir + "nvidia.ko", Size: 2}, {Path: "usr"}})
	assert.Same(t, []File{{Path: "a"}, {Path: dir + "nvidia.ko", Size: 2}, {Path: "z"}}, got)
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	file := example()[1]
	other := file
	other.Size, other.Mode, other.UID, other.Xattrs = 4, 0o4, 0, map[string]string{"user.a": "x"}
	want := []string{"has 4 bytes, not 3", "has mode 0004, not 0644", "belongs to 0:2, not to 1:2", `has other extended attributes: map["user.a":"x"], not map[]`}
	assert.Same(t, want, file.Differences(other))
	if got := file.Differences(example()[2]); len(got) != 1 || got[0] != "is a link, not a file" {
		t.Error(got)
	}
	if got := file.Differences(file); got != nil {
		t.Error(got)
	}
}

// FuzzDecode: a list that was read can be written, and is the same again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(exampleText))
	f.Add([]byte(header))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := decode(data)
		if err != nil {
			if !errors.Is(err, errFormat) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		again, err := decode(require.Value(list.Encode())(t))
		if d := cmp.Diff(list, again); err != nil || d != "" {
			t.Fatalf("%v %s", err, d)
		}
	})
}
