package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	assert.NoError(t, Defaults().Check())
	bad := Defaults()
	bad.ModuleType, bad.OnBusy, bad.GPUInit, bad.MaxThreads, bad.Grace, bad.OnPreflight = "closed", "", "x", -1, time.Second, "stay"
	err := bad.Check()
	for _, want := range []string{"KERNEL_MODULE_TYPE", "--on-busy", "--gpu-init", "DRIVER_PREFLIGHT_ON_FAILURE", "--max-threads", "--grace"} {
		if err == nil || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
}
