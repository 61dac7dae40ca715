package verify

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/moduleset"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// ModuleSet is a set of precompiled modules.
type ModuleSet struct {
	Folder     string       `json:"folder"` // below recipe.ModulesDir
	Driver     string       `json:"driver"`
	Kernel     string       `json:"kernel"`
	Flavour    string       `json:"flavour"`
	Arch       string       `json:"arch"`
	Compiler   string       `json:"compiler,omitempty"` // "gcc 12.2.0"
	Modules    []ModuleInfo `json:"modules"`
	Companions []string     `json:"companions,omitempty"` // that it was compiled with, as the key has them
	// Omitted are the companions that it does not have: they do not compile for this kernel.
	Omitted     []kbuild.Omission `json:"omitted,omitempty"`
	Certificate string            `json:"certificate,omitempty"` // SHA-256 of the certificate whose key signed the set
	Damage      string            `json:"damage,omitempty"`      // why it cannot be used; then the rest is unknown

	files []moduleFile // of Modules
}

// ModuleInfo is a module of a set, and what the signature at its end claims; signer, hash and key id are ""
// when there is none.
type ModuleInfo struct {
	Name       string `json:"name"`
	Vermagic   string `json:"vermagic,omitempty"`   // which kernels load it
	SrcVersion string `json:"srcversion,omitempty"` // digest of its sources

	Signer string `json:"signer,omitempty"` // common name of the issuer of the signer's certificate
	Hash   string `json:"hash,omitempty"`
	KeyID  string `json:"keyID,omitempty"` // serial number or key id: "4A:0F:11"

	signed bool
	wrong  error // what is wrong with the signature
}

// moduleSets examines the sets of an image. With signers, each module must be signed by one of them; without,
// a signature must be that of the set's own certificate where it names one.
func moduleSets(ctx context.Context, store *fetch.Store, tree *rootfs.Tree, signers []*x509.Certificate) (all []ModuleSet, err error) {
	list, err := tree.ReadDir(recipe.ModulesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, d := range list {
		if !d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			continue
		}
		set, err := moduleSet(ctx, store, tree, d.Name(), signers)
		if err != nil {
			return nil, fmt.Errorf("modules %s: %w", d.Name(), err)
		}
		all = append(all, set)
	}
	return all, nil
}

// moduleSet copies a set out of the image, where its modules can be read by name.
func moduleSet(ctx context.Context, store *fetch.Store, tree *rootfs.Tree, name string, signers []*x509.Certificate) (m ModuleSet, err error) {
	dir, remove, err := layer.WorkFolder(store)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := moduleset.CopyOut(ctx, tree, path.Join(recipe.ModulesDir, name), filepath.Join(dir, name)); err != nil {
		return m, err
	}
	m.Folder = name
	set, err := kbuild.Cache{Dir: dir}.Find(ctx, func(k kbuild.Key) bool { return k.String() == name })
	if errors.Is(err, kbuild.ErrMiss) {
		m.Damage = "is no set of modules of this name"
		if damaged, ok := errors.AsType[*kbuild.CorruptError](err); ok {
			m.Damage = "is a damaged set of modules: " + damaged.Why
		}
		return m, nil
	}
	if err != nil {
		return m, err
	}
	m.Driver, m.Kernel, m.Flavour, m.Arch = set.Key.Driver, set.Key.Release, set.Key.Flavour, set.Key.Arch
	m.Compiler, m.Companions, m.Omitted = set.Key.Compiler, set.Key.Companions, set.Omitted
	if len(set.Certificate) > 0 {
		m.Certificate = sign.Fingerprint(set.Certificate)
		if signers == nil {
			own, err := x509.ParseCertificate(set.Certificate)
			if err != nil {
				m.Damage = fmt.Sprintf("its certificate: %v", err)
				return m, nil
			}
			signers = []*x509.Certificate{own}
		}
	}
	for _, f := range set.Modules {
		info, err := moduleInfo(ctx, f, signers)
		if err != nil {
			return m, err
		}
		file := moduleFile{name: f.Name}
		if file.facts, err = readModule(f.Path, f.Size); err != nil {
			file.damage = errors.New(strings.ReplaceAll(err.Error(), dir, recipe.ModulesDir))
		}
		info.Vermagic, info.SrcVersion = file.facts.info.Vermagic, file.facts.info.SrcVersion
		m.files = append(m.files, file)
		m.Modules = append(m.Modules, info)
	}
	return m, nil
}

// moduleInfo reads a module's signature and, where there are certificates, checks it.
func moduleInfo(ctx context.Context, f kbuild.File, signers []*x509.Certificate) (ModuleInfo, error) {
	i := ModuleInfo{Name: f.Name}
	file, err := os.Open(f.Path)
	if err != nil {
		return i, err
	}
	defer file.Close()
	length, der, err := sign.Split(file, f.Size)
	var d sign.Description
	if err == nil && der != nil {
		d, err = sign.Describe(der)
	}
	i.signed = der != nil || err != nil
	switch {
	case errors.Is(err, sign.ErrMalformed), errors.Is(err, sign.ErrUnsupported):
		i.wrong = err
		return i, nil
	case err != nil:
		return i, err
	}
	if i.signed {
		i.Signer, i.Hash, i.KeyID = d.Issuer, d.Hash, sign.Colons(slices.Concat(d.KeyID, d.Serial))
	}
	switch {
	case signers == nil:
		return i, nil
	case der == nil:
		i.wrong = sign.ErrUnsigned
		return i, nil
	}
	_, err = sign.Verify(ctx, io.NewSectionReader(file, 0, length), der, signers)
	for _, known := range []error{sign.ErrForeign, sign.ErrMismatch, sign.ErrAttributes, sign.ErrUnsupported} {
		if errors.Is(err, known) {
			i.wrong = err
			return i, nil
		}
	}
	return i, err
}

// checkModules: what the description promises must be there and whole, or the node finds it out.
func checkModules(s *subject, find finder) {
	info, err := driverinfo.Read(s.tree.OpenFS())
	described := err == nil
	for _, m := range s.sets {
		folder := path.Join(recipe.ModulesDir, m.Folder)
		if m.Damage != "" {
			find(Error, folder, "%s", m.Damage)
			continue
		}
		if m.Driver != s.version || m.Arch != s.config.Architecture {
			find(Error, folder, "has modules of driver %s for %s, the image has %s for %s", m.Driver, m.Arch, s.version, s.config.Architecture)
		}
		s.checkSet(m, find)
		checkCompanions(m, info, find)
		if described && !slices.Contains(info.Precompiled, driverinfo.Precompiled{Kernel: m.Kernel, Flavour: m.Flavour}) {
			find(Note, folder, "is not named in the image's description")
		}
	}
	for _, i := range s.installed {
		if i.damage != nil {
			find(Error, i.path, "%v", i.damage)
		} else {
			s.checkModule(i.path, i.release, i.info, find)
		}
	}
	if !described {
		return // checkDescription says so
	}
	for _, p := range info.Precompiled {
		if !slices.ContainsFunc(s.sets, func(m ModuleSet) bool { return m.Kernel == p.Kernel && m.Flavour == p.Flavour }) {
			find(Error, driverinfo.Path, "names %s modules for kernel %s, which are not in /%s or are damaged", p.Flavour, p.Kernel, recipe.ModulesDir)
		}
	}
}

// checkCompanions: a set was compiled with each companion of the image that fits its flavour. A companion
// that does not compile for the kernel is missing, which the set itself says.
func checkCompanions(m ModuleSet, info driverinfo.Description, find finder) {
	folder := path.Join(recipe.ModulesDir, m.Folder)
	for _, c := range info.Companions {
		id := kbuild.Companion{Name: c.Name, Version: c.Version, Digest: c.Digest}.ID()
		if c.Fits(m.Flavour) && !slices.Contains(m.Companions, id) {
			find(Error, folder, "has neither %s %s nor the reason why it was left out: the image's description names it", c.Name, c.Version)
		}
	}
	for _, o := range m.Omitted {
		find(Warning, folder, "has no %s for kernel %s: %s", o.Module, m.Kernel, o.Reason)
	}
}

// checkModuleSignatures: a signature that is wrong is refused by any kernel, one that is missing by those
// that enforce.
func checkModuleSignatures(s *subject, find finder) {
	for _, m := range s.sets {
		signed := 0
		for _, i := range m.Modules {
			if i.signed {
				signed++
			}
			if i.wrong != nil {
				find(Error, path.Join(recipe.ModulesDir, m.Folder, i.Name+".ko"), "%v", i.wrong)
			}
		}
		switch {
		case s.wantSigned || m.Damage != "" || signed == len(m.Modules):
		case signed == 0:
			find(Note, path.Join(recipe.ModulesDir, m.Folder), "is not signed: kernels with Secure Boot or module.sig_enforce refuse it")
		default:
			find(Error, path.Join(recipe.ModulesDir, m.Folder), "has %d modules, of which %d are signed", len(m.Modules), signed)
		}
	}
}
