package gpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/elffile"
)

// rootLibs is the library folder of a root that is made here; every consumer searches it.
const rootLibs = "usr/lib64"

// rootPrograms are the driver's programs, as far as the machine has them.
var rootPrograms = []string{
	"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-modprobe", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
	"nvidia-imex", "nvidia-imex-ctl", "nv-fabricmanager",
}

// spareDisk is the space that stays free beside the copy of the driver.
const spareDisk = 1 << 30

// askRoot takes the caller's driver root, or makes one from the machine's own files.
func askRoot(ctx context.Context, s *session) found {
	if s.DriverRoot != "" {
		f := found{answer: s.DriverRoot, compared: "it has the libraries of the loaded driver"}
		if len(s.versioned([]string{rootLibs, "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu"}, s.DriverRoot)) == 0 {
			f.differ("%s has no library of driver %s", s.DriverRoot, s.version)
			return f
		}
		s.root = s.DriverRoot
		return f
	}
	libraries := s.versioned(libraryDirs, s.Root)
	if len(libraries) == 0 {
		return notAsked("no library of driver %s is in /%s", s.version, strings.Join(libraryDirs, ", /"))
	}
	b := builder{session: s, to: filepath.Join(s.work, "root")}
	if err := b.room(libraries); err != nil {
		return notAsked("%v", err)
	}
	if err := b.build(ctx, libraries); err != nil {
		return found{differences: []string{err.Error()}}
	}
	s.root = b.to
	f := found{answer: fmt.Sprintf("made of the machine's files: %d libraries, %d programs, %d firmware files, %d MB", len(libraries), b.programs, b.firmware, b.bytes>>20),
		compared: "each library is an ELF file for this processor, with a soname"}
	f.differences = b.wrong
	return f
}

// versioned returns the paths of the libraries of the loaded driver in folders below a root, each name once.
func (s *session) versioned(dirs []string, root string) (paths []string) {
	seen := map[string]bool{}
	for _, dir := range dirs {
		list, _ := filepath.Glob(filepath.Join(root, dir, "lib*.so."+s.version))
		for _, p := range list {
			if name := filepath.Base(p); !seen[name] {
				seen[name] = true
				paths = append(paths, p)
			}
		}
	}
	return paths
}

// builder makes a driver root. It copies, since links would lead out of the root.
type builder struct {
	*session
	to                 string
	programs, firmware int
	bytes              int64
	needed             []string // libraries that the driver's files need
	wrong              []string
}

// room says whether the temporary folder has space for the libraries.
func (b *builder) room(libraries []string) error {
	var need int64 = spareDisk
	for _, path := range libraries {
		if st, err := os.Stat(path); err == nil {
			need += 2 * st.Size() // once as the root, once as what verify reads
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(b.work, &fs); err != nil {
		return fmt.Errorf("free space of %s: %w", b.work, err)
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < need {
		return fmt.Errorf("%s has %d MB free, a copy of the driver needs %d MB: set TMPDIR", b.work, free>>20, need>>20)
	}
	return nil
}

func (b *builder) build(ctx context.Context, libraries []string) error {
	for _, path := range libraries {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		name := filepath.Base(path)
		if err := b.copy(path, filepath.Join(rootLibs, name), 0o755); err != nil {
			return err
		}
		soname := b.read(path)
		if soname != "" && soname != name {
			if err := os.Symlink(name, filepath.Join(b.to, rootLibs, soname)); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
		}
	}
	for _, name := range rootPrograms {
		path := b.find(programDirs, name)
		if path == "" {
			continue
		}
		b.programs++
		if err := b.copy(path, filepath.Join("usr/bin", name), 0o755); err != nil {
			return err
		}
		b.read(path)
	}
	if err := b.copyFirmware(); err != nil {
		return err
	}
	return b.systemLibraries()
}

// read notes what an ELF file needs and returns its soname. A program may be a script.
func (b *builder) read(path string) (soname string) {
	in, err := os.Open(path)
	if err != nil {
		b.wrong = append(b.wrong, err.Error())
		return ""
	}
	defer in.Close() //nolint:errcheck // read only
	st, err := in.Stat()
	if err != nil {
		b.wrong = append(b.wrong, err.Error())
		return ""
	}
	file, err := elffile.Read(in, st.Size())
	library := strings.HasPrefix(filepath.Base(path), "lib")
	switch {
	case err != nil && (library || !errors.Is(err, elffile.ErrMagic)):
		b.wrong = append(b.wrong, fmt.Sprintf("%s: %v", path, err))
	case err == nil:
		b.needed = append(b.needed, file.Needed...)
		return file.Soname
	}
	return ""
}

// copyFirmware copies the firmware of this version to where consumers look.
func (b *builder) copyFirmware() error {
	for _, dir := range []string{"lib/firmware/nvidia", "usr/lib/firmware/nvidia", "usr/local/nvidia/firmware"} {
		list, _ := filepath.Glob(b.path(dir, b.version, "*.bin"))
		for _, path := range list {
			if err := b.copy(path, filepath.Join("lib/firmware/nvidia", b.version, filepath.Base(path)), 0o644); err != nil {
				return err
			}
			b.firmware++
		}
		if len(list) > 0 {
			return nil
		}
	}
	return nil
}

// systemLibraries copies the machine's libraries that the driver needs, and those that these need.
func (b *builder) systemLibraries() error {
	done := map[string]bool{}
	for len(b.needed) > 0 {
		name := b.needed[0]
		b.needed = b.needed[1:]
		to := filepath.Join(rootLibs, name)
		if _, err := os.Lstat(filepath.Join(b.to, to)); err == nil || done[name] || strings.Contains(name, "/") {
			continue
		}
		done[name] = true
		path := b.find(append(slices.Clone(libraryDirs), "lib64", "usr/lib/"+runtime.GOARCH), name)
		if path == "" {
			continue // verify says what it means that it is missing
		}
		if err := b.copy(path, to, 0o755); err != nil {
			return err
		}
		b.read(path)
	}
	return nil
}

// copy copies a file into the root.
func (b *builder) copy(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // read only
	path := filepath.Join(b.to, to)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, in)
	b.bytes += n
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return nil
}
