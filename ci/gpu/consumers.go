package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/conformance/inside"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

// ownFiles are the rules of verify about the driver's own files. The others are about an image of ours: its
// programs, kernel sources, licences, description and list of files.
var ownFiles = []string{
	"driver-version", "library-directory", "relative-links", "elf", "elf-machine", "soname", "dependencies", "loaded-by-name", "permissions", "privileges", "firmware",
}

func askVerify(ctx context.Context, s *session) found {
	if s.root == "" {
		return notAsked("there is no driver root")
	}
	findings, err := s.verify(ctx)
	if err != nil {
		return found{differences: []string{err.Error()}}
	}
	f := found{compared: "a driver that works: no error by the rules " + strings.Join(ownFiles, ", ")}
	notes, others := 0, 0
	for _, v := range findings {
		switch {
		case !slices.Contains(ownFiles, v.Rule):
			others++
		case v.Severity == verify.Error:
			f.differ("%s", v)
		default:
			notes++
		}
	}
	f.answer = fmt.Sprintf("%d errors, %d notes; %d findings of rules about an image were not judged", len(f.differences), notes, others)
	return f
}

// verify reads the root as if it were an image.
func (s *session) verify(ctx context.Context) (findings []verify.Finding, err error) {
	store, err := fetch.OpenStore(filepath.Join(s.work, "cache"))
	if err != nil {
		return nil, err
	}
	spool, err := rootfs.NewSpool(store.Dir())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	tree := rootfs.New(spool, nil)
	if err := addAll(ctx, tree, s.root); err != nil {
		return nil, fmt.Errorf("read the driver root: %w", err)
	}
	return verify.Examiner{Store: store}.Examine(ctx, tree, &v1.ConfigFile{Architecture: runtime.GOARCH, OS: "linux",
		Config: v1.Config{Env: []string{"DRIVER_VERSION=" + s.version}}})
}

// addAll adds a folder of the machine to a tree.
func addAll(ctx context.Context, tree *rootfs.Tree, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case name == ".":
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return tree.AddLink(name, target)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			return tree.AddDir(name, info.Mode())
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close() //nolint:errcheck // read only
		return tree.AddFile(name, info.Mode(), info.Size(), in)
	})
}

// askPrestart does what the kubelet plugin of NVIDIA's DRA driver does before it starts: it finds nvidia-smi,
// a regular file, and libnvidia-ml.so.1, and runs the one with the other in an empty environment.
func askPrestart(ctx context.Context, s *session) found {
	if s.root == "" {
		return notAsked("there is no driver root")
	}
	f := found{compared: "its search by `find -type f`, and exit code 0 of `env -i LD_PRELOAD=... nvidia-smi --version`"}
	var smi, lib string
	for _, dir := range []string{"opt/bin", "usr/bin", "usr/sbin", "bin", "sbin"} {
		if st, err := os.Lstat(filepath.Join(s.root, dir, "nvidia-smi")); err == nil && st.Mode().IsRegular() {
			smi = cmp.Or(smi, filepath.Join(s.root, dir, "nvidia-smi"))
		}
	}
	for _, dir := range []string{"usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"} {
		if _, err := os.Stat(filepath.Join(s.root, dir, "libnvidia-ml.so.1")); err == nil {
			lib = cmp.Or(lib, filepath.Join(s.root, dir, "libnvidia-ml.so.1"))
		}
	}
	if smi == "" || lib == "" {
		f.differ("the root has nvidia-smi at %q and libnvidia-ml.so.1 at %q", smi, lib)
		return f
	}
	out, err := s.runWith(ctx, []string{"LD_PRELOAD=" + lib}, smi, "--version")
	if err != nil {
		f.differ("%v", err)
		return f
	}
	f.answer = strings.TrimSpace(string(out))
	if !strings.Contains(f.answer, s.version) {
		f.differ("nvidia-smi --version does not name %s: %s", s.version, f.answer)
	}
	return f
}

// askCDI lets NVIDIA's nvidia-ctk make a CDI specification of the root and compares it with the root's files.
func askCDI(ctx context.Context, s *session) found {
	if s.root == "" {
		return notAsked("there is no driver root")
	}
	ctk := filepath.Join(s.Programs, "nvidia-ctk")
	if _, err := os.Stat(ctk); err != nil {
		if ctk, err = exec.LookPath("nvidia-ctk"); err != nil {
			return notAsked("nvidia-ctk is neither beside this program nor on the PATH")
		}
	}
	out, err := s.run(ctx, nil, ctk, "cdi", "generate", "--mode=nvml", "--driver-root="+s.root, "--dev-root="+s.Root, "--format=json", "--nvidia-cdi-hook-path=/usr/bin/nvidia-cdi-hook")
	if err != nil {
		return found{differences: []string{err.Error()}}
	}
	spec, err := inside.ParseSpec(out)
	if err != nil {
		return found{differences: []string{err.Error()}}
	}
	want, err := inside.Expect(s.root, s.version)
	if err != nil {
		return found{differences: []string{err.Error()}}
	}
	got := spec.Inventory(s.version)
	f := found{answer: fmt.Sprintf("%d device nodes, %d libraries, %d programs, %d firmware files", len(got.Devices), len(got.Libraries), len(got.Binaries), len(got.Firmware)),
		compared: "the files of the root, and a device node for each GPU in nvidia-smi"}
	for _, pair := range [][2][]string{{want.Libraries, got.Libraries}, {want.Binaries, got.Binaries}, {want.Firmware, got.Firmware}} {
		for _, name := range pair[0] {
			if !slices.Contains(pair[1], name) {
				f.differ("the specification lacks %s", name)
			}
		}
	}
	for _, g := range s.ref.GPUs {
		if node := "/dev/nvidia" + g.Minor; !slices.Contains(got.Devices, node) {
			f.differ("the specification lacks %s", node)
		}
	}
	return f
}
