package verify

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// ModuleSet is a set of precompiled modules.
type ModuleSet struct {
	Folder   string       `json:"folder"` // below recipe.ModulesDir
	Driver   string       `json:"driver"`
	Kernel   string       `json:"kernel"`
	Flavour  string       `json:"flavour"`
	Arch     string       `json:"arch"`
	Compiler string       `json:"compiler,omitempty"` // "gcc 12.2.0"
	Modules  []ModuleInfo `json:"modules"`
	// that it was compiled with, as the key has them
	Companions []string `json:"companions,omitempty"`
	// Omitted are the companions that it does not have: they do not compile for this kernel.
	Omitted []kbuild.Omission `json:"omitted,omitempty"`
	// SHA-256 of the certificate whose key signed the set
	Certificate string `json:"certificate,omitempty"`
	// why it cannot be used; then the rest is unknown
	Damage string `json:"damage,omitempty"`
}

// path is that of the set's folder, or of a file in it.
func (m *ModuleSet) path(file ...string) string {
	return path.Join(append([]string{recipe.ModulesDir, m.Folder}, file...)...)
}

// ModuleInfo is a module of a set, and what the signature at its end claims; signer, hash and key
// id are "" when there is none.
type ModuleInfo struct {
	Name       string `json:"name"`
	Vermagic   string `json:"vermagic,omitempty"`   // which kernels load it
	SrcVersion string `json:"srcversion,omitempty"` // digest of its sources

	Signer string `json:"signer,omitempty"` // common name of the issuer of the signer's certificate
	Hash   string `json:"hash,omitempty"`
	KeyID  string `json:"keyID,omitempty"` // serial number or key id: "4A:0F:11"

	signed bool
	wrong  error // what is wrong with the signature

	info   kmod.Info
	damage error // why it is not known
}

// moduleSets examines the sets of an image. With signers, each module must be signed by one of
// them; without, a signature must be that of the set's own certificate where it names one.
func moduleSets(
	ctx context.Context,
	store *fetch.Store,
	tree *rootfs.Tree,
	signers []*x509.Certificate,
) (all []ModuleSet, err error) {
	list, _ := tree.ReadDir(recipe.ModulesDir) // what is no folder has no sets
	for _, d := range list {
		if !d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			continue
		}
		set := ModuleSet{Folder: d.Name()}
		if err := set.read(ctx, store, tree, signers); err != nil {
			return nil, fmt.Errorf("modules %s: %w", d.Name(), err)
		}
		all = append(all, set)
	}
	return all, nil
}

// read copies a set out of the image, where its modules can be read by name.
func (m *ModuleSet) read(
	ctx context.Context,
	store *fetch.Store,
	tree *rootfs.Tree,
	signers []*x509.Certificate,
) (err error) {
	dir, remove, err := layer.WorkFolder(store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	set, err := kernelmodules.Unpack(ctx, tree, m.Folder, dir)
	if errors.Is(err, kbuild.ErrMiss) {
		m.Damage = "is no set of modules of this name"
		if damaged, ok := errors.AsType[*kbuild.CorruptError](err); ok {
			m.Damage = "is a damaged set of modules: " + damaged.Why
		}
		return nil
	}
	if err != nil {
		return err
	}
	m.Driver = set.Key.Driver
	m.Kernel = set.Key.Release
	m.Flavour = set.Key.Flavour
	m.Arch = set.Key.Arch
	m.Compiler = set.Key.Compiler
	m.Companions = set.Key.Companions
	m.Omitted = set.Omitted
	if len(set.Certificate) > 0 {
		m.Certificate = sign.Fingerprint(set.Certificate)
		own, err := x509.ParseCertificate(set.Certificate)
		switch {
		case signers != nil:
		case err != nil:
			m.Damage = fmt.Sprintf("its certificate: %v", err)
			return nil
		default:
			signers = []*x509.Certificate{own}
		}
	}
	for _, f := range set.Modules {
		info, err := moduleInfo(ctx, f, signers)
		if err != nil {
			return err
		}
		if info.damage != nil {
			info.damage = errors.New(
				strings.ReplaceAll(info.damage.Error(), dir, recipe.ModulesDir),
			)
		}
		m.Modules = append(m.Modules, info)
	}
	return nil
}

// moduleInfo reads a module, and its signature, which it checks where there are certificates.
func moduleInfo(
	ctx context.Context,
	f kbuild.File,
	signers []*x509.Certificate,
) (i ModuleInfo, err error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return i, err
	}
	defer file.Close()
	i.Name = f.Name
	i.info, i.damage = kmod.InfoOf(f.Path, file, f.Size)
	i.Vermagic = i.info.Vermagic
	i.SrcVersion = i.info.SrcVersion
	length, der, err := sign.Split(file, f.Size)
	i.signed = der != nil || err != nil
	if err == nil && i.signed {
		var d sign.Description
		d, err = sign.Describe(der)
		i.Signer = d.Issuer
		i.Hash = d.Hash
		i.KeyID = sign.Colons(slices.Concat(d.KeyID, d.Serial))
	}
	switch {
	case err != nil || signers == nil:
	case !i.signed:
		err = sign.ErrUnsigned
	default:
		_, err = sign.Verify(ctx, io.NewSectionReader(file, 0, length), der, signers)
	}
	if failure.KindOf(err) == failure.Content { // others are about reading it
		i.wrong = err
		err = nil
	}
	return i, err
}
