package node

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/status"
)

// stories plays stories, each in a world of its own.
func stories(t *testing.T, told map[string]string, edit ...func(*Node)) {
	t.Helper()
	for name, story := range told {
		t.Run(name, func(t *testing.T) { bubble(t, func(t *testing.T, w *world) { w.tell(t, story, edit...) }) })
	}
}

// Starts and stops, scenarios 1 to 13 of the lab. A start has the phases by which others know how far it is.
func TestStarts(t *testing.T) {
	var phases []string
	for _, p := range status.Phases() {
		phases = append(phases, "{Phase:"+p+" Seconds:")
	}
	stories(t, map[string]string{
		"first and second": `
			run 535
				11s see ` + strings.Join(phases, " | ") + `
			end served absent | +compile | State: Ready
			run 535
			end served absent | -compile`,
		"disk full when the modules are kept, signal in a compile": `
			run 535
				on keep: fail
			end served absent
			run 470 500ms
			end unserved absent | after 500ms`,
		"unknown and other parameters": `
			cached 535
			run 535 param=NVreg_Unknown=1
			end unserved absent | error ErrConfig | -insert nvidia
			leave 535
			run 535 param=NVreg_A=1
			end served absent | +insert nvidia | nvidia:[NVreg_A=1]`,
		"a daemon does not start, and dies": `
			no daemon
			run 535 2m
				19s see State:degraded | nvidia-persistenced ended at once
				20s not no daemon
				80s daemon dies
			end served absent`,
		"a marker cannot be written: the driver stays, and is ready again later": `
			sick
			run 535 3m
				17s see State:degraded
				18s markers cannot be written
				18s not sick
				62s see State:degraded | the driver works, and the markers of readiness cannot be written: write | not a directory
				63s markers can be written
				98s see State:serving Ready:true
				101s markers cannot be written
				101s daemon dies
				108s see State:degraded | it ended with code 1 | Warnings:[ | markers: mkdir
				109s markers can be written
			end served absent | after 3m`,
		"the disk is busy for minutes: what others change is seen at once, and a stop does not wait": `
			slow disk
			run 535 2m
				21s unmounted
				28s see State:degraded | was unmounted by another program
			end served absent | after 2m0s | +prune`,
		"the GPU comes up later": `
			sick
			run 535 2m
				19s see State:degraded
				20s not sick
			end served absent`,
		"killed between two modules: only the record says what the first one was": `
			run 535
				on insert nvidia_modeset: kill
			end killed true | -keep
			run 535
				7s holder comes
			end served whole | -delete nvidia_uvm | -insert nvidia | files: <nil>`,
		"another build is loaded meanwhile": `
			faster
			run 535
			end unserved | error | another build of it is loaded already | State:failed`,
		"the kernel ignores parameters": `
			ignoring parameters
			run 535 param=NVreg_A=1
			end unserved | error | not as they were loaded: nvidia is loaded with other parameters: NVreg_A | State:failed`,
		"a set without nvidia-modeset": `
			fewer modules
			run 535
			end unserved | error | has no nvidia-modeset | State:failed`,
		"the last failure outlives later starts": `
			broken 535
			run 535
			end unserved | error | failure {Time: | Wanted:535.261.03 Pod:gpu/driver-x Reason:load
			well
			run 535
				8s see State:serving | Wanted:535.261.03 Pod:gpu/driver-x Reason:load
			end served absent`,
		"the lock is never free": `
			locked
			run 535 1h
			end unserved | error: lock: another driver container holds the lock of this node | last words: lock: another driver container holds the lock`,
	}, func(n *Node) {
		n.Status.ChangeUnsaved(func(st *status.Snapshot) { st.Pod, st.PodSpace = "driver-x", "gpu" })
	})
}

// Upgrades: the new driver fails and the old one is restored; while the old one is in use, the new one waits.
func TestUpgrade(t *testing.T) {
	stories(t, map[string]string{
		"fails": `
			leave 470, broken 535
			run 535
			end unserved whole | error: driver 535.261.03 failed to start, 470.256.02 is loaded again | (ENODEV) | State:restored | up {Version:470.256.02`,
		"neither loads": `
			leave 470, broken 535, broken 470
			run 535
			end unserved absent | error: driver 535.261.03 failed to start | and 470.256.02 could not be put back | State:failed`,
		"in use": `
			leave 470, holder comes
			run 535 1m
				19s see State:waiting | Ready:false | Holders:[pid 4711 (python3) | 470.256.02 must go before 535.261.03 can be loaded | up {Version:470.256.02
				20s users go
			end served absent | log ` + logtest.ToBeReplaced + `\S | log ` + logtest.WaitsToReplace + `470\.256\.02: .*in use by pid 4711 | log ` + logtest.Unloading + `470\.256\.02\n
			leave 470, holder comes
			run 535
			end unserved whole | State:detached | up {Version:470.256.02 | BlockedUnloads:1`,
	})
}

// The way back from a driver that does not start: with modules of whichever source, and only if its files are on the
// host. A user who comes while the old driver goes is waited for.
func TestWayBack(t *testing.T) {
	for _, source := range []string{"", status.FromImage, status.FromMounted} {
		stories(t, map[string]string{
			"modules " + source: `
			leave 470 ` + source + `, broken 535
			run 535 image
			end unserved whole | error: driver 535.261.03 failed to start, 470.256.02 is loaded again | State:restored | up {Version:470.256.02 | RootDir:/ | Firmware:true | files: <nil>
			well
			run 470
				8s see State:serving | up {Version:470.256.02
			end served absent | -insert nvidia`,
			"half of the new one loads, modules " + source: `
			leave 470 ` + source + `
			run 535 mounted
				on insert nvidia_modeset: fail
			end unserved whole | error: driver 535.261.03 failed to start, 470.256.02 is loaded again | State:restored | files: <nil>`,
			"the first way back fails, modules " + source: `
			leave 470 ` + source + `, broken 535
			run 535 mounted
				on insert nvidia_uvm: fail
			end unserved whole | error: driver 535.261.03 failed to start, 470.256.02 is loaded again | State:restored | files: <nil>`,
			"a user comes between two delete_module, modules " + source: `
			leave 470 ` + source + `
			run 535 1m
				on delete nvidia: holder comes
				19s see State:waiting | WaitsFor:holders | in use by pid 4711 | Ready:false | up {Version:470.256.02 | BlockedUnloads:1
				20s users go
			end served absent | in order insert nvidia_uvm, insert nvidia_modeset, insert nvidia`,
		})
	}
	stories(t, map[string]string{
		"the same version with other parameters": `
			leave 535 image, broken 535
			run 535 mounted param=NVreg_A=1
			end unserved absent | error: driver 535.261.03 failed to start | and 535.261.03 could not be put back`,
		"no room to keep the modules of a mounted image": `
			run 535 mounted
				on keep: fail
			end served absent | log the modules cannot be kept on the host, so driver 535\.261\.03 cannot be put back if a later one fails`,
	})
}

// An older version of this program recorded files of its container. Those of an image are in its staged root. Of
// others it is said before the driver goes that there is no way back.
func TestRecordOfOlderVersion(t *testing.T) {
	for source, want := range map[string]string{
		status.FromImage: "unserved whole | error: driver 535.261.03 failed to start, 470.256.02 is loaded again | State:restored",
		status.FromMounted: "unserved absent | error: driver 535.261.03 failed to start | and 470.256.02 could not be put back: its modules were files of its container, which has ended | State:failed | " +
			`log driver 470\.256\.02 cannot be put back if 535\.261\.03 does not start: its modules were files of its container`,
	} {
		t.Run(source, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.tell(t, "leave 470 "+source)
				for i, m := range w.saved.Up.Modules {
					w.saved.Up.Modules[i].File = filepath.Join(w.dir, "container-"+source, v470, filepath.Base(m.File))
				}
				w.tell(t, "broken 535\nrun 535\nend "+want)
			})
		})
	}
}

// Mounts that another program stacked on the root of a driver stay until the new root takes their place.
func TestStackedRoots(t *testing.T) {
	stories(t, map[string]string{
		"the node is not fit": `
			leave 470, mounted over, unfit
			run 535
			end unserved | error: preflight: | State:failed | up {Version:470.256.02 | -unmount | 2 driver roots are stacked on
			not unfit
			run 535
			end served absent`,
		"adopted while it is in use": `
			leave 535, mounted over, holder comes
			run 535
				8s see State:serving | 2 driver roots are stacked on
			end served whole | -insert nvidia | in order unmount, mount`,
	})
}

// A driver in use at the stop: the grace of 20 s minus its margin of 5 s passes, or with busy=wait the time until
// the second signal. It stays, and the successor adopts it.
func TestInUseAtStop(t *testing.T) {
	for policy, ends := range map[string]string{
		config.BusyDetach: "after 27s", config.BusyFail: "error ErrLeft: | after 27s", config.BusyWait: "after 42s",
	} {
		stories(t, map[string]string{policy: `
			run 535
				10s holder comes
			end served whole | State:detached | Holders:[pid 4711 (python3) | in use by pid 4711 | ` + ends + ` | log ` + logtest.LeftInPlace +
			`Could not unload NVIDIA driver kernel modules, driver is in use by pid 4711.* | log nvidia-persistenced ends with this container \(GPUs become slow\): start the next one soon
			well
			run 535
			end served absent | -insert nvidia`}, func(n *Node) { n.cfg.OnBusy = policy })
	}
}

// A user who goes in the last second of the wait is seen.
func TestLastSecondOfAStop(t *testing.T) {
	stories(t, map[string]string{"": `
			run 535
				7s holder comes
				26900ms users go
			end served absent | after 27s`})
}

// Changes which others make to a driver that serves are reported and never repaired, and a stop nevertheless
// leaves nothing behind.
func TestMeddlers(t *testing.T) {
	for what, want := range map[string]string{
		"mounted over": "mounted over the driver root", "unmounted": "was unmounted by another program", "uvm unloaded": "nvidia_uvm was unloaded by another program",
		"modeset unloaded": "nvidia_modeset was unloaded by another program",
		"daemon dies":      "it ended with code 1", "lock file removed": "", "lock file taken": "cannot be made anew",
	} {
		stories(t, map[string]string{what: fmt.Sprintf(`
			run 535 1m
				11s %s
				18s see %s | Ready:%v
				20s lock file removed
			end served absent | log `+logtest.LockRecreated, what, want, strings.HasPrefix(what, "lock"))})
	}
}

// A module that differs is replaced alone, as soon as nobody uses it, while other programs go on using the
// driver. One that cannot be loaded leaves that driver as it was, the modules that were replaced included.
func TestReplacesOnlyWhatDiffers(t *testing.T) {
	told := map[string]string{"": `
			leave 535, holder comes, lose nvidia_modeset
			run 535 uvm=NVreg_A=1
			end served whole | nvidia_uvm:[NVreg_A=1] | +delete nvidia_uvm | -delete nvidia | -insert nvidia
			uvm holder comes, lose nvidia_modeset
			run 535 1m
				19s see State:waiting | WaitsFor:holders | Holders:[pid 4712 (python3) | driver 535.261.03 cannot be completed yet: nvidia_uvm was loaded with parameters ["NVreg_A=1"], wanted are []; nvidia_modeset is not loaded: Could not unload NVIDIA driver kernel modules, driver is in use by pid 4712
				20s last user goes
			end served whole | nvidia_uvm:[] | 1 users`}
	for _, fails := range []string{"insert nvidia_uvm", "insert nvidia_modeset", "delete nvidia_uvm"} {
		told[fails] = `
			leave 535, holder comes, lose nvidia_modeset
			run 535 uvm=NVreg_A=1
				on ` + fails + `: fail
			end unserved | error ErrLeft: | injected failure | State:detached | modules [i2c_core ipmi_devintf ipmi_msghandler nvidia nvidia_uvm] | nvidia_uvm:[] | record: nvidia_modeset is not in it
			run 535
			end served whole`
	}
	stories(t, told)
}

// nvidia-peermem is loaded with the others if Mellanox's module is loaded, and otherwise left to
// reload_nvidia_peermem.
func TestRDMA(t *testing.T) {
	stories(t, map[string]string{"": `
			run 535
			end served absent | -insert nvidia_peermem
			load mlx5_core
			run 535
			end served absent | +insert nvidia_peermem`}, full)
}

// nouveau is unloaded only if that is configured, with the modules that use it, and never by force.
func TestUnloadNouveau(t *testing.T) {
	stories(t, map[string]string{"not asked for": `
			load nouveau
			run 535
			end served absent | nouveau`})
	stories(t, map[string]string{"asked for": `
			load nouveau
			run 535
			end served absent | !nouveau
			load nouveau, user of nouveau
			run 535
			end unserved | error ErrInUse: | unload nouveau`}, func(n *Node) { n.cfg.UnloadNouveau = true })
}

// A container that waits for a fit node says why, touches nothing, and goes on by itself: after a minute, and
// as soon as another driver is gone. A signal ends the wait at once. Without the wait, the termination message
// has what the check found.
func TestUnfitNode(t *testing.T) {
	const waits = `
			unfit, cached 535, load nouveau
			run 535 5m waits
				100s see State:waiting | WaitsFor:preflight | Phase:preflight | no headers | !failure {Time:0001 | CacheHits:1
				%s see State:waiting
				%s see State:serving | Reason: WaitsFor | CacheHits:1
				152s not unfit
				%s unload nouveau
			end served absent | log 1× waiting for a fit node | log 1× nothing prevents the driver any more | log 1× driver chosen | log 1× another compiler`
	stories(t, map[string]string{
		"a minute passes":     fmt.Sprintf(waits, "175s", "182s", "183s"),
		"nouveau is unloaded": fmt.Sprintf(waits, "151s", "158s", "152s"),
		"stopped": `
			unfit
			run 535 90s waits
			end unserved absent | after 1m30s | State: Ready | -stage
			not unfit, leave 470, unfit
			run 535 90s waits
			end unserved whole | State:detached | up {Version:470.256.02`,
		"not waited for": `
			unfit
			run 535 1h
			end unserved absent | error: preflight: this node cannot run the driver as it is | State:failed | last words: preflight: this node cannot run the driver as it is: | no headers`,
	})
	bubble(t, func(t *testing.T, w *world) { // a GPU comes, and another driver fits: the node is given back
		w.tell(t, `
			unfit
			run 535 5m waits
				99s see Choice:1 GPUs
				100s GPU comes
			end unserved absent | error: another driver fits this node | after 1m4 | -stage
			GPU goes, not unfit, leave 470, unfit
			run 535 5m waits
				100s GPU comes
			end unserved whole | error: another driver | State:detached | up {Version:470.256.02`,
			func(n *Node) {
				n.Rechoose = func(context.Context) (string, bool) {
					gpus, err := n.Hardware.GPUs()
					return fmt.Sprintf("%d GPUs", len(gpus)), err == nil && len(gpus) == 2
				}
			})
	})
}
