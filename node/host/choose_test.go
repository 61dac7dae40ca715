package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/driverroot"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

// otherKernel is a second kernel that machines may boot.
const otherKernel = "6.1.0-57-amd64"

// The GPUs of a fleet. The drivers of drives list them.
var (
	k80  = devices.GPU{Function: devices.Function{Address: "0000:00:05.0", Vendor: devices.NVIDIA, Device: 0x102d}}
	t4   = devices.GPU{Function: devices.Function{Address: "0000:00:06.0", Vendor: devices.NVIDIA, Device: 0x1eb8}}
	h100 = devices.GPU{Function: devices.Function{Address: "0000:00:07.0", Vendor: devices.NVIDIA, Device: 0x2330}}
)

// drives are the GPUs that a driver's list has; those of an older branch are in it as such.
var drives = map[string][]devices.GPU{
	"470.256.02": {k80, t4}, "535.261.03": {t4, h100}, "580.95.05": {t4, h100},
}

// fleet bakes several drivers into one folder.
type fleet struct {
	dir    string
	set    *kbuild.Set
	images map[string]string // driver -> root of its image
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{dir: filepath.Join(t.TempDir(), "state"), set: made(t, imageKernel), images: map[string]string{}}
	for driver := range drives {
		f.images[driver] = filepath.Join(t.TempDir(), "image")
		f.build(t, driver, "0")
	}
	return f
}

// build makes the image of a driver, whose identity consists of this digit.
func (f *fleet) build(t *testing.T, driver, digit string) {
	t.Helper()
	root := f.images[driver]
	info := driverinfo.Description{Schema: driverinfo.Schema, Driver: driver, Branch: "R" + driver[:3], OS: "debian12", Arch: "amd64",
		Profile: "full", Flavours: []string{driverinfo.Proprietary}, Toolchain: true, ID: strings.Repeat(digit, 61) + driver[:3]}
	testfile.Write(t, filepath.Join(root, driverinfo.Path), string(require.Value(info.Encode())(t)))
	lib := root + "/usr/lib/x86_64-linux-gnu/"
	testfile.Write(t, lib+"libcuda.so."+driver, "\x7fELF of "+driver)
	testfile.Write(t, lib+"libc.so.6", "\x7fELF the same in all images")
	require.NoError(t, os.Chtimes(lib+"libc.so.6", sometime, sometime))
	testfile.WriteMode(t, root+Program, "\x7fELF", 0o755)
	var rows []string
	for _, g := range []devices.GPU{k80, t4, h100} {
		if slices.Contains(drives[driver], g) {
			rows = append(rows, fmt.Sprintf(`{"devid":"0x%04X","name":"a GPU"}`, g.Device))
		} else if g == k80 {
			rows = append(rows, `{"devid":"0x102D","name":"Tesla K80","legacybranch":"470.xx"}`)
		}
	}
	testfile.Write(t, root+supportedGPUs, `{"chips":[`+strings.Join(rows, ",")+`]}`)
}

var sometime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (f *fleet) bake(t *testing.T, driver string, kernels ...string) (Baked, error) {
	t.Helper()
	cfg := config.Defaults()
	cfg.Run, cfg.StateDir = t.TempDir(), f.dir
	b := Bake{Config: cfg, Kernels: kernels, image: f.images[driver]}
	b.modules = func(ctx context.Context, release string) (*kbuild.Set, string, error) {
		set := *f.set
		set.Key.Driver, set.Key.Release = driver, release
		kept, err := kbuild.Cache{Dir: filepath.Join(f.dir, modulesDir)}.Put(ctx, &set)
		return kept, status.Compiled, err
	}
	return b.Run(t.Context(), logtest.New(t))
}

// choose starts the image of a driver, or no image (""), on a node.
func (f *fleet) choose(t *testing.T, own, release string, gpus ...devices.GPU) (Choice, error) {
	t.Helper()
	cfg := config.Defaults()
	cfg.StateDir = f.dir
	image := t.TempDir()
	if own != "" {
		image = f.images[own]
	}
	return chooser{cfg: cfg, image: image, release: release, gpus: gpus, log: logtest.New(t)}.choose(t.Context())
}

// model says what of each baked driver is whole.
type model struct {
	roots   map[string]bool     // of baked drivers
	modules map[string][]string // driver -> kernels
}

// wants returns the driver that has to serve: "" is the image's own, or none.
func (m model) wants(own, release string, gpu devices.GPU) string {
	if own != "" && slices.Contains(drives[own], gpu) {
		return ""
	}
	best := ""
	for driver, root := range m.roots {
		if root && driver > best && slices.Contains(m.modules[driver], release) && slices.Contains(drives[driver], gpu) {
			best = driver
		}
	}
	return best
}

// TestChooseLives bakes, bakes again, rebuilds images and spoils what was baked, in any order. After each
// step, for each image, GPU and kernel, the driver serves that the rule names: the image's own if it drives
// the GPU, else the newest whole one that does. A bake changes no driver but its own.
func TestChooseLives(t *testing.T) {
	tool.AsRoot(t, "it makes roots")
	drivers := []string{"470.256.02", "535.261.03", "580.95.05"}
	kernels := []string{imageKernel, otherKernel}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the same in each run
			f, m := newFleet(t), model{map[string]bool{}, map[string][]string{}}
			for range 6 {
				driver := drivers[r.IntN(len(drivers))]
				_, baked := m.roots[driver]
				step := r.IntN(6)
				switch {
				case step == 0 && baked:
					index := require.Value(readIndex(f.dir))(t)
					b := index.Drivers[slices.IndexFunc(index.Drivers, func(b Baked) bool { return b.Driver == driver })]
					require.NoError(t, os.Truncate(filepath.Join(f.dir, b.Root, "usr/lib/x86_64-linux-gnu/libcuda.so."+driver), 1))
					m.roots[driver] = false
				case step == 1 && len(m.modules[driver]) > 0:
					release := m.modules[driver][0]
					for _, k := range (kbuild.Cache{Dir: filepath.Join(f.dir, modulesDir)}).Keys() {
						if k.Driver == driver && k.Release == release {
							require.NoError(t, os.Truncate(filepath.Join(f.dir, modulesDir, k.String(), "nvidia.ko"), 10))
						}
					}
					m.modules[driver] = m.modules[driver][1:]
				case step == 2: // a bake that was killed: the next one cleans up
					testfile.Write(t, f.dir+"/roots/.tmp-1/usr/lib/libcuda.so", "half")
					testfile.Write(t, f.dir+"/"+IndexFile+".tmp", "{")
				default:
					f.build(t, driver, fmt.Sprint(r.IntN(3)))
					releases := kernels[:1+r.IntN(2)]
					before := require.Value(readIndex(f.dir))(t)
					b := require.Value(f.bake(t, driver, releases...))(t)
					after := require.Value(readIndex(f.dir))(t)
					others := func(i Index) []Baked {
						return slices.DeleteFunc(append([]Baked{}, i.Drivers...), func(b Baked) bool { return b.Driver == driver })
					}
					assert.Same(t, b, after.Drivers[len(after.Drivers)-1])
					assert.Same(t, others(before), others(after))
					roots := require.Value(filepath.Glob(f.dir + "/roots/[0-9]*"))(t)
					assert.Equalf(t, len(after.Drivers), len(roots), "one root each: %v", roots)
					m.roots[driver] = true
					m.modules[driver] = slices.Concat(releases, slices.DeleteFunc(m.modules[driver], func(k string) bool { return slices.Contains(releases, k) }))
				}
				for _, own := range append(drivers, "") {
					for _, gpu := range []devices.GPU{k80, t4, h100} {
						for _, release := range kernels {
							got, err := f.choose(t, own, release, gpu)
							want := m.wants(own, release, gpu)
							assert.Equalf(t, want, got.Driver, "image %q, GPU %x, kernel %s: %s", own, gpu.Device, release, got.Reason)
							none := own == "" && want == "" && len(m.roots) > 0
							assert.Equalf(t, none, err != nil, "image %q: %v", own, err)
						}
					}
				}
			}
		})
	}
}

// TestIndex checks that an index that was cut, is of another version or leads elsewhere, and a folder that
// others may write, are refused with the path and what to do, and that nothing in them is executed: the
// image's own driver starts, which says itself why it does not fit.
func TestIndex(t *testing.T) {
	tool.AsRoot(t, "it makes roots")
	f := newFleet(t)
	require.Value(f.bake(t, "470.256.02", imageKernel))(t)
	path := filepath.Join(f.dir, IndexFile)
	text := string(require.Value(os.ReadFile(path))(t))
	goldentest.Schema(t, "baked.schema.json", text)
	root := require.Value(readIndex(f.dir))(t).Drivers[0].Root
	set := require.Value(readIndex(f.dir))(t).Drivers[0].Kernels[0].Folder
	chosen := func() Choice { return require.Value(f.choose(t, "535.261.03", imageKernel, k80))(t) }
	got := chosen()
	assert.Equalf(t, "470.256.02", got.Driver, "%s", got.Reason)
	for _, want := range []string{"driver 470.256.02 of " + f.dir + " serves: ", "535.261.03 no longer supports 0000:00:05.0 (Tesla K80, 10de:102d)"} {
		assert.Equalf(t, true, strings.Contains(got.Reason, want), "%q in %s", want, got.Reason)
	}
	twice := Index{Schema: indexSchema, Drivers: append(require.Value(readIndex(f.dir))(t).Drivers, require.Value(readIndex(f.dir))(t).Drivers...)}
	for name, c := range map[string]struct{ text, want string }{
		"cut":              {text[:len(text)/2], "unexpected EOF"},
		"empty":            {"", "EOF"},
		"newer":            {strings.Replace(text, `"schema": 1`, `"schema": 2`, 1), "schema 2 is not 1"},
		"root elsewhere":   {strings.Replace(text, root, "../../etc", 1), `is "../../etc", not roots/470`},
		"root is a path":   {strings.Replace(text, `"driver": "470.256.02"`, `"driver": "../x"`, 1), "want numbers and dots"},
		"other modules":    {strings.Replace(text, `"folder": "modules/`, `"folder": "../modules/`, 1), "not in modules"},
		"one driver twice": {string(require.Value(json.Marshal(twice))(t)), "twice"},
		"huge":             {strings.Repeat(" ", maxIndex+1), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o644))
			_, err := readIndex(f.dir)
			assert.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, path)
			if name != "huge" {
				assert.ErrorContains(t, err, "bake the drivers again")
			}
			got := chosen()
			assert.Equalf(t, "", got.Driver, "it is not used")
			assert.Contains(t, got.Reason, "no baked driver is used: read the list of baked drivers "+path)
			_, err = f.bake(t, "580.95.05", imageKernel)
			assert.ErrorIs(t, err, config.ErrConfig)
		})
	}
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	elsewhere := t.TempDir()
	for name, spoil := range map[string]func(path string) (undo func() error, err error){
		"mode": func(path string) (func() error, error) {
			return func() error { return os.Chmod(path, 0o755) }, os.Chmod(path, 0o777)
		},
		"owner": func(path string) (func() error, error) {
			return func() error { return os.Chown(path, 0, 0) }, os.Chown(path, 1234, 0)
		},
		"link": func(path string) (func() error, error) {
			moved := filepath.Join(elsewhere, "moved")
			undo := func() error { return errors.Join(os.Remove(path), os.Rename(moved, path)) }
			return undo, errors.Join(os.Rename(path, moved), os.Symlink(moved, path))
		},
	} {
		for _, path := range []string{".", IndexFile, "roots", root, root + Program, "modules", set} {
			if path == "." && name == "link" {
				continue // the path of the folder itself may have links
			}
			t.Run(name+" of "+path, func(t *testing.T) {
				undo, err := spoil(filepath.Join(f.dir, path))
				require.NoError(t, err)
				assert.Equalf(t, "", chosen().Driver, "it is not used")
				require.NoError(t, undo())
				assert.Equalf(t, "470.256.02", chosen().Driver, "it is used again")
			})
		}
	}
}

// TestChooseMachine checks what a machine without a driver image says when no baked driver fits, and that a
// driver of another architecture or system is named and left alone.
func TestChooseMachine(t *testing.T) {
	tool.AsRoot(t, "it makes roots")
	f := newFleet(t)
	require.Value(f.bake(t, "535.261.03", imageKernel))(t)
	index := require.Value(readIndex(f.dir))(t)
	assert.Equalf(t, true, require.Value(readInfo(f.images["535.261.03"]))(t).Toolchain, "the image has a compiler")
	assert.Equalf(t, false, require.Value(readInfo(filepath.Join(f.dir, index.Drivers[0].Root)))(t).Toolchain, "its root has a compiler")
	other := index.Drivers[0]
	other.Arch = "riscv64"
	another := index.Drivers[0]
	another.OS = "ubuntu24.04"
	index.Drivers = append(index.Drivers, other, another)
	require.NoError(t, index.write(f.dir))
	for _, c := range []struct {
		gpu     devices.GPU
		release string
		want    []string
	}{
		{k80, imageKernel, []string{"no baked driver fits kernel " + imageKernel + " and 0000:00:05.0 (10de:102d): ", "driver 535.261.03 for debian12: driver 535.261.03 no longer supports", "it is for riscv64", "has driver 535.261.03 for debian12"}},
		{t4, "6.12.1", []string{"driver 535.261.03 for debian12: no proprietary modules for kernel 6.12.1"}},
	} {
		_, err := f.choose(t, "", c.release, c.gpu)
		blocked := require.ErrorAs[*preflight.BlockedError](t, err)
		for _, want := range c.want {
			assert.ErrorContains(t, blocked, want)
		}
	}
	assert.Equalf(t, "535.261.03", require.Value(f.choose(t, "", imageKernel, t4))(t).Driver, "the one that fits")
}

// TestBakeKeepsOthers checks that drivers that were baked stay: on a full disk while another one is baked,
// and when a start removes old roots and modules, whatever the damage of the index. Files that are equal are stored once.
func TestBakeKeepsOthers(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	f := newFleet(t)
	require.NoError(t, os.MkdirAll(f.dir, 0o755))
	require.NoError(t, unix.Mount("state", f.dir, "tmpfs", 0, "size=4m,mode=755"))
	t.Cleanup(func() { _ = unix.Unmount(f.dir, unix.MNT_DETACH) })
	var roots []string
	for _, driver := range []string{"470.256.02", "535.261.03"} {
		testfile.Write(t, f.images[driver]+"/usr/lib/own.so", "\x7fELF of "+driver) // as long, and as old
		require.NoError(t, os.Chtimes(f.images[driver]+"/usr/lib/own.so", sometime, sometime))
		roots = append(roots, filepath.Join(f.dir, require.Value(f.bake(t, driver, imageKernel))(t).Root))
	}
	libc := func(n int) os.FileInfo {
		return require.Value(os.Stat(roots[n] + "/usr/lib/x86_64-linux-gnu/libc.so.6"))(t)
	}
	assert.Equalf(t, true, os.SameFile(libc(0), libc(1)), "libc is stored once")
	for n, driver := range []string{"470.256.02", "535.261.03"} {
		text := require.Value(os.ReadFile(roots[n] + "/usr/lib/own.so"))(t)
		assert.Equalf(t, "\x7fELF of "+driver, string(text), "a file that differs")
	}
	testfile.Write(t, f.images["580.95.05"]+"/usr/lib/big", strings.Repeat("0123456789abcdef", 1<<18))
	_, err := f.bake(t, "580.95.05", imageKernel)
	assert.ErrorIs(t, err, unix.ENOSPC)
	assert.Equalf(t, 2, len(require.Value(readIndex(f.dir))(t).Drivers), "drivers in the index")
	require.NoError(t, os.Remove(f.images["580.95.05"]+"/usr/lib/big"))
	require.Value(f.bake(t, "580.95.05", imageKernel))(t)

	info := require.Value(readInfo(f.images["580.95.05"]))(t)
	info.ID = strings.Repeat("f", 64)
	cfg := config.Defaults()
	cfg.StateDir = f.dir
	index := require.Value(readIndex(f.dir))(t)
	path := filepath.Join(f.dir, IndexFile)
	text := require.Value(os.ReadFile(path))(t)
	damage := []func() error{
		func() error { return nil },
		func() error { return os.Mkdir(path, 0o755) },
		func() error { return os.Symlink("nowhere", path) },
		func() error { return errors.Join(os.WriteFile(path, text, 0o644), os.Chmod(path, 0o666)) }, //nolint:gosec // that is the point
	}
	for _, word := range []string{`"schema": 1`, "drivers", "root", "kernels", "folder", "modules/", "roots/"} {
		damage = append(damage, func() error {
			return os.WriteFile(path, bytes.ReplaceAll(text, []byte(word), []byte("x"+word[1:])), 0o644)
		})
	}
	for range 20 {
		cut := rand.IntN(len(text) - 2) //nolint:gosec // any place
		damage = append(damage, func() error { return os.WriteFile(path, text[:cut], 0o644) })
	}
	for n, spoil := range damage {
		if n > 0 {
			require.NoError(t, os.Remove(path))
		}
		require.NoError(t, spoil())
		m := require.Value(machine(cfg, info, imageKernel, logtest.New(t)))(t)
		assert.Equalf(t, n > 0, len(m.Warnings) == 1, "damage %d: %s", n, m.Warnings)
		require.NoError(t, m.Roots.Prune(t.Context(), nil))
		for n := range keepSets + 1 {
			set := *f.set
			set.Key.Release = fmt.Sprintf("6.1.%d", n)
			require.Value(m.Supplier.Keep(t.Context(), &set, nil))(t)
		}
		for _, b := range index.Drivers {
			assert.NoErrorf(t, driverroot.Check(filepath.Join(f.dir, b.Root), b.Driver, b.ID), "damage %d", n)
			assert.NoErrorf(t, assert.Err(os.Stat(filepath.Join(f.dir, b.Kernels[0].Folder, "nvidia.ko"))), "damage %d", n)
		}
	}
}
