package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// bootModules are needed for the disks, the port and their file systems. The checksum comes first:
// libcrc32c requests it through modprobe, which does not find modules in the initramfs.
var bootModules = []string{
	"crc32c_generic",
	"virtio_pci",
	"virtio_blk",
	"virtio_console",
	"erofs",
	"ext4",
	"overlay",
}

// hidden are the patterns of the kernel's headers below /usr.
const hidden = "src/* lib/linux-kbuild-* lib/modules/*/build lib/modules/*/source"

// initramfs writes the guest's first file system; see ci/lab/init.
func (c *Config) initramfs(t testing.TB, path string) {
	t.Helper()
	tree := t.TempDir()
	for _, dir := range []string{"bin", "dev", "proc", "sys", "newroot", "boot", "host/lab"} {
		require.NoError(t, os.MkdirAll(filepath.Join(tree, dir), 0o755))
	}
	var order, disks strings.Builder
	for _, name := range bootModules {
		// Lines are "insmod FILE", those it needs first, or "builtin NAME".
		lines := tool.Must(
			t,
			"modprobe",
			"-d",
			filepath.Join(c.Kernel.Root, "usr"),
			"-S",
			c.Kernel.Release,
			"--show-depends",
			name,
		)
		for line := range strings.Lines(lines) {
			file, found := strings.CutPrefix(strings.TrimSpace(line), "insmod ")
			if found && !strings.Contains(order.String(), filepath.Base(file)+"\n") {
				fmt.Fprintln(&order, filepath.Base(file))
				tool.Must(t, "cp", file, filepath.Join(tree, "boot"))
			}
		}
	}
	for i, name := range sortedKeys(c.Images) {
		fmt.Fprintf(&disks, "image%d %s\n", i, imageDir(name))
	}
	for i, path := range sortedKeys(c.Disks) {
		fmt.Fprintf(&disks, "disk%d %s\n", i, path)
	}
	files := map[string]string{
		"boot/order": order.String(), "disks": disks.String(), "hidden": "", "host/etc/os-release": c.Kernel.osRelease(),
	}
	if c.NoHeaders {
		files["hidden"] = hidden
	}
	testfile.Tree(t, tree, files)
	tool.Must(t, "cp", "/bin/busybox", filepath.Join(tree, "bin"))
	tool.Must(t, "cp", filepath.Join(sourceDir(t), "init"), tree)
	require.NoError(
		t,
		tool.Build(
			t.Context(),
			filepath.Join(tree, "host/lab/agent"),
			"ci/lab/agent",
			"GOARCH=amd64",
		),
	)
	for _, program := range append([]string{"runc"}, c.Programs...) {
		addProgram(t, filepath.Join(tree, "host/lab/upper"), program)
	}
	tool.Must(t, "sh", "-c", `cd "$1" && find . | busybox cpio -o -H newc >"$2"`, "sh", tree, path)
}

// addProgram copies a program of this machine and its libraries to a folder for /usr.
func addProgram(t testing.TB, usr, name string) {
	t.Helper()
	program := tool.Must(t, "which", name)
	files := map[string]string{program: "bin/" + name}
	for _, library := range regexp.MustCompile(`/\S+\.so\S*`).FindAllString(tool.Must(t, "ldd", program), -1) {
		files[library] = strings.TrimPrefix(strings.TrimPrefix(library, "/usr"), "/")
	}
	for from, to := range files {
		to = filepath.Join(usr, to)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		tool.Must(t, "cp", "-L", from, to)
	}
}

// osRelease is /etc/os-release of the guest's host.
func (k *HostKernel) osRelease() string {
	version := strings.TrimPrefix(k.System, "debian")
	return fmt.Sprintf(
		"PRETTY_NAME=\"Debian GNU/Linux %[1]s\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"%[1]s\"\nID=debian\n",
		version,
	)
}
