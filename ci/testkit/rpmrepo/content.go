package rpmrepo

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// deb is a Debian package to be repackaged.
type deb struct{ name, version, file string }

// candidates asks apt which versions of the packages it would download. Their file names are inputs of the
// cache's key.
func candidates(ctx context.Context, names []string) ([]deb, error) {
	out, err := Run(ctx, "", "apt-get", append([]string{"download", "--print-uris"}, names...)...)
	if err != nil {
		return nil, fmt.Errorf("ask apt for the packages to repackage (has apt-get update run?): %w", err)
	}
	var found []deb
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 3 || !strings.HasSuffix(words[1], ".deb") {
			continue
		}
		parts := strings.Split(words[1], "_")
		if len(parts) != 3 {
			return nil, fmt.Errorf("apt names a file %q: want NAME_VERSION_ARCH.deb", words[1])
		}
		found = append(found, deb{name: parts[0], version: strings.ReplaceAll(parts[1], "%3a", ":"), file: words[1]})
	}
	if len(found) != len(names) {
		return nil, fmt.Errorf("apt has %d of the %d packages to repackage: %s", len(found), len(names), out)
	}
	return found, nil
}

// unpack downloads packages and unpacks each piece of software into dir/NAME, at the paths of the family of
// RHEL.
func unpack(ctx context.Context, catalogue []software, debs []deb, dir string) error {
	downloads := filepath.Join(dir, ".debs")
	if err := os.MkdirAll(downloads, 0o755); err != nil {
		return err
	}
	names := []string{"download", "-qq"}
	for _, d := range debs {
		names = append(names, d.name+"="+d.version)
	}
	if _, err := Run(ctx, downloads, "apt-get", names...); err != nil {
		return fmt.Errorf("download the packages to repackage: %w", err)
	}
	for _, s := range catalogue {
		tree := filepath.Join(dir, s.name)
		for _, name := range s.debs {
			i := slices.IndexFunc(debs, func(d deb) bool { return d.name == name })
			if i < 0 {
				return fmt.Errorf("%s is made of %s, which was not asked for", s.name, name)
			}
			if err := unpackDeb(ctx, filepath.Join(downloads, debs[i].file), tree, s.name); err != nil {
				return fmt.Errorf("unpack %s: %w", debs[i].file, err)
			}
		}
		for link, target := range s.links {
			if err := os.Symlink(target, filepath.Join(tree, link)); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(downloads)
}

// unpackDeb runs dpkg-deb and writes the files that the package keeps.
func unpackDeb(ctx context.Context, file, tree, name string) (err error) {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cmd.Wait()) }()
	buffered := bufio.NewReader(out)
	for r := tar.NewReader(buffered); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, buffered) // padding; dpkg-deb would fail
			return err
		}
		if err != nil {
			return err
		}
		if to := placeOf(h.Name, name); to != "" {
			if err := writeEntry(h, r, filepath.Join(tree, to), filepath.Join(tree, placeOf(h.Linkname, name))); err != nil {
				return err
			}
		}
	}
}

func writeEntry(h *tar.Header, r io.Reader, to, linked string) error {
	if h.Typeflag == tar.TypeDir {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		return errors.Join(err, f.Chmod(h.FileInfo().Mode()), f.Close(), os.Chtimes(to, h.ModTime, h.ModTime))
	case tar.TypeSymlink:
		target := h.Linkname
		if rest, absolute := strings.CutPrefix(target, "/"); absolute {
			target = "/" + placeOf(rest, "")
		}
		return os.Symlink(target, to)
	case tar.TypeLink:
		return os.Link(linked, to)
	}
	return fmt.Errorf("%s is neither a file nor a link", h.Name)
}

// unused matches files that are left out: documents, translations, and large files that compiling kernel
// modules does not need.
var unused = regexp.MustCompile(`^usr/share/(doc|man|locale|info|lintian|bug|bash-completion|doc-base|menu|gdb|gcc|lto)/` +
	`|^usr/lib/x86_64-linux-gnu/(gconv/|bfd-plugins/|gprofng/|audit/)|/(lto1|lto-dump|g\+\+-mapper-server)$|/lib[a-z]+san(_preinit)?\.(a|o|so)$` +
	`|/lib(c|m-2\.36|mvec|m|bfd|opcodes|itm|quadmath)\.a$|-(lto-dump|lto-dump-12|dwp|gold|ld\.gold|gprofng|gp-[a-z-]+)$|/(dwp|gold|ld\.gold|gprofng|gp-[a-z-]+|lto-dump-12)$` +
	`|^lib64/ld-linux|^usr/bin/(catchsegv|mtrace|xtrace|tzselect|bashbug|perl5\.36.*|c_rehash|make-first-existing-target)$|/plugin/|^etc/(init\.d|default|profile\.d|cron.*)/|^usr/share/initramfs-tools/|^lib/systemd/|\.wasm$`)

// placeOf returns the path of a file of Debian's in the family of RHEL; "" if the file is left out. Some
// paths go through links that systems have in their root, as in real packages: /lib64/libc.so.6,
// /sbin/ldconfig.
func placeOf(name, software string) string {
	name = path.Clean(strings.TrimPrefix(name, "./"))
	if unused.MatchString(name) {
		if strings.HasSuffix(name, "/copyright") && strings.HasPrefix(name, "usr/share/doc/") {
			return "usr/share/licenses/" + software + "/" + path.Base(path.Dir(name)) + ".txt"
		}
		return ""
	}
	for _, move := range [][2]string{
		{"lib/x86_64-linux-gnu/", "lib64/"}, {"usr/lib/x86_64-linux-gnu/", "usr/lib64/"}, {"usr/include/x86_64-linux-gnu/", "usr/include/"},
		{"sbin/ldconfig", "sbin/ldconfig"}, {"bin/", "usr/bin/"}, {"sbin/", "usr/sbin/"}, {"lib/", "usr/lib/"},
	} {
		if rest, found := strings.CutPrefix(name, move[0]); found {
			return move[1] + rest
		}
	}
	return name
}

// Run is tool.Run for a program whose output shall not depend on the time.
func Run(ctx context.Context, dir, program string, args ...string) (string, error) {
	return tool.Run(ctx, dir, []string{"SOURCE_DATE_EPOCH=1700000000"}, append([]string{program}, args...)...)
}
