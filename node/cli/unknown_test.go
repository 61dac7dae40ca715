package cli

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestUnknown(t *testing.T) {
	t.Parallel()
	names := Names{{Name: "grace"}: {"DRIVER_GRACE"}, {Name: "threads"}: {"MAX_THREADS", "DRIVER_MAX_THREADS"}}
	got := names.Unknown([]string{
		"DRIVER_GRACE=1", "DRIVER_GRAZE=secret", "DRIVER_FROM_THE_FUTURE=", "DRIVER_FROM_THE_FUTURE=2", "DRIVER_TYPE=vgpu", "DRIVER_EVICT_FORCE=true", "MAX_THREAD=3",
		"DRIVER_SERVICE_HOST=10.0.0.1", "DRIVER_PORT=tcp://10.0.0.1:80", "DRIVER_PORT_80_TCP=x", "PATH=/bin", "DRIVER",
	}, "DRIVER_", "DRIVER_TYPE", "DRIVER_EVICT_")
	assert.Same(t, []string{"DRIVER_FROM_THE_FUTURE", "DRIVER_GRAZE (did you mean DRIVER_GRACE?)"}, got)
}
