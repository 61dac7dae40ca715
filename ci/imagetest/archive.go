package imagetest

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// Archive is a package repository. Tests change its fields and publish again.
type Archive struct {
	Packages   []Package
	ValidUntil time.Time       // zero: no such field
	Signer     *openpgp.Entity // the base trusts this key, unless it is changed
	Lie        bool            // the Release file lists other indexes than those that are served

	world *World
	sys   system
}

func (w *World) newArchive(s system) *Archive {
	a := &Archive{Signer: w.key, world: w, sys: s}
	for _, arch := range s.archs {
		a.Packages = append(a.Packages, s.toolchain(arch)...)
		if s.id == "debian12" {
			a.Packages = append(a.Packages, debianDriver(w.t, NewDriver, arch)...)
			if arch == "amd64" {
				a.Packages = append(a.Packages, kernels()...)
			}
		}
	}
	return a
}

func (a *Archive) dir() string { return "/" + a.sys.family }

func (p Package) field(name string) string {
	for line := range strings.Lines(p.Control) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Path returns the path under which a package is served.
func (a *Archive) Path(p Package) string {
	return fmt.Sprintf("%s/pool/%s_%s_%s.deb", a.dir(), p.field("Package"), p.field("Version"), p.field("Architecture"))
}

// Find returns the package of a name and architecture.
func (a *Archive) Find(name, arch string) *Package {
	i := slices.IndexFunc(a.Packages, func(p Package) bool { return p.field("Package") == name && p.field("Architecture") == arch })
	if i < 0 {
		a.world.t.Fatalf("imagetest: no package %s for %s", name, arch)
	}
	return &a.Packages[i]
}

// Publish writes packages, indexes and the signed Release file.
func (a *Archive) Publish() {
	w := a.world
	indexes := map[string]*strings.Builder{}
	for _, c := range a.sys.components {
		for _, arch := range a.sys.archs {
			indexes[c+"/binary-"+arch] = new(strings.Builder)
		}
	}
	for _, p := range a.Packages {
		deb := p.Deb(w.t)
		w.Put(a.Path(p), deb)
		component := p.Component
		if component == "" {
			component = "main"
		}
		fmt.Fprintf(indexes[component+"/binary-"+p.field("Architecture")], "%s\nFilename: %s\nSize: %d\nSHA256: %x\n\n",
			p.Control, strings.TrimPrefix(a.Path(p), a.dir()+"/"), len(deb), sha256.Sum256(deb))
	}
	w.Put(a.dir()+"/dists/"+a.sys.suite+"/InRelease", a.sign(a.release(indexes)))
}

func (a *Archive) release(indexes map[string]*strings.Builder) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Origin: Test\nSuite: %s\nCodename: %s\nDate: %s\n", a.sys.suite, a.sys.suite, time.Now().Add(-24*time.Hour).UTC().Format(time.RFC1123))
	if !a.ValidUntil.IsZero() {
		fmt.Fprintf(&b, "Valid-Until: %s\n", a.ValidUntil.UTC().Format(time.RFC1123))
	}
	fmt.Fprintf(&b, "Architectures: %s\nComponents: %s\nSHA256:\n", strings.Join(a.sys.archs, " "), strings.Join(a.sys.components, " "))
	for _, c := range a.sys.components {
		for _, arch := range a.sys.archs {
			part := c + "/binary-" + arch
			data := Gzip(a.world.t, []byte(indexes[part].String()))
			name := part + "/Packages.gz"
			a.world.Put(a.dir()+"/dists/"+a.sys.suite+"/"+name, data)
			sum := sha256.Sum256(data)
			if a.Lie {
				sum = sha256.Sum256([]byte("something else"))
			}
			fmt.Fprintf(&b, " %x %d %s\n", sum, len(data), name)
		}
	}
	return b.String()
}

func (a *Archive) sign(text string) []byte {
	var b bytes.Buffer
	w, err := clearsign.Encode(&b, a.Signer.PrivateKey, &packet.Config{DefaultHash: crypto.SHA512, Time: func() time.Time { return time.Now().Add(-time.Hour) }})
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		a.world.t.Fatalf("imagetest: sign: %v", err)
	}
	return append(b.Bytes(), '\n')
}
