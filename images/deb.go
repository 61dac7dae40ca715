package images

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // dpkg's database uses it, for changes made by accident
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/rootfs"
)

const (
	dpkgStatus = "var/lib/dpkg/status"
	dpkgInfo   = "var/lib/dpkg/info/"
)

// infoFiles are the control files that dpkg keeps of an installed package and that describe it. Scripts are left out: they
// have not been run, and would act on a system that is none.
var infoFiles = []string{"md5sums", "conffiles", "shlibs", "symbols", "triggers"}

// debFamily is Debian's packages.
type debFamily struct{}

func (debFamily) open(ctx context.Context, b *Builder, t matrix.Target, o PlanOptions, tree *rootfs.Tree) (repositories, error) {
	options, err := b.aptOptions(t, o, tree)
	if err != nil {
		return nil, err
	}
	releases, err := apt.OpenReleases(ctx, options)
	if err != nil {
		return nil, err
	}
	return debRepositories{releases, tree, b.Fetch}, nil
}

func (b *Builder) aptOptions(t matrix.Target, o PlanOptions, tree *rootfs.Tree) (apt.Options, error) {
	root, sources := tree.OpenFS(), []apt.Source{}
	if !t.System.OnlyThese {
		read, err := apt.ReadSources(root)
		if err != nil {
			return apt.Options{}, fmt.Errorf("apt configuration of the base: %w", err)
		}
		sources = append(sources, read...)
	}
	if o.Mirror != "" {
		replaced, err := apt.WithMirror(sources, o.Mirror)
		if err != nil {
			return apt.Options{}, err
		}
		sources = replaced
	}
	for _, rep := range t.System.Repositories {
		sources = append(sources, apt.Source{
			Origin: "matrix", URIs: rep.URIs, Suites: rep.Suites, Components: rep.Components, Key: rep.Key,
		})
	}
	return apt.Options{
		Fetch: b.Fetch, Root: root, Sources: sources, Arch: t.Arch, Components: t.System.Components, AllowExpired: t.System.AllowExpired,
	}, nil
}

// reader needs nothing of the base: the digest of a .deb comes from a signed index, and no repository asks for more than a URL has.
func (debFamily) reader(b *Builder, _ *Recipe, _ *rootfs.Tree) (packageReader, error) {
	return packageReader{client: func(string) (*fetch.Client, error) { return b.Fetch, nil }, unpack: unpackDeb}, nil
}

func unpackDeb(ctx context.Context, file string, _ distros.Package, spool *rootfs.Spool) (u unpacked, err error) {
	f, err := os.Open(file)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if u.deb, err = dpkg.OpenDeb(cancelled(ctx, f)); err != nil {
		return u, err
	}
	u.name, u.tree = u.deb.Control.Get("Package"), rootfs.New(spool, nil)
	return u, u.deb.Data(func(hdr *tar.Header, r io.Reader) error {
		return u.tree.Add(hdr, cancelled(ctx, r))
	})
}

// record writes dpkg's database. What it says of a package is the same whenever that is installed.
func (debFamily) record(tree, lower *rootfs.Tree, debs []unpacked, _ time.Time) error {
	for _, u := range debs {
		if err := recordDeb(tree, lower, u); err != nil {
			return fmt.Errorf("record %s: %w", u.name, err)
		}
	}
	return recordStatus(tree, lower, debs)
}

func (debFamily) configure(tree *rootfs.Tree, all []matrix.Repository) error {
	return addDebRepositories(tree, all)
}

func (debFamily) installed(tree *rootfs.Tree) ([]PackageInfo, error) {
	text, err := tree.ReadFile(dpkgStatus)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	status, err := dpkg.ReadStatus(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dpkgStatus, err)
	}
	var all []PackageInfo
	for _, p := range status.Packages() {
		all = append(all, PackageInfo{p.Get("Package"), p.Get("Version"), p.Get("Architecture")})
	}
	return all, nil
}

// recordDeb writes the package's files in dpkg's info folder, and removes what an older version of it in the base had and this
// one has not.
func recordDeb(tree, lower *rootfs.Tree, u unpacked) error {
	stem := dpkgInfo + u.deb.Control.Get("Package")
	if u.deb.Control.Get("Multi-Arch") == "same" {
		stem += ":" + u.deb.Control.Get("Architecture")
	}
	if old, err := lower.ReadFile(stem + ".list"); err == nil {
		if err := removeOld(tree, lower, strings.Split(string(old), "\n")); err != nil {
			return err
		}
	}
	if err := addBytes(tree, stem+".list", 0o644, []byte("/.\n"+strings.Join(u.list, "\n")+"\n")); err != nil {
		return err
	}
	for _, ending := range infoFiles {
		data, ok := u.deb.Files[ending]
		if !ok {
			continue
		}
		if ending == "md5sums" {
			data = wantedSums(data)
		}
		if err := addBytes(tree, stem+"."+ending, 0o644, data); err != nil {
			return err
		}
	}
	return nil
}

// wantedSums drops the lines of md5sums whose files were left out, so that dpkg --verify finds nothing missing.
func wantedSums(data []byte) []byte {
	var kept bytes.Buffer
	for line := range bytes.Lines(data) {
		if _, file, ok := strings.Cut(string(line), "  "); ok && !unwanted(strings.TrimSpace(file)) {
			kept.Write(line)
		}
	}
	return kept.Bytes()
}

// recordStatus writes dpkg's list of installed packages, with the digests of configuration files that dpkg compares later.
func recordStatus(tree, lower *rootfs.Tree, debs []unpacked) error {
	text, err := lower.ReadFile(dpkgStatus)
	if err != nil {
		text = nil // a base without packages
	}
	status, err := dpkg.ReadStatus(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s of the base: %w", dpkgStatus, err)
	}
	var installed []dpkg.Paragraph
	for _, u := range debs {
		p := u.deb.Control
		var conffiles strings.Builder
		for name := range strings.FieldsSeq(string(u.deb.Files["conffiles"])) {
			data, err := tree.ReadFile(strings.TrimPrefix(name, "/"))
			if err != nil {
				continue // a word such as remove-on-upgrade, or a file that is not shipped
			}
			sum := md5.Sum(data) //nolint:gosec // see the import
			fmt.Fprintf(&conffiles, "\n %s %s", name, hex.EncodeToString(sum[:]))
		}
		if conffiles.Len() > 0 {
			p = p.Set("Conffiles", conffiles.String())
		}
		installed = append(installed, p)
	}
	return addBytes(tree, dpkgStatus, 0o644, status.With(installed...))
}
