package kmod

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/kmod/sign"
)

// Info is what a module file says about itself: its .modinfo section and the signature that is
// appended to it.
type Info struct {
	Name     string // as the kernel calls it: nvidia_uvm
	Version  string // "535.261.03"; "" when it has none, like most in-tree modules
	Vermagic string // "6.1.0-38-amd64 SMP preempt mod_unload modversions"
	// digest of the sources, 23 or 24 hex digits; sysfs shows the one of the loaded module
	SrcVersion string
	License    string
	Depends    []string // modules that it needs, with _
	// name -> type ("int", "charp"), or the description where no type is given
	Params   map[string]string
	Firmware []string // files that it may request

	Signed bool // a signature is appended; only the kernel can say whether it is valid
	// common name of the signing certificate's issuer; "" when the signature names none
	Signer   string
	SigHash  string // "sha256", "sha512", ...; "" when unsigned or the signature is damaged
	SigKeyID string // serial number or key id as modinfo prints it: "4A:0F:..."
}

// maxModinfo bounds the .modinfo section, in bytes. That of a large graphics driver has 60 KiB.
const maxModinfo = 4 << 20

// ReadInfo reads a module file: plain, or compressed with gzip, xz or zstd; the file's name does
// not matter. It reads a plain file in parts and unpacks a compressed one in memory, at most 512
// MiB. Errors wrap ErrFormat when the file is not a module.
func ReadInfo(path string) (Info, error) {
	f, size, err := openModule(path)
	if err != nil {
		return Info{}, fmt.Errorf("read the module %s: %w", path, err)
	}
	defer f.Close()
	return InfoOf(path, f, size)
}

// InfoOf is ReadInfo of the content of a module file, of size bytes.
func InfoOf(path string, content io.ReaderAt, size int64) (info Info, err error) {
	info, err = readInfo(content, size)
	if err != nil {
		return Info{}, fmt.Errorf("read the module %s: %w", path, err)
	}
	if info.Name == "" { // kernels before 4.13 do not write the name
		info.Name = nameOfFile(path)
	}
	return info, nil
}

// nameOfFile returns the module name that a file name implies: nvidia_uvm for nvidia-uvm.ko.xz.
func nameOfFile(path string) string {
	base, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return ModuleName(base)
}

func readInfo(data io.ReaderAt, size int64) (Info, error) {
	data, size, err := plain(data, size)
	if err != nil {
		return Info{}, err
	}
	_, raw, err := readModinfo(data, size)
	if err != nil {
		return Info{}, err
	}
	info := parseModinfo(raw)
	if info.Vermagic == "" {
		return Info{}, fmt.Errorf("%w: its .modinfo section has no vermagic", ErrFormat)
	}
	err = info.readSignature(data, size)
	return info, err
}

// readSignature reads what the appended signature claims. A damaged one, or one in the format of
// kernels before 4.3, is present without details: the kernel will refuse it and explains that
// better.
func (i *Info) readSignature(data io.ReaderAt, size int64) error {
	_, der, err := sign.Split(data, size)
	damaged := errors.Is(err, sign.ErrMalformed) || errors.Is(err, sign.ErrUnsupported)
	if err != nil && !damaged {
		return fmt.Errorf("read the end of the file: %w", err)
	}
	i.Signed = damaged || der != nil
	d, _ := sign.Describe(der) //nolint:errcheck // of a damaged one it says nothing
	i.Signer = d.Issuer
	i.SigHash = d.Hash
	i.SigKeyID = sign.Colons(slices.Concat(d.KeyID, d.Serial))
	return nil
}

// readModinfo reads the section .modinfo of a relocatable file: the kernels we serve (amd64, arm64)
// are 64 bit and little endian.
func readModinfo(data io.ReaderAt, size int64) (f *elffile.File, text []byte, err error) {
	f, err = elffile.Read(data, size)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if !f.Relocatable || f.Bits != 64 {
		return nil, nil, fmt.Errorf("%w: not a relocatable ELF file of 64 bits", ErrFormat)
	}
	text, err = f.Section(".modinfo", maxModinfo)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return f, text, nil
}

// parseModinfo reads "key=value" strings that end with zero bytes. It skips unknown keys; of a
// repeated key that can have one value, the first counts.
func parseModinfo(raw []byte) Info {
	info := Info{Params: map[string]string{}}
	types := map[string]string{}
	single := map[string]*string{
		"name":       &info.Name,
		"version":    &info.Version,
		"vermagic":   &info.Vermagic,
		"srcversion": &info.SrcVersion,
		"license":    &info.License,
	}
	for entry := range strings.SplitSeq(string(raw), "\x00") {
		key, value, ok := strings.Cut(entry, "=")
		if !ok {
			continue
		}
		switch key {
		case "depends":
			for _, d := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
				info.Depends = append(info.Depends, ModuleName(d))
			}
		case "firmware":
			info.Firmware = append(info.Firmware, value)
		case "parm", "parmtype":
			name, text, _ := strings.Cut(value, ":")
			if key == "parmtype" {
				types[name] = text
			} else if _, seen := info.Params[name]; !seen {
				info.Params[name] = text
			}
		default:
			if field := single[key]; field != nil && *field == "" {
				*field = value
			}
		}
	}
	for name, text := range types {
		if text != "" {
			info.Params[name] = text
		}
	}
	info.Name = ModuleName(info.Name)
	return info
}

// Release returns the kernel release that the module was built for: the first word of its vermagic.
func (i Info) Release() string {
	release, _, _ := strings.Cut(i.Vermagic, " ")
	return release
}

// CheckParams checks that the module knows the parameters, each "name=value": the kernel would
// accept an unknown one, with a line in its log and no effect. The error names each unknown one. It
// does not check values: the kernel refuses wrong ones before the module's code runs.
func (i Info) CheckParams(params []string) error {
	var errs []error
	for _, p := range params {
		name, _, _ := strings.Cut(p, "=")
		if i.hasParam(name) {
			continue
		}
		hint := "the names it has are shown by modinfo -p " + i.Name
		if nearest := i.nearest(name); nearest != "" {
			hint = "did you mean " + nearest + "?"
		}
		errs = append(errs, fmt.Errorf("module %s has no parameter %s: %s", i.Name, name, hint))
	}
	return errors.Join(errs...)
}

// nearest returns the parameter that was probably meant, also without NVreg_; "" when none is
// similar.
func (i Info) nearest(name string) string {
	const prefix = "NVreg_"
	for _, try := range []string{name, prefix + name} {
		if near := distros.Nearest(try, slices.Sorted(maps.Keys(i.Params))); near != nil {
			return near[0]
		}
	}
	return ""
}

// hasParam compares names as the kernel does: - equals _. Two names belong to every module.
func (i Info) hasParam(name string) bool {
	name = ModuleName(name)
	if name == "async_probe" || name == "dyndbg" {
		return true
	}
	for have := range i.Params {
		if ModuleName(have) == name {
			return true
		}
	}
	return false
}

// maxExports bounds the names of exported symbols, in bytes. nvidia.ko has 5 KiB.
const maxExports = 4 << 20

// Linkage is what depmod reads of a module: how other modules and devices find it.
type Linkage struct {
	Depends  []string // modules that it needs, with _
	Aliases  []string // of devices: "pci:v000010DEd*sv*sd*bc03sc00i00*"
	Softdeps []string // "pre: ipmi_msghandler"
	Exports  []string // symbols that it offers to other modules
}

// ReadLinkage reads a module file, as ReadInfo does.
func ReadLinkage(path string) (l Linkage, err error) {
	file, size, err := openModule(path)
	if err != nil {
		return l, fmt.Errorf("read the module %s: %w", path, err)
	}
	defer file.Close()
	return LinkageOf(path, file, size)
}

// LinkageOf is ReadLinkage of the content of a module file, of size bytes.
func LinkageOf(path string, content io.ReaderAt, size int64) (l Linkage, err error) {
	l, err = readLinkage(content, size)
	if err != nil {
		return l, fmt.Errorf("read the module %s: %w", path, err)
	}
	return l, nil
}

func readLinkage(content io.ReaderAt, size int64) (l Linkage, err error) {
	content, size, err = plain(content, size)
	if err != nil {
		return l, err
	}
	f, raw, err := readModinfo(content, size)
	if err != nil {
		return l, err
	}
	l.Exports, err = Exports(f)
	if err != nil {
		return l, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	l.Depends = parseModinfo(raw).Depends
	for entry := range strings.SplitSeq(string(raw), "\x00") {
		switch key, value, _ := strings.Cut(entry, "="); key {
		case "alias":
			l.Aliases = append(l.Aliases, value)
		case "softdep":
			l.Softdeps = append(l.Softdeps, value)
		}
	}
	return l, nil
}

// Exports returns the symbols that a module offers to other modules.
func Exports(f *elffile.File) ([]string, error) {
	names, err := f.Section("__ksymtab_strings", maxExports)
	if err != nil && !errors.Is(err, elffile.ErrNoSection) {
		return nil, err
	}
	return strings.FieldsFunc(string(names), func(r rune) bool { return r == 0 }), nil
}
