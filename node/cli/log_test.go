package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestHandlers(t *testing.T) {
	t.Parallel()
	for format, parse := range map[string]func(*testing.T, string) map[string]any{"json": parseJSON, "text": parseLine} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			slogtest.Run(t, func(*testing.T) slog.Handler { out.Reset(); return Log(&out, format).Handler() },
				func(t *testing.T) map[string]any { return parse(t, out.String()) })
		})
	}
}

func parseJSON(t *testing.T, line string) map[string]any {
	var record map[string]any
	require.NoError(t, json.Unmarshal([]byte(line), &record))
	return record
}

var pair = regexp.MustCompile(` ([\w.]+)=(\S+)`)

func parseLine(_ *testing.T, line string) map[string]any {
	record := map[string]any{slog.LevelKey: "INFO"}
	if at, rest, found := strings.Cut(line, "Z "); found {
		record[slog.TimeKey], line = at, rest
	}
	message, _, _ := strings.Cut(line, " ")
	record[slog.MessageKey] = strings.TrimSuffix(message, "\n")
	for _, m := range pair.FindAllStringSubmatch(line, -1) {
		group, path := record, strings.Split(m[1], ".")
		for _, name := range path[:len(path)-1] {
			if group[name] == nil {
				group[name] = map[string]any{}
			}
			group = group[name].(map[string]any)
		}
		group[path[len(path)-1]] = m[2]
	}
	return record
}

func TestLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := Log(&out, "text")
	for _, c := range []struct {
		log  func()
		want string
	}{
		{func() { log.Info("ready", "driver", "535.261.03", "flavour", "open") }, "ready driver=535.261.03 flavour=open"},
		{func() { log.Info("compiling", "compiler", "gcc 12.2.0", "jobs", 2, "duration", 1200*time.Millisecond) },
			`compiling compiler="gcc 12.2.0" jobs=2 duration=1.2s`},
		{func() { log.Warn("left out", "error", errors.New(`two "words"`), "path", "/etc/apt") }, `warning: left out path=/etc/apt: two "words"`},
		{func() { log.Error("not ready", "reason", "GPU 0000:00:05.0 does not initialise") }, "error: not ready: GPU 0000:00:05.0 does not initialise"},
		{func() { log.Warn("down", "error", errors.New("e"), "reason", "r", "pids", []int{1, 2}) }, `warning: down pids="[1 2]": r: e`},
		{func() { log.Info("installed", "packages", []string{"a 1", "b 2"}, "modules", []string{"a", "b"}) }, `installed packages="a 1, b 2" modules="a, b"`},
		{func() { log.Info("last lines", "count", 2, "output", "CC a.o\nerror: \"x\"\n") }, "last lines count=2\n| CC a.o\n| error: \"x\""},
		{func() { log.With(phaseKey, "load", "gpu", "0000:00:05.0").Info("unloading", "driver", 1) }, "unloading gpu=0000:00:05.0 driver=1"},
		{func() { log.Info("phase finished", phaseKey, "load") }, "phase finished phase=load"},
		{func() { log.Debug("nothing") }, ""},
	} {
		out.Reset()
		c.log()
		got := strings.TrimSuffix(out.String(), "\n")
		if _, rest, timed := strings.Cut(got, "Z "); timed {
			got = rest
		}
		assert.Equal(t, c.want, got)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	Log(&out, "json").With(phaseKey, "load").Warn("slow", "duration", 1500*time.Millisecond, "error", errors.New("busy"))
	got := parseJSON(t, out.String())
	delete(got, slog.TimeKey)
	for key, want := range map[string]any{"level": "WARN", "msg": "slow", "phase": "load", "duration": "1.5s", "error": "busy"} {
		if got[key] != want {
			t.Errorf("%s: %v, want %v", key, got[key], want)
		}
	}
}
