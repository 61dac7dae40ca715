package kernel

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// busyboxText is a busybox as far as it is read.
const busyboxText = "\x7fELF...\xae [\x00[[\x00ash\x00insmod\x00modprobe\x00mount\x00sh\x00wc\x00\x00Usage: \x00"

// rig is a world with Debian, and a builder in it.
type rig struct {
	*imagetest.World
	b     *images.Builder
	query Query
}

func newRig(t *testing.T) *rig {
	t.Helper()
	w := imagetest.New(t)
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	client := require.Value(registry.New(registry.Options{Store: store, Attempts: 1}))(t)
	t.Cleanup(client.Close)
	b := &images.Builder{Store: store, Fetch: &fetch.Client{Store: store, Attempts: 1, Backoff: time.Millisecond}, Registry: client}
	m := require.Value(matrix.Parse("matrix.yaml", []byte(w.Matrix())))(t)
	r := &rig{World: w, b: b}
	r.query.System.Target = target(t, m, "debian12")
	r.query.Programs.Target = require.Value(Programs(m, r.query.System.Target))(t)
	r.change(func(p *repotest.Deb) {
		switch p.Field("Package") {
		case "linux-image-" + imagetest.Kernel:
			p.Files = kernelFiles(t, "lib/modules/", imagetest.Kernel)
			p.Files = append(p.Files, repotest.File{Name: "boot/vmlinuz-" + imagetest.Kernel, Body: string(bzImage(packed(t, ".xz", startable())))})
		case "busybox-static":
			p.Files = []repotest.File{{Name: "bin/busybox", Body: busyboxText, Mode: 0o755}}
		}
	})
	r.add("Package: runc\nVersion: 1.1.5\nArchitecture: amd64\nDepends: libseccomp2\n", repotest.File{Name: "usr/sbin/runc", Body: "runc", Mode: 0o755})
	r.add("Package: libseccomp2\nVersion: 2.5\nArchitecture: amd64\nDepends: libc6\n", repotest.File{Name: "usr/lib/x86_64-linux-gnu/libseccomp.so.2", Body: "library"})
	return r
}

// target is a system of a matrix.
func target(t *testing.T, m *matrix.Matrix, id string) matrix.Target {
	t.Helper()
	all := require.Value(m.Select(matrix.Selection{Systems: []string{id}, Drivers: []string{imagetest.NewDriver}, Archs: []string{"amd64"}}))(t)
	return all[0]
}

// change changes the packages of Debian and publishes them.
func (r *rig) change(change func(*repotest.Deb)) {
	archive := r.Archives["debian12"]
	for i := range archive.Packages {
		change(&archive.Packages[i])
	}
	archive.Publish()
}

// add publishes another package of Debian.
func (r *rig) add(control string, files ...repotest.File) {
	archive := r.Archives["debian12"]
	archive.Packages = append(archive.Packages, repotest.Deb{Control: strings.TrimSuffix(control, "\n"), Files: files})
	archive.Publish()
}

// inTree are modules with those that they need.
var inTree = map[string]string{
	"crypto/crc32c_generic": "", "drivers/virtio/virtio": "", "drivers/virtio/virtio_pci": "virtio",
	"drivers/block/virtio_blk": "virtio", "drivers/char/virtio_console": "virtio", "fs/ext4/ext4": "jbd2,mbcache",
	"fs/jbd2/jbd2": "", "fs/mbcache": "", "drivers/gpu/drm/drm": "",
}

// kernelFiles are the modules of a kernel in a folder, the overlay file system among those that are built in.
func kernelFiles(t *testing.T, folder, release string) (files []repotest.File) {
	t.Helper()
	dir := folder + release + "/"
	endings := []string{"", ".xz", ".zst", ".gz"}
	for i, name := range slices.Sorted(maps.Keys(inTree)) {
		base := name[strings.LastIndexByte(name, '/')+1:]
		content := imagetest.LinkedModule(base, "", release, []string{base + "_symbol"}, nil, "depends="+inTree[name])
		ending := endings[i%len(endings)]
		files = append(files, repotest.File{Name: dir + "kernel/" + name + ".ko" + ending, Body: string(repotest.Compress(t, ending, content))})
	}
	return append(files,
		repotest.File{Name: dir + "modules.builtin", Body: "kernel/fs/overlayfs/overlay.ko\n"},
		repotest.File{Name: dir + "modules.order", Body: "kernel/fs/mbcache.ko\n"})
}

func (r *rig) get(t *testing.T) error {
	t.Helper()
	_, _, err := Get(t.Context(), r.b, r.query)
	return err
}

// onDisk returns what debugfs says of the disk.
func onDisk(t *testing.T, disk, request string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "debugfs", "-R", request, disk).Output()
	require.NoError(t, err)
	return string(out)
}

// TestGet: the newest kernel with all parts, unpacked; a second call downloads nothing, and needs no network.
func TestGet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.query.Headers = true
	k, pins, err := Get(t.Context(), r.b, r.query)
	require.NoError(t, err)
	assert.Equal(t, "debian12 "+imagetest.Kernel, k.System+" "+k.Release)
	assert.Contains(t, k.OSRelease, "VERSION_ID")
	assert.Equal(t, string(startable()), string(require.Value(os.ReadFile(k.Image))(t)))
	assert.Equal(t, string(bzImage(packed(t, ".xz", startable()))), string(require.Value(os.ReadFile(k.Signed))(t)))
	var names []string
	for _, p := range pins {
		names = append(names, p.Name)
	}
	assert.Equal(t, "linux-image-6.1.0-56-amd64 linux-headers-6.1.0-56-amd64 linux-kbuild-6.1 busybox-static libc6 libseccomp2 runc", strings.Join(names, " "))
	var order []string
	for _, file := range k.BootModules {
		content := string(require.Value(os.ReadFile(file))(t))
		_, name, _ := strings.Cut(content, "\x00name=")
		name, _, _ = strings.Cut(name, "\x00")
		order = append(order, name)
	}
	assert.Equal(t, "crc32c_generic virtio virtio_pci virtio_blk virtio_console mbcache jbd2 ext4", strings.Join(order, " "))

	requests := r.Requests("/pool/")
	r.b.Fetch.Offline = true
	again, same, err := Get(t.Context(), r.b, r.query)
	require.NoError(t, err)
	assert.Same(t, k, again)
	assert.Same(t, pins, same)
	assert.Equal(t, requests, r.Requests("/pool/"))

	// the cache knows what its files are, and makes again what it lost
	kinds := require.Value(r.b.Store.Usage())(t)
	guests := kinds[slices.IndexFunc(kinds, func(k fetch.Usage) bool { return k.Kind == RecordKind })]
	assert.Equal(t, len(k.BootModules)+3+2, guests.Files) // and two records without content
	require.NoError(t, os.Remove(k.Disk))
	require.NoError(t, r.get(t))
	require.NoError(t, exec.CommandContext(t.Context(), "test", "-s", k.Disk).Run())
}

// TestDisk: what the guest finds in its /usr.
func TestDisk(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("debugfs")
	if err != nil {
		t.Skip("needs debugfs of e2fsprogs")
	}
	r := newRig(t)
	k, _, err := Get(t.Context(), r.b, r.query)
	require.NoError(t, err)
	modules := "/usr/lib/modules/" + imagetest.Kernel
	dep := onDisk(t, k.Disk, "cat "+modules+"/modules.dep")
	assert.Contains(t, dep, "kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/fs/mbcache.ko\n")
	assert.Equal(t, true, strings.HasPrefix(dep, "kernel/fs/mbcache.ko:\n"))
	assert.Contains(t, onDisk(t, k.Disk, "cat "+modules+"/kernel/drivers/gpu/drm/drm.ko"), "name=drm")
	assert.Equal(t, "overlay", strings.TrimSuffix(onDisk(t, k.Disk, "cat "+modules+"/modules.builtin"), ".ko\n")[len("kernel/fs/overlayfs/"):])
	programs := onDisk(t, k.Disk, "ls -p /usr/bin")
	for _, name := range []string{"[", "[[", "ash", "busybox", "modprobe", "runc", "wc"} {
		assert.Contains(t, programs, "/"+name+"/")
	}
	assert.Contains(t, onDisk(t, k.Disk, "stat /usr/sbin"), `Fast link dest: "bin"`)
	assert.Equalf(t, false, strings.Contains(onDisk(t, k.Disk, "ls -p /usr"), "/src/"), "headers that nobody asked for")
}

// TestMissing: kernels that the repositories lack, and what no guest can be made of.
func TestMissing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for release, want := range map[string]string{
		"6.1.0-55-amd64": "kernel 6.1.0-55-amd64 of debian12: no such kernel: cannot resolve packages: linux-image-6.1.0-55-amd64 was asked for, " +
			"no repository has the kernel; there are 6.1.0-56-amd64",
		"newest":     "give a release as uname -r says it",
		"5.4:latest": "no such kernel",
	} {
		r.query.Release = release
		err := r.get(t)
		assert.ErrorIs(t, err, recipe.ErrKernel)
		assert.ErrorContains(t, err, want)
	}
	r.query.Release = ""
	r.query.System.Target.Arch = "arm64"
	assert.ErrorContains(t, r.get(t), "guests are amd64 only")
	r.query.System.Target.Arch = "amd64"
	flatcar := r.query
	flatcar.System.Target.Distro = require.Value(distros.Lookup("flatcar"))(t)
	_, _, err := Get(t.Context(), r.b, flatcar)
	assert.ErrorContains(t, err, "come with the host")
	r.b.Fetch.Offline = true
	err = r.get(t)
	assert.ErrorIs(t, err, fetch.ErrOffline)

	r = newRig(t)
	r.query.Programs.Options.Base = "oci:" + t.TempDir()
	assert.ErrorContains(t, r.get(t), "the matrix can name another base of debian12")

	none := &matrix.Matrix{}
	rocky := matrix.Target{Distro: require.Value(distros.Lookup("rocky9"))(t), Arch: "amd64"}
	_, err = Programs(none, rocky)
	assert.ErrorContains(t, err, "add the system debian12")
}

// TestHostile: packages that are signed and still wrong make no guest, and nothing outside of it.
func TestHostile(t *testing.T) {
	t.Parallel()
	const image, modules = "linux-image-" + imagetest.Kernel, "lib/modules/" + imagetest.Kernel + "/"
	replaced := func(name, body string) func(*repotest.Deb) {
		return func(p *repotest.Deb) {
			p.Files = slices.DeleteFunc(p.Files, func(f repotest.File) bool { return strings.HasPrefix(f.Name, name) })
			if body != "" {
				p.Files = append(p.Files, repotest.File{Name: name, Body: body})
			}
		}
	}
	for what, c := range map[string]struct {
		of     string
		change func(*repotest.Deb)
		want   string
		is     error
	}{
		"a path that leads out": {image, func(p *repotest.Deb) {
			p.Raw = true
			p.Files = append(p.Files, repotest.File{Name: "./../../etc/passwd", Body: "x"})
		}, "unsafe member: leads out", nil},
		"a device":            {image, func(p *repotest.Deb) { p.Files = append(p.Files, repotest.File{Name: "dev/sda", Type: '4'}) }, "unsafe member: type", nil},
		"no kernel":           {image, replaced("boot/", ""), "have neither /boot/vmlinuz-", nil},
		"a kernel of text":    {image, replaced("boot/vmlinuz-"+imagetest.Kernel, "text"), "", errNotKernel},
		"a damaged module":    {image, replaced(modules+"kernel/drivers/gpu/drm/drm.ko", "text"), "", errModule},
		"damaged xz":          {image, replaced(modules+"kernel/fs/mbcache.ko.xz", "\xfd7zXZ\x00text"), "", errModule},
		"no disk":             {image, replaced(modules+"kernel/drivers/block/", ""), "the kernel has no module virtio_blk", nil},
		"a circle":            {image, replaced(modules+"kernel/fs/mbcache.ko", string(imagetest.LinkedModule("mbcache", "", imagetest.Kernel, nil, nil, "depends=ext4"))), "need each other", nil},
		"another busybox":     {"busybox-static", replaced("bin/busybox", "busybox"), "its list of commands has no insmod", nil},
		"a busybox elsewhere": {"busybox-static", replaced("bin/", ""), "have no /usr/bin/busybox", nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.change(func(p *repotest.Deb) {
				if p.Field("Package") == c.of {
					c.change(p)
				}
			})
			err := r.get(t)
			assert.ErrorContains(t, err, c.want)
			if c.is != nil {
				assert.ErrorIs(t, err, c.is)
			}
		})
	}
}

// TestLinks: a link among the modules leads nowhere else.
func TestLinks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.change(func(p *repotest.Deb) {
		if p.Field("Package") == "linux-image-"+imagetest.Kernel {
			p.Files = append(p.Files, repotest.File{Name: "lib/modules/" + imagetest.Kernel + "/kernel/secret.ko", Link: "/etc/shadow"})
		}
	})
	require.NoError(t, r.get(t))
}

// TestKernelUnpacksItself: a kernel that QEMU cannot start by PVH is started as it is packaged.
func TestKernelUnpacksItself(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	image := string(bzImage([]byte("\x02\x21\x4c\x18 and so on")))
	r.change(func(p *repotest.Deb) {
		for i := range p.Files {
			if p.Files[i].Name == "boot/vmlinuz-"+imagetest.Kernel {
				p.Files[i].Body = image
			}
		}
	})
	k, _, err := Get(t.Context(), r.b, r.query)
	require.NoError(t, err)
	assert.Equal(t, k.Signed, k.Image)
	assert.Equal(t, image, string(require.Value(os.ReadFile(k.Image))(t)))
}

// TestUbuntu: a kernel in packages of its own for the image, which is unsigned, and the modules, with programs of
// Debian.
func TestUbuntu(t *testing.T) {
	t.Parallel()
	const release = "5.4.0-150-generic"
	r := newRig(t)
	m := require.Value(matrix.Parse("matrix.yaml", []byte(r.Matrix())))(t)
	r.query.System.Target = target(t, m, "ubuntu18.04")
	r.query.Programs.Target = require.Value(Programs(m, r.query.System.Target))(t)
	assert.Equal(t, "debian12", r.query.Programs.Target.System.ID)
	archive := r.Archives["ubuntu18.04"]
	for name, files := range map[string][]repotest.File{
		"linux-image-unsigned-" + release: {{Name: "boot/vmlinuz-" + release, Body: string(bzImage(packed(t, ".lz4", startable())))}},
		"linux-modules-" + release:        kernelFiles(t, "lib/modules/", release),
		"linux-headers-" + release:        {{Name: "usr/src/linux-headers-" + release + "/Makefile", Body: "all:"}},
	} {
		control := "Package: " + name + "\nVersion: 5.4.0-150.167\nArchitecture: amd64\nDepends: initramfs-tools"
		archive.Packages = append(archive.Packages, repotest.Deb{Control: control, Files: files})
	}
	archive.Publish()
	k, pins, err := Get(t.Context(), r.b, r.query)
	require.NoError(t, err)
	assert.Equal(t, "ubuntu18.04 "+release, k.System+" "+k.Release)
	assert.Equal(t, "linux-image-unsigned-"+release+" linux-modules-"+release, pins[0].Name+" "+pins[1].Name)
	assert.Equal(t, 8, len(k.BootModules))
	assert.Equal(t, string(startable()), string(require.Value(os.ReadFile(k.Image))(t)))
}

// TestRPM: a kernel of Rocky Linux in three packages, with programs of Debian.
func TestRPM(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := imagetest.NewRPM(t, "rocky9")
	m := require.Value(matrix.Parse("matrix.yaml", []byte(w.Matrix())))(t)
	r.query.System.Target = target(t, m, "rocky9")
	rocky := w.Systems["rocky9"]
	const dir = "lib/modules/" + imagetest.RPMKernel
	evr := strings.TrimSuffix(imagetest.RPMKernel, ".x86_64")
	files := kernelFiles(t, "lib/modules/", imagetest.RPMKernel)
	core := rpmNamed(rocky.Packages, "kernel-core", evr)
	core.Files = []repotest.File{{Name: dir + "/vmlinuz", Body: string(bzImage(packed(t, ".zst", startable())))}}
	rocky.Packages = append(rocky.Packages,
		repotest.RPM{Name: "kernel-modules-core", EVR: evr, Provides: []string{"kernel-modules-core-uname-r = " + imagetest.RPMKernel}, Files: files[:4]},
		repotest.RPM{Name: "kernel-modules", EVR: evr, Provides: []string{"kernel-modules-uname-r = " + imagetest.RPMKernel}, Files: files[4:]},
		repotest.RPM{Name: "kernel-uki-virt", EVR: evr, Provides: []string{"kernel-uname-r = " + imagetest.RPMKernel}})
	rocky.Publish()
	k, pins, err := Get(t.Context(), r.b, r.query)
	require.NoError(t, err)
	assert.Equal(t, "rocky9 "+imagetest.RPMKernel, k.System+" "+k.Release)
	assert.Equal(t, "kernel-core kernel-modules-core kernel-modules", pins[0].Name+" "+pins[1].Name+" "+pins[2].Name)
	assert.Equal(t, 8, len(k.BootModules))
	assert.Equal(t, string(startable()), string(require.Value(os.ReadFile(k.Image))(t)))
}

func rpmNamed(all []repotest.RPM, name, evr string) *repotest.RPM {
	i := slices.IndexFunc(all, func(p repotest.RPM) bool { return p.Name == name && p.EVR == evr })
	return &all[i]
}
