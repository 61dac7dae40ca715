package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

// ErrNoDriver says that the kernel has no character devices of NVIDIA: the module is not loaded.
var ErrNoDriver = errors.New("the nvidia module is not loaded: /proc/devices does not name it")

// Nodes creates and removes device nodes. Its folders are a /dev, a procfs and a sysfs: "/dev",
// "/proc", "/sys".
type Nodes struct{ Dev, Proc, Sys string }

// Node is a device node that Create creates, or replaces because it is wrong. It has what is needed
// to recognise the node when the module that assigned its numbers is gone. It is meant for a state
// file.
type Node struct {
	Path  string `json:"path"` // "/dev/nvidia0"
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`
	Made  bool   `json:"made,omitempty"` // by Create, and not only the link
	Link  string `json:"link,omitempty"` // "/dev/char/195:0" when Create makes that link
}

// Union adds nodes whose path is new. For a path that both have, the newer node counts, but the
// record that this program made it is kept from the older one.
func Union(old, created []Node) []Node {
	out := slices.Clone(old)
	for _, c := range created {
		i := slices.IndexFunc(out, func(o Node) bool { return o.Path == c.Path })
		if i < 0 {
			out = append(out, c)
			continue
		}
		c.Made = c.Made || out[i].Made
		c.Link = cmp.Or(c.Link, out[i].Link)
		out[i] = c
	}
	return out
}

// Numbers that the driver fixes: nv.h (NV_MAJOR_DEVICE_NUMBER, NV_CONTROL_DEVICE_MINOR,
// NV_MODESET...), linux_nvswitch.c.
const (
	frontMajor     = 195
	controlMinor   = 255
	modesetMinor   = 254
	switchCtlMinor = 255
	uvmToolsMinor  = 1
	maxCapDepth    = 16 // below procfs
	maxCaps        = 1 << 14
)

// wantedNode is a device node that has to exist.
type wantedNode struct {
	name         string // below Dev
	major, minor uint32
	owner        owner
}

// Create creates the device nodes of every loaded module, and their links in /dev/char by which
// runc finds them: nvidiactl, nvidia<n>, nvidia-modeset, nvidia-uvm and its tools, nvidia-caps/*,
// NVLink and NVSwitch, nvidia-fs<n>, gdrdrv. It keeps nodes with the right numbers and replaces
// wrong ones atomically. When the driver was loaded with NVreg_ModifyDeviceFiles=0 the
// administrator manages the nodes, and Create does nothing. It calls record with what it is about
// to create, so that Remove knows it even when the program is killed meanwhile; what the record
// names need not exist.
func (n Nodes) Create(ctx context.Context, record func([]Node)) error {
	want, err := n.wantedNodes()
	if err != nil {
		return fmt.Errorf("make device nodes: %w", err)
	}
	want = slices.DeleteFunc(want, func(w wantedNode) bool { return !w.owner.modify })
	var missing []Node
	for _, w := range want {
		if node := n.missing(w); node.Made || node.Link != "" {
			missing = append(missing, node)
		}
	}
	if len(missing) > 0 {
		record(missing)
	}
	for _, w := range want {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("make device nodes: %w", err)
		}
		if err := n.ensure(w); err != nil {
			return fmt.Errorf("make device node %s: %w", filepath.Join(n.Dev, w.name), err)
		}
	}
	return nil
}

func (n Nodes) wantedNodes() ([]wantedNode, error) {
	text, err := bounded.File(filepath.Join(n.Proc, "devices"), maxText)
	if err != nil {
		return nil, err
	}
	majors := parseMajors(text)
	front := cmp.Or(majors["nvidia-frontend"], majors["nvidia"], majors["nvidiactl"])
	if front == 0 {
		return nil, ErrNoDriver
	}
	params, err := n.fields("driver/nvidia/params")
	if err != nil {
		return nil, err
	}
	own := parseOwner(params)
	minors, err := n.Minors()
	if err != nil {
		return nil, err
	}
	want := []wantedNode{{"nvidiactl", front, controlMinor, own}}
	for _, minor := range slices.Sorted(maps.Values(minors)) {
		want = append(want, wantedNode{fmt.Sprintf("nvidia%d", minor), front, minor, own})
	}
	if n.modeset(majors) {
		want = append(want, wantedNode{"nvidia-modeset", front, modesetMinor, own})
	}
	add := func(name, driver string, minor uint32) {
		major, loaded := majors[driver]
		if loaded {
			want = append(want, wantedNode{name, major, minor, own})
		}
	}
	add("nvidia-uvm", "nvidia-uvm", 0)
	add("nvidia-uvm-tools", "nvidia-uvm", uvmToolsMinor)
	// The driver makes IMEX channel 0 in the host's /dev only, if it was loaded to make it.
	if params["CreateImexChannel0"] == "1" {
		add("nvidia-caps-imex-channels/channel0", "nvidia-caps-imex-channels", 0)
	}
	fabric, err := n.wantFabric(majors)
	if err != nil {
		return nil, err
	}
	companions, err := n.wantCompanions(majors)
	if err != nil {
		return nil, err
	}
	caps, err := n.wantCaps(majors)
	return slices.Concat(want, fabric, companions, caps), err
}

// maxStorageNodes is more than the nodes that nvidia-fs makes: 16, or its parameter max_devices if
// that is less.
const maxStorageNodes = 64

// wantCompanions returns the nodes of nvidia-fs (GPUDirect Storage) and gdrdrv (GDRCopy). Their
// modes are those of NVIDIA: nvfs_devnode in nvfs-core.c, and insmod.sh of GDRCopy. Where /dev is
// the host's, the kernel has made those of nvidia-fs already. The numbers of nvidia-fs count from
// 0, and sysfs has an entry for each.
func (n Nodes) wantCompanions(majors map[string]uint32) (want []wantedNode, err error) {
	own := owner{mode: 0o666, modify: true}
	if major, ok := majors["nvidia-fs"]; ok {
		for minor := range uint32(maxStorageNodes) {
			name := fmt.Sprintf("nvidia-fs%d", minor)
			text, err := bounded.Text(
				filepath.Join(n.Sys, "class/nvidia-fs-class", name, "dev"),
				maxSmall,
			)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				break
			}
			if err != nil {
				return nil, err
			}
			if strings.TrimSpace(text) == fmt.Sprintf("%d:%d", major, minor) {
				want = append(want, wantedNode{name, major, minor, own})
			}
		}
	}
	if major, ok := majors["gdrdrv"]; ok {
		want = append(want, wantedNode{"gdrdrv", major, 0, own})
	}
	return want, nil
}

// modeset says whether nvidia-modeset is loaded. Since release 545 it has a line in /proc/devices;
// before, it shares nvidia's.
func (n Nodes) modeset(majors map[string]uint32) bool {
	if _, ok := majors["nvidia-modeset"]; ok {
		return true
	}
	_, err := os.Stat(filepath.Join(n.Sys, "module/nvidia_modeset"))
	return err == nil
}

// wantFabric returns the nodes of NVLink and of the NVSwitches, whose modes are in files of their
// own. No file has the minors of the switches; the driver counts them from 0.
func (n Nodes) wantFabric(majors map[string]uint32) ([]wantedNode, error) {
	var want []wantedNode
	if m, ok := majors["nvidia-nvlink"]; ok {
		fields, err := n.fields("driver/nvidia-nvlink/permissions")
		if err != nil {
			return nil, err
		}
		want = append(want, wantedNode{"nvidia-nvlink", m, 0, parseOwner(fields)})
	}
	m, ok := majors["nvidia-nvswitch"]
	if !ok {
		return want, nil
	}
	fields, err := n.fields("driver/nvidia-nvswitch/permissions")
	if err != nil {
		return nil, err
	}
	own := parseOwner(fields)
	entries, err := os.ReadDir(filepath.Join(n.Proc, "driver/nvidia-nvswitch/devices"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	want = append(want, wantedNode{"nvidia-nvswitchctl", m, switchCtlMinor, own})
	for i := range entries[:min(len(entries), switchCtlMinor)] {
		want = append(want, wantedNode{fmt.Sprintf("nvidia-nvswitch%d", i), m, uint32(i), own})
	}
	return want, nil
}

// wantCaps returns the nodes of the driver's capabilities (MIG, fabric management):
// nvidia-caps/nvidia-cap<minor>. It skips those of a MIG instance that is destroyed meanwhile.
func (n Nodes) wantCaps(majors map[string]uint32) ([]wantedNode, error) {
	major, ok := majors["nvidia-caps"]
	if !ok {
		return nil, nil
	}
	byMinor := map[uint32]wantedNode{}
	visit := func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case strings.Count(path, "/")-strings.Count(n.Proc, "/") > maxCapDepth:
			return fmt.Errorf("%s: folders deeper than %d", path, maxCapDepth)
		case !d.Type().IsRegular():
			return nil
		case len(byMinor) >= maxCaps:
			return fmt.Errorf("%s: more than %d capabilities", path, maxCaps)
		}
		text, err := bounded.File(path, maxText)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		c, err := parseCapability(text)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		name := fmt.Sprintf("nvidia-caps/nvidia-cap%d", c.minor)
		byMinor[c.minor] = wantedNode{name, major, c.minor, owner{mode: c.mode, modify: c.modify}}
		return nil
	}
	for _, dir := range []string{"driver/nvidia/capabilities", "driver/nvidia-nvlink/capabilities"} {
		err := filepath.WalkDir(filepath.Join(n.Proc, dir), visit)
		if err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(
		maps.Values(byMinor),
		func(a, b wantedNode) int { return cmp.Compare(a.minor, b.minor) },
	), nil
}

// fields reads a file of the driver with lines "Name: value".
func (n Nodes) fields(name string) (map[string]string, error) {
	text, err := bounded.File(filepath.Join(n.Proc, name), maxText)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return parseFields(text), nil
}

func (w wantedNode) dev() uint64 { return unix.Mkdev(w.major, w.minor) }
