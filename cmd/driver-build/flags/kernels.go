package flags

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/recipe"
)

// Kernels are the flags of modules that are compiled ahead of time.
type Kernels struct {
	Specs []string // as [recipe.SelectKernels] takes them; empty: the only kernel of From
	// images with headers and compiler, which are asked instead of the package repositories
	From      []string
	Source    string   // of the modules: "distribution", or that they are compiled
	Flavours  []string // of the kernels that "latest" and "all" mean
	Modules   []string // to compile; empty: all that the sources offer
	OneImage  bool     // one image for all kernels instead of one image a kernel
	Thin      bool     // without kernels: neither compiler nor sources
	Toolchain bool     // compiler and sources go in as well
	Sources   bool     // the sources of the kernel modules go in as well
	KMM       bool     // the modules are laid out for Kernel Module Management too
}

// AddTo declares the flags.
func (k *Kernels) AddTo(f *pflag.FlagSet) {
	f.StringSliceVar(
		&k.Specs,
		"kernel",
		nil,
		"compile the modules for a kernel ahead of time: its `RELEASE` (uname -r), latest, latest:N or "+
			"all (repeatable)",
	)
	k.AddFromTo(f)
	session.Choice(
		f,
		&k.Source,
		"modules-from",
		"with --kernel, the `SOURCE` of the modules: distribution takes those that Canonical or Red Hat has "+
			"signed for that kernel, without a compiler and a key",
		compiledModules,
		signedModules,
	)
	f.BoolVar(
		&k.OneImage,
		"one-image",
		false,
		"with --kernel, one image <driver>-<os> for all kernels instead of one "+
			"<driver>-<kernel>-<os> each",
	)
	f.BoolVar(
		&k.Toolchain,
		"with-toolchain",
		false,
		"with --kernel, put compiler and sources in as well, for nodes with other kernels",
	)
	session.Rare(f, k.addRareTo)
}

func (k *Kernels) addRareTo(f *pflag.FlagSet) {
	f.StringSliceVar(
		&k.Flavours,
		"kernel-flavour",
		nil,
		"kernels that latest and all mean, such as cloud-amd64 or aws (repeatable)",
	)
	f.StringSliceVar(
		&k.Modules,
		"modules",
		nil,
		"with --kernel, the modules to compile, such as nvidia,nvidia-uvm (default: all that the "+
			"sources offer)",
	)
	f.BoolVar(
		&k.Thin,
		"no-toolchain",
		false,
		"without --kernel, leave out compiler and sources, for nodes that get modules from an image "+
			"beside or from their system",
	)
	f.BoolVar(
		&k.Sources,
		"with-sources",
		false,
		"with --kernel, put the sources of the kernel modules in as well, for drivers that build on "+
			"them (GDS, GDRCopy)",
	)
	f.BoolVar(
		&k.KMM,
		"kmm",
		false,
		"with --kernel, lay the modules out for Kernel Module Management too: "+
			"/opt/lib/modules/<kernel>, with the files of depmod",
	)
}

// AddFromTo declares --kernel-from.
func (k *Kernels) AddFromTo(f *pflag.FlagSet) {
	f.Var(
		session.Array(&k.From, session.Image),
		"kernel-from",
		"`IMAGE` with headers and compiler to compile in instead of packages: REF, oci:DIR[:TAG], "+
			"oci-archive:FILE or docker-archive:FILE (repeatable)",
	)
}

// The values of --modules-from.
const (
	compiledModules = "compiler"
	signedModules   = "distribution"
)

// Signed says whether the modules are those that the distribution signed.
func (k *Kernels) Signed() bool { return k.Source == signedModules }

// CheckKey refuses a key for modules that another key has signed already.
func (k *Kernels) CheckKey(key string) error {
	if k.Signed() && key != "" {
		return session.Usagef(
			"--module-key signs modules that are compiled: those of --modules-from distribution have their " +
				"signatures; leave one of them out",
		)
	}
	return nil
}

// Compile says whether modules are compiled ahead of time.
func (k *Kernels) Compile() bool { return len(k.Specs) > 0 || len(k.From) > 0 }

// set gives options what the flags say.
func (k *Kernels) set(o *recipe.Options) {
	o.KernelFrom = k.From
	o.SignedModules = k.Signed()
	o.Modules = k.Modules
	o.OneImage = k.OneImage
	o.Thin = k.Thin
	o.Toolchain = k.Toolchain
	o.Sources = k.Sources
	o.KMM = k.KMM
}

var moduleName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// Check finds flags that say nothing without others, and names that cannot be right.
func (k *Kernels) Check() error {
	if !k.Compile() {
		return k.checkAlone()
	}
	if k.Thin {
		return errors.New(
			"--no-toolchain is about images without modules: with --kernel, only --with-toolchain " +
				"puts one in",
		)
	}
	if k.Signed() && (len(k.From) > 0 || k.Toolchain || k.Sources) {
		return errors.New(
			"--modules-from distribution takes modules as they are and compiles none: leave out " +
				"--kernel-from, --with-toolchain and --with-sources",
		)
	}
	listed := len(k.Specs) == 0
	for _, spec := range k.Specs {
		if recipe.IsListed(spec) {
			listed = true
			continue
		}
		_, err := recipe.SelectKernels(nil, []string{spec}, nil, "")
		if err != nil {
			return fmt.Errorf("--kernel: %w", err)
		}
	}
	if len(k.Flavours) > 0 && !listed {
		return errors.New(
			"--kernel-flavour narrows --kernel latest and all: a release has its flavour in its name",
		)
	}
	err := k.checkModules()
	if err != nil {
		return err
	}
	return recipe.CheckKernelFlavours(k.Flavours)
}

// checkAlone refuses flags that say something about modules, if none are compiled.
func (k *Kernels) checkAlone() error {
	given := map[string]bool{
		"--kernel-flavour": len(k.Flavours) > 0,
		"--modules":        len(k.Modules) > 0,
		"--one-image":      k.OneImage,
		"--with-toolchain": k.Toolchain,
		"--with-sources":   k.Sources,
		"--kmm":            k.KMM,
		"--modules-from":   k.Signed(),
	}
	for _, flag := range slices.Sorted(maps.Keys(given)) {
		if given[flag] {
			return fmt.Errorf(
				"%s says something about modules that are compiled ahead of time: give --kernel too",
				flag,
			)
		}
	}
	return nil
}

func (k *Kernels) checkModules() error {
	for _, m := range k.Modules {
		if !moduleName.MatchString(m) {
			return fmt.Errorf(
				"--modules: %q is no name of a module: give names such as nvidia,nvidia-uvm",
				m,
			)
		}
	}
	for _, name := range driverinfo.RequiredModules() {
		if len(k.Modules) > 0 && !slices.Contains(k.Modules, name) {
			return fmt.Errorf(
				"--modules: %s must be among them: nothing works without",
				strings.Join(driverinfo.RequiredModules(), " and "),
			)
		}
	}
	return nil
}

// checkProfile finds what an image of modules cannot have.
func (k *Kernels) checkProfile(profile recipe.Profile) error {
	switch {
	case profile != recipe.ModulesOnly:
		return nil
	case !k.Compile():
		return session.Usagef(
			"--profile modules is the modules for a kernel and nothing else: give --kernel RELEASE " +
				"or latest too",
		)
	case k.Toolchain || k.Sources || k.KMM:
		return session.Usagef(
			"--profile modules is modules and nothing else: leave out --with-toolchain, " +
				"--with-sources and --kmm",
		)
	}
	return nil
}
