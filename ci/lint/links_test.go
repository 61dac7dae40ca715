package lint

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestProject checks every Markdown file of the project against its files, tests and help texts.
func TestProject(t *testing.T) {
	t.Parallel()
	project := os.DirFS(root)
	names := files(t, ".md")
	known := Known{Tests: declaredTests(t), Helps: map[string]string{}}
	for _, file := range require.Value(fs.Glob(project, "cmd/driver-build/testdata/help-*.txt"))(t) {
		command := strings.TrimSuffix(strings.TrimPrefix(path.Base(file), "help-"), ".txt")
		known.Helps[command] = string(require.Value(fs.ReadFile(project, file))(t))
	}
	if len(names) < 10 || len(known.Helps) < 10 {
		t.Fatalf("found only %q and %d help texts", names, len(known.Helps))
	}
	for _, broken := range require.Value(Check(project, names, known))(t) {
		t.Error(broken)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	root := fstest.MapFS{
		"README.md": {Data: []byte("# The `first` page: a test\n\n[a](docs/a.md) [b](docs/a.md#when-it-goes-wrong), [c](docs/a.md#nothing)\n" +
			"[d](docs/none.md) [e](#the-first-page-a-test) [f](#no)\n```\n[g](none.md)\n# no-heading\n```\n`[h](none.md)` [i](https://example.com/x#y) [j](#no-heading)\n")},
		"docs/a.md":  {Data: []byte("## When it goes wrong\n## [Linked](b.txt) heading\n## When it goes wrong\n[a](../README.md) [b](#when-it-goes-wrong-1) [c](#linked-heading) [d](b.txt#x) [e](../c)\n")},
		"docs/b.txt": {Data: []byte("x")},
		"commands.md": {Data: []byte("Use driver-build anyhow or `driver-build sign IMAGE --export DIR`, `driver-build sing`.\n\n" +
			"    bin/driver-build --os debian12 \\\n      --puhs && driver-build bundle create --output x --sinc y\n    driver-build help sign --any  # driver-build nothing\n" +
			"```\ndriver-build sign --exp\n```\n")},
		"elsewhere.md": {Data: []byte("[a](docs)\n`TestReal`, `TestReal.*`, TestNone, `TestNone`\n")},
	}
	known := Known{Tests: map[string]bool{"TestReal": true}, Helps: map[string]string{
		"driver-build": "      --os strings   system\n      --push         push\n", "bundle": "x", "sign": "Flags:\n      --export string   write\n",
		"bundle-create": "  -o, --output string   file\n      --since stringArray   leave out\n",
	}}
	got := require.Value(Check(root, []string{"README.md", "docs/a.md", "elsewhere.md", "commands.md"}, known))(t)
	assert.Same(t, []string{
		"README.md:3: docs/a.md#nothing: that page has no such heading",
		"README.md:4: docs/none.md: there is no such file",
		"README.md:4: #no: that page has no such heading",
		"README.md:9: #no-heading: that page has no such heading",
		"docs/a.md:4: b.txt#x: that page has no such heading",
		"docs/a.md:4: ../c: there is no such file",
		"elsewhere.md:2: TestNone: there is no such test",
		"commands.md:1: driver-build has no command sing",
		"commands.md:3: driver-build has no flag --puhs",
		"commands.md:3: bundle-create has no flag --sinc",
		"commands.md:7: sign has no flag --exp",
	}, got)
	assert.Errorf(t, assert.Err(Check(root, []string{"none.md"}, Known{})), "a page that does not exist")
}
