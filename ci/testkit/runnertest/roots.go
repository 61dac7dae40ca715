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
	assert.Samef(
		t,
		map[string]string{
			"a":          "1",
			"sub/":       "",
			"sub/deep/":  "",
			"sub/deep/b": "two\nlines",
			"empty":      "",
		},
		files,
		"result",
	)

	const size = 3 << 20
	files, _ = s.run(t, Step(t, nil, fmt.Sprintf("yes 012345678 | head -c %d >/out/blob", size)))
	assert.Equalf(
		t,
		true,
		files["blob"] == strings.Repeat("012345678\n", size/10+1)[:size],
		"%d bytes came back as they were (%d)",
		size,
		len(files["blob"]),
	)
}

// testModes: the step writes files of mode 0600 in folders of mode 0700; Files checks the modes of
// the result.
func testModes(t *testing.T, s *suite) {
	files, _ := s.run(t, Step(t, nil, write(map[string]string{"/out/private/x": "1"})))
	assert.Samef(t, map[string]string{"private/": "", "private/x": "1"}, files, "result")
	files, _ = s.run(t, Step(t, nil, "chmod 0700 /out"))
	assert.Samef(t, map[string]string{}, files, "empty result")
}

func testRefusedResults(t *testing.T, s *suite) {
	_, err := s.fails(t, Step(t, nil, "ln -s /etc/passwd /out/link"))
	assert.Containsf(t, err.Error(), "link", "a link in the result")
}

func testOutputOfLayer(t *testing.T, s *suite) {
	layers := []v1.Layer{
		Layer(
			t,
			"out/",
			"out/stale = 1",
			"out/sub/",
			"out/sub/stale = 2",
			"var/",
			"data/",
			"var/link -> ../data",
		),
	}
	files, _ := s.run(t, Step(t, layers, "echo new >/out/x"))
	assert.Samef(t, map[string]string{"x": "new\n"}, files, "output at the start")
	step := Step(t, layers, "echo 1 >/data/new/x")
	step.Output = "/var/link/new" // missing, and reached through a link of the root
	files, _ = s.run(t, step)
	assert.Samef(t, map[string]string{"x": "1\n"}, files, "output below a link")
}

func testDamagedLayer(t *testing.T, s *suite) {
	step := Step(
		t,
		[]v1.Layer{damaged{Layer(t, "a = what the image says"), Layer(t, "a = something else")}},
		"echo 1 >/out/x",
	)
	_, err := s.fails(t, step)
	t.Log(err)
}

func testRootIsWritten(t *testing.T, s *suite) {
	layers := []v1.Layer{Layer(t, "etc/", "etc/x = 1", "opt/")}
	files, _ := s.run(t, Step(t, layers, write(map[string]string{
		"/etc/x": "2", "/etc/y": "2", "/opt/deep/z": "2", "/tmp/t": "2", "/new/n": "2", "/out/ok": "",
	})))
	assert.Samef(t, map[string]string{"ok": ""}, files, "result")
	files, _ = s.run(
		t,
		Step(
			t,
			layers,
			"seen=$(cat /etc/x; find /etc/y /opt /tmp/t /new /out 2>/dev/null || true); echo \"$seen\" >/out/seen",
		),
	)
	assert.Samef(t, map[string]string{"seen": "1/opt\n/out\n"}, files, "the root of another step")
}
