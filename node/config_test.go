package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
)

func TestConfigModules(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"nvidia nvidia-uvm nvidia-modeset":                           {RDMA: false},
		"nvidia nvidia-uvm nvidia-modeset nvidia-drm":                {DRM: true},
		"nvidia nvidia-uvm nvidia-modeset nvidia-drm nvidia-peermem": {DRM: true, RDMA: true},
	} {
		assert.Equal(t, want, strings.Join((&Node{cfg: c}).modules("open", "6.1", true).Modules, " "))
	}
	if got := (&Node{cfg: Config{RDMA: true}}).modules("open", "6.1", false).Modules; len(got) != 3 {
		t.Errorf("without a Mellanox device: %v", got)
	}
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	assert.NoError(t, Defaults().Check())
	bad := Defaults()
	bad.ModuleType, bad.OnBusy, bad.GPUInit, bad.MaxThreads, bad.Grace, bad.Run, bad.StateDir, bad.OnPreflight = "closed", "", "x", -1, time.Second, "run", "", "stay"
	err := bad.Check()
	for _, want := range []string{"KERNEL_MODULE_TYPE", "--on-busy", "--gpu-init", "DRIVER_PREFLIGHT_ON_FAILURE", "--max-threads", "--grace", "--run-dir", "--state-dir"} {
		if err == nil || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
}
