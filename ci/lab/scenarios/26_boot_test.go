package scenarios

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/logtest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/tool"
)

// column is a part of a start: the phases that it has.
type column struct {
	name   string
	phases []string
}

const compiles = "compile"

// parts are the columns of the table, in order.
var parts = []column{
	{"guest boots", nil},
	{"process starts", nil},
	{"survey, preflight", []string{"lock", "recover", "survey", "preflight"}},
	{compiles, []string{"modules"}},
	{"stage", []string{"stage"}},
	{"load", []string{"load"}},
	{"verify", []string{"verify"}},
	{"others", []string{"replace", "root", "companions", "nodes", "daemons"}},
}

// start is one measured start: the seconds of each part, from the container's start to ready, and of insmod
// of the same modules in the same guest, just before.
type start struct {
	parts         []time.Duration
	ready, insmod time.Duration
}

// Test26Boot measures how long a guest takes from the start of its boot until the driver is ready, by kind of
// image, and writes the table of docs/benchmarks.md (boot.md in DRIVER_E2E_KEEP) and the raw numbers of
// ci/bench (boot.tsv). Each kind has a guest of its own and RUNS starts in it (default 1), each after an
// insmod of the same files; the table has the medians. Nothing is pulled: the images are on the disk. The
// guest is emulated; only the compile, which runs on this machine, has the time of a real node. So has the
// project's own part of a start, which "native" measures with a fake kernel.
func Test26Boot(t *testing.T) {
	lab.Gate(t)
	kernel := lab.Kernel(t, "debian12")
	runs := require.Value(strconv.Atoi(cmp.Or(os.Getenv("RUNS"), "1")))(t)
	var table, note, raw strings.Builder
	table.WriteString("| seconds |")
	for _, p := range parts {
		table.WriteString(" " + p.name + " |")
	}
	table.WriteString(" container's start to ready | `insmod` | more than `insmod` | **boot to ready** | to pull, MB |\n|" + strings.Repeat("---|", len(parts)+6) + "\n")

	full := pullMB(t, d535.layout(t))
	var first start
	t.Run("universal", func(t *testing.T) {
		g := stage{alone: true, products: map[string]product{"driver": d535}, modules: []modules{{d535, closed}}}.start(t)
		first = measure(t, g, "")
		cached := measureAll(t, g, runs)
		row(t, &table, "universal, modules and root cached", full, cached...)
		rawRows(&raw, "", cached)
		for _, e := range emulations {
			e.compare(t, g, kernel, &note, &raw)
		}
	})
	t.Run("compiled", func(t *testing.T) { // when the guest has gone
		if len(first.parts) == 0 {
			t.Skip("the universal image did not start, or was not asked to")
		}
		first.compile(compileTime(t, kernel))
		row(t, &table, "universal, compiled (natively)", full, first)
	})
	for _, k := range []struct{ name, row, profile string }{{"full", "precompiled, full", "full"}, {"compute", "precompiled, compute (cuda)", "cuda"}} {
		t.Run(k.name, func(t *testing.T) {
			dir := d535.layoutOf(t, "boot-"+kernel.Release+"-"+k.profile, "--builder", "chroot", "--kernel", kernel.Release, "--profile", k.profile)
			g := stage{alone: true, disks: map[string]lab.Image{"driver": lab.ImageDisk(t, dir, firstTag(t, dir))}, edit: func(c *lab.Config) {
				c.NoHeaders, c.MemoryMB = true, 3000 // on a node, data that were just unpacked are in memory
			}}.start(t)
			g.Unpack("driver")
			var all []start
			for n := range runs {
				all = append(all, measure(t, g, lab.UnpackedTop("driver")+"/usr/share/nvidia-driver/modules/535*"))
				g.Sh(fmt.Sprintf("mv /var/lib/nvidia-driver/roots /var/lib/roots-%d", n)) // the next start is a first one, too
			}
			row(t, &table, k.row, pullMB(t, dir), all...)
			rawRows(&raw, "-"+k.name, all)
		})
	}
	t.Run("baked", func(t *testing.T) {
		all := bakedStarts(t, kernel, runs)
		row(t, &table, "universal, baked", full, all...)
		rawRows(&raw, "-baked", all)
	})
	t.Run("native", func(t *testing.T) { nativeStarts(t, kernel, runs, &note, &raw) }) // when no guest runs
	t.Logf("%s%s", table.String(), note.String())
	keep(t, "boot.md", table.String()+note.String())
	keep(t, "boot.tsv", raw.String())
}

// rawRows writes the lines of ci/goals, the first three columns of them.
func rawRows(to *strings.Builder, kind string, all []start) {
	for _, s := range all {
		fmt.Fprintf(to, "boot\tstart%s\t%s\nboot\tinsmod%s\t%s\n", kind, seconds(s.ready), kind, seconds(s.insmod))
	}
}

// measureAll measures starts with the modules of the node's cache.
func measureAll(t *testing.T, g *lab.Guest, runs int) (all []start) {
	t.Helper()
	for range runs {
		all = append(all, measure(t, g, cachedModules))
	}
	return all
}

// measure starts the driver, waits until it is ready, stops it, and returns how long each part took. Before,
// it loads and unloads the modules of a folder ("": none).
func measure(t *testing.T, g *lab.Guest, modules string) start {
	t.Helper()
	var s start
	if modules != "" {
		s.insmod = insmod(t, g, modules)
	}
	p := ready(t, g, driver("driver"))
	phases := phasesOf(t, g, p)
	s.ready = since(t, g, p, logtest.Ready)
	for _, part := range parts {
		var took time.Duration
		for _, name := range part.phases {
			took += phases[name]
		}
		s.parts = append(s.parts, took)
	}
	s.parts[0], s.parts[1] = g.BootTime(), since(t, g, p, "accepting its license")
	var known time.Duration
	for _, took := range s.parts[1:] {
		known += took
	}
	s.parts[len(parts)-1] += max(0, s.ready-known) // between the first line and the first phase, and between phases
	t.Logf("insmod takes %s; ready after %s; phases %v", s.insmod, s.ready.Round(time.Millisecond), phases)
	stops(t, p, 0)
	return s
}

// compile adds a compile that ran on this machine.
func (s *start) compile(took time.Duration) {
	s.parts[slices.IndexFunc(parts, func(c column) bool { return c.name == compiles })] += took
	s.ready += took
}

func compileTime(t *testing.T, kernel *lab.HostKernel) time.Duration {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	out, took, err := d535.timed(t, kernel, t.TempDir(), "compile", "--kernel", kernel.Release, "--kernel-module-type", closed, "--fetch-headers=false")
	require.NoErrorf(t, err, "compile: %s", out)
	return took
}

// bakedStarts starts the driver with a folder that was baked on this machine.
func bakedStarts(t *testing.T, kernel *lab.HostKernel, runs int) []start {
	t.Helper()
	state := bakedState(t, kernel)
	g := stage{alone: true, products: map[string]product{"driver": d535}, edit: func(c *lab.Config) { c.Disks["/seed/baked"] = lab.TreeDisk(t, state) }}.start(t)
	g.Sh("mkdir -p /var/lib/nvidia-driver && cp -a /seed/baked/. /var/lib/nvidia-driver/")
	return measureAll(t, g, runs)
}

// bakedState bakes on this machine and returns the folder.
func bakedState(t *testing.T, kernel *lab.HostKernel) string {
	t.Helper()
	state := t.TempDir()
	tool.Must(t, "cp", "-a", d535.modules(t, kernel, closed), filepath.Join(state, "modules"))
	making.Lock()
	out, err := d535.run(t, kernel, state, "bake", "--into", "/var/lib/nvidia-driver", "--kernel", kernel.Release, "--kernel-module-type", closed, "--fetch-headers=false")
	making.Unlock()
	require.NoErrorf(t, err, "bake: %s", out)
	return state
}

// row writes the medians of several starts to the table, and to the test's log.
func row(t *testing.T, table *strings.Builder, name string, pull float64, all ...start) {
	t.Helper()
	cells := []string{"| " + name}
	for i := range parts {
		cells = append(cells, seconds(median(all, func(s start) time.Duration { return s.parts[i] })))
	}
	total := median(all, func(s start) time.Duration { return s.ready })
	cells = append(cells, seconds(total))
	if load := median(all, func(s start) time.Duration { return s.insmod }); load > 0 {
		cells = append(cells, seconds(load), seconds(median(all, func(s start) time.Duration { return s.ready - s.insmod })))
	} else {
		cells = append(cells, "", "")
	}
	cells = append(cells, "**"+seconds(total+all[0].parts[0])+"**", fmt.Sprintf("%.0f |", pull))
	line := strings.Join(cells, " | ")
	t.Log(line)
	table.WriteString(line + "\n")
}

func median(all []start, value func(start) time.Duration) time.Duration {
	var values []time.Duration
	for _, s := range all {
		values = append(values, value(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// layoutIndex is what the test reads of an index and of a manifest.
type layoutIndex struct {
	Manifests []struct {
		Digest      string
		Annotations map[string]string
	}
	Layers []struct{ Size int64 }
}

func readLayout(t *testing.T, path string) (index layoutIndex) {
	t.Helper()
	require.NoError(t, json.Unmarshal(require.Value(os.ReadFile(path))(t), &index))
	return index
}

// firstTag returns the tag of the first image of a layout.
func firstTag(t *testing.T, dir string) string {
	t.Helper()
	return readLayout(t, filepath.Join(dir, "index.json")).Manifests[0].Annotations["org.opencontainers.image.ref.name"]
}

// pullMB returns the size of the compressed layers of the first image of a layout.
func pullMB(t *testing.T, dir string) (mb float64) {
	t.Helper()
	_, hash, _ := strings.Cut(readLayout(t, filepath.Join(dir, "index.json")).Manifests[0].Digest, ":")
	for _, l := range readLayout(t, filepath.Join(dir, "blobs/sha256", hash)).Layers {
		mb += float64(l.Size) / 1e6
	}
	return mb
}
