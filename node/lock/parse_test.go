package lock

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		content string
		want    Holder
		text    string
	}{
		{"", Holder{}, "a process that left no name"},
		{"4711\n", Holder{PID: 4711}, "pid 4711"},
		{"-1", Holder{}, "a process that left no name"},
		{`{"pid":12,"pod":"a\nb","since":"2026-01-02T03:04:05Z"}`, Holder{PID: 12, Pod: "a?b", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
			"pid 12, pod a?b, since 2026-01-02T03:04:05Z"},
		{`{"pid":"x"}`, Holder{}, "a process that left no name"},
		{`{"pid":12`, Holder{}, "a process that left no name"},
	} {
		got := parse([]byte(c.content))
		if d := cmp.Diff(c.want, got); d != "" || got.String() != c.text {
			t.Errorf("%q: %s, %q", c.content, d, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("4711\n"))
	f.Add([]byte(`{"pid":1,"pod":"\u001b[2J","image":"i","host":"h","since":"2026-01-02T03:04:05Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := parse(b)
		if h.PID < 0 || strings.ContainsAny(h.String(), "\n\x1b") {
			t.Errorf("%q: %q", b, h)
		}
		out := require.Value(json.Marshal(h))(t)
		if again := parse(out); again.PID != h.PID || again.Pod != h.Pod || !again.Since.Equal(h.Since) {
			t.Errorf("%q: %v, then %v", b, h, again)
		}
	})
}
