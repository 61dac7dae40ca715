package node

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/status"
)

func TestPeermem(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		i, n := w.begin(life{version: v535})
		serving := require.Value(lock.Acquire(t.Context(), lock.Options{Run: n.cfg.Run}))(t)
		defer serving.Release()
		st := status.Snapshot{Schema: status.Schema, State: status.Serving, Ready: true, PID: os.Getpid(), Up: &status.Driver{Version: v535, Flavour: "proprietary"}}
		load := func() error { return n.LoadPeermem(t.Context(), time.Minute, true) }
		assert.ErrorIsf(t, load(), status.ErrNotReady, "no driver")
		save := func() {
			require.NoError(t, status.Folder(n.cfg.Run).Save(st))
		}
		save()
		if err := load(); !errors.Is(err, status.ErrNotReady) || !strings.Contains(err.Error(), "mlx5_core of the host") {
			t.Errorf("no Mellanox: %v", err)
		}
		w.modules["mlx5_core"] = kmod.Module{Name: "mlx5_core"}
		assert.ErrorContainsf(t, load(), "compiled with the driver's other modules", "no modules")
		w.cache[v535] = true
		assert.ErrorContainsf(t, load(), "has no nvidia-peermem", "not in the set")
		i.extra = []string{"nvidia-peermem"}
		w.modules["ipmi_msghandler"] = kmod.Module{Name: "ipmi_msghandler"}
		require.NoError(t, w.insert("nvidia", v535, nil))
		if err := load(); err != nil || w.modules["nvidia_peermem"].Version != v535 {
			t.Errorf("%v, %v", err, w.modules)
		}
		assert.NoErrorf(t, load(), "again")
		delete(w.modules, "nvidia_peermem")
		st.Up.Version = v470
		save()
		if err := load(); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), "the node has driver "+v470) {
			t.Errorf("another driver: %v", err)
		}
	})
}

// Companions are loaded after the driver and unloaded before it, a successor of a killed instance keeps them, and a
// driver is ready without them.
func TestCompanions(t *testing.T) {
	const (
		fs, drv = "Name:nvidia-fs Version:535.261.03 SrcVersion:NVIDIA_FS535.261.03", "Name:gdrdrv Version:535.261.03 SrcVersion:GDRDRV535.261.03"
		good    = " Loaded:true Foreign:false Reason: InUse:false}"
		who     = "nvidia_fs 2.17 was loaded by another program, perhaps by a sidecar of the GPU Operator (gds, gdrcopy)"
		refusal = "failing symbol_get of non-GPLONLY symbol nvidia_p2p_get_pages."
	)
	stories(t, map[string]string{
		"kept by a successor": `
			direct
			run 535 direct
				8s see Ready:true | ` + fs + good + ` | ` + drv + good + `
			end served absent | in order insert nvidia, insert nvidia_fs, insert gdrdrv, delete nvidia_fs, delete nvidia
			leave 535, storage holder comes
			run 535 direct
			end served whole | -insert nvidia_fs | -delete nvidia_fs | State:detached | fio | nvidia_fs
			users go
			run 535 direct
			end served absent`,
		"left out": `
			omit nvidia-fs
			run 535 direct
				8s see Ready:true | ` + drv + good + ` | Name:nvidia-fs Version: SrcVersion: Loaded:false Foreign:false Reason:the modules for kernel  have no nvidia-fs 2.13.5: it does not compile: no such field
			end served absent`,
		"refused": `
			refuse nvidia_fs
			run 535 direct
				8s see Ready:true | ` + drv + good + ` | Loaded:false Foreign:false Reason:load nvidia_fs: the kernel refused the module nvidia_fs
			end served absent`,
		"another build replaces one as soon as no program uses it, while the driver stays": `
			direct, leave 535, build b, storage holder comes
			run 535 1m direct
				10s see Ready:true | ` + fs + ` Loaded:true Foreign:false Reason: | nvidia_fs is in use by pid 4713 (fio) | ` + drv + `b Loaded:true
				20s users go
				40s see ` + fs + `b` + good + `
			end served absent | in order delete nvidia_fs, delete nvidia
			forgive record`,
		"a stop that the kernel refuses half way loads them again": `
			run 535 direct
				on delete nvidia_modeset: uvm holder comes
			end served whole | modules [gdrdrv i2c_core ipmi_devintf ipmi_msghandler nvidia nvidia_fs nvidia_modeset nvidia_uvm] | State:detached`,
		"those of other programs stay, are named, and go with the driver": `
			direct, leave 535, lose nvidia_fs, nvidia_fs comes
			run 535 direct
				8s see Ready:true | Name:nvidia-fs Version:2.17 SrcVersion:NVIDIA_FS2.17 Loaded:true Foreign:true | ` + who + `
			end served absent
			run 535
				4s nvidia_fs comes
				4s pin nvidia_fs
			end State:detached | ` + who,
		"asked for later: compiled and loaded without touching the driver, which stays if that fails": `
			leave 535, holder comes, uncached 535
			run 535 direct
				8s see ` + fs + good + ` | ` + drv + good + `
			end served whole | -insert nvidia | +keep
			lose nvidia_fs gdrdrv, uncached 535
			run 535 direct
				on compile: fail
				8s see Ready:true | the modules of the loaded driver are not at hand | its companions are missing: injected failure
			end served whole
			kernel-log ` + refusal + `
			run 535 direct
				6s kernel-log ` + refusal + `
			end served whole | a program could not open /dev/nvidia-fs*`,
	})
}
