package textfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/bounded"
)

// encodings are the ways in which programs of Windows save a text.
var encodings = map[string]func(text string) []byte{
	"UTF-8":           func(text string) []byte { return []byte(text) },
	"UTF-8 with mark": func(text string) []byte { return []byte("\ufeff" + text) },
	"UTF-16LE": func(text string) []byte {
		var out []byte
		for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
			out = append(out, byte(unit), byte(unit>>8))
		}
		return out
	},
	"UTF-16BE": func(text string) []byte {
		var out []byte
		for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
			out = append(out, byte(unit>>8), byte(unit))
		}
		return out
	},
}

// TestEncodings: a text is the same in each encoding, at once and byte by byte.
func TestEncodings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, encode := range encodings {
		t.Run(name, rapid.MakeCheck(func(rt *rapid.T) {
			want := strings.TrimLeft(rapid.String().Draw(rt, "text"), "\ufeff")
			file := filepath.Join(dir, "text")
			require.NoError(rt, os.WriteFile(file, encode(want), 0o600))
			got := require.Value(Read(file, 1<<20))(rt)
			assert.Equalf(rt, want, string(got), "Read")
			streamed := require.Value(io.ReadAll(NewReader(iotest.OneByteReader(bytes.NewReader(encode(want))))))(rt)
			assert.Equalf(rt, want, string(streamed), "NewReader")
		}))
	}
}

// TestNotText: what is in no encoding that is known stays as it is, for the reader's own message; and bounds hold for the text.
func TestNotText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\xff", "\x1f\x8b\x08", "caf\xe9"} {
		got, err := Decode([]byte(text), 8)
		assert.NoError(t, err)
		assert.Equal(t, text, string(got))
	}
	_, err := Decode(encodings["UTF-16LE"]("€€€€"), 11)
	if !errors.Is(err, bounded.ErrTooLarge) {
		t.Errorf("12 bytes of UTF-8: %v", err)
	}
	broken := errors.New("broken pipe")
	_, err = io.ReadAll(NewReader(iotest.ErrReader(broken)))
	assert.ErrorIs(t, err, broken)
}
