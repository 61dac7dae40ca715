package runnertest

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func testResult(t *testing.T, s *suite) {
	files, _ := s.run(t, Step(t, nil, write(map[string]string{
		"/out/a": "1", "/out/sub/deep/b": "two\nlines", "/out/empty": "", "/elsewhere/c": "3", "/outside": "4",
	})))
	diff(t, "result", map[string]string{"a": "1", "sub/": "", "sub/deep/": "", "sub/deep/b": "two\nlines", "empty": ""}, files)

	const size = 3 << 20
	files, _ = s.run(t, Step(t, nil, fmt.Sprintf("yes 012345678 | head -c %d >/out/blob", size)))
	if files["blob"] != strings.Repeat("012345678\n", size/10+1)[:size] {
		t.Errorf("%d bytes came back changed, or not at all (%d)", size, len(files["blob"]))
	}
}

// testModes: the step writes files of mode 0600 in folders of mode 0700; Files checks the modes of the
// result.
func testModes(t *testing.T, s *suite) {
	files, _ := s.run(t, Step(t, nil, write(map[string]string{"/out/private/x": "1"})))
	diff(t, "result", map[string]string{"private/": "", "private/x": "1"}, files)
	files, _ = s.run(t, Step(t, nil, "chmod 0700 /out"))
	diff(t, "empty result", map[string]string{}, files)
}

func testRefusedResults(t *testing.T, s *suite) {
	_, err := s.fails(t, Step(t, nil, "ln -s /etc/passwd /out/link"))
	assert.Containsf(t, err.Error(), "link", "a link in the result")
}

func testOutputOfLayer(t *testing.T, s *suite) {
	layers := []v1.Layer{Layer(t, "out/", "out/stale = 1", "out/sub/", "out/sub/stale = 2", "var/", "data/", "var/link -> ../data")}
	s.tree(t, "output at the start", layers, []string{"/out"}, []string{"/out/"})
	step := Step(t, layers, "echo 1 >/data/new/x")
	step.Output = "/var/link/new" // missing, and reached through a link of the root
	files, _ := s.run(t, step)
	diff(t, "output below a link", map[string]string{"x": "1\n"}, files)
}

// testLayers: https://github.com/opencontainers/image-spec/blob/main/layer.md
func testLayers(t *testing.T, s *suite) {
	layers := []v1.Layer{
		Layer(t, "d/", "d/a = 1", "d/b = 1", "d/c/", "d/c/x = 1", "d/hard = h", "d/hard2 == d/hard", "d/link -> a", "d/f = file", "d/g/", "d/g/y = 1",
			"o/", "o/old = 1", "o/sub/", "o/sub/old = 1", "gone/", "gone/x = 1"),
		Layer(t, "d/a = 2", "d/.wh.b = ", "d/c/.wh.x = ", "d/c/z = 2", "d/f/", "d/f/now = a folder", "d/g = a file", "d/.wh.nothing = ",
			"o/", "o/.wh..wh..opq = ", "o/new = 2", ".wh.gone = "),
		Layer(t, "d/a = 3", "d/b = back", "o/sub/", "o/sub/new = 3", "gone/", "gone/y = 3", "d/hard3 == d/a"),
	}
	s.tree(t, "root", layers, []string{"/d", "/o", "/gone"}, []string{
		"/d/", "/d/a = 3 #2", "/d/b = back", "/d/c/", "/d/c/z = 2", "/d/f/", "/d/f/now = a folder", "/d/g = a file", "/d/hard = h #2",
		"/d/hard2 = h #2", "/d/hard3 = 3 #2", "/d/link -> a",
		"/o/", "/o/new = 2", "/o/sub/", "/o/sub/new = 3", "/gone/", "/gone/y = 3",
	})
}

// testAbsoluteLinks: an absolute link of a lower layer starts at the root of the step, not of the machine.
func testAbsoluteLinks(t *testing.T, s *suite) {
	layers := []v1.Layer{
		Layer(t, "usr/", "usr/lib/", "usr/lib/x = 1", "lib -> usr/lib", "abs -> /usr/lib", "up -> ../../../../usr/lib"),
		Layer(t, "usr/lib/y = 2"),
	}
	s.tree(t, "root", layers, []string{"/lib/", "/abs/", "/up/"},
		[]string{"/lib//", "/lib/x = 1", "/lib/y = 2", "/abs//", "/abs/x = 1", "/abs/y = 2", "/up//", "/up/x = 1", "/up/y = 2"})
}

func testDamagedLayer(t *testing.T, s *suite) {
	step := Step(t, []v1.Layer{damaged{Layer(t, "a = what the image says"), Layer(t, "a = something else")}}, "echo 1 >/out/x")
	_, err := s.fails(t, step)
	t.Log(err)
}

func testRootIsWritten(t *testing.T, s *suite) {
	layers := []v1.Layer{Layer(t, "etc/", "etc/x = 1", "opt/")}
	files, _ := s.run(t, Step(t, layers, write(map[string]string{
		"/etc/x": "2", "/etc/y": "2", "/opt/deep/z": "2", "/tmp/t": "2", "/new/n": "2", "/out/ok": "",
	})))
	diff(t, "result", map[string]string{"ok": ""}, files)
	s.tree(t, "the root of another step", layers, []string{"/etc/x", "/opt", "/out"}, []string{"/etc/x = 1", "/opt/", "/out/"})
}
