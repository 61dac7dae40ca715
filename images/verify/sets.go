package verify

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/elffile"
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

	info      kmod.Info
	exports   []string // symbols that it offers to other modules
	undefined []string // NVIDIA's symbols that it takes from other modules
	damage    error    // why these are not known
}

// moduleSets examines the sets of an image. With signers, each module must be signed by one of
// them; without, a signature must be that of the set's own certificate where it names one.
func moduleSets(
	ctx context.Context,
	store *fetch.Store,
	tree *rootfs.Tree,
	signers []*x509.Certificate,
) (all []ModuleSet, err error) {
	list, err := tree.ReadDir(recipe.ModulesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
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
	return all, err
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
	i.damage = i.read(f.Path, file, f.Size)
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

// Bounds of a module's tables, in bytes. The largest driver has 3 MB of symbols.
const (
	maxSymbols = 64 << 20
	symbolSize = 24 // of an ELF file of 64 bits
)

// ownSymbol matches the symbols by which NVIDIA's modules call each other. All others are the
// kernel's, which is not there.
var ownSymbol = regexp.MustCompile(
	`^(?:nvidia_p2p_|nvidia_get_rm_ops|nvidia_register_module|nvidia_unregister_module|nvUvmInterface|nvKmsKapi)`,
)

// read reads what a module is made for and what it takes from others.
func (i *ModuleInfo) read(name string, content io.ReaderAt, size int64) (err error) {
	i.info, err = kmod.InfoOf(name, content, size)
	if err != nil {
		return err
	}
	i.Vermagic = i.info.Vermagic
	i.SrcVersion = i.info.SrcVersion
	f, err := elffile.Read(content, size)
	if errors.Is(err, elffile.ErrMagic) {
		return nil // compressed
	}
	if err != nil {
		return err
	}
	i.exports, err = kmod.Exports(f)
	if err == nil {
		i.undefined, err = undefinedSymbols(f)
	}
	return err
}

// undefinedSymbols lists NVIDIA's symbols that a module does not define.
func undefinedSymbols(f *elffile.File) (names []string, err error) {
	symbols, err := f.Section(".symtab", maxSymbols)
	if errors.Is(err, elffile.ErrNoSection) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := f.Section(".strtab", maxSymbols)
	if err != nil {
		return nil, err
	}
	for s := range slices.Chunk(symbols, symbolSize) {
		// the section that defines it
		if len(s) < symbolSize || binary.LittleEndian.Uint16(s[6:]) != 0 {
			continue
		}
		at := binary.LittleEndian.Uint32(s)
		if uint64(at) >= uint64(len(text)) {
			return nil, fmt.Errorf(
				"%w: a symbol's name lies outside of its table",
				elffile.ErrFormat,
			)
		}
		name, _, _ := strings.Cut(string(text[at:min(len(text), int(at)+256)]), "\x00")
		if ownSymbol.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}
