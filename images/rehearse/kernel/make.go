package kernel

import (
	"context"
	"errors"
	"io"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/rootfs"
)

// method is part of the key of cached files. Raise it when the same packages are to give other files.
const method = 1

// make unpacks the packages and makes the files.
func (m *maker) make(ctx context.Context, key string) (rec record, err error) {
	from, err := m.unpackKernel(ctx)
	if err != nil {
		return rec, err
	}
	signed, err := imageOf(from, m.release)
	if err != nil {
		return rec, err
	}
	root, err := newRoot(m.spool)
	if err != nil {
		return rec, err
	}
	tree, err := addModules(root, from, m.release)
	if err != nil {
		return rec, err
	}
	boot, err := tree.boot()
	if err != nil {
		return rec, err
	}
	err = m.addPrograms(ctx, root)
	if err != nil {
		return rec, err
	}
	return keep(ctx, m.Store, key, content{signed, boot, root})
}

// newRoot is an empty root with the folders of a system whose programs and libraries are in /usr.
// The kernel starts /sbin/modprobe.
func newRoot(spool *rootfs.Spool) (*rootfs.Tree, error) {
	tree := rootfs.New(spool, nil)
	for _, link := range []struct{ name, target, folder string }{
		{"lib", "usr/lib", "usr/lib"},
		{"lib64", "usr/lib64", "usr/lib64"},
		{"bin", "usr/bin", "usr/bin"},
		{"sbin", "usr/bin", "usr/bin"},
		{"usr/sbin", "bin", "usr/bin"},
	} {
		err := errors.Join(tree.AddDir(link.folder, 0o755), tree.AddLink(link.name, link.target))
		if err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// unpack downloads, verifies and reads packages of a source.
func (m *maker) unpack(
	ctx context.Context,
	of Source,
	base *rootfs.Tree,
	pins []distros.Package,
) ([]packages.Unpacked, error) {
	reader, err := packages.NewReader(m.Env(), packages.SourcesOf(of.Target, of.Options), base)
	if err != nil {
		return nil, err
	}
	return reader.Unpack(ctx, pins, m.spool, m.step)
}

// unpackKernel returns a root with the packages of the kernel.
func (m *maker) unpackKernel(ctx context.Context) (*rootfs.Tree, error) {
	all, err := m.unpack(ctx, m.query.System, m.system.Facts, m.pins.Kernel)
	if err != nil {
		return nil, err
	}
	root, err := newRoot(m.spool)
	if err != nil {
		return nil, err
	}
	return root, packages.Place(root, all)
}

// addPrograms adds the headers, if they are wanted, and the guest's programs to a root.
func (m *maker) addPrograms(ctx context.Context, root *rootfs.Tree) error {
	headers, err := m.unpack(ctx, m.query.System, m.system.Facts, m.pins.Headers)
	if err != nil {
		return err
	}
	err = packages.PlaceHeaders(m.query.System.Target.Distro, root, m.release, headers)
	if err != nil {
		return err
	}
	programs, err := m.unpack(ctx, m.query.Programs, m.programs.Facts, m.pins.Programs)
	if err != nil {
		return err
	}
	err = packages.Place(root, programs)
	if err != nil {
		return err
	}
	err = checkPrograms(root)
	if err != nil {
		return err
	}
	return addCommands(root)
}

// imageOf reads the kernel of a root: Debian's and SUSE's are in /boot, Red Hat's beside the modules.
func imageOf(root *rootfs.Tree, release string) ([]byte, error) {
	for _, name := range []string{"boot/vmlinuz-" + release, "lib/modules/" + release + "/vmlinuz"} {
		e, err := root.Stat(name)
		if err != nil || e.Kind != rootfs.File {
			continue
		}
		r, err := e.Open()
		if err != nil {
			return nil, err
		}
		return bounded.Read(io.LimitReader(r, maxImage+1), maxImage)
	}
	return nil, failure.Errorf(
		failure.Content,
		"its packages have neither /boot/vmlinuz-%s nor /lib/modules/%s/vmlinuz", release, release,
	)
}
