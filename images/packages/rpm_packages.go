package packages

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/pgp"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmdb"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
	"github.com/driver-container/driver-container/images/rootfs"
)

// reader has the keys of the base and of the matrix: the digest of an .rpm may come from an
// unsigned index.
func (rpmManager) reader(env Env, s Sources, lower *rootfs.Tree) (Reader, error) {
	_, options, err := readRPMBase(env, s, lower)
	if err != nil {
		return Reader{}, err
	}
	clients, err := rpm.OpenClients(options)
	if err != nil {
		return Reader{}, err
	}
	keys, err := options.Keyring()
	if err != nil {
		return Reader{}, fmt.Errorf("keys of the base: %w", err)
	}
	return Reader{
		env: env, Client: clients.For,
		unpack: func(ctx context.Context, r io.Reader, p distros.Package, u *Unpacked) error {
			return env.unpackRPM(ctx, r, p, keys, u)
		},
	}, nil
}

func (e Env) unpackRPM(
	ctx context.Context,
	r io.Reader,
	p distros.Package,
	keys pgp.Ring,
	u *Unpacked,
) (err error) {
	u.rpm, err = rpmfile.Open(r)
	if err != nil {
		return err
	}
	u.rpm.XZ = e.XZ.Open(ctx)
	if len(p.Keys) > 0 {
		if _, err := u.rpm.Verify(keys, p.Keys); err != nil {
			return err
		}
	}
	m, err := u.rpm.Header.Metadata()
	if err != nil {
		return err
	}
	// An unsigned index may list an old package, with its valid signature, as a new one.
	if want, err := rpmfile.ParseEVR(p.Version); err != nil || m.Name != p.Name ||
		m.Arch != p.Arch ||
		rpmfile.Compare(m.EVR, want) != 0 {
		return fmt.Errorf(
			"%w: it calls itself %.100q %.100q of %.20q",
			rpmfile.ErrFormat,
			m.Name,
			m.EVR,
			m.Arch,
		)
	}
	return u.rpm.Payload(func(hdr *tar.Header, r io.Reader) error {
		if err := u.Tree.Add(hdr, rootfs.Cancellable(ctx, r)); err != nil {
			return err
		}
		if e, ok := u.Tree.Lstat(hdr.Name); ok {
			e.Time = hdr.ModTime
		}
		return nil
	})
}

// record writes rpm's database, with the files that were left out as rpm notes those of
// --excludedocs.
func (rpmManager) record(tree, lower *rootfs.Tree, all []Unpacked, when time.Time) error {
	if len(all) == 0 {
		return nil
	}
	db, err := rpmdb.Read(lower.OpenFS())
	if err != nil {
		return fmt.Errorf("the base's rpm database: %w", err)
	}
	var headers []*rpmfile.Header
	for _, u := range all {
		h, err := u.rpm.InstalledHeader(
			when,
			colour(db.Packages()),
			func(p string) bool { return unwanted(strings.TrimPrefix(p, "/")) },
		)
		if err != nil {
			return err
		}
		headers = append(headers, h)
	}
	gone, err := db.Gone(headers)
	if err != nil {
		return err
	}
	if err := removeOld(tree, lower, gone); err != nil {
		return err
	}
	changed, removed, err := db.With(headers)
	if err != nil {
		return fmt.Errorf("record the packages in the rpm database: %w", err)
	}
	for name, data := range changed {
		if err := tree.AddBytes(name, 0o644, data); err != nil {
			return err
		}
	}
	for _, name := range removed {
		if err := tree.Delete(name); err != nil {
			return err
		}
	}
	return nil
}

// colour returns the kinds of programs (32 and 64 bit) that the system runs side by side, as rpm
// records it with each package. It takes the value of the newest package of the base, which is the
// last one.
func colour(all []*rpmfile.Header) uint32 {
	for _, h := range slices.Backward(all) {
		if n, ok := h.Int(rpmfile.TagInstallColor); ok {
			return uint32(n)
		}
	}
	return 0
}

func (rpmManager) installed(tree *rootfs.Tree) ([]Installed, error) {
	db, err := rpmdb.Read(tree.OpenFS())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	metadata, err := db.Metadata()
	var all []Installed
	for n, m := range metadata {
		if h := db.Packages()[n]; m.Arch != "" { // else an imported key
			i := Installed{
				Name: m.Name, Version: m.EVR.String(), Arch: m.Arch, Kind: "rpm", Supplier: h.Text(rpmfile.TagVendor), Licence: h.Text(rpmfile.TagLicense),
			}
			i.Source, i.SourceVersion = rpmSource(h.Text(rpmfile.TagSourceRPM))
			all = append(all, i)
		}
	}
	return all, err
}

var sourceRPM = regexp.MustCompile(`^(.+)-([^-]+-[^-]+?)(?:\.(?:no)?src)?(?:\.rpm)?$`)

// rpmSource returns the source package of "bash-5.1.8-6.el9.src.rpm": "bash", "5.1.8-6.el9".
func rpmSource(file string) (name, version string) {
	if m := sourceRPM.FindStringSubmatch(file); m != nil {
		return m[1], m[2]
	}
	return "", ""
}
