package escape

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "usr/bin/nvidia-smi": "usr/bin/nvidia-smi", "é ü \"x\" \\": "é ü \"x\" \\", "a\nerror: b": `a\nerror: b`, "\x1b[2J": `\x1b[2J`,
		"\xff\x00": `\xff\x00`, "a\u202eb": `a\u202eb`, "\t": `\t`, "\ufffd": "\ufffd",
	} {
		assert.Equal(t, want, Line(text))
	}
	assert.Equal(t, "a\n  b\tc\\r", Text("a\nb\tc\r"))
}

// TestForgesNothing: whatever a text holds, it is one line, or lines of which all but the first are indented.
func TestForgesNothing(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("ab \n\r\x1b\u2028\u202e\ufffd"))),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(rt *rapid.T) {
		s := text.Draw(rt, "text")
		line := Line(s)
		assert.Equalf(rt, -1, strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", line)
		assert.Equal(rt, line, Line(line))
		for n, part := range strings.Split(Text(s), "\n") {
			assert.Equalf(rt, true, n == 0 || strings.HasPrefix(part, "  "), "%q", part)
		}
	})
}
