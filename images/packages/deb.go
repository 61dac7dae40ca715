package packages

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // dpkg's database uses it, for changes made by accident
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/rootfs"
)

const (
	dpkgStatus = "var/lib/dpkg/status"
	dpkgInfo   = "var/lib/dpkg/info/"
)

// infoFiles are the control files that dpkg keeps of an installed package and that describe it.
// Scripts are left out: they have not been run, and there is no running system that they could act
// on.
var infoFiles = []string{"md5sums", "conffiles", "shlibs", "symbols", "triggers"}

// debManager is Debian's packages.
type debManager struct{}

func (debManager) open(
	ctx context.Context,
	env Env,
	s Sources,
	base *rootfs.Tree,
) (Repositories, error) {
	options, err := aptOptions(env, s, base)
	if err != nil {
		return nil, err
	}
	releases, err := apt.OpenReleases(ctx, options)
	if err != nil {
		return nil, err
	}
	return &debRepositories{Releases: releases, distro: s.Distro, base: base, fetch: env.Fetch}, nil
}

func aptOptions(env Env, s Sources, base *rootfs.Tree) (o apt.Options, err error) {
	root := base.OpenFS()
	sources := []apt.Source{}
	if !s.OnlyThese {
		read, err := apt.ReadSources(root)
		if err != nil {
			return o, fmt.Errorf("apt configuration of the base: %w", err)
		}
		sources = append(sources, read...)
	}
	m, err := distros.ParseMirror(s.Mirror)
	if err != nil {
		return o, err
	}
	sources, err = apt.WithMirror(sources, m)
	if err != nil {
		return o, err
	}
	for _, rep := range s.Repositories {
		sources = append(sources, apt.Source{
			Origin: "matrix", URIs: rep.URIs, Suites: rep.Suites, Components: rep.Components, Key: rep.Key,
		})
	}
	return apt.Options{
		Fetch:         env.Fetch,
		Root:          root,
		Sources:       sources,
		Arch:          s.Arch,
		Components:    s.Components,
		AllowExpired:  s.AllowExpired,
		AllowRollback: env.AllowRollback,
	}, nil
}

// reader needs nothing of the base.
func (debManager) reader(env Env, _ Sources, _ *rootfs.Tree) (Reader, error) {
	return DebReader(env), nil
}

// DebReader reads .deb packages of any base: their digests come from a signed index, and no
// repository asks for more than a URL has.
func DebReader(env Env) Reader {
	return Reader{
		env:    env,
		Client: func(string) (*fetch.Client, error) { return env.Fetch, nil },
		unpack: env.unpackDeb,
	}
}

func (e Env) unpackDeb(
	ctx context.Context,
	r io.Reader,
	p distros.Package,
	u *Unpacked,
) (err error) {
	u.deb, err = dpkg.OpenDeb(r)
	if err != nil {
		return err
	}
	u.deb.XZ = e.XZ.Open(ctx)
	// dpkg's database records what the control file says.
	if err := u.deb.Check(p.Name, p.Version, p.Arch); err != nil {
		return err
	}
	return u.deb.Data(
		func(hdr *tar.Header, r io.Reader) error { return u.Tree.Add(hdr, rootfs.Cancellable(ctx, r)) },
	)
}

// record writes dpkg's database. Its record of a package does not depend on the time of the
// installation.
func (debManager) record(tree, lower *rootfs.Tree, debs []Unpacked, _ time.Time) error {
	for _, u := range debs {
		if err := recordDeb(tree, lower, u); err != nil {
			return fmt.Errorf("record %s: %w", u.Name, err)
		}
	}
	// without it dpkg takes the lists of libraries for missing: they have the architecture in their
	// names
	if !lower.Exists(dpkgStatus) {
		if err := tree.AddBytes(dpkgInfo+"format", 0o644, []byte("1\n")); err != nil {
			return err
		}
	}
	return recordStatus(tree, lower, debs)
}

func (debManager) installed(tree *rootfs.Tree) ([]Installed, error) {
	status, err := readStatus(tree)
	if err != nil {
		return nil, err
	}
	var all []Installed
	for _, p := range status.Packages() {
		i := Installed{
			Name:     p.Get("Package"),
			Version:  p.Get("Version"),
			Arch:     p.Get("Architecture"),
			Kind:     "deb",
			Supplier: p.Get("Maintainer"),
		}
		// "NAME" or "NAME (VERSION)", and missing where both are those of the package
		source, version, _ := strings.Cut(p.Get("Source"), " (")
		i.Source = cmp.Or(source, i.Name)
		i.SourceVersion = cmp.Or(strings.TrimSuffix(version, ")"), i.Version)
		all = append(all, i)
	}
	return all, nil
}

// readStatus reads dpkg's list of a root; a root without one has no packages.
func readStatus(tree *rootfs.Tree) (*dpkg.Status, error) {
	text, err := tree.ReadFile(dpkgStatus)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	status, err := dpkg.ReadStatus(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dpkgStatus, err)
	}
	return status, nil
}

// recordDeb writes the package's files in dpkg's info folder, and removes what an older version of
// it in the base had and this one has not.
func recordDeb(tree, lower *rootfs.Tree, u Unpacked) error {
	stem := dpkgInfo + u.deb.Control.Get("Package")
	if u.deb.Control.Get("Multi-Arch") == "same" {
		stem += ":" + u.deb.Control.Get("Architecture")
	}
	old, _ := lower.ReadFile(stem + ".list") // none of a package that is new
	if err := removeOld(tree, lower, strings.Split(string(old), "\n")); err != nil {
		return err
	}
	if err := tree.AddBytes(stem+".list", 0o644, []byte("/.\n"+strings.Join(u.list, "\n")+"\n")); err != nil {
		return err
	}
	for _, ending := range infoFiles {
		data, ok := u.deb.Files[ending]
		if !ok {
			continue
		}
		if ending == "md5sums" {
			data = u.wantedSums(data)
		}
		if err := tree.AddBytes(stem+"."+ending, 0o644, data); err != nil {
			return err
		}
	}
	return nil
}

// wantedSums drops the lines of md5sums whose files were left out, so that dpkg --verify finds
// nothing missing.
func (u Unpacked) wantedSums(data []byte) []byte {
	var kept bytes.Buffer
	for line := range bytes.Lines(data) {
		if _, file, ok := strings.Cut(string(line), "  "); ok &&
			!u.unwanted(strings.TrimSpace(file)) {
			kept.Write(line)
		}
	}
	return kept.Bytes()
}

// recordStatus writes dpkg's list of installed packages, with the digests of configuration files
// that dpkg compares later.
func recordStatus(tree, lower *rootfs.Tree, debs []Unpacked) error {
	status, err := readStatus(lower)
	if err != nil {
		return err
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
	return tree.AddBytes(dpkgStatus, 0o644, status.With(installed...))
}
