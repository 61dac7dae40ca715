package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

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
	var got map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	delete(got, slog.TimeKey)
	for key, want := range map[string]any{"level": "WARN", "msg": "slow", "phase": "load", "duration": "1.5s", "error": "busy"} {
		assert.Equalf(t, want, got[key], "%s", key)
	}
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	names := Names{{Name: "grace"}: {"DRIVER_GRACE"}, {Name: "threads"}: {"MAX_THREADS", "DRIVER_MAX_THREADS"}}
	got := names.Unknown([]string{
		"DRIVER_GRACE=1", "DRIVER_GRAZE=secret", "DRIVER_FROM_THE_FUTURE=", "DRIVER_FROM_THE_FUTURE=2", "DRIVER_TYPE=vgpu", "DRIVER_EVICT_FORCE=true", "MAX_THREAD=3",
		"DRIVER_SERVICE_HOST=10.0.0.1", "DRIVER_PORT=tcp://10.0.0.1:80", "DRIVER_PORT_80_TCP=x", "PATH=/bin", "DRIVER",
	}, "DRIVER_", "DRIVER_TYPE", "DRIVER_EVICT_")
	assert.Same(t, []string{"DRIVER_FROM_THE_FUTURE", "DRIVER_GRAZE (did you mean DRIVER_GRACE?)"}, got)
}
